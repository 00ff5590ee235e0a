"""JSON Schema: made from a class, and checked against.

Classes are described by msgspec (attrs, dataclasses, TypedDict, NamedTuple, enums,
unions, containers), by themselves if they have `model_json_schema` (pydantic), or
are a JSON Schema already. Draft 2020-12, unless a schema names another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import attrs

from genai_host.api.codec import Codec
from genai_host.api.messages import PARTS, ROLES, Part
from genai_host.errors import InvalidData

_PATTERN_SECONDS = 0.2


def schema_of(form: Any) -> dict[str, Any]:
    """The JSON Schema of a class, or of a type such as `list[int]`; a mapping is
    taken for a schema and returned.

    Raises `InvalidData` if the type has no JSON form.
    """
    if isinstance(form, Mapping):
        return dict(form)
    if hasattr(form, "model_json_schema"):
        return dict(form.model_json_schema())
    import msgspec

    try:
        return _inlined(msgspec.json.schema(form))
    except TypeError as error:
        raise InvalidData(f"no JSON Schema can be made from {form!r}: {error}") from error


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The same with the outermost class in its place: services want an object there."""
    reference = schema.get("$ref", "")
    definitions = schema.get("$defs", {})
    if not reference.startswith("#/$defs/"):
        return schema
    name = reference.removeprefix("#/$defs/")
    inlined = dict(definitions[name])
    others = {key: value for key, value in definitions.items() if key != name}
    if reference in _references(definitions):  # the class contains itself
        others = definitions
    return {**inlined, "$defs": others} if others else inlined


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def build(value: Any, form: Any) -> Any:
    """An object of a class from a JSON value that its schema was checked against.

    A mapping stands for a schema, and leaves the value as it is. Raises
    `InvalidData` if the class refuses it.
    """
    if isinstance(form, Mapping):
        return value
    if hasattr(form, "model_validate"):
        try:
            return form.model_validate(value)
        except ValueError as error:
            raise InvalidData(str(error)) from error
    return Codec().from_json(value, form)


class Checker:
    """A JSON Schema, compiled once, to check values against.

    It loads nothing: a reference to another document is an error. A pattern that
    takes too long on a value is one, too.

    Raises `InvalidData` if the schema itself is wrong.
    """

    def __init__(self, schema: Any) -> None:
        from jsonschema import Draft202012Validator, validators
        from jsonschema.exceptions import SchemaError
        from referencing import Registry

        kind = validators.validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise InvalidData(
                f"the schema itself is wrong: {error.message}", path=error.json_path
            ) from error
        if _mentions(schema, "pattern", "patternProperties"):
            kind = validators.extend(kind, _bounded_patterns(kind.VALIDATORS))  # type: ignore[no-untyped-call]  # the stubs lack it
        self._validator = kind(schema, registry=Registry())

    def check(self, value: Any) -> None:
        """Raises `InvalidData`, with the place of the most telling fault."""
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        try:
            fault = best_match(self._validator.iter_errors(value))
        except Unresolvable as error:
            raise InvalidData(f"the schema refers to {error.ref}, which is not in it") from error
        except RecursionError as error:
            raise InvalidData("nested too deeply") from error
        if fault is not None:
            message = fault.message if len(fault.message) < 300 else fault.message[:300] + " ..."
            raise InvalidData(f"{message} (at {fault.json_path})", path=fault.json_path)


def _mentions(schema: Any, *keywords: str) -> bool:
    if isinstance(schema, Mapping):
        return any(k in keywords or _mentions(v, *keywords) for k, v in schema.items())
    if isinstance(schema, (list, tuple)):
        return any(_mentions(item, *keywords) for item in schema)
    return False


def _bounded_patterns(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that match regular expressions, with a bound on the time, since
    `re` may backtrack for ever."""
    import regex
    from jsonschema.exceptions import ValidationError

    def found(pattern: str, text: str) -> bool:
        try:
            return regex.search(pattern, text, timeout=_PATTERN_SECONDS) is not None
        except TimeoutError as error:
            raise InvalidData(f"the pattern {pattern!r} takes too long") from error
        except regex.error as error:
            raise InvalidData(f"the pattern {pattern!r} is wrong: {error}") from error

    def pattern(validator: Any, wanted: str, value: Any, schema: Any) -> Iterable[Any]:
        if validator.is_type(value, "string") and not found(wanted, value):
            yield ValidationError(f"{value!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterable[Any]:
        if validator.is_type(value, "object"):
            for expression, inner in wanted.items():
                for name in filter(lambda name: found(expression, name), value):
                    yield from validator.descend(value[name], inner, name, expression)

    def additional_properties(validator: Any, inner: Any, value: Any, schema: Any) -> Iterable[Any]:
        if not validator.is_type(value, "object"):
            return
        patterns = schema.get("patternProperties", {})
        extra = {
            name: item
            for name, item in value.items()
            if name not in schema.get("properties", {})
            and not any(found(expression, name) for expression in patterns)
        }
        yield from keywords["additionalProperties"](validator, inner, extra, {})

    def unevaluated_properties(*_: Any) -> Iterable[Any]:
        raise InvalidData("unevaluatedProperties does not go together with patterns here")

    return {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
        "unevaluatedProperties": unevaluated_properties,
    }


def message_schema(parts: Iterable[type[Part]] = PARTS) -> dict[str, Any]:
    """The JSON Schema of a `Message` in its JSON form, with these kinds of part."""
    definitions = {part.type: _part_schema(part) for part in parts}
    any_part = {"oneOf": [{"$ref": f"#/$defs/{tag}"} for tag in definitions]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Message",
        "type": "object",
        "properties": {
            "role": {"enum": list(ROLES)},
            "content": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": any_part}],
                "description": "parts; a string stands for one text part",
            },
        },
        "required": ["role", "content"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _part_schema(part: type[Part]) -> dict[str, Any]:
    fields = attrs.fields(attrs.resolve_types(part))
    return {
        "type": "object",
        "properties": {
            "type": {"const": part.type},
            **{field.name: _field_schema(field.type) for field in fields},
        },
        "required": ["type", *(f.name for f in fields if f.default is attrs.NOTHING)],
        "additionalProperties": False,
    }


def _field_schema(form: Any) -> dict[str, Any]:
    members = get_args(form)
    if get_origin(form) is tuple:
        return {"type": "array", "items": _field_schema(members[0])}
    if get_origin(form) in (Union, UnionType) and all(issubclass(m, Part) for m in members):
        return {"oneOf": [{"$ref": f"#/$defs/{member.type}"} for member in members]}
    return schema_of(form)

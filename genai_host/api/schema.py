"""JSON Schema: made from a class; and an object made from a value that fits.

Classes are described by msgspec (attrs, dataclasses, TypedDict, NamedTuple, enums,
unions, containers), by themselves if they have `model_json_schema` (pydantic), or
are a JSON Schema already. Draft 2020-12, unless a schema names another.

What a class says itself comes before all that:

    class Trip:
        @classmethod
        def llm_schema(cls, dialect: str) -> dict[str, Any]: ...  # a JSON Schema

        @classmethod
        def deserialize(cls, raw: str) -> Trip: ...  # from JSON that fits it, as text
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import attrs

from genai_host.api.codec import usual_codec
from genai_host.api.json_text import write_json
from genai_host.api.messages import PARTS, ROLES, Part
from genai_host.errors import InvalidData
from genai_host.telling import shown, told


def schema_of(form: Any, dialect: str = "") -> dict[str, Any]:
    """The JSON Schema of a class, or of a type such as `list[int]`; a mapping is
    taken for a schema and returned.

    dialect   in which a model is to be asked for it, for a class that tells them apart

    Raises `InvalidData` if the type has no JSON form.
    """
    if isinstance(form, Mapping):
        return dict(form)
    if tells_dialects_apart(form):
        return _own_schema(form, dialect)
    if _is_described(form):
        return dict(form.model_json_schema())
    import msgspec

    try:
        return _inlined(msgspec.json.schema(form))
    except (TypeError, NameError) as error:
        raise InvalidData(f"no JSON Schema can be made from {form!r}: {error}") from error


def tells_dialects_apart(form: Any) -> bool:
    """Whether a class has a schema of its own for each dialect."""
    return isinstance(form, type) and callable(getattr(form, "llm_schema", None))


def _own_schema(form: Any, dialect: str) -> dict[str, Any]:
    try:
        schema = form.llm_schema(dialect)
    except Exception as error:  # whatever the class raises
        raise InvalidData(f"{form.__qualname__}.llm_schema failed: {told(error)}") from error
    if not isinstance(schema, Mapping):
        raise InvalidData(f"{form.__qualname__}.llm_schema gives {shown(schema)}, not a schema")
    return dict(schema)


def schemas_of(forms: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON Schema of each of several types, by name, and the definitions that they
    refer to, as `$defs` of what they stand in.

    Raises `InvalidData` if one has no JSON form.
    """
    import msgspec

    described = {name: form for name, form in forms.items() if not _is_described(form)}
    try:
        found, definitions = msgspec.json.schema_components(
            described.values(), ref_template="#/$defs/{name}"
        )
    except (TypeError, NameError) as error:
        raise InvalidData(f"no JSON Schema can be made: {error}") from error
    schemas: dict[str, Any] = dict(zip(described, found, strict=True))
    for name in forms.keys() - schemas.keys():
        schema = schema_of(forms[name])
        definitions = {**definitions, **schema.pop("$defs", {})}
        schemas[name] = schema
    return {name: schemas[name] for name in forms}, definitions


def _is_described(form: Any) -> bool:
    """Whether it describes itself."""
    return hasattr(form, "model_json_schema")


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
    if isinstance(form, type) and callable(getattr(form, "deserialize", None)):
        try:
            return form.deserialize(write_json(value).decode())  # type: ignore[attr-defined]  # see above
        except Exception as error:  # whatever the class raises
            raise InvalidData(f"{form.__qualname__}: {told(error)}") from error
    if hasattr(form, "model_validate"):
        try:
            return form.model_validate(value)
        except ValueError as error:
            raise InvalidData(str(error)) from error
    return usual_codec().from_json(value, form)


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

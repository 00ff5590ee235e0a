"""JSON Schema: created from classes, and used to validate values.

Schemas are compiled once; the default is draft 2020-12. Classes are described by msgspec (attrs,
dataclasses, TypedDict, NamedTuple, enums, unions, containers), or by their own `model_json_schema`
(pydantic). A mapping is a JSON Schema. These methods of a class take precedence:

    class Trip:
        @classmethod
        def llm_schema(cls, dialect: str) -> dict[str, Any]: ...  # a JSON Schema

        @classmethod
        def deserialize(cls, raw: str) -> Trip: ...  # from JSON text that satisfies it
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from genai_host.api.codec import default_codec
from genai_host.api.codec_values import has_own_schema
from genai_host.api.json_text import check_numbers, write_json
from genai_host.api.patterns import Pattern
from genai_host.errors import ValidationError
from genai_host.util.text import describe_exception, short_repr, shorten

_MAX_REPORTED = 10
"""Maximum number of reported patterns that are not enforced."""

_log = logging.getLogger(__name__)


class SchemaValidator:
    """Validates values against a JSON Schema.

    References to other documents are errors; nothing is loaded. A pattern that takes too long on a
    value is an error. A pattern that cannot be compiled is not enforced.

    Args:
        schema: The JSON Schema.

    Raises:
        ValidationError: The schema itself is invalid.
    """

    def __init__(self, schema: Any) -> None:
        from jsonschema import Draft202012Validator, FormatChecker, validators
        from jsonschema.exceptions import SchemaError
        from referencing import Registry

        if not isinstance(schema, (Mapping, bool)):
            raise ValidationError(f"invalid JSON Schema: it is a {type(schema).__name__}", path="$")
        try:
            kind = validators.validator_for(schema, default=Draft202012Validator)
            kind.check_schema(schema, FormatChecker(formats=()))  # type: ignore[arg-type, call-arg]  # the stubs lag
            if any(True for _ in _patterns_in(schema)):
                kind = validators.extend(kind, _bounded_patterns(kind.VALIDATORS, schema))  # type: ignore[no-untyped-call]  # the stubs lack it
            if any("multipleOf" in each for each in _objects_in(schema)):
                kind = validators.extend(kind, {"multipleOf": _multiple_of})  # type: ignore[no-untyped-call]  # as above
            check_numbers(schema)
        except SchemaError as error:
            raise ValidationError(
                f"invalid JSON Schema: {error.message}", path=error.json_path
            ) from error
        except ValidationError as error:
            raise ValidationError(f"invalid JSON Schema: {error}", path=error.path) from error
        except RecursionError as error:
            raise ValidationError("invalid JSON Schema: it is nested too deeply") from error
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValidationError(f"invalid JSON Schema: {error}") from error
        self._validator = kind(schema, registry=Registry())

    def check(self, value: Any) -> None:
        """Validate a value. NaN and infinity are always invalid.

        Raises:
            ValidationError: The value is invalid; `path` has the location of the most relevant
                error.
        """
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        check_numbers(value)
        try:
            fault = best_match(self._validator.iter_errors(value))
        except Unresolvable as error:
            raise _elsewhere(error) from error
        except RecursionError as error:
            raise ValidationError("nested too deeply") from error
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            # a reference to an invalid schema, or arithmetic overflow
            raise ValidationError(f"it cannot be checked: {error}") from error
        if fault is not None:
            where = f" (at {fault.json_path})" if fault.json_path != "$" else ""
            raise ValidationError(f"{_describe(fault)}{where}", path=fault.json_path)

    def unenforced(self) -> list[str]:
        """Patterns that cannot be compiled, with the reason; a few at most."""
        patterns = map(Pattern, dict.fromkeys(_patterns_in(self._validator.schema)))
        faulty = (_unenforced(each) for each in patterns if each.fault)
        return list(islice(faulty, _MAX_REPORTED))

    def check_references(self) -> None:
        """Check that all references can be resolved, including those that no value reaches.

        Raises:
            ValidationError: A reference cannot be resolved.
        """
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012, specification_with

        schema = self._validator.schema
        named = schema.get("$schema", "") if isinstance(schema, Mapping) else ""
        root = specification_with(named, default=DRAFT202012).create_resource(schema)
        registry: Registry[Any] = Registry()
        left = [(root, registry.resolver_with_root(root))]
        while left:
            resource, resolver = left.pop()
            try:
                for reference in _references(resource.contents):
                    resolver.lookup(reference)
                left += [(each, resolver.in_subresource(each)) for each in resource.subresources()]
            except Unresolvable as error:
                raise _elsewhere(error) from error
            except (TypeError, ValueError, AttributeError, LookupError):
                continue  # to an invalid schema: `check` reports it if a value reaches it


_TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "a list",
    "object": "an object",
}


def _describe(fault: Any) -> str:
    """Describe an error; for the most common ones, in other words than the library."""
    if fault.validator == "type":
        kinds = fault.validator_value
        kinds = [kinds] if isinstance(kinds, str) else kinds
        wanted = " or ".join(_TYPES.get(kind, kind) for kind in kinds)
        return f"expected {wanted}, not {short_repr(fault.instance)}"
    message = str(fault.message)
    if fault.validator == "required":
        return message.replace(" is a required property", " is required")
    return message if len(message) < 300 else f"{message[:300]} ..."


def _references(schema: Any) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    found = (schema.get(name) for name in ("$ref", "$dynamicRef"))
    return [reference for reference in found if isinstance(reference, str)]


def _elsewhere(error: Any) -> ValidationError:
    what = getattr(error, "anchor", "") or error.ref
    return ValidationError(f"unresolved reference in the schema: {what}")


def _unenforced(pattern: Pattern) -> str:
    return f"the pattern {short_repr(pattern.written)} is not enforced: {shorten(pattern.fault)}"


def _patterns_in(schema: Any) -> Iterator[str]:
    """All regular expressions of a schema."""
    for each in _objects_in(schema):
        if isinstance(each.get("pattern"), str):
            yield each["pattern"]
        if isinstance(each.get("patternProperties"), Mapping):
            yield from each["patternProperties"]


def _objects_in(schema: Any) -> Iterator[Mapping[str, Any]]:
    """All subschemas, from the outside in."""
    if isinstance(schema, Mapping):
        yield schema
        for inner in schema.values():
            yield from _objects_in(inner)
    elif isinstance(schema, (list, tuple)):
        for inner in schema:
            yield from _objects_in(inner)


def _multiple_of(validator: Any, wanted: float, value: Any, schema: Any) -> Iterable[Any]:
    """The keyword for decimal numbers: as binary ones, 19.99 is not a multiple of 0.01."""
    from fractions import Fraction

    from jsonschema.exceptions import ValidationError as Violation

    if validator.is_type(value, "number") and Fraction(str(value)) % Fraction(str(wanted)):
        yield Violation(f"{value!r} is not a multiple of {wanted!r}")


def _bounded_patterns(keywords: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    """The keywords with regular expressions, using `Pattern`. `unevaluatedProperties` is not
    enforced beside `patternProperties`: the library matches those itself, without a time limit."""
    from jsonschema.exceptions import ValidationError as Violation

    known: dict[str, Pattern] = {}

    def found(written: str, text: str, unknown: bool) -> bool:
        """Whether a text matches a pattern; `unknown` if the pattern cannot be compiled."""
        if written not in known:
            known[written] = Pattern(written)
            if known[written].fault:
                _log.info(_unenforced(known[written]))
        each = known[written]
        return unknown if each.fault else each.matches(text)

    def pattern(validator: Any, wanted: str, value: Any, schema: Any) -> Iterable[Any]:
        if validator.is_type(value, "string") and not found(wanted, value, True):
            yield Violation(f"{value!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterable[Any]:
        if validator.is_type(value, "object"):
            for expression, inner in wanted.items():
                for name in value:
                    if found(expression, name, False):
                        yield from validator.descend(value[name], inner, name, expression)

    def additional_properties(validator: Any, inner: Any, value: Any, schema: Any) -> Iterable[Any]:
        if not validator.is_type(value, "object"):
            return
        patterns = schema.get("patternProperties", {})
        extra = {
            name: item
            for name, item in value.items()
            if name not in schema.get("properties", {})
            and not any(found(expression, name, True) for expression in patterns)
        }
        yield from keywords["additionalProperties"](validator, inner, extra, {})

    bounded: dict[str, Any] = {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
    }
    if any(isinstance(each.get("patternProperties"), Mapping) for each in _objects_in(schema)):
        bounded["unevaluatedProperties"] = lambda *_: ()
    return bounded


def schema_of(form: Any, dialect: str = "") -> dict[str, Any]:
    """The JSON Schema of a class or type.

    Args:
        form: A class, a type such as `list[int]`, or a mapping, which is returned as the schema.
        dialect: Dialect of the model, for a class that has a schema per dialect.

    Raises:
        ValidationError: The type has no JSON form.
    """
    if isinstance(form, Mapping):
        return dict(form)
    if has_schema_per_dialect(form):
        return _own_schema(form, dialect)
    schemas, definitions = schemas_of({"": form})
    return _inlined({**schemas[""], **({"$defs": definitions} if definitions else {})})


def has_schema_per_dialect(form: Any) -> bool:
    """Whether a class has a schema per dialect."""
    return isinstance(form, type) and callable(getattr(form, "llm_schema", None))


def _own_schema(form: Any, dialect: str) -> dict[str, Any]:
    try:
        schema = form.llm_schema(dialect)
    except Exception as error:  # whatever the class raises
        raise ValidationError(
            f"{form.__qualname__}.llm_schema failed: {describe_exception(error)}"
        ) from error
    if not isinstance(schema, Mapping):
        raise ValidationError(
            f"{form.__qualname__}.llm_schema gives {short_repr(schema)}, not a schema"
        )
    return dict(schema)


def schemas_of(forms: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON Schemas of several types by name, and their shared definitions for `$defs`.

    Raises:
        ValidationError: A type has no JSON form.
    """
    import msgspec

    definitions: dict[str, Any] = {}

    def define(schemas: Mapping[str, Any]) -> None:
        for name, schema in schemas.items():
            if definitions.setdefault(name, schema) != schema:
                raise TypeError(f"two classes have the name {name}")

    def schema_of_class(kind: type) -> dict[str, Any]:
        if not has_own_schema(kind):
            raise TypeError(f"{kind.__qualname__} has no JSON form")
        schema: dict[str, Any] = kind.model_json_schema()  # type: ignore[attr-defined]  # see above
        define(schema.pop("$defs", {}))
        return schema

    try:
        # msgspec would describe the fields of an attrs class
        own = {name: schema_of_class(form) for name, form in forms.items() if has_own_schema(form)}
        others = [name for name in forms if name not in own]
        found, defined = msgspec.json.schema_components(
            [forms[name] for name in others],
            schema_hook=schema_of_class,
            ref_template="#/$defs/{name}",
        )
        define(defined)
    except (TypeError, NameError) as error:
        types = ", ".join(
            form.__qualname__ if isinstance(form, type) else repr(form) for form in forms.values()
        )
        raise ValidationError(f"no JSON Schema can be made from {types}: {error}") from error
    schemas = {**own, **dict(zip(others, found, strict=True))}
    return {name: schemas[name] for name in forms}, definitions


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the outermost class inlined: services require an object there."""
    reference = schema.get("$ref", "")
    definitions = schema.get("$defs", {})
    if not reference.startswith("#/$defs/"):
        return schema
    name = reference.removeprefix("#/$defs/")
    inlined = dict(definitions[name])
    others = {key: value for key, value in definitions.items() if key != name}
    if any(each.get("$ref") == reference for each in _objects_in(definitions)):  # recursive
        others = definitions
    return {**inlined, "$defs": others} if others else inlined


def build(value: Any, form: Any) -> Any:
    """Create an object of a class from a validated JSON value.

    Args:
        value: The value, validated against the schema of the class.
        form: The class; a JSON Schema leaves the value unchanged.

    Raises:
        ValidationError: The class refuses the value.
    """
    if isinstance(form, Mapping):
        return value
    if isinstance(form, type) and callable(getattr(form, "deserialize", None)):
        try:
            return form.deserialize(write_json(value).decode())  # type: ignore[attr-defined]  # see above
        except Exception as error:  # whatever the class raises
            raise ValidationError(f"{form.__qualname__}: {describe_exception(error)}") from error
    if hasattr(form, "model_validate"):
        try:
            return form.model_validate(value)
        except ValueError as error:
            raise ValidationError(str(error)) from error
    return default_codec().from_json(value, form)

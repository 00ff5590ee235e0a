"""JSON Schemas in the subset that services enforce.

In this subset, objects are closed, and sizes and lengths have no limits. Other keywords are written
into descriptions: the model may follow them, and the host checks the answer in any case.

Source: Claude API documentation, "Structured outputs", section "JSON Schema limitations"; Amazon
Bedrock user guide, "Get validated JSON results from models".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api.json_text import write_json

_HERE = ("#/$defs/", "#/definitions/")
_FORMATS = frozenset(
    {
        "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri",
        "uuid",
    }
)  # fmt: skip
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_NO_CONSTRAINTS = ("$schema", "$id", "$comment", "additionalProperties")


def held_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a schema to the subset.

    Returns:
        The schema; None if it cannot be converted: it is recursive, allows any value, or has
            objects with arbitrary property names.
    """
    try:
        _check_not_recursive(schema, schema, (), set())
        return _held({key: value for key, value in schema.items() if key != "$schema"})
    except (_Unfit, RecursionError, TypeError):  # the last if it is not a schema
        return None


def asked_in_words(schema: Mapping[str, Any]) -> str:
    """Instruction for a model if its service does not enforce schemas."""
    return (
        "Answer with JSON only, without any other text. It must satisfy this JSON Schema:\n"
        + write_json(schema).decode()
    )


class _Unfit(Exception):
    """The schema cannot be expressed in the subset."""


def _check_not_recursive(
    schema: Any, root: Mapping[str, Any], within: tuple[str, ...], ends: set[str]
) -> None:
    """Check that no definition is recursive or external.

    Args:
        schema: The schema to check.
        root: The schema with the definitions.
        within: Definitions that contain `schema`.
        ends: Definitions known not to be recursive.
    """
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in ends:
            if reference in within or not reference.startswith(_HERE):
                raise _Unfit
            place, name = reference.removeprefix("#/").split("/", 1)
            definition = _mapping(_mapping(root.get(place)).get(name))
            _check_not_recursive(definition, root, (*within, reference), ends)
            ends.add(reference)
        schema = list(schema.values())
    if isinstance(schema, (list, tuple)):
        for value in schema:
            _check_not_recursive(value, root, within, ends)


def _held(schema: Any) -> dict[str, Any]:
    left = dict(_mapping(schema))
    found: dict[str, Any] = {}
    for key in ("$defs", "definitions"):
        if key in left:
            found[key] = {name: _held(each) for name, each in _mapping(left.pop(key)).items()}
    if "$ref" in left:
        return {**found, "$ref": left["$ref"]}
    for key in ("title", "description"):
        if key in left:
            found[key] = left.pop(key)
    kinds = left.pop("type", None)
    either = left.pop("anyOf", None) or left.pop("oneOf", None)
    if "enum" in left or "const" in left:
        _literals(left, found)
    elif either:
        found["anyOf"] = [_held(each) for each in either]
    elif isinstance(kinds, (list, tuple)):
        return {**found, "anyOf": [_held({**left, "type": kind}) for kind in kinds]}
    elif kinds in _TYPES:
        found["type"] = kinds
        _HELD.get(kinds, _nothing)(left, found)
    else:
        raise _Unfit
    return _with_description(left, found)


def _literals(left: dict[str, Any], found: dict[str, Any]) -> None:
    values = [*left.get("enum", ()), *([left["const"]] if "const" in left else ())]
    if any(isinstance(each, (Mapping, list, tuple)) for each in values):
        raise _Unfit
    found.update({key: left.pop(key) for key in ("enum", "const") if key in left})


def _object(left: dict[str, Any], found: dict[str, Any]) -> None:
    if left.get("additionalProperties", False) not in (True, False) or "properties" not in left:
        raise _Unfit
    if "patternProperties" in left:
        raise _Unfit
    properties = _mapping(left.pop("properties"))
    found["properties"] = {name: _held(each) for name, each in properties.items()}
    if "required" in left:
        found["required"] = list(left.pop("required"))
    found["additionalProperties"] = False


def _array(left: dict[str, Any], found: dict[str, Any]) -> None:
    found["items"] = _held(left.pop("items", None))
    if left.get("minItems") in (0, 1):
        found["minItems"] = left.pop("minItems")


def _string(left: dict[str, Any], found: dict[str, Any]) -> None:
    if left.get("format") in _FORMATS:
        found["format"] = left.pop("format")


def _nothing(left: dict[str, Any], found: dict[str, Any]) -> None:
    """The subset has no keywords for this type."""


_HELD = {"object": _object, "array": _array, "string": _string}


def _with_description(left: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Write the remaining keywords of a schema into its description."""
    remaining = {key: value for key, value in left.items() if key not in _NO_CONSTRAINTS}
    if remaining:
        before = [found["description"]] if found.get("description") else []
        found["description"] = "\n\n".join([*before, write_json(remaining).decode()])
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Unfit
    return value

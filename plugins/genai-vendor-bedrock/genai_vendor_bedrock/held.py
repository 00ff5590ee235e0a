"""Schemas as Bedrock takes them to hold an answer to: a subset of JSON Schema, in which
objects are closed, nothing refers to itself, and sizes have no bounds.

Source: Amazon Bedrock user guide, "Get validated JSON results from models".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api.json_text import write_json

_HERE = ("#/$defs/", "#/definitions/")
_AS_IT_IS = frozenset({"title", "description", "type", "enum", "const", "required", "$ref"})
_NAMED = ("properties", "$defs", "definitions")
_SAYS_NOTHING = frozenset({"$schema", "$id", "$comment", "default", "examples"})


def held_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """A schema with all of its objects closed; None if it has no form in the subset."""
    try:
        _must_end(schema, schema, ())
        return _held(schema)
    except (_Unfit, RecursionError):
        return None


def asked_in_words(schema: Mapping[str, Any]) -> str:
    """What a model is told that cannot be held to a schema."""
    return (
        "Answer with JSON only, without any other text. It must satisfy this JSON Schema:\n"
        + write_json(schema).decode()
    )


class _Unfit(Exception):
    """It has no form in the subset."""


def _must_end(schema: Any, root: Mapping[str, Any], within: tuple[str, ...]) -> None:
    """No definition may refer to itself, nor to what is elsewhere.

    within   the definitions that are being looked at
    """
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within or not reference.startswith(_HERE):
                raise _Unfit
            place, name = reference.removeprefix("#/").split("/", 1)
            _must_end(_mapping(_mapping(root.get(place)).get(name)), root, (*within, reference))
        schema = list(schema.values())
    if isinstance(schema, (list, tuple)):
        for value in schema:
            _must_end(value, root, within)


def _held(schema: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in _mapping(schema).items():
        if key in _NAMED:
            found[key] = {name: _held(each) for name, each in _mapping(value).items()}
        elif key == "items":
            found[key] = _held(value)
        elif key in ("anyOf", "oneOf"):
            found["anyOf"] = [_held(each) for each in value]
        elif key in _AS_IT_IS:
            found[key] = value
        elif key != "additionalProperties" and key not in _SAYS_NOTHING:
            raise _Unfit
    if not found.keys() & {"type", "enum", "const", "$ref", "anyOf"}:
        raise _Unfit  # it may be anything
    if found.get("type") == "object":
        if "properties" not in found or schema.get("additionalProperties", False) not in (0, 1):
            raise _Unfit
        found["additionalProperties"] = False
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Unfit
    return value

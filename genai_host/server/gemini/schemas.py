"""Schemas in Gemini's form, a part of OpenAPI's, as JSON Schema.

Source: Gemini API reference, "Schema": types are in capitals, null is `nullable`, counts are
64-bit integers, which JSON has as texts, and values of an enum are texts whatever the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from genai_host.api.given import Given
from genai_host.api.json_text import read_json
from genai_host.errors import InvalidData
from genai_host.telling import shown

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_COUNTS = ("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength")
_LEFT_OUT = frozenset({"nullable", "propertyOrdering", "example"})
_OPEN_API_FORMATS = frozenset({"int32", "int64", "float", "double", "enum"})
_RENAMED: Mapping[str, str] = {"ref": "$ref", "defs": "$defs"}


def json_schema(given: Given) -> dict[str, Any]:
    """Raises `InvalidData` for what is no schema; what is none of Gemini's words is left as
    it is, for it may be one of JSON Schema's."""
    schema: dict[str, Any] = {}
    for name, written in given.names():
        if name in _LEFT_OUT:
            continue
        kept = _READ.get(name, _as_it_is)(given, name, written)
        if kept is not None:
            schema[_RENAMED.get(name, name)] = kept
    if "enum" in schema and schema.get("type") in ("integer", "number"):
        schema["enum"] = [_as_number(each) for each in schema["enum"]]
    return _nullable(schema) if given.flag("nullable") else schema


def _as_it_is(given: Given, name: str, written: str) -> Any:
    return given.value[written]


def _type(given: Given, name: str, written: str) -> Any:
    value = given.value[written]
    if not isinstance(value, str):
        return value
    if value == "TYPE_UNSPECIFIED":
        return None
    if value.lower() not in _TYPES:
        raise InvalidData(f"there is no type {shown(value)}", path=f"{given.path}.{written}")
    return value.lower()


def _format(given: Given, name: str, written: str) -> Any:
    value = given.value[written]
    return None if isinstance(value, str) and value in _OPEN_API_FORMATS else value


def _count(given: Given, name: str, written: str) -> Any:
    return given.whole(name)


def _inner(given: Given, name: str, written: str) -> Any:
    value, path = given.value[written], f"{given.path}.{written}"
    if isinstance(value, bool):
        return value
    return json_schema(Given(value, path, camel=True))


def _inner_list(given: Given, name: str, written: str) -> Any:
    return [json_schema(each) for each in given.objects(name)]


def _inner_by_name(given: Given, name: str, written: str) -> Any:
    value, path = given.value[written], f"{given.path}.{written}"
    if not isinstance(value, dict):
        raise InvalidData(f"{written} is no object", path=path)
    return {
        key: json_schema(Given(each, f"{path}.{key}", camel=True)) for key, each in value.items()
    }


def _enum(given: Given, name: str, written: str) -> Any:
    return list(given.values(name))


_READ: Mapping[str, Callable[[Given, str, str], Any]] = {
    "type": _type,
    "format": _format,
    "enum": _enum,
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(("items", "additionalProperties"), _inner),
    **dict.fromkeys(("anyOf", "prefixItems"), _inner_list),
    **dict.fromkeys(("properties", "defs", "$defs"), _inner_by_name),
}


def _as_number(value: Any) -> Any:
    try:
        number = read_json(value) if isinstance(value, str) else value
    except ValueError:
        return value
    return number if type(number) in (int, float) else value


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema

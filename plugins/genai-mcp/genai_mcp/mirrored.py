"""Arguments that are repeated in headers, so that intermediaries can route calls by them.
`x-mcp-header` in the schema of a tool names the header (2026-07-28, over HTTP).
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from genai_host.errors import ValidationError

_MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_LARGEST = 2**53 - 1
_BEGIN, _END = "=?base64?", "?="

Places: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""Path of each header's value in the arguments, by header name in lower case."""


def places(schema: Mapping[str, Any]) -> Places:
    """Return the headers in a schema. Raises `ValidationError` if the tool must not be used."""
    found: dict[str, tuple[str, ...]] = {}
    for path, mark, kind in _marked(schema, ()):
        if not isinstance(mark, str) or not _TOKEN.fullmatch(mark):
            raise ValidationError(f"an {_MARK} is not a valid header name")
        if kind not in ("integer", "string", "boolean"):
            raise ValidationError(
                f"the {_MARK} {mark} is on a parameter that is not an integer, string or boolean"
            )
        name = f"mcp-param-{mark.lower()}"
        if name in found:
            raise ValidationError(f"duplicate {_MARK} {mark}")
        found[name] = path
    if len(found) != _count(schema):
        raise ValidationError(f"an {_MARK} is at a place where it is not allowed")
    return found


def values(where: Places, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a call. Raises `ValidationError` for an unsupported value."""
    found = {}
    for name, path in where.items():
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            found[name] = _text(name, value)
    return found


def header_value(text: str) -> str:
    """Encode a header value ("Value Encoding" in the specification)."""
    plain = all(" " <= each <= "~" or each == "\t" for each in text) and text == text.strip()
    if plain and not (text.startswith(_BEGIN) and text.endswith(_END)):
        return text
    return f"{_BEGIN}{b64encode(text.encode(errors='replace')).decode()}{_END}"


def header_text(value: str) -> str | None:
    """Decode a header value by the same rules; None if it is invalid."""
    if not all(" " <= each <= "~" or each == "\t" for each in value):
        return None
    if not (value.startswith(_BEGIN) and value.endswith(_END)):
        return value
    try:
        return b64decode(value[len(_BEGIN) : -len(_END)], validate=True).decode()
    except ValueError:
        return None


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON Schema accepts 3.0 as an integer
    if isinstance(value, str):
        return value
    if isinstance(value, int) and abs(value) <= _LARGEST:
        return str(value)
    raise ValidationError(f"the value for {name} is not a valid header value")


def _marked(
    schema: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the annotations reachable through properties only: path, annotation, type."""
    if _MARK in schema and path:
        yield path, schema[_MARK], schema.get("type")
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(inner, Mapping):
            yield from _marked(inner, (*path, name))


def _count(schema: Any, is_names: bool = False) -> int:
    """Count all annotations anywhere in a schema, except properties with the same name."""
    if isinstance(schema, Mapping):
        own = int(_MARK in schema and not is_names)
        return own + sum(
            _count(inner, name == "properties" and not is_names) for name, inner in schema.items()
        )
    if isinstance(schema, list):
        return sum(map(_count, schema))
    return 0

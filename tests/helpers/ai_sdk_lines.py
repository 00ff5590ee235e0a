"""Parser of the line protocol of the AI SDK, as its own front end reads it.

A line is a code, a colon, JSON and a line feed. The required fields of each code are checked.

Source: AI SDK 4, "Stream Protocols", section "Data Stream Protocol".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_NAMES = {
    "0": "text", "2": "data", "3": "error", "9": "tool-call", "a": "tool-result", "d": "finish",
    "f": "start",
}  # fmt: skip
_TYPES: dict[str, Any] = {"0": str, "2": list, "3": str, "9": dict, "a": dict, "d": dict, "f": dict}
_FIELDS: dict[str, dict[str, Any]] = {
    "9": {"toolCallId": str, "toolName": str, "args": dict},
    "a": {"toolCallId": str, "result": object},
    "d": {"finishReason": str, "usage": dict},
    "f": {"messageId": str},
}
_REASONS = {"stop", "length", "content-filter", "tool-calls", "error", "other", "unknown"}


class Line(NamedTuple):
    kind: str
    data: Any


def read_lines(blocks: Iterable[bytes]) -> Iterator[Line]:
    """Parse the lines of a body. Raises `AssertionError` for an invalid line."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from map(_line, lines)
    assert rest == b"", f"the last line has no end: {rest!r}"


def _line(line: bytes) -> Line:
    code, colon, text = line.decode().partition(":")
    assert colon, line
    data = json.loads(text)
    assert type(data) is _TYPES[code], line
    for name, kind in _FIELDS.get(code, {}).items():
        assert isinstance(data[name], kind), line
    if code == "d":
        assert data["finishReason"] in _REASONS
        assert all(
            type(data["usage"][each]) is int for each in ("promptTokens", "completionTokens")
        )
    return Line(_NAMES[code], data)

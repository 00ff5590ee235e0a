"""JSON as text, as RFC 8259 has it: Python's own reader and writer take more than that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises `ValueError` for what is none: NaN and
    Infinity, what is not UTF-8, and what is nested too deeply to be read as well."""
    try:
        return json.loads(text, parse_constant=_no_json)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def write_json(value: Any) -> bytes:
    """A value as compact JSON in UTF-8; half a surrogate pair, which UTF-8 has no place
    for, is escaped."""
    try:
        return _dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _dumps(value, ensure_ascii=True).encode()


def _dumps(value: Any, *, ensure_ascii: bool) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, separators=(",", ":"), default=_as_plain)


def _as_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")

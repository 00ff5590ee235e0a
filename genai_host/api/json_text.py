"""JSON as text, as RFC 8259 has it: Python's own reader and writer take more than that."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

_LEAST, _MOST = -math.inf, math.inf


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises `ValueError` for what is none: NaN and
    Infinity, what is not UTF-8, and what is nested too deeply to be read as well; and
    for a number that is too large for a float, since it would be written as Infinity."""
    read, refusal = _quick_reader()
    try:
        try:
            return read(text)
        except refusal:  # Python's knows why, or takes it: half a surrogate pair, for one
            return _reader.decode(text.decode() if isinstance(text, bytes) else text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@cache
def _quick_reader() -> tuple[Callable[[str | bytes], Any], type[Exception]]:
    """Several times as quick as Python's, and not there before there is JSON to read."""
    import msgspec

    return msgspec.json.decode, msgspec.DecodeError


def write_json(value: Any) -> bytes:
    """A value as compact JSON in UTF-8; half a surrogate pair, which UTF-8 has no place
    for, is escaped."""
    try:
        return _writer.encode(value).encode()
    except UnicodeEncodeError:
        return _ascii_writer.encode(value).encode()


def _as_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _finite(number: str) -> float:
    value = float(number)
    if _LEAST < value < _MOST:
        return value
    raise ValueError(f"{number[:20]} is too large a number")


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


# `json.loads` and `json.dumps` would make these anew for each call
_reader = json.JSONDecoder(parse_constant=_no_json, parse_float=_finite)
_writer = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_as_plain)
_ascii_writer = json.JSONEncoder(separators=(",", ":"), default=_as_plain)

"""What the fields of definitions and options must be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from genai_host.api import Message
from genai_host.api.validators import Must
from genai_host.errors import ValidationError


def _or_none(is_so: Any) -> Any:
    return lambda value: value is None or is_so(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


BOOLEAN_OR_NONE = Must("True, False or None", _or_none(lambda value: isinstance(value, bool)))
COUNT_OR_NONE = Must(
    "a whole number, not below 0, or None",
    _or_none(lambda value: type(value) is int and value >= 0),
)
NUMBER_OR_NONE = Must("a finite number or None", _or_none(_is_number))
MESSAGES = Must("messages", lambda value: all(isinstance(each, Message) for each in value))
TEXTS = Must("strings", lambda value: all(isinstance(each, str) for each in value))


def one_or_none(kind: type[Any]) -> Must:
    """A validator: one of a class, or None."""
    return Must(f"of class {kind.__name__}, or None", _or_none(lambda v: isinstance(v, kind)))


def listed(given: Iterable[Any]) -> tuple[Any, ...]:
    """Several, as a tuple. Raises `ValidationError` for one string, which is no list of its
    characters."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ValidationError(f"a list is expected, not {type(given).__name__}")
    return tuple(given)

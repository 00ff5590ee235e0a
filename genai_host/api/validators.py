"""Validators and converters for the fields of declarations (attrs).

An invalid declaration raises an error that names the field, when the plugin creates it. The
converters return immutable collections and refuse a single string, which is also a collection of
characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, get_args

from genai_host.api.calls import Operation
from genai_host.util.text import short_repr


def strings(given: Iterable[str]) -> tuple[str, ...]:
    """Convert to a tuple of strings.

    Raises:
        TypeError: It is a single string, or an item is not a string.
    """
    if isinstance(given, str):
        raise TypeError(f"expected a list of strings, not the string {given!r}")
    found = tuple(given)
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"expected a list of strings, not of {type(each).__name__}")
    return found


def texts_or_tokens(given: Iterable[str | Iterable[int]]) -> tuple[str | tuple[int, ...], ...]:
    """Convert to a tuple of texts, each of them a string or its token IDs.

    Raises:
        TypeError: It is a single string, or an item is neither.
    """
    if isinstance(given, str):
        raise TypeError(f"expected a list of texts, not the string {given!r}")
    return tuple(each if isinstance(each, str) else _token_ids(each) for each in given)


def _token_ids(given: object) -> tuple[int, ...]:
    if not isinstance(given, list | tuple) or any(type(each) is not int for each in given):
        raise TypeError("expected texts, or lists of token IDs")
    return tuple(given)


def strings_or_none(given: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if given is None else strings(given)


def string_set(given: Iterable[str]) -> frozenset[str]:
    return frozenset(strings(given))


def string_set_or_none(given: Iterable[str] | None) -> frozenset[str] | None:
    return None if given is None else string_set(given)


_OPERATIONS = get_args(Operation)
_ADDRESS = re.compile(r"[\w.]+:[\w.]+")


class Must:
    """An attrs validator.

    Args:
        be: Description of valid values, for the message.
        is_so: Whether a value is valid.
    """

    def __init__(self, be: str, is_so: Callable[[Any], bool]) -> None:
        self._be = be
        self._is_so = is_so

    def __call__(self, owner: Any, field: Any, value: Any) -> None:
        if not self._is_so(value):
            raise self._refused(owner, field.name, value)

    def holds(self, value: Any) -> bool:
        """Whether a value is valid."""
        return self._is_so(value)

    def check(self, owner: Any, name: str) -> None:
        """Validate an attribute of a class that is not an attrs class."""
        value = getattr(owner, name)
        if not self._is_so(value):
            raise self._refused(owner, name, value)

    def _refused(self, owner: Any, name: str, value: Any) -> TypeError:
        called = getattr(owner, "name", None) or getattr(owner, "model", None)
        whose = f"{type(owner).__name__} {called!r}" if isinstance(called, str) else ""
        return TypeError(
            f"{whose or type(owner).__name__}: {name} must be {self._be}, not {short_repr(value)}"
        )


def by_name(is_so: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A predicate for mappings from strings to values that satisfy a predicate."""

    def is_mapping(value: Any) -> bool:
        if type(value) is not dict and not isinstance(value, Mapping):
            return False
        for name in value:  # a generator takes longer, and this runs for each detail of an answer
            if not isinstance(name, str):
                return False
        return is_so is _is_any or all(map(is_so, value.values()))

    return is_mapping


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_size_or_none(value: Any) -> bool:
    return value is None or (type(value) is int and value > 0)


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_any(value: Any) -> bool:
    return True


def _is_address_or_empty(value: Any) -> bool:
    return value == "" or ADDRESS.holds(value)


def one_of(choices: Sequence[str]) -> Must:
    """A validator for one of some strings."""
    return Must(
        f"one of {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices
    )


TEXT = Must("a string", _is_text)
TEXT_OR_NONE = Must("a string or None", lambda value: value is None or _is_text(value))
FILLED = Must("a non-empty string", _is_filled)
BOOLEAN = Must("True or False", lambda value: isinstance(value, bool))
CALLABLE = Must("a callable", callable)
SIZE_OR_NONE = Must("an integer above 0, or None", _is_size_or_none)
STRING_SET = Must(
    "a set of strings", lambda value: isinstance(value, Set) and all(map(_is_text, value))
)
TEXT_BY_NAME = Must("a mapping of strings to strings", by_name(_is_text))
FILLED_BY_NAME = Must("a mapping of strings to non-empty strings", by_name(_is_filled))
ANY_BY_NAME = Must("a mapping with strings for keys", by_name(_is_any))
ANY_BY_NAMES = Must("a mapping of names to mappings", by_name(by_name(_is_any)))
SCHEMAS = Must(
    "a mapping of names to JSON Schemas", by_name(lambda value: isinstance(value, (Mapping, bool)))
)
OPERATION = one_of(_OPERATIONS)
OPERATIONS = Must(
    f"a mapping of names to one of {', '.join(_OPERATIONS)}", by_name(OPERATION.holds)
)
ADDRESS = Must(
    "as `package.module:name`", lambda value: _is_text(value) and bool(_ADDRESS.fullmatch(value))
)
ADDRESS_OR_EMPTY = Must("as `package.module:name`, or empty", _is_address_or_empty)

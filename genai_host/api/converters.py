"""Collections as frozen classes keep them. A string is no collection of its letters."""

from __future__ import annotations

from collections.abc import Iterable


def strings(given: Iterable[str]) -> tuple[str, ...]:
    """Raises `TypeError` for a single string, and for what are no strings."""
    if isinstance(given, str):
        raise TypeError(f"a list of strings is wanted, not the string {given!r}")
    found = tuple(given)
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"a list of strings is wanted, not one of {type(each).__name__}")
    return found


def strings_or_none(given: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if given is None else strings(given)


def string_set(given: Iterable[str]) -> frozenset[str]:
    return frozenset(strings(given))


def string_set_or_none(given: Iterable[str] | None) -> frozenset[str] | None:
    return None if given is None else string_set(given)

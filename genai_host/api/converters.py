"""Collections as frozen classes keep them. A string is no collection of its letters."""

from __future__ import annotations

from collections.abc import Iterable


def strings(given: Iterable[str]) -> tuple[str, ...]:
    """Raises `TypeError` for a single string."""
    if isinstance(given, str):
        raise TypeError(f"a list of strings is wanted, not the string {given!r}")
    return tuple(given)


def strings_or_none(given: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if given is None else strings(given)


def string_set(given: Iterable[str]) -> frozenset[str]:
    return frozenset(strings(given))

"""What a service may send in place of what it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

NO_REPLIES: tuple[bytes, ...] = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"<html><body>502 Bad Gateway</body></html>",
    b"{",
    b'{"',
    b"[]",
    b"{}",
    b"null",
    b"true",
    b"0",
    b'"text"',
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 100_000,
)
"""Bodies that are no reply in any format."""

_OTHERS: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 1.5),
    *("", "x", "{", "²"),
    *([], [None], [[]], [{}], {}, {"x": None}),
)

Place = tuple[str | int, ...]

_NOTHING: Any = object()


def damaged(data: bytes) -> Iterator[bytes]:
    """The same text with one fault each: what is JSON with each of its values missing, or
    of another kind; whatever it is, ended too soon."""
    for length in range(len(data.rstrip())):
        yield data[:length]
    try:
        value = json.loads(data)
    except ValueError:
        return
    for changed in with_faults(value):
        yield json.dumps(changed).encode()


def with_faults(value: Any) -> Iterator[Any]:
    """The same value with one fault each: a part of it missing, or of another kind."""
    for place in places_in(value):
        for other in _OTHERS:
            yield with_other(value, place, other)
        if place and isinstance(place[-1], str):
            yield with_other(value, place, _NOTHING)


def places_in(value: Any, place: Place = ()) -> Iterator[Place]:
    """The place of each value in a JSON value, its own first: names and numbers, from the
    outermost inwards."""
    yield place
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(inner, (*place, key))


def with_other(value: Any, place: Place, other: Any) -> Any:
    """The same JSON value with another in a place."""
    if not place:
        return other
    changed = value.copy()
    key, *rest = place
    if rest or other is not _NOTHING:
        changed[key] = with_other(value[key], tuple(rest), other)
    else:
        del changed[key]
    return changed

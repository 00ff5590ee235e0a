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
    yield from _OTHERS
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: each for name, each in value.items() if name != key}
            for changed in with_faults(inner):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            for changed in with_faults(inner):
                yield [*value[:at], changed, *value[at + 1 :]]

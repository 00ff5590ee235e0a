"""Checks that features do no I/O; and invalid replies.

`Watched` records whether a feature gets the time or random numbers, or uses a network, other than
through the host. `NO_REPLIES` and `damaged` give what a service may send instead of a valid reply.
"""

from __future__ import annotations

import datetime
import gc
import json
import random
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from genai_host.api import Answer, FeatureSteps, Turn

_FORBIDDEN = frozenset(
    {
        ("time", name)
        for name in (
            *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
            "sleep",
        )
    }
    | {("posix", "urandom"), ("nt", "urandom"), ("_uuid", "generate_time_safe")}
)
_CHANCE = random.random.__self__  # type: ignore[attr-defined]  # the shared generator


class Watched:
    """A feature's `respond` that records forbidden calls.

    Args:
        respond: The function.

    Attributes:
        calls: Forbidden calls, with their location.
    """

    def __init__(self, respond: Callable[[Turn[Any]], FeatureSteps]) -> None:
        self._respond = respond
        self.calls: list[str] = []

    def __call__(self, turn: Turn[Any]) -> FeatureSteps:
        story = self._respond(turn)
        act: Callable[[], Any] = partial(next, story)
        while True:
            try:
                with self._eye():
                    step = act()
            except StopIteration as stop:
                answer: Answer = stop.value
                return answer
            try:
                result = yield step
            except GeneratorExit:
                story.close()
                raise
            except BaseException as error:  # noqa: BLE001 - handled by the feature
                act = partial(story.throw, error)
            else:
                act = partial(story.send, result)

    @contextmanager
    def _eye(self) -> Generator[None, None, None]:
        before = sys.getprofile()
        collects = gc.isenabled()
        gc.disable()  # finalizers of other objects are not part of the feature
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(before)
            if collects:
                gc.enable()

    def _look(self, frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and _is_forbidden(called):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            self.calls.append(f"{called.__qualname__} at {place}")


def _is_forbidden(called: Any) -> bool:
    owner = getattr(called, "__self__", None)
    if owner is _CHANCE:
        return True
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        return called.__name__ in ("now", "today", "utcnow")
    if isinstance(owner, socket.socket):
        return called.__name__ in ("connect", "connect_ex")
    return (getattr(called, "__module__", None), called.__name__) in _FORBIDDEN


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
"""Bodies that are invalid in every format."""

_OTHERS: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 1.5),
    *("", "x", "{", "²"),
    *([], [None], [[]], [{}], {}, {"x": None}),
)

ValuePath = tuple[str | int, ...]

_NOTHING: Any = object()


def damaged(data: bytes) -> Iterator[bytes]:
    """Damaged versions of the data: JSON with each value missing or of another type; any data,
    truncated."""
    for length in range(len(data.rstrip())):
        yield data[:length]
    try:
        value = json.loads(data)
    except ValueError:
        return
    for changed in with_faults(value):
        yield json.dumps(changed).encode()


def with_faults(value: Any) -> Iterator[Any]:
    """Versions of a JSON value with one fault each: a part is missing or has another type."""
    for place in places_in(value):
        for other in _OTHERS:
            yield with_other(value, place, other)
        if place and isinstance(place[-1], str):
            yield with_other(value, place, _NOTHING)


def places_in(value: Any, place: ValuePath = ()) -> Iterator[ValuePath]:
    """Paths of all values in a JSON value, outermost first, as keys and indexes."""
    yield place
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(inner, (*place, key))


def with_other(value: Any, place: ValuePath, other: Any) -> Any:
    """A copy of a JSON value with another value at a path."""
    if not place:
        return other
    changed = value.copy()
    key, *rest = place
    if rest or other is not _NOTHING:
        changed[key] = with_other(value[key], tuple(rest), other)
    else:
        del changed[key]
    return changed

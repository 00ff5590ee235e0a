"""Whether a feature asks anybody but the host for the time, for chance, or over a network."""

from __future__ import annotations

import datetime
import gc
import random
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from genai_host.api import Answer, Story, Turn

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
_CHANCE = random.random.__self__  # type: ignore[attr-defined]  # the one that all share


class Watched:
    """A feature's `respond`, with an eye on what it calls.

    calls   what it called that it must not, and where
    """

    def __init__(self, respond: Callable[[Turn[Any]], Story]) -> None:
        self._respond = respond
        self.calls: list[str] = []

    def __call__(self, turn: Turn[Any]) -> Story:
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
            except BaseException as error:  # noqa: BLE001 - the story's own, to handle
                act = partial(story.throw, error)
            else:
                act = partial(story.send, result)

    @contextmanager
    def _eye(self) -> Generator[None, None, None]:
        before = sys.getprofile()
        collects = gc.isenabled()
        gc.disable()  # what others do when garbage is collected is not the feature's doing
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

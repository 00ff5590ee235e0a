"""One call of a tool, from its beginning to its result; it may outlive a request, where the
client is asked something in between."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from genai_mcp.server.steps import News, Question, Result, Steps
from genai_mcp.within import Within

KEPT_SECONDS = 600.0
"""How long a call waits for the client to come back with what it was asked."""

MOST_KEPT = 64
"""Calls that wait so; when there are more, the oldest ends."""


class Work:
    """It goes on in one thread at a time; it is ended from any.

    Its steps begin when it first goes on.
    """

    def __init__(
        self, name: str, arguments: Mapping[str, Any], begin: Callable[[Within], Steps]
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.limits = Within(None, f"the call of {name}")
        self._steps = begin(self.limits)

    def go_on(self, given: bool | None = None) -> News | Question | Done:
        """The next step. Raises what the call does."""
        try:
            return self._steps.send(given)
        except StopIteration as stop:
            return Done(stop.value)

    def end(self) -> None:
        """Whoever goes on with it hears of it."""
        self.limits.end()

    def drop(self) -> None:
        """Forget it, while nobody goes on with it."""
        self.end()
        self._steps.close()


@frozen
class Done:
    result: Result


@frozen
class _Kept:
    work: Work
    question: Question
    until: float = field(factory=lambda: time.monotonic() + KEPT_SECONDS)


class Waiting:
    """The calls that wait until their client comes back, by a name that nobody can guess."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def keep(self, work: Work, question: Question) -> str:
        """The name under which to ask for it."""
        name = secrets.token_urlsafe(24)
        with self._lock:
            self._kept[name] = _Kept(work, question)
            now = time.monotonic()
            gone = [key for key, kept in self._kept.items() if kept.until < now]
            gone += list(self._kept)[: max(0, len(self._kept) - len(gone) - MOST_KEPT)]
            dropped = [self._kept.pop(key) for key in dict.fromkeys(gone)]
        for kept in dropped:
            kept.work.drop()
        return name

    def take(self, name: str, tool: str, arguments: Mapping[str, Any]) -> _Kept | None:
        """The call of that name, once; None if it is not there any more, or was for
        something else."""
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.until < time.monotonic():
                return None
            if (kept.work.name, kept.work.arguments) != (tool, arguments):
                return None
            return self._kept.pop(name)

    def close(self) -> None:
        with self._lock:
            dropped = list(self._kept.values())
            self._kept.clear()
        for kept in dropped:
            kept.work.drop()

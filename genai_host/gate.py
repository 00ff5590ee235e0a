"""A gate: how many calls of a provider instance are under way at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from genai_host.api import Limits
from genai_host.errors import RateLimited


class Gate:
    """Lets so many through at once; as many again wait in line, first come first served.

    at_once   None for no bound
    line      how many may wait; beyond that a call is refused
    """

    def __init__(self, at_once: int | None = None, line: int = 200) -> None:
        self._at_once = at_once
        self._line = line
        self._lock = threading.Lock()
        self._inside = 0
        self._waiting: deque[threading.Event] = deque()

    @property
    def inside(self) -> int:
        """How many are through, and have not come back."""
        return self._inside

    @contextmanager
    def passed(self, limits: Limits) -> Iterator[None]:
        """Around one call. Raises `RateLimited` if the line is full, and what ends
        `limits` while it waits."""
        if self._at_once is None:
            yield
            return
        self._pass(self._at_once, limits)
        try:
            yield
        finally:
            self._leave()

    def _pass(self, at_once: int, limits: Limits) -> None:
        with self._lock:
            if self._inside < at_once:
                self._inside += 1
                return
            if len(self._waiting) >= self._line:
                raise RateLimited(
                    f"{at_once} calls are under way and {self._line} wait",
                    retry_after=1.0,
                    retryable=False,
                )
            called = threading.Event()
            self._waiting.append(called)
        with limits.on_cancel(called.set):
            called.wait()
        with self._lock:
            if called in self._waiting:  # it was the limits that called
                self._waiting.remove(called)
                left = False
            else:
                left = True
        try:
            limits.check()
        except BaseException:
            if left:
                self._leave()
            raise

    def _leave(self) -> None:
        """The place goes to the first in line, if there is one."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._inside -= 1

"""The time that something may take, less that in which it is not its fault."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from genai_host.api import Clock, Registration


class TimeLimit:
    """Calls `end` once the time is over, while it is entered. May be used from many threads.

    seconds   None for no limit
    """

    def __init__(self, clock: Clock, seconds: float | None, end: Callable[[], None]) -> None:
        self._clock = clock
        self._left = seconds
        self._end = end
        self._lock = threading.Lock()
        self._pauses = 1  # until it is entered
        self._since = 0.0
        self._alarm: Registration | None = None

    def __enter__(self) -> TimeLimit:
        self._go_on()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Around what takes time that does not count."""
        self._stop()
        try:
            yield
        finally:
            self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            self._pauses -= 1
            if self._pauses == 0 and self._left is not None:
                self._since = self._clock.monotonic()
                self._alarm = self._clock.call_later(max(0.0, self._left), self._end)

    def _stop(self) -> None:
        with self._lock:
            self._pauses += 1
            if self._alarm is not None and self._left is not None:
                self._alarm.release()
                self._alarm = None
                self._left -= self._clock.monotonic() - self._since

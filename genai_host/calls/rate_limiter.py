"""Rate limits, which a feature sets for its prompts (`Prompt.rate`)."""

from __future__ import annotations

import logging
import threading
from collections import deque

from genai_host.api import Clock, RateLimit, RouteInfo
from genai_host.api.cancellation import Cancellation
from genai_host.util import concurrency

_log = logging.getLogger(__name__)


class RateLimiter:
    """Rate limits of a host, one per model and provider.

    While calls at one rate are in progress, another rate for the same model is ignored, with one
    log message.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, str], _Line] = {}
        self._reported: set[tuple[str, str, RateLimit]] = set()

    def wait(self, route: RouteInfo, rate: RateLimit, cancellation: Cancellation) -> None:
        """Wait, in FIFO order, until the model may be called; raises the error of a
        cancellation."""
        model = (route.model, route.provider)
        with self._lock:
            line = self._lines.get(model)
            if line is None or (line.rate != rate and line.is_idle()):
                line = self._lines[model] = _Line(rate, self._clock)
            conflicts = line.rate != rate and (*model, rate) not in self._reported
            self._reported.add((*model, rate))
            place = line.enter()
        if conflicts:
            _log.warning(
                "%s@%s: rate limit %s remains in effect, %s is ignored", *model, line.rate, rate
            )
        line.wait(place, cancellation)


class _Line:
    """Calls waiting for a model: the first waits for time, the others for the first."""

    def __init__(self, rate: RateLimit, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: deque[float] = deque()  # start times of the calls that count
        self._waiting: deque[threading.Event] = deque()

    def is_idle(self) -> bool:
        with self._lock:
            self._forget_old()
            return not self._waiting and not self._calls

    def enter(self) -> threading.Event:
        """A place at the end of the queue."""
        first = concurrency.new_event()
        with self._lock:
            self._waiting.append(first)
            if self._waiting[0] is first:
                first.set()
        return first

    def wait(self, first: threading.Event, cancellation: Cancellation) -> None:
        """Wait until a place in the queue is first.

        Args:
            first: The place.
            cancellation: Ends the wait.
        """
        try:
            with cancellation.on_cancel(first.set):
                while True:
                    first.wait()
                    first.clear()
                    cancellation.check()
                    seconds = self._seconds_to_wait()
                    if seconds <= 0:
                        return
                    with self._clock.call_later(seconds, first.set):
                        first.wait()
        finally:
            self._leave(first)

    def _seconds_to_wait(self) -> float:
        """Seconds that the first call has to wait."""
        with self._lock:
            now = self._forget_old()
            if len(self._calls) >= self.rate.requests:
                return self._calls[0] + self.rate.seconds - now
            self._calls.append(now)
            return 0.0

    def _forget_old(self) -> float:
        """Drop old start times; returns the current time."""
        now = self._clock.monotonic()
        while self._calls and self._calls[0] + self.rate.seconds <= now:
            self._calls.popleft()
        return now

    def _leave(self, place: threading.Event) -> None:
        with self._lock:
            was_first = self._waiting[0] is place
            self._waiting.remove(place)
            if was_first and self._waiting:
                self._waiting[0].set()

"""How often models are called: those that a feature holds to a rate wait their turn."""

from __future__ import annotations

import logging
import threading
from collections import deque

from genai_host.api import Clock, Rate, RouteInfo
from genai_host.api.cancellation import Cancellation

_log = logging.getLogger(__name__)


class Rates:
    """The rates of one host, one for each model at a provider; models know nothing of
    each other. As long as calls at one rate count, another one is told of in the log,
    once, and not kept to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, str], _Line] = {}
        self._told: set[tuple[str, str, Rate]] = set()

    def wait(self, route: RouteInfo, rate: Rate, cancellation: Cancellation) -> None:
        """Wait until the model may be called once more, first come first served; raises
        what ends the call meanwhile."""
        model = (route.model, route.provider)
        with self._lock:
            line = self._lines.get(model)
            if line is None or (line.rate != rate and line.is_idle()):
                line = self._lines[model] = _Line(rate, self._clock)
            conflicts = line.rate != rate and (*model, rate) not in self._told
            self._told.add((*model, rate))
            place = line.enter()
        if conflicts:
            _log.warning(
                "%s@%s is called %s: that stays, and %s is not kept to", *model, line.rate, rate
            )
        line.wait(place, cancellation)


class _Line:
    """Who waits for one model: the first of them for the time, the others for those before."""

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: deque[float] = deque()  # when they began, those that count
        self._waiting: deque[threading.Event] = deque()

    def is_idle(self) -> bool:
        with self._lock:
            self._forget_old()
            return not self._waiting and not self._calls

    def enter(self) -> threading.Event:
        """A place at the end."""
        first = threading.Event()
        with self._lock:
            self._waiting.append(first)
            if self._waiting[0] is first:
                first.set()
        return first

    def wait(self, first: threading.Event, cancellation: Cancellation) -> None:
        """
        first   the place
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
                    first.set()
        finally:
            self._leave(first)

    def _seconds_to_wait(self) -> float:
        """For the first; 0 is a call."""
        with self._lock:
            now = self._forget_old()
            if len(self._calls) >= self.rate.requests:
                return self._calls[0] + self.rate.seconds - now
            self._calls.append(now)
            return 0.0

    def _forget_old(self) -> float:
        """The time that it is now."""
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

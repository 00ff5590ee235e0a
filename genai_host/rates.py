"""How often models are called: those that a feature holds to a rate wait their turn."""

from __future__ import annotations

import logging
import threading
from collections import deque

from genai_host.api import Clock, Rate, RouteInfo
from genai_host.cancellation import Cancellation

_log = logging.getLogger(__name__)


class Rates:
    """The rates of one host, one for each model at a provider; models know nothing of
    each other. The rate that a model is first called with stays: another one is told
    of in the log, once, and not kept to."""

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
            if line is None:
                line = self._lines[model] = _Line(rate, self._clock)
            conflicts = line.rate != rate and (*model, rate) not in self._told
            self._told.add((*model, rate))
        if conflicts:
            _log.warning(
                "%s@%s is called %s: that stays, and %s is not kept to", *model, line.rate, rate
            )
        line.wait(cancellation)


class _Line:
    """Who waits for one model."""

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: deque[float] = deque()
        self._waiting: list[threading.Event] = []

    def wait(self, cancellation: Cancellation) -> None:
        woken = threading.Event()
        with self._lock:
            self._waiting.append(woken)
        try:
            with cancellation.on_cancel(woken.set):
                while True:
                    woken.clear()
                    cancellation.check()
                    seconds = self._seconds_to_wait(woken)
                    if seconds <= 0:
                        return
                    with self._clock.call_later(seconds, woken.set):
                        woken.wait()
        finally:
            self._leave(woken)

    def _seconds_to_wait(self, who: threading.Event) -> float:
        """0 if it is their turn, which counts as a call."""
        requests, seconds = self.rate.requests, self.rate.seconds
        with self._lock:
            now = self._clock.monotonic()
            while self._calls and self._calls[0] + seconds <= now:
                self._calls.popleft()
            calls = list(self._calls)
            for _ in self._waiting[: self._waiting.index(who) + 1]:
                calls.append(now if len(calls) < requests else max(calls[-requests] + seconds, now))
            if calls[-1] <= now:
                self._calls.append(now)
            return calls[-1] - now

    def _leave(self, who: threading.Event) -> None:
        """Whoever stands behind one that gives up comes sooner."""
        with self._lock:
            place = self._waiting.index(who)
            del self._waiting[place]
            for behind in self._waiting[place:]:
                behind.set()

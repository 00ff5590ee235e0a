"""Who ends a call that takes too long."""

from __future__ import annotations

import math

from genai_host.api import Clock, Registration
from genai_host.api.cancellation import Cancellation
from genai_host.bounds import Bounds
from genai_host.errors import DeadlineExceeded


class Watch:
    """Ends one attempt when it takes too long, whatever its provider is blocked on.

        with Watch(limits, bounds, clock) as watch:
            watch.listen_first()
            for event in events:
                watch.heard()
                ...             # what its reader does meanwhile does not count
                watch.listen()

    One alarm looks from time to time; none is set anew for each event.
    """

    def __init__(self, limits: Cancellation, bounds: Bounds, clock: Clock) -> None:
        self._limits = limits
        self._bounds = bounds
        self._clock = clock
        self._end = math.inf
        self._since = math.inf  # since when somebody has been waiting for an event
        self._allowed = bounds.idle
        self._waits_for = "idle"
        self._alarm: Registration | None = None
        self._over = False

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        self._over = True
        if self._alarm is not None:
            self._alarm.release()

    def wait(self) -> None:
        """Somebody waits for a whole reply from now on."""
        self._end = self._clock.monotonic() + self._bounds.total
        self._set_alarm(self._bounds.total)

    def listen_first(self) -> None:
        """Somebody waits for the first event of a reply from now on."""
        self._since = self._clock.monotonic()
        self._end = self._since + self._bounds.total
        self._allowed, self._waits_for = self._bounds.first_token, "first_token"
        self._set_alarm(min(self._allowed, self._bounds.total))

    def listen(self) -> None:
        """Somebody waits for the next event from now on."""
        self._since = self._clock.monotonic()

    def heard(self) -> None:
        """An event has come."""
        self._since = math.inf
        self._allowed, self._waits_for = self._bounds.idle, "idle"

    def listen_last(self, seconds: float) -> None:
        """All has come; the end of the transmission may take this long."""
        self._since = self._clock.monotonic()
        self._allowed = seconds
        self._set_alarm(seconds)

    def _set_alarm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.release()
        self._alarm = self._clock.call_later(seconds, self._look)
        if self._over:  # meanwhile, in another thread
            self._alarm.release()

    def _look(self) -> None:
        now = self._clock.monotonic()
        due = min(self._since, now) + self._allowed
        if self._over:
            return
        if now >= self._end:
            self._exceeded("total", self._bounds.total)
        elif now >= due:
            self._exceeded(self._waits_for, self._allowed)
        else:
            self._set_alarm(min(due, self._end) - now)

    def _exceeded(self, deadline: str, seconds: float) -> None:
        what = {
            "total": "the reply took longer than",
            "first_token": "no reply began within",
            "idle": "the reply stood still for",
        }[deadline]
        self._limits.cancel(DeadlineExceeded(f"{what} {seconds:g} s", deadline=deadline))

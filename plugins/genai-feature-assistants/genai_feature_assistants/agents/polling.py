"""How a run is waited for."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import field, frozen

from genai_host.api import Clock
from genai_host.api.validators import Must
from genai_host.errors import GenaiError

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds: who asks for more in `Retry-After` is not asked again."""

_SECONDS = Must("seconds, not below 0", lambda value: type(value) in (int, float) and value >= 0)
_COUNT = Must("a whole number above 0", lambda value: type(value) is int and value > 0)


@frozen
class PollingOptions:
    """How a run is waited for; times in seconds.

    interval        before each of the first polls
    back_off        before each of those after
    back_off_after  how many are the first
    timeout         that a run may take, from when it is made, or is given the results of
                    functions, until it wants something or is over
    tries           of a request that only reads, where it fails in passing
    round_trips     how often a run may ask for functions
    """

    interval: float = field(default=0.25, validator=_SECONDS)
    back_off: float = field(default=1.0, validator=_SECONDS)
    back_off_after: int = field(default=2, validator=_COUNT)
    timeout: float = field(default=60.0, validator=_SECONDS)
    tries: int = field(default=3, validator=_COUNT)
    round_trips: int = field(default=100, validator=_COUNT)


class TimeIsUp(Exception):
    """What was waited for did not come in time; never leaves this package."""


class Pace:
    """Waits as the options say, by a clock; None for that of the system."""

    def __init__(self, options: PollingOptions, clock: Clock | None = None) -> None:
        self.options = options
        self._clock = clock

    def until(self, fetch: Callable[[], T], is_open: Callable[[T], bool], found: T) -> T:
        """What is found when it is no longer open. Raises `TimeIsUp`."""
        begun = self.now()
        polls = 0
        while is_open(found):
            left = begun + self.options.timeout - self.now()
            if left <= 0:
                raise TimeIsUp
            first = polls < self.options.back_off_after
            self.wait(min(self.options.interval if first else self.options.back_off, left))
            found = self.tried(fetch, by=begun + self.options.timeout)
            polls += 1
        return found

    def tried(
        self,
        fetch: Callable[[], T],
        passing: Callable[[Any], bool] | None = None,
        by: float = math.inf,
    ) -> T:
        """What is fetched, at the last of so many tries. Raises what that raises, and that of
        an earlier one where the service asks for more patience than there is.

        passing   whether an error is one that may not come again; None to go by its own word
        by        when there is no time for another, by `now`
        """
        for _ in range(self.options.tries - 1):
            try:
                return fetch()
            except GenaiError as error:
                if not (error.retryable or (passing is not None and passing(error))):
                    raise
                asked = getattr(error, "retry_after", None) or 0.0
                seconds = max(asked, self.options.back_off)
                if asked > LONGEST_WAIT or self.now() + seconds >= by:
                    raise
                self.wait(seconds)
        return fetch()

    def now(self) -> float:
        return time.monotonic() if self._clock is None else self._clock.monotonic()

    def wait(self, seconds: float) -> None:
        if self._clock is None:
            time.sleep(seconds)
            return
        come = threading.Event()
        with self._clock.call_later(seconds, come.set):
            come.wait()

"""A breaker: a service that keeps failing is left alone for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from genai_host.api import Clock
from genai_host.errors import (
    CircuitOpen,
    DeadlineExceeded,
    IncompleteReply,
    MalformedReply,
    Unavailable,
)

_FAILURES = (Unavailable, DeadlineExceeded, IncompleteReply, MalformedReply)


class Breaker:
    """Of one provider instance: closed, it lets calls through; after some failures in a
    row it is open and lets none; then it lets exactly one through, whose outcome decides.

    Refusals (status 4xx) and cancelled calls say nothing against the service.

    failures   in a row that open it
    seconds    that it stays open
    """

    def __init__(self, clock: Clock, *, failures: int = 5, seconds: float = 30.0) -> None:
        self._clock = clock
        self._most = failures
        self._seconds = seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Around one call. Raises `CircuitOpen` if it is not let through."""
        probes = self._enter()
        try:
            yield
        except BaseException as error:
            if is_failure(error):
                self._failed()
            elif isinstance(error, Exception) and getattr(error, "status", None):
                self._succeeded()  # it refused, so it is there
            elif probes:
                self._undecided()
            raise
        self._succeeded()

    def _enter(self) -> bool:
        """Whether the call is the one that decides."""
        if self._opened is None:
            return False
        with self._lock:
            left = self._seconds_left()
            if left > 0 or self._probing:
                raise CircuitOpen(
                    "the service failed too often lately and is left alone for now",
                    retry_after=max(left, 0.0),
                )
            self._probing = True
            return True

    def _seconds_left(self) -> float:
        if self._opened is None:  # since it was looked at
            return 0.0
        return self._opened + self._seconds - self._clock.monotonic()

    def _succeeded(self) -> None:
        if self._failures or self._opened is not None:
            with self._lock:
                self._failures = 0
                self._opened = None
                self._probing = False

    def _failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._probing = False
            if self._failures >= self._most:
                self._opened = self._clock.monotonic()

    def _undecided(self) -> None:
        with self._lock:
            self._probing = False


def is_failure(error: BaseException) -> bool:
    """Whether an error tells of a service that does not work."""
    if isinstance(error, CircuitOpen) or not isinstance(error, _FAILURES):
        return False
    return error.status is None or not 400 <= error.status < 500

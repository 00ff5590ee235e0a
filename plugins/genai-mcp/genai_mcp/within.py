"""Additional limits inside those of the caller."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable
from types import TracebackType

from attrs import frozen

from genai_host.api import CancelToken
from genai_host.errors import GenaiError, ProviderTimeout


class Within:
    """Limits that end after some seconds with `ProviderTimeout`, or with the error of the outer
    limits.

    Args:
        seconds: Timeout; None to end only by `end`.
        what: Name of the operation for the timeout error.
    """

    def __init__(self, seconds: float | None, what: str, outer: CancelToken | None = None) -> None:
        self._error: GenaiError | None = None
        self._what = what
        self._seconds = seconds
        self._outer = outer
        self._lock = threading.Lock()
        self._wakers: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._above = outer.on_cancel(self._wake) if outer is not None else None
        self._timer: threading.Timer | None = None
        if seconds is not None:
            self._timer = threading.Timer(seconds, self.end)
            self._timer.daemon = True
            self._timer.start()

    def check(self) -> None:
        if self._outer is not None:
            self._outer.check()
        if self._error is not None:
            raise copy.copy(self._error)

    def on_cancel(self, wake: Callable[[], None]) -> _Registration:
        with self._lock:
            number = next(self._numbers)
            self._wakers[number] = wake
        registration = _Registration(self._wakers, number)
        try:
            self.check()
        except GenaiError:
            self._wake()
        return registration

    def end(self) -> None:
        took = "" if self._seconds is None else f" took longer than {self._seconds:g} s"
        self._error = ProviderTimeout(f"{self._what}{took or ' was ended'}")
        self._wake()

    def __enter__(self) -> Within:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._above is not None:
            self._above.release()

    def _wake(self) -> None:
        with self._lock:
            wakers = list(self._wakers.values())
            self._wakers.clear()
        for wake in wakers:
            wake()


@frozen
class _Registration:
    wakers: dict[int, Callable[[], None]]
    number: int

    def release(self) -> None:
        self.wakers.pop(self.number, None)

    def __enter__(self) -> _Registration:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

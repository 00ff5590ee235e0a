"""Cancelling: a flag that any thread may raise, and that wakes whoever waits."""

from __future__ import annotations

import copy
import itertools
import logging
import threading
from collections.abc import Callable

from genai_host.api.calls import CancelToken
from genai_host.errors import Cancelled, GenaiError

_log = logging.getLogger(__name__)


class Cancellation:
    """Ends what is done under it, with an error that says why.

    It is what a provider gets as its `CancelToken`. One made with a parent ends with
    its parent, and can end alone.
    """

    def __init__(self, parent: Cancellation | None = None) -> None:
        self._lock = threading.Lock()
        self._error: GenaiError | None = None
        self._wakers: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._above = parent.on_cancel(lambda: self.cancel(parent._error)) if parent else None

    def cancel(self, error: GenaiError | None = None) -> None:
        """End it, once: the first error stays. None stands for `Cancelled`."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error or Cancelled("cancelled")
            wakers = list(self._wakers.values())
            self._wakers.clear()
        for wake in wakers:
            _call(wake)

    def is_cancelled(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        """Raise the error that it was ended with, if it was."""
        if self._error is not None:
            raise copy.copy(self._error)

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        """Call `wake` when it ends: at once if it has ended."""
        with self._lock:
            ended = self._error is not None
            number = next(self._numbers)
            if not ended:
                self._wakers[number] = wake
        if ended:
            _call(wake)
        return Registration(self, number)

    def release(self) -> None:
        """Forget the parent: what was done under it is over."""
        if self._above is not None:
            self._above.release()

    def __enter__(self) -> Cancellation:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _forget(self, number: int) -> None:
        with self._lock:
            self._wakers.pop(number, None)


def ended_with(limits: CancelToken) -> GenaiError | None:
    """The error that limits ended with; None if they have not."""
    try:
        limits.check()
    except GenaiError as error:
        return error
    return None


class Registration:
    """A registered waker; `release`, or leaving it as a context, takes it back."""

    __slots__ = ("_number", "_owner")

    def __init__(self, owner: Cancellation, number: int) -> None:
        self._owner = owner
        self._number = number

    def release(self) -> None:
        self._owner._forget(self._number)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _call(wake: Callable[[], None]) -> None:
    """Wakers are plugins' as well: one that raises must neither keep the others from
    being woken nor trouble whoever cancels."""
    try:
        wake()
    except Exception:  # noqa: BLE001 - see above
        _log.warning("what was to be woken by a cancellation failed", exc_info=True)

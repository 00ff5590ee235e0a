"""Cancellation: a flag that any thread can set, and that wakes waiting threads."""

from __future__ import annotations

import copy
import itertools
import logging
import threading
from collections.abc import Callable

from genai_host.api.calls import CancelToken
from genai_host.errors import Cancelled, GenaiError

_HANGS = 10.0  # seconds to wait for a callback of a plugin

_log = logging.getLogger(__name__)


class Cancellation:
    """A `CancelToken` that ends work with an error.

    One with a parent is cancelled with its parent, and can be cancelled alone.

    Args:
        parent: Cancellation that also cancels this one.
    """

    def __init__(self, parent: Cancellation | None = None) -> None:
        self._lock = threading.Lock()
        self._error: GenaiError | None = None
        self._wakers: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._above = parent.on_cancel(lambda: self.cancel(parent._error)) if parent else None

    def cancel(self, error: GenaiError | None = None) -> None:
        """Cancel; the first error stays.

        Args:
            error: The reason; None for `Cancelled`.
        """
        with self._lock:
            if self._error is not None:
                return
            self._error = error or Cancelled("cancelled")
            wakers = list(self._wakers.values())
            self._wakers.clear()
        for wake in wakers:
            _call(wake)

    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._error is not None

    def check(self) -> None:
        """Raise the error that it was cancelled with, if any."""
        if self._error is not None:
            raise copy.copy(self._error)

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        """Call `wake` once on cancellation; immediately if cancelled already."""
        with self._lock:
            ended = self._error is not None
            number = next(self._numbers)
            if not ended:
                self._wakers[number] = wake
        if ended:
            _call(wake)
        return Registration(self, number)

    def release(self) -> None:
        """Detach from the parent, once the work is done."""
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
    """The error that a token was cancelled with; None if it was not."""
    try:
        limits.check()
    except GenaiError as error:
        return error
    return None


class Registration:
    """A registered callback; a context manager that removes it on exit."""

    __slots__ = ("_number", "_owner")

    def __init__(self, owner: Cancellation, number: int) -> None:
        self._owner = owner
        self._number = number

    def release(self) -> None:
        """Remove the callback."""
        self._owner._forget(self._number)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _call(wake: Callable[[], None]) -> None:
    """Call a callback. That of a plugin runs in a thread, since it may hang: the caller may be the
    thread of all timers."""
    if _is_own(wake):
        _run(wake)
        return
    thread = threading.Thread(target=_run, args=[wake], name="genai-host-on-cancel", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the system cannot start more threads
        _run(wake)
        return
    thread.join(_HANGS)
    if thread.is_alive():
        module, name = (getattr(wake, each, "") for each in ("__module__", "__qualname__"))
        what = "the callback %s.%s for a cancellation has not returned for %g seconds"
        _log.warning(what, module, name, _HANGS)


def _is_own(wake: Callable[[], None]) -> bool:
    """Whether a callback is of the host, or wakes a thread."""
    function = getattr(wake, "func", wake)
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] in ("genai_host", "threading")


def _run(wake: Callable[[], None]) -> None:
    """Call a callback. An exception must affect neither other callbacks nor the caller."""
    try:
        wake()
    except Exception:  # noqa: BLE001 - see above
        _log.warning("a callback for a cancellation failed", exc_info=True)

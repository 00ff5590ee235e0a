"""Cancellation: a flag that any thread can set, and that wakes waiting threads."""

from __future__ import annotations

import copy
import itertools
import logging
import threading
from collections.abc import Callable, Sequence

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
        self._wakers: dict[int, Callable[[], None] | Cancellation] = {}
        self._numbers = itertools.count()
        self._above = parent._register(self) if parent else None

    def cancel(self, error: GenaiError | None = None) -> None:
        """Cancel; the first error stays.

        Args:
            error: The reason; None for `Cancelled`.
        """
        _call_all(self._end(error or Cancelled("cancelled")))

    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._error is not None

    def check(self) -> None:
        """Raise the error that it was cancelled with, if any."""
        if self._error is not None:
            raise copy.copy(self._error)

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        """Call `wake` once on cancellation; immediately if cancelled already."""
        return self._register(wake)

    def release(self) -> None:
        """Detach from the parent, once the work is done."""
        if self._above is not None:
            self._above.release()

    def __enter__(self) -> Cancellation:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _register(self, wake: Callable[[], None] | Cancellation) -> Registration:
        with self._lock:
            error = self._error
            number = next(self._numbers)
            if error is None:
                self._wakers[number] = wake
        if error is not None:
            _call_all(_callbacks(wake, error))
        return Registration(self, number)

    def _end(self, error: GenaiError) -> list[Callable[[], None]]:
        """Mark it and its children as cancelled. Returns the callbacks to call."""
        with self._lock:
            if self._error is not None:
                return []
            self._error = error
            wakers = list(self._wakers.values())
            self._wakers.clear()
        return [callback for wake in wakers for callback in _callbacks(wake, error)]

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


def _callbacks(
    wake: Callable[[], None] | Cancellation, error: GenaiError
) -> list[Callable[[], None]]:
    return wake._end(error) if isinstance(wake, Cancellation) else [wake]


def _call_all(callbacks: Sequence[Callable[[], None]]) -> None:
    """Call callbacks. Those of plugins run concurrently in threads, since they may hang: the caller
    may be the thread of all timers."""
    changed = threading.Condition()
    running: list[str] = []

    def run(wake: Callable[[], None], name: str) -> None:
        try:
            _run(wake)
        finally:
            with changed:
                running.remove(name)
                changed.notify()

    for wake in itertools.filterfalse(_is_own, callbacks):
        name = _name_of(wake)
        with changed:
            running.append(name)
        thread = threading.Thread(
            target=run, args=[wake, name], name="genai-host-on-cancel", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system cannot start more threads
            run(wake, name)
    for wake in filter(_is_own, callbacks):
        _run(wake)
    with changed:
        changed.wait_for(lambda: not running, _HANGS)
        hanging = list(running)
    for name in hanging:
        what = "the callback %s for a cancellation has not returned for %g seconds"
        _log.warning(what, name, _HANGS)


def _is_own(wake: Callable[[], None]) -> bool:
    """Whether a callback is of the host, or wakes a thread."""
    return _name_of(wake).partition(".")[0] in ("genai_host", "threading")


def _name_of(wake: Callable[[], None]) -> str:
    """The module and name of a callback; of its function if it is a `functools.partial`."""
    function = getattr(wake, "func", wake)
    module = getattr(function, "__module__", None) or ""
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _run(wake: Callable[[], None]) -> None:
    """Call a callback. An exception must affect neither other callbacks nor the caller."""
    try:
        wake()
    except Exception:  # noqa: BLE001 - see above
        _log.warning("a callback for a cancellation failed", exc_info=True)

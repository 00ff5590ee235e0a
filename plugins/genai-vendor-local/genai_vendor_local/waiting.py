"""Waits that end when the waiting call is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from genai_host.api import CancelToken

if TYPE_CHECKING:  # slow to import
    from concurrent.futures import Future

T = TypeVar("T")

_LOOK = 0.05  # seconds between checks of the limits; waiting for a lock cannot be interrupted


@contextmanager
def held(lock: threading.Lock, limits: CancelToken) -> Iterator[None]:
    """Hold a lock. Raises the error of `limits`."""
    while not lock.acquire(timeout=_LOOK):
        limits.check()
    try:
        limits.check()
        yield
    finally:
        lock.release()


class InThread(Generic[T]):
    """Work in a separate thread, which continues after its caller has stopped waiting."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        from concurrent.futures import Future

        self._outcome: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        self._thread.start()

    def wait(self, limits: CancelToken) -> T:
        """Return the result, or raise the error of the work or of `limits`."""
        woken = threading.Event()
        self._outcome.add_done_callback(lambda _: woken.set())
        with limits.on_cancel(woken.set):
            woken.wait()
        limits.check()
        return self._outcome.result()

    def has_failed(self) -> bool:
        return self._outcome.done() and self._outcome.exception() is not None

    def join(self) -> None:
        self._thread.join()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._outcome.set_exception(error)

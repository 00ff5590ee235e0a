"""Sessions: processes that persist between calls, limited in number and idle time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from attrs import define, field

from genai_host.api import CancelToken
from genai_host.errors import ServiceUnavailable

_BETWEEN = 0.1  # seconds between checks of the limits while all processes are in use


class Endable(Protocol):
    """Interface of a session's process."""

    @property
    def alive(self) -> bool: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


P = TypeVar("P", bound=Endable)


@define(eq=False)
class _Session(Generic[P]):
    """A session; its process is None before its start."""

    name: str
    process: P | None = None
    busy: bool = True
    used: float = 0.0


@define(eq=False)
class Sessions(Generic[P]):
    """Pool of sessions with at most `most` processes, which end when idle for too long.
    Thread-safe."""

    most: int
    idle_seconds: float
    clock: Callable[[], float] = time.monotonic
    _all: list[_Session[P]] = field(factory=list, init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)
    _timer: threading.Timer | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    @contextmanager
    def use(self, name: str, start: Callable[[], P], limits: CancelToken) -> Iterator[P]:
        """Use the process of a session exclusively. A process without a session name, or with an
        error during its use, is closed afterwards.

        Raises:
            ServiceUnavailable: The pool is closed.
            GenaiError: The error of `limits`.
        """
        session, stale = self._take(name, limits)
        kept = False
        try:
            for each in stale:
                each.close()
            process = session.process or start()
            with self._changed:
                session.process = process
                closed = self._closed
            if closed:
                raise ServiceUnavailable("the sandbox is closed")
            yield process
            kept = bool(name)
        finally:
            self._give_back(session, kept)

    def sweep(self) -> None:
        """Close processes that are idle for too long or have ended."""
        before = self.clock() - self.idle_seconds
        with self._changed:
            old = [
                each
                for each in self._all
                if not each.busy
                and (each.used <= before or each.process is None or not each.process.alive)
            ]
            self._drop(old)
            self._wake_later()
        _close(old)

    def close(self) -> None:
        """Close all processes. Those in use are killed, and closed by their user."""
        with self._changed:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            idle = [each for each in self._all if not each.busy]
            for each in self._all:
                if each.busy and each.process is not None:
                    each.process.kill()
            self._drop(idle)
        _close(idle)

    def _take(self, name: str, limits: CancelToken) -> tuple[_Session[P], list[P]]:
        """Return a session to use, and processes to close for it."""
        with self._changed:
            while True:
                limits.check()
                if self._closed:
                    raise ServiceUnavailable("the sandbox is closed")
                found = next((each for each in self._all if name and each.name == name), None)
                if found is not None and not found.busy:
                    found.busy = True
                    if found.process is None or found.process.alive:
                        return found, []
                    dead, found.process = found.process, None
                    return found, [dead]
                if found is None and (room := self._room()) is not None:
                    session: _Session[P] = _Session(name)
                    self._all.append(session)
                    return session, room
                self._changed.wait(_BETWEEN)

    def _room(self) -> list[P] | None:
        """Return the processes to close to make room; None if all are in use."""
        if len(self._all) < self.most:
            return []
        idle = [each for each in self._all if not each.busy]
        if not idle:
            return None
        oldest = min(idle, key=lambda each: each.used)
        self._drop([oldest])
        return [] if oldest.process is None else [oldest.process]

    def _give_back(self, session: _Session[P], kept: bool) -> None:
        with self._changed:
            kept = kept and not self._closed
            session.busy = False
            session.used = self.clock()
            if not kept:
                self._drop([session])
            self._wake_later()
            self._changed.notify_all()
        if not kept:
            _close([session])

    def _drop(self, sessions: list[_Session[P]]) -> None:
        for each in sessions:
            self._all.remove(each)
        self._changed.notify_all()

    def _wake_later(self) -> None:
        """Schedule a sweep for the time when the oldest idle session expires."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        used = [each.used for each in self._all if not each.busy]
        if used and not self._closed:
            wait = max(0.0, min(used) + self.idle_seconds - self.clock())
            self._timer = threading.Timer(wait, self.sweep)
            self._timer.daemon = True
            self._timer.start()


def _close(sessions: list[_Session[P]]) -> None:
    for each in sessions:
        if each.process is not None:
            each.process.close()

"""Real time, and a thread for timers."""

from __future__ import annotations

import datetime
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from genai_host.util.forking import renew_after_fork

_log = logging.getLogger(__name__)

_QUARTER = 900  # seconds
_MAX_WAIT = 3600.0  # systems limit the length of a wait


class SystemClock:
    """The system's time. The thread for timers starts with the first `call_later`."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._closed = False
        # and the quarter of an hour that it is valid for: no offset changes within one, and a
        # look-up takes five times as long as the time and a lock of libc
        self._zone: tuple[int, datetime.tzinfo | None] = (-1, None)
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin without timers: a forked process has those of its parent, but not its thread."""
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._released = 0
        # reentrant: the garbage collector may close a generator here that releases a timer
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime.datetime:
        moment = time.time()
        quarter = int(moment // _QUARTER)
        known, zone = self._zone
        if known != quarter:
            zone = datetime.datetime.fromtimestamp(moment).astimezone().tzinfo
            self._zone = quarter, zone
        return datetime.datetime.fromtimestamp(moment, zone)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(callback, self._forget)
        due = time.monotonic() + seconds
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
                self._thread.start()
            heapq.heappush(self._alarms, (due, next(self._order), alarm))
            if self._alarms[0][2] is alarm:
                self._changed.notify()
        return alarm

    def close(self) -> None:
        """End the thread; pending timers never fire."""
        with self._changed:
            self._closed = True
            self._alarms.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._is_due():
                    self._changed.wait(self._seconds_to_wait())
                if self._closed:
                    return
                alarm = heapq.heappop(self._alarms)[2]
            _ring(alarm)

    def _seconds_to_wait(self) -> float | None:
        if not self._alarms:
            return None
        return min(self._alarms[0][0] - time.monotonic(), _MAX_WAIT)

    def _is_due(self) -> bool:
        return bool(self._alarms) and self._alarms[0][0] <= time.monotonic()

    def _forget(self) -> None:
        """Remove released timers once they are the majority; most are released long before they are
        due."""
        with self._lock:
            self._released += 1
            if self._released > 64 and self._released * 2 > len(self._alarms):
                # in place, since `call_later` may be about to add to it in this thread
                self._alarms[:] = [entry for entry in self._alarms if entry[2].is_set()]
                heapq.heapify(self._alarms)
                self._released = 0


class Alarm:
    """A timer; a context manager that cancels it on exit."""

    def __init__(self, callback: Callable[[], None], on_release: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback
        self._on_release = on_release

    def is_set(self) -> bool:
        return self._callback is not None

    def ring(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def release(self) -> None:
        if self._callback is not None:
            self._callback = None
            self._on_release()

    def __enter__(self) -> Alarm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _ring(alarm: Alarm) -> None:
    """Run a callback; an exception must not end the thread of all timers."""
    try:
        alarm.ring()
    except BaseException:  # noqa: BLE001 - the next timer must run in any case
        _log.warning("a timer callback failed", exc_info=True)

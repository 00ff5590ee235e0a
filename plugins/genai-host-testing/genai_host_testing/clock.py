"""A clock that tests control."""

from __future__ import annotations

import datetime
import math
import threading
from collections.abc import Callable

_BEGINNING = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class ManualClock:
    """A `Clock` that stands still until `advance`.

    To wait for a callback scheduled by another thread, use `wait_for_alarm_in`, or
    `wait_for_alarms` if the number of all callbacks is known; the host schedules some for its
    timeouts.
    """

    def __init__(self) -> None:
        self._time = 0.0
        self._alarms: list[_Alarm] = []
        self._changed = threading.Condition()

    def monotonic(self) -> float:
        return self._time

    def now(self) -> datetime.datetime:
        return _BEGINNING + datetime.timedelta(seconds=self._time)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> _Alarm:
        with self._changed:
            alarm = _Alarm(self, self._time + seconds, callback)
            self._alarms.append(alarm)
            self._changed.notify_all()
        return alarm

    def advance(self, seconds: float) -> None:
        """Advance the clock; due callbacks are called in order by this thread."""
        with self._changed:
            self._time += seconds
            due = sorted((a for a in self._alarms if a.due <= self._time), key=lambda a: a.due)
            self._alarms = [alarm for alarm in self._alarms if alarm not in due]
        for alarm in due:
            alarm.callback()

    def wait_for_alarms(self, count: int, *, within: float = 30.0) -> None:
        """Wait, in real time, until this number of callbacks is scheduled."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._alarms) >= count, within):
                raise TimeoutError(f"{len(self._alarms)} alarms are set, not {count}")

    def wait_for_alarm_in(self, seconds: float, *, within: float = 30.0) -> None:
        """Wait, in real time, until a callback is scheduled that is due in this number of
        seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_due_in(seconds), within):
                raise TimeoutError(f"alarms are due in {self.due_in()} s, none in {seconds:g} s")

    def due_in(self) -> list[float]:
        """Seconds until each scheduled callback."""
        with self._changed:
            return sorted(alarm.due - self._time for alarm in self._alarms)

    def _is_due_in(self, seconds: float) -> bool:
        return any(math.isclose(due, seconds, abs_tol=1e-9) for due in self.due_in())

    def _forget(self, alarm: _Alarm) -> None:
        with self._changed:
            if alarm in self._alarms:
                self._alarms.remove(alarm)


class _Alarm:
    def __init__(self, clock: ManualClock, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback = callback
        self._clock = clock

    def release(self) -> None:
        self._clock._forget(self)

    def __enter__(self) -> _Alarm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

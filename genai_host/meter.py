"""Counts calls of models that are on no record, for the statistics of the store.

They are written together, some seconds after the first of them: a process that is killed
loses those alone, and no call waits for the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from attrs import frozen

from genai_host.api import Clock
from genai_host.errors import GenaiError, StoreError
from genai_host.observers import CallReport
from genai_host.route import Route
from genai_host.tally import Tally
from genai_host.tries import called

_log = logging.getLogger(__name__)
_PAUSE = 2.0  # seconds


class Meter:
    """Of one host.

    write   adds them to the statistics; may raise `StoreError`
    """

    def __init__(self, write: Callable[[Tally], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._lock = threading.Lock()
        self._tally = Tally()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def toll(self, user: str, feature: str = "") -> MeterToll:
        """What counts the calls of a user."""
        return MeterToll(self, user, feature)

    def count(
        self, user: str, feature: str, route: Route, error: GenaiError | None, report: CallReport
    ) -> None:
        call = called(route.info, self._clock, error, report)
        if call is None:
            return
        with self._lock:
            self._tally.count(user, feature, call)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            tally, self._tally = self._tally, Tally()
        if not tally:
            return
        try:
            self._write(tally)
        except StoreError as error:
            _log.warning("%d calls are not in the statistics: %s", tally.calls, error)

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()
        self.flush()

    def _run(self) -> None:
        self._closing.wait(_PAUSE)
        with self._lock:
            self._thread = None
        self.flush()


@frozen
class MeterToll:
    """The `Toll` of a user's calls."""

    _meter: Meter
    _user: str
    _feature: str

    def enter(self, route: Route) -> None:
        pass

    def leave(self, route: Route, error: GenaiError | None, report: CallReport) -> None:
        self._meter.count(self._user, self._feature, route, error, report)

"""Usage of calls: recorded per call, aggregated with latency histograms.

Calls are added up by day, user, feature, model, provider and outcome. Durations are counted in four
buckets for each doubling, so that percentiles can be computed for any sum of days, to within a
tenth.

`UsageRecorder` counts calls that are in no event log. They are written together, some seconds after
the first of them: a process that is killed loses only these calls, and no call waits for the store.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from attrs import define, frozen

from genai_host.api import Clock
from genai_host.calls.retry import Attempt, called
from genai_host.calls.route import Route
from genai_host.errors import GenaiError, StoreError
from genai_host.plugins.observers import CallRecord
from genai_host.util import concurrency

COUNTED_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
DOUBLING = 4  # buckets per doubling
MIN_SECONDS = 0.001  # seconds; shorter calls are in the first bucket
_DAY = 86400  # seconds
_MAX_AMOUNT = 1e12


class UsageKey(NamedTuple):
    """Key of a group of calls.

    Attributes:
        day: Day in UTC, for example `2030-01-31`.
        feature: Name of the feature; empty for none.
        code: Code of the error; empty for a success.
        bucket: Bucket of the duration; see `bucket_of`.
    """

    day: str
    owner: str
    feature: str
    provider: str
    model: str
    code: str
    bucket: int


@define
class UsageTotals:
    """Usage of a group of calls.

    Attributes:
        dollars: US dollars of the calls with a known cost.
        unknown: Number of calls with an unknown cost.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    dollars: float = 0.0
    unknown: int = 0
    seconds: float = 0.0
    slowest: float = 0.0


class UsageAggregate:
    """Usage totals that are not yet stored. Not thread-safe."""

    def __init__(self) -> None:
        self._sums: dict[UsageKey, UsageTotals] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    @property
    def calls(self) -> int:
        return sum(each.calls for each in self._sums.values())

    def count(self, user: str, feature: str, call: Attempt) -> None:
        """Add a call that has just ended."""
        tokens = {name: getattr(call.usage, name) for name in COUNTED_TOKENS}
        place = {"provider": call.route.provider, "model": call.route.model}
        when = {"started": call.started, "seconds": call.seconds}
        self.add(user, feature, {**tokens, **place, **when, "code": call.code, "cost": call.cost})

    def add(self, user: str, feature: str, call: Mapping[str, Any]) -> None:
        """Add a recorded call, which may contain invalid values."""
        seconds = amount(call["seconds"]) or 0.0
        day, bucket = day_of(amount(call["started"]) or 0.0), bucket_of(seconds)
        code = call["code"] or ""
        key = UsageKey(day, user, feature, call["provider"], call["model"], code, bucket)
        sums = self._sums.setdefault(key, UsageTotals())
        sums.calls += 1
        sums.seconds += seconds
        sums.slowest = max(sums.slowest, seconds)
        if call["cost"] is None:
            sums.unknown += 1
        else:
            sums.dollars += call["cost"]
        for name in COUNTED_TOKENS:
            setattr(sums, name, getattr(sums, name) + (call[name] or 0))

    def __iter__(self) -> Iterator[tuple[UsageKey, UsageTotals]]:
        """In the order of the keys, so that concurrent writers do not deadlock."""
        return iter(sorted(self._sums.items(), key=lambda each: each[0]))


def day_of(moment: float) -> str:
    """The day in UTC, for example `2030-01-31`."""
    try:
        return _day(int(moment // _DAY))
    except (OverflowError, ValueError, OSError):  # an imported event log may contain any value
        return "1970-01-01"


@functools.lru_cache(maxsize=64)
def _day(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(number * _DAY))


def bucket_of(seconds: float) -> int:
    """The bucket of a duration: bucket n has durations above n - 1 and up to n quarters of a
    doubling, starting at one millisecond."""
    if seconds <= MIN_SECONDS:
        return 0
    return math.ceil(DOUBLING * math.log2(seconds / MIN_SECONDS))


def middle_of(bucket: int) -> float:
    """The middle of a bucket in seconds."""
    return MIN_SECONDS * float(2.0 ** ((bucket - 0.5) / DOUBLING)) if bucket else MIN_SECONDS


def amount(value: Any) -> float | None:
    """A recorded number of seconds or US dollars, which may come from an imported event log; None
    if it is invalid."""
    is_amount = type(value) in (int, float) and 0 <= value <= _MAX_AMOUNT
    return float(value) if is_amount else None


_log = logging.getLogger(__name__)
_PAUSE = 2.0  # seconds


class UsageRecorder:
    """Counts the calls of a host that are in no event log."""

    def __init__(self, write: Callable[[UsageAggregate], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._lock = threading.Lock()
        self._tally = UsageAggregate()
        self._thread: threading.Thread | None = None
        self._closing = concurrency.new_event()

    def middleware(self, user: str, feature: str = "") -> UsageMiddleware:
        """The middleware that counts the calls of a user."""
        return UsageMiddleware(self, user, feature)

    def count(
        self, user: str, feature: str, route: Route, error: GenaiError | None, report: CallRecord
    ) -> None:
        call = called(route.info, self._clock, error, report)
        if call is None:
            return
        with self._lock:
            self._tally.count(user, feature, call)
            if self._thread is None and not self._closing.is_set():
                self._thread = concurrency.new_thread("meter", self._run)
                self._thread.start()

    def flush(self) -> None:
        """Write totals that are not yet stored."""
        with self._lock:
            tally, self._tally = self._tally, UsageAggregate()
        if not tally:
            return
        try:
            self._write(tally)
        except StoreError as error:
            _log.warning("usage of %d calls was not stored: %s", tally.calls, error)

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
class UsageMiddleware:
    """The `CallMiddleware` for the calls of a user."""

    _meter: UsageRecorder
    _user: str
    _feature: str

    def enter(self, route: Route, report: CallRecord) -> None:
        pass

    def leave(self, route: Route, error: GenaiError | None, report: CallRecord) -> None:
        self._meter.count(self._user, self._feature, route, error, report)

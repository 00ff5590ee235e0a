"""Sums of calls."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from genai_host.api import RouteInfo, Usage
from genai_host.calls.retry import Attempt
from genai_host.errors import StoreError
from genai_host.plugins.observers import CallRecord
from genai_host.usage.metering import (
    UsageAggregate,
    UsageKey,
    UsageRecorder,
    UsageTotals,
    amount,
    bucket_of,
    day_of,
    middle_of,
)
from genai_host_testing import ManualClock

NOON = 1_900_000_000.0  # 2030-03-17


def recorded(**options: Any) -> UsageAggregate:
    tally = UsageAggregate()
    call = {"model": "m", "provider": "p", "code": None, "started": NOON, "seconds": 1.0}
    tokens = {"input_tokens": 1, "output_tokens": 2, "cached_tokens": 3, "reasoning_tokens": 4}
    tally.add("ann", "chat", {**call, **tokens, "cost": 0.5, **options})
    return tally


def test_a_call_that_has_just_ended_is_counted_as_one_on_record() -> None:
    usage = Usage(1, 2, cached_tokens=3, reasoning_tokens=4)
    call = Attempt(RouteInfo("m", "p", "d"), NOON, 1.0, "", usage=usage, cost=0.5)
    tally = UsageAggregate()
    tally.count("ann", "chat", call)
    key = UsageKey("2030-03-17", "ann", "chat", "p", "m", "", bucket_of(1.0))
    assert list(tally) == list(recorded()) == [(key, UsageTotals(1, 1, 2, 3, 4, 0.5, 0, 1.0, 1.0))]


def test_calls_that_have_all_in_common_are_one_sum() -> None:
    tally = UsageAggregate()
    assert not tally
    for seconds, cost in ((1.0, 0.5), (1.01, None)):
        tally.count("ann", "", Attempt(RouteInfo("m", "p", "d"), NOON, seconds, "", cost=cost))
    tally.count("bob", "", Attempt(RouteInfo("m", "p", "d"), NOON, 1.0, "timed_out"))
    [(_, anns), (key, bobs)] = tally
    assert (anns.calls, anns.dollars, anns.unknown) == (2, 0.5, 1)
    assert anns.seconds == pytest.approx(2.01)
    assert anns.slowest == 1.01
    assert (key.owner, key.code, bobs.calls, tally.calls) == ("bob", "timed_out", 1, 3)


def test_numbers_of_elsewhere_break_nothing() -> None:
    for value in (-1.0, float("inf"), float("nan"), 1e300, "x", None, True):
        recorded(started=value, seconds=value)
    [(key, sums)] = recorded(seconds=-1.0)
    assert (key.bucket, sums.seconds) == (0, 0.0)
    [(key, _)] = recorded(started=1e300)
    assert key.day == "1970-01-01"
    assert day_of(1e18) == "1970-01-01"


def test_tokens_that_were_not_reported_are_none() -> None:
    [(_, sums)] = recorded(
        input_tokens=None, output_tokens=None, cached_tokens=None, reasoning_tokens=None
    )
    assert sums == UsageTotals(1, 0, 0, 0, 0, 0.5, 0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [(0, True), (1.5, True), (1e12, True), (1e12 + 1, False), (-1, False), (True, False)],
)
def test_amounts_are_from_zero_to_a_limit(value: float, is_valid: bool) -> None:
    assert amount(value) == (value if is_valid else None)


def test_buckets() -> None:
    assert [bucket_of(seconds) for seconds in (0, 0.001, 0.0011, 0.002)] == [0, 0, 1, 4]
    assert [bucket_of(middle_of(bucket)) for bucket in range(80)] == list(range(80))


def call(recorder: UsageRecorder, sent: float | None = 0.0) -> None:
    """Of ann, by the chat."""
    report = CallRecord()
    report.sent = sent
    route: Any = SimpleNamespace(info=RouteInfo("m", "p", "d"))
    toll = recorder.middleware("ann", "chat")
    toll.enter(route, report)
    toll.leave(route, None, report)


def test_calls_are_written_once_together(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[UsageAggregate] = []
    waits: list[float | None] = []

    class UntilSet(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return super().wait()

    monkeypatch.setattr("genai_host.usage.metering.concurrency.new_event", UntilSet)
    recorder = UsageRecorder(written.append, ManualClock())
    recorder.flush()
    call(recorder, sent=None)  # none was made
    for _ in range(3):
        call(recorder)
    recorder.close()
    recorder.flush()
    assert [each.calls for each in written] == [3]
    assert waits == [2.0]
    assert {(key.owner, key.feature) for each in written for key, _ in each} == {("ann", "chat")}


def test_a_call_that_ends_after_the_writer_did_is_written_by_who_closes() -> None:
    written: list[UsageAggregate] = []
    recorder = UsageRecorder(written.append, ManualClock())
    recorder.close()
    call(recorder)
    assert written == []
    recorder.close()
    assert [each.calls for each in written] == [1]


def test_calls_that_cannot_be_written_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    tried: list[UsageAggregate] = []

    def write(calls: UsageAggregate) -> None:
        tried.append(calls)
        raise StoreError("disk full", file="/x")

    recorder = UsageRecorder(write, ManualClock())
    call(recorder)
    recorder.close()
    recorder.flush()
    assert [each.calls for each in tried] == [1]
    assert [each.message for each in caplog.records] == [
        "usage of 1 calls was not stored: disk full"
    ]

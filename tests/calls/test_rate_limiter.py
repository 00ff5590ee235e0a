"""Rate limits of models."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from genai_host.api import Cancellation, RateLimit, RouteInfo
from genai_host.api.cancellation import Registration
from genai_host.calls.rate_limiter import RateLimiter
from genai_host.errors import Cancelled
from genai_host_testing import ManualClock

A, B = RouteInfo("a", "mock", "plain"), RouteInfo("b", "mock", "plain")
TWO = RateLimit(2, 1.0)


class InLine(Cancellation):
    """Tells when somebody waits under it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        registration = super().on_cancel(wake)
        self.waits.set()
        return registration


class Caller(threading.Thread):
    """Waiter for one call."""

    def __init__(self, wait: Callable[[Cancellation], None]) -> None:
        super().__init__(daemon=True)
        self.cancellation = InLine()
        self.error: Exception | None = None
        self._wait = wait
        self.start()

    def run(self) -> None:
        try:
            self._wait(self.cancellation)
        except Cancelled as error:
            self.error = error

    def wait_until_in_line(self) -> None:
        assert self.cancellation.waits.wait(30)

    def is_through(self) -> bool:
        self.join(30)
        return not self.is_alive() and self.error is None


@pytest.fixture
def rates(clock: ManualClock) -> RateLimiter:
    return RateLimiter(clock)


def test_calls_over_the_rate_wait_until_the_first_is_old(
    rates: RateLimiter, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms: list[float] = []
    call_later = clock.call_later

    def note(seconds: float, callback: Callable[[], None]) -> Any:
        alarms.append(seconds)
        return call_later(seconds, callback)

    monkeypatch.setattr(clock, "call_later", note)
    rates.wait(A, TWO, Cancellation())
    clock.advance(0.25)
    rates.wait(A, TWO, Cancellation())
    third = Caller(lambda cancellation: rates.wait(A, TWO, cancellation))
    clock.wait_for_alarm_in(0.75)
    fourth = Caller(lambda cancellation: rates.wait(A, TWO, cancellation))
    fourth.wait_until_in_line()
    clock.advance(0.75)
    assert third.is_through()
    clock.wait_for_alarm_in(0.25)
    assert fourth.is_alive()
    clock.advance(0.25)
    assert fourth.is_through()
    assert alarms == [0.75, 0.25]  # it does not poll


def test_who_gives_up_leaves_the_place_to_the_next(rates: RateLimiter, clock: ManualClock) -> None:
    one = RateLimit(1, 1.0)
    rates.wait(A, one, Cancellation())
    callers = []
    for _ in range(4):
        callers.append(Caller(lambda cancellation: rates.wait(A, one, cancellation)))
        callers[-1].wait_until_in_line()
    for gives_up in (callers[2], callers[0]):
        gives_up.cancellation.cancel()
        gives_up.join(30)
        assert isinstance(gives_up.error, Cancelled)
    clock.wait_for_alarm_in(1.0)
    clock.advance(1.0)
    assert callers[1].is_through()
    clock.wait_for_alarm_in(1.0)
    clock.advance(1.0)
    assert callers[3].is_through()


def test_who_waits_for_others_sets_no_alarm(rates: RateLimiter, clock: ManualClock) -> None:
    rates.wait(A, RateLimit(1, 1.0), Cancellation())
    callers = [
        Caller(lambda cancellation: rates.wait(A, RateLimit(1, 1.0), cancellation))
        for _ in range(3)
    ]
    for caller in callers:
        caller.wait_until_in_line()
    clock.wait_for_alarm_in(1.0)
    assert clock.due_in() == [1.0]
    for caller in callers:
        caller.cancellation.cancel()
        caller.join(30)


def test_another_rate_holds_once_no_call_counts_any_more(
    rates: RateLimiter, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    rates.wait(A, RateLimit(1, 1.0), Cancellation())
    clock.advance(1.0)
    for _ in range(2):
        rates.wait(A, TWO, Cancellation())
    assert not caplog.records


def test_a_call_that_is_cancelled_already_takes_no_place(rates: RateLimiter) -> None:
    ended = Cancellation()
    ended.cancel()
    with pytest.raises(Cancelled):
        rates.wait(A, RateLimit(1, 1.0), ended)
    rates.wait(A, RateLimit(1, 1.0), Cancellation())


def test_another_rate_is_told_of_once_and_not_kept_to(
    rates: RateLimiter, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        rates.wait(A, TWO, Cancellation())
        rates.wait(B, RateLimit(1, 1.0), Cancellation())
        assert not caplog.records
        rates.wait(A, RateLimit(5, 1.0), Cancellation())
        (record,) = caplog.records
        assert record.getMessage() == (
            "a@mock: rate limit at most 2 times in 1 s remains in effect, "
            "at most 5 times in 1 s is ignored"
        )
        third = Caller(lambda cancellation: rates.wait(A, RateLimit(5, 1.0), cancellation))
        clock.wait_for_alarm_in(1.0)
        clock.advance(1.0)
        assert third.is_through()
        assert len(caplog.records) == 1

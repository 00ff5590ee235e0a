"""Rate limits of models."""

from __future__ import annotations

import logging
import threading
from unittest import mock

import pytest
from stand_ins import AwaitedCancellation

from genai_host.api import Cancellation, RateLimit, RouteInfo
from genai_host.calls.rate_limiter import RateLimiter
from genai_host.errors import Cancelled
from genai_host_testing import ManualClock

A, B = RouteInfo("a", "mock", "plain"), RouteInfo("b", "mock", "plain")
ONE, TWO = RateLimit(1, 1.0), RateLimit(2, 1.0)


class Caller(threading.Thread):
    """Waits for one call of the model `a`."""

    def __init__(self, rates: RateLimiter, limit: RateLimit) -> None:
        super().__init__(daemon=True)
        self.cancellation = AwaitedCancellation()
        self.error: Exception | None = None
        self._rates, self._limit = rates, limit
        self.start()

    def run(self) -> None:
        try:
            self._rates.wait(A, self._limit, self.cancellation)
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
    call_later = mock.Mock(side_effect=clock.call_later)
    monkeypatch.setattr(clock, "call_later", call_later)
    rates.wait(A, TWO, Cancellation())
    clock.advance(0.25)
    rates.wait(A, TWO, Cancellation())
    third = Caller(rates, TWO)
    clock.wait_for_alarm_in(0.75)
    fourth = Caller(rates, TWO)
    fourth.wait_until_in_line()
    clock.advance(0.75)
    assert third.is_through()
    clock.wait_for_alarm_in(0.25)
    assert fourth.is_alive()
    clock.advance(0.25)
    assert fourth.is_through()
    assert [call.args[0] for call in call_later.mock_calls] == [0.75, 0.25]  # it does not poll


def test_cancelled_caller_frees_its_place(rates: RateLimiter, clock: ManualClock) -> None:
    rates.wait(A, ONE, Cancellation())
    callers = []
    for _ in range(4):
        callers.append(Caller(rates, ONE))
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
    rates.wait(A, ONE, Cancellation())
    callers = [Caller(rates, ONE) for _ in range(3)]
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
    rates.wait(A, ONE, Cancellation())
    clock.advance(1.0)
    for _ in range(2):
        rates.wait(A, TWO, Cancellation())
    assert not caplog.records


def test_a_call_that_is_cancelled_already_takes_no_place(rates: RateLimiter) -> None:
    ended = Cancellation()
    ended.cancel()
    with pytest.raises(Cancelled):
        rates.wait(A, ONE, ended)
    rates.wait(A, ONE, Cancellation())


def test_another_rate_is_told_of_once_and_not_kept_to(
    rates: RateLimiter, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        rates.wait(A, TWO, Cancellation())
        rates.wait(B, ONE, Cancellation())
        assert not caplog.records
        rates.wait(A, RateLimit(5, 1.0), Cancellation())
        (record,) = caplog.records
        assert record.getMessage() == (
            "a@mock: rate limit at most 2 times in 1 s remains in effect, "
            "at most 5 times in 1 s is ignored"
        )
        third = Caller(rates, RateLimit(5, 1.0))
        clock.wait_for_alarm_in(1.0)
        clock.advance(1.0)
        assert third.is_through()
        assert len(caplog.records) == 1

"""How often models may be called."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from genai_host.api import Rate, RouteInfo
from genai_host.cancellation import Cancellation
from genai_host.errors import Cancelled
from genai_host.rates import Rates
from genai_host.testing import ManualClock

A, B = RouteInfo("a", "mock", "plain"), RouteInfo("b", "mock", "plain")
TWO = Rate(2, 1.0)


class Caller(threading.Thread):
    """Waits for one call."""

    def __init__(self, wait: Callable[[Cancellation], None]) -> None:
        super().__init__(daemon=True)
        self.cancellation = Cancellation()
        self.error: Exception | None = None
        self._wait = wait
        self.start()

    def run(self) -> None:
        try:
            self._wait(self.cancellation)
        except Cancelled as error:
            self.error = error

    def is_through(self) -> bool:
        self.join(30)
        return not self.is_alive() and self.error is None


@pytest.fixture
def rates(clock: ManualClock) -> Rates:
    return Rates(clock)


def test_calls_over_the_rate_wait_until_the_first_is_old(rates: Rates, clock: ManualClock) -> None:
    rates.wait(A, TWO, Cancellation())
    clock.advance(0.25)
    rates.wait(A, TWO, Cancellation())
    third = Caller(lambda cancellation: rates.wait(A, TWO, cancellation))
    clock.wait_for_alarm_in(0.75)
    fourth = Caller(lambda cancellation: rates.wait(A, TWO, cancellation))
    clock.wait_for_alarm_in(1.0)
    clock.advance(0.75)
    assert third.is_through()
    clock.wait_for_alarm_in(0.25)
    assert fourth.is_alive()
    clock.advance(0.25)
    assert fourth.is_through()


def test_who_gives_up_leaves_the_place_to_the_next(rates: Rates, clock: ManualClock) -> None:
    one = Rate(1, 1.0)
    rates.wait(A, one, Cancellation())
    callers = []
    for seconds in (1.0, 2.0, 3.0):
        callers.append(Caller(lambda cancellation: rates.wait(A, one, cancellation)))
        clock.wait_for_alarm_in(seconds)
    callers[0].cancellation.cancel()
    callers[0].join(30)
    assert isinstance(callers[0].error, Cancelled)
    clock.advance(1.0)
    assert callers[1].is_through()
    clock.advance(1.0)
    assert callers[2].is_through()


def test_a_call_that_is_cancelled_already_takes_no_place(rates: Rates) -> None:
    ended = Cancellation()
    ended.cancel()
    with pytest.raises(Cancelled):
        rates.wait(A, Rate(1, 1.0), ended)
    rates.wait(A, Rate(1, 1.0), Cancellation())


def test_another_rate_is_told_of_once_and_not_kept_to(
    rates: Rates, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        rates.wait(A, TWO, Cancellation())
        rates.wait(B, Rate(1, 1.0), Cancellation())
        assert not caplog.records
        rates.wait(A, Rate(5, 1.0), Cancellation())
        (record,) = caplog.records
        assert record.getMessage() == (
            "a@mock is called at most 2 times in 1 s: that stays, "
            "and at most 5 times in 1 s is not kept to"
        )
        third = Caller(lambda cancellation: rates.wait(A, Rate(5, 1.0), cancellation))
        clock.wait_for_alarm_in(1.0)
        clock.advance(1.0)
        assert third.is_through()
        assert len(caplog.records) == 1

"""How many calls are let through at once, and who waits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock

import pytest

from genai_host.api import Cancellation
from genai_host.api.cancellation import Registration
from genai_host.errors import Cancelled, RateLimited
from genai_host.providers.limits import ConcurrencyLimiter


class Waiting(Cancellation):
    """Limits that tell when somebody waits under them."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = Event()

    def on_cancel(self, wake: object) -> Registration:
        registration = super().on_cancel(wake)  # type: ignore[arg-type]
        self.waits.set()
        return registration


def test_without_a_bound_all_pass() -> None:
    gate = ConcurrencyLimiter()
    with gate.passed(Cancellation()), gate.passed(Cancellation()):
        assert gate.inside == 0  # nobody counts


def test_at_most_so_many_are_through() -> None:
    gate, lock = ConcurrencyLimiter(max_concurrency=3, queue_size=100), Lock()
    inside = most = 0
    together = Barrier(3)

    def call(_: int) -> None:
        nonlocal inside, most
        with gate.passed(Cancellation()):
            with lock:
                inside += 1
                most = max(most, inside)
            together.wait(10)  # nobody goes on before three are here
            with lock:
                inside -= 1

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(call, range(30)))
    assert (most, gate.inside) == (3, 0)


def test_beyond_the_line_calls_are_refused_with_when_to_come_again() -> None:
    gate = ConcurrencyLimiter(max_concurrency=1, queue_size=0)
    with gate.passed(Cancellation()):
        with pytest.raises(RateLimited) as caught, gate.passed(Cancellation()):
            pass
        assert caught.value.retry_after
        assert not caught.value.retryable
    with gate.passed(Cancellation()):
        pass


def test_who_waits_can_be_cancelled_and_leaves_the_line() -> None:
    gate, limits = ConcurrencyLimiter(max_concurrency=1, queue_size=1), Waiting()

    def call() -> None:
        with gate.passed(limits):
            pass

    with ThreadPoolExecutor(1) as pool:
        with gate.passed(Cancellation()):
            pending = pool.submit(call)
            assert limits.waits.wait(10)
            limits.cancel()
            with pytest.raises(Cancelled):
                pending.result(10)
        assert gate.inside == 0
        with gate.passed(Cancellation()):
            pass


def test_first_come_first_served() -> None:
    gate, order = ConcurrencyLimiter(max_concurrency=1, queue_size=5), list[int]()
    waiters = [Waiting() for _ in range(5)]

    def call(number: int) -> None:
        with gate.passed(waiters[number]):
            order.append(number)

    with ThreadPoolExecutor(5) as pool, gate.passed(Cancellation()):
        for number in range(5):
            pool.submit(call, number)
            assert waiters[number].waits.wait(10)
    assert order == [0, 1, 2, 3, 4]
    assert gate.inside == 0


def test_a_place_is_not_lost_when_its_call_fails() -> None:
    gate = ConcurrencyLimiter(max_concurrency=1, queue_size=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), gate.passed(Cancellation()):
            _ = 1 / 0
    assert gate.inside == 0

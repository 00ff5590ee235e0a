"""Concurrency limits, waiting callers, and circuit breakers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock

import pytest
from stand_ins import AwaitedCancellation

from genai_host.api import Cancellation
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    Cancelled,
    CircuitOpen,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    PluginError,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
from genai_host.providers.limits import CircuitBreakers, ConcurrencyLimiter
from genai_host_testing import ManualClock


def test_without_a_bound_all_calls_pass() -> None:
    gate = ConcurrencyLimiter()
    with gate.passed(Cancellation()), gate.passed(Cancellation()):
        assert gate.inside == 0  # nobody counts


def test_concurrency_is_limited() -> None:
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
    gate, limits = ConcurrencyLimiter(max_concurrency=1, queue_size=1), AwaitedCancellation()

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
    waiters = [AwaitedCancellation() for _ in range(5)]

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


@pytest.fixture
def breaker(clock: ManualClock) -> CircuitBreakers:
    return CircuitBreakers(clock, failures=3, seconds=30)


def call(breaker: CircuitBreakers, error: BaseException | None = None, model: str = "m") -> str:
    """What becomes of one call: `done`, `open`, or the error's name."""
    try:
        with breaker.attempt(model):
            if error is not None:
                raise error
    except CircuitOpen:
        return "open"
    except BaseException as raised:  # noqa: BLE001 - any of them
        return type(raised).__name__
    return "done"


def fail(breaker: CircuitBreakers, times: int) -> None:
    for _ in range(times):
        call(breaker, ServiceUnavailable("x"))


def test_failures_in_a_row_open_it(breaker: CircuitBreakers) -> None:
    assert [call(breaker, ServiceUnavailable("x")) for _ in range(3)] == ["ServiceUnavailable"] * 3
    assert call(breaker) == "open"


@pytest.mark.parametrize("error", [
    AuthenticationFailed("x", status=401),
    BadRequest("x", status=400),
    RateLimited("x", status=429),
    ServiceUnavailable("x", status=409),
    MalformedReply("x"),
    Cancelled("x"),
    PluginError("x"),
    GeneratorExit(),
    KeyboardInterrupt(),
], ids=repr)  # fmt: skip
def test_what_says_nothing_does_not(breaker: CircuitBreakers, error: BaseException) -> None:
    for _ in range(10):
        call(breaker, error)
    assert call(breaker) == "done"


@pytest.mark.parametrize("error", [
    ServiceUnavailable("x", status=500),
    ServiceUnavailable("x", status=503),
    IncompleteReply("x"),
    ProviderTimeout("x", deadline="first_token_timeout"),
    ProviderTimeout("x", deadline="timeout"),
    ProviderTimeout("x"),
], ids=repr)  # fmt: skip
def test_replies_of_one_model_count_alone(breaker: CircuitBreakers, error: GenaiError) -> None:
    for _ in range(10):
        call(breaker, error, "odd")
    assert call(breaker, model="odd") == "open"
    assert call(breaker, model="good") == "done"


@pytest.mark.parametrize(
    "error", [ServiceUnavailable("x"), ProviderTimeout("x", deadline="connect_timeout")], ids=repr
)
def test_connections_that_fail_count_for_all(breaker: CircuitBreakers, error: GenaiError) -> None:
    for model in "abc":
        call(breaker, error, model)
    assert call(breaker, model="d") == "open"


def test_models_that_are_asked_once_cost_no_memory(breaker: CircuitBreakers) -> None:
    for number in range(1000):
        call(breaker, ServiceUnavailable("x", status=500), str(number))
    assert len(breaker._models) <= 256


def test_a_success_in_between_counts_anew(breaker: CircuitBreakers) -> None:
    for _ in range(5):
        fail(breaker, 2)
        assert call(breaker) == "done"


@pytest.mark.parametrize(("error", "message"), [
    (ServiceUnavailable("cannot connect to http://x"), "cannot connect to http://x"),
    (ServiceUnavailable("upstream: the prompt was ...", status=503), "HTTP status 503"),
    (IncompleteReply("it says: ..."), "incomplete_reply"),
], ids=["not reached", "refused", "cut"])  # fmt: skip
def test_it_says_what_failed_and_when_to_come_again_but_quotes_no_reply(
    breaker: CircuitBreakers, clock: ManualClock, error: GenaiError, message: str
) -> None:
    for _ in range(3):
        call(breaker, error)
    clock.advance(10)
    with pytest.raises(CircuitOpen) as caught, breaker.attempt("m"):
        pass
    assert caught.value.retry_after == pytest.approx(20)
    assert str(caught.value).endswith(f"after 3 failures in a row, the last: {message}")


def test_after_a_while_one_call_is_let_in(breaker: CircuitBreakers, clock: ManualClock) -> None:
    fail(breaker, 3)
    clock.advance(30)
    with breaker.attempt("m"):
        assert [call(breaker) for _ in range(5)] == ["open"] * 5
    assert [call(breaker) for _ in range(5)] == ["done"] * 5


def test_if_that_one_fails_it_is_open_again(breaker: CircuitBreakers, clock: ManualClock) -> None:
    fail(breaker, 3)
    clock.advance(30)
    fail(breaker, 1)
    assert call(breaker) == "open"
    clock.advance(29)
    assert call(breaker) == "open"
    clock.advance(1)
    assert call(breaker) == "done"


def test_if_it_is_cancelled_the_next_decides(breaker: CircuitBreakers, clock: ManualClock) -> None:
    fail(breaker, 3)
    clock.advance(30)
    assert call(breaker, Cancelled("x")) == "Cancelled"
    assert call(breaker, BadRequest("x", status=400)) == "BadRequest"
    assert call(breaker) == "done"
    fail(breaker, 2)
    assert call(breaker) == "done"

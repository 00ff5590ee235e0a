"""When a service is left alone, and when it is tried again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
from genai_host.providers.limits import CircuitBreakers
from genai_host_testing import ManualClock


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


@pytest.mark.parametrize(
    "make",
    [ServiceUnavailable, ProviderTimeout, IncompleteReply,
     lambda text: ServiceUnavailable(text, status=503)],
)  # fmt: skip
def test_failures_in_a_row_open_it(
    breaker: CircuitBreakers, make: Callable[[str], GenaiError]
) -> None:
    for _ in range(3):
        assert call(breaker, make("x")) != "open"
    assert call(breaker) == "open"


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationFailed("x", status=401),
        BadRequest("x", status=400),
        RateLimited("x", status=429),
        ServiceUnavailable("x", status=409),
        MalformedReply("x"),
        Cancelled("x"),
        PluginError("x"),
        GeneratorExit(),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_what_says_nothing_against_the_service_does_not(
    breaker: CircuitBreakers, error: BaseException
) -> None:
    for _ in range(10):
        call(breaker, error)
    assert call(breaker) == "done"


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailable("x", status=500),
        ServiceUnavailable("x", status=503),
        IncompleteReply("x"),
        ProviderTimeout("x", deadline="first_token_timeout"),
        ProviderTimeout("x", deadline="timeout"),
    ],
    ids=repr,
)
def test_replies_of_one_model_say_nothing_against_others(
    breaker: CircuitBreakers, error: GenaiError
) -> None:
    for _ in range(10):
        call(breaker, error, "odd")
    assert call(breaker, model="odd") == "open"
    assert call(breaker, model="good") == "done"


@pytest.mark.parametrize(
    "error", [ServiceUnavailable("x"), ProviderTimeout("x", deadline="connect_timeout")], ids=repr
)
def test_connections_that_fail_say_something_against_all(
    breaker: CircuitBreakers, error: GenaiError
) -> None:
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


def test_it_says_when_to_come_again(breaker: CircuitBreakers, clock: ManualClock) -> None:
    fail(breaker, 3)
    clock.advance(10)
    with pytest.raises(CircuitOpen) as caught, breaker.attempt("m"):
        pass
    assert caught.value.retry_after == pytest.approx(20)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ServiceUnavailable("cannot connect to http://x"), "cannot connect to http://x"),
        (ServiceUnavailable("upstream: the prompt was ...", status=503), "HTTP status 503"),
        (IncompleteReply("it says: ..."), "incomplete_reply"),
    ],
    ids=["not reached", "refused", "cut"],
)
def test_it_says_what_failed_but_quotes_no_reply(
    breaker: CircuitBreakers, error: GenaiError, told: str
) -> None:
    for _ in range(3):
        call(breaker, error)
    with pytest.raises(CircuitOpen) as caught, breaker.attempt("m"):
        pass
    assert str(caught.value).endswith(f"after 3 failures in a row, the last: {told}")


def test_after_a_while_exactly_one_call_is_let_through(
    breaker: CircuitBreakers, clock: ManualClock
) -> None:
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


def test_if_that_one_is_cancelled_the_next_decides(
    breaker: CircuitBreakers, clock: ManualClock
) -> None:
    fail(breaker, 3)
    clock.advance(30)
    assert call(breaker, Cancelled("x")) == "Cancelled"
    assert call(breaker, BadRequest("x", status=400)) == "BadRequest"
    assert call(breaker) == "done"
    fail(breaker, 2)
    assert call(breaker) == "done"

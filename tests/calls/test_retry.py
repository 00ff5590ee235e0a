"""How often a call is tried, over which routes, and how long it waits in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from genai_host import RetryPolicy
from genai_host.api import Cancellation, Completion, Delta, Message, RouteInfo
from genai_host.api.features import RetryWait
from genai_host.calls.retry import Retry, StepTrace, called, drained
from genai_host.calls.route import Route
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    Cancelled,
    CircuitOpen,
    ContextOverflow,
    GenaiError,
    IncompleteReply,
    InvalidParameter,
    RateLimited,
    ServiceUnavailable,
    UnsupportedPart,
)
from genai_host.plugins.observers import CallRecord
from genai_host_testing import FakeModel, ManualClock
from genai_host_testing.internal.fixtures import MakeHost

NO_WAIT = RetryPolicy(jitter=lambda _: 0.0)


def routes(*providers: str) -> list[Route]:
    return [
        cast(
            Route,
            SimpleNamespace(
                info=RouteInfo("m", name, "d"), candidate=SimpleNamespace(name=f"m@{name}")
            ),
        )
        for name in providers
    ]


class Service:
    """Does, call by call, what a test says: an error to raise, or an answer to give."""

    def __init__(self, **outcomes: Sequence[Any]) -> None:
        self._outcomes = {name: list(each) for name, each in outcomes.items()}
        self.calls: list[str] = []

    def call(self, route: Route, report: CallRecord) -> Any:
        self.calls.append(route.info.provider)
        outcomes = self._outcomes[route.info.provider]
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def unstreamed(self, route: Route, report: CallRecord) -> Generator[Delta, None, Any]:
        yield from ()
        return self.call(route, report)

    def stream(self, route: Route, report: CallRecord) -> Generator[Delta, None, str]:
        outcome = self.call(route, report)
        for piece in outcome[:-1]:
            yield Delta(piece)
        if isinstance(outcome[-1], Exception):
            raise outcome[-1]
        return "".join(outcome[:-1])


def answer(
    retry: Retry, service: Service, routes: Sequence[Route], cancellation: Cancellation
) -> Any:
    return drained(retry.stream(routes, cancellation, service.unstreamed))


def attempt(service: Service, *providers: str, patience: RetryPolicy = NO_WAIT) -> Any:
    """The answer, or the error."""
    try:
        return answer(Retry(ManualClock(), patience), service, routes(*providers), Cancellation())
    except GenaiError as error:
        return error


DOWN, SHUT = ServiceUnavailable("down"), CircuitOpen("shut", retry_after=9)


class TestHowOften:
    @pytest.mark.parametrize(("routes", "outcomes", "expected", "calls"), [
        pytest.param("a", {"a": ["yes"]}, "yes", "a", id="what succeeds is called once"),
        pytest.param("a", {"a": [DOWN]}, DOWN, "aaa", id="three times a route"),
        pytest.param(
            "abc",
            {each: [ServiceUnavailable(each)] for each in "abc"},
            ServiceUnavailable("c"),
            "aaabbc",
            id="six calls in all, and the last error is told",
        ),
        pytest.param(
            "aab",
            {"a": [DOWN], "b": ["yes"]},
            "yes",
            "aaab",
            id="the next route is one at another provider",
        ),
        pytest.param(
            "abb",
            {"a": [DOWN], "b": [UnsupportedPart("x"), "yes"]},
            "yes",
            "aaabb",
            id="another dialect there may be asked",
        ),
        pytest.param(
            "ab",
            {"a": [SHUT], "b": [DOWN, "yes"]},
            "yes",
            "abb",
            id="an open circuit is no call",
        ),
        pytest.param("a", {"a": [SHUT]}, SHUT, "a", id="nor is one of the last route"),
        *(
            pytest.param(
                "ab", {"a": [each], "b": ["never"]}, each, "a", id=f"no pass: {each!r}"
            )
            for each in (
                BadRequest("x", status=400),
                AuthenticationFailed("x", status=401),
                ContextOverflow("x", status=400),
                Cancelled("x"),
            )
        ),
    ])  # fmt: skip
    def test_calls(self, routes: str, outcomes: Any, expected: Any, calls: str) -> None:
        service = Service(**outcomes)
        assert attempt(service, *routes) == expected
        assert "".join(service.calls) == calls

    def test_what_may_pass_is_tried_again(self, caplog: pytest.LogCaptureFixture) -> None:
        service = Service(a=[ServiceUnavailable("1"), IncompleteReply("2"), "yes"])
        with caplog.at_level("INFO"):
            assert attempt(service, "a") == "yes"
            service = Service(a=[ServiceUnavailable("3")], b=["yes"])
            assert attempt(service, "a", "b", patience=RetryPolicy(max_attempts=1)) == "yes"
        assert caplog.messages == [
            "m@a failed (1): retrying in 0.0 s",
            "m@a failed (2): retrying in 0.0 s",
            "m@a failed (3): trying m@b",
        ]

    def test_each_provider_gets_an_attempt(self) -> None:
        service = Service(a=[DOWN], b=[DOWN], c=["yes"])
        assert attempt(service, "a", "b", "c") == "yes"
        assert service.calls == ["a", "a", "a", "b", "b", "c"]
        service = Service(**{each: [DOWN] for each in "abcde"}, f=["yes"])
        assert attempt(service, *"abcdef") == "yes"
        assert service.calls == [*"abcdef"]

    def test_a_refused_key_leads_on_to_another_provider_if_that_is_asked_for(self) -> None:
        service = Service(a=[AuthenticationFailed("no")], b=["yes"])
        patience = RetryPolicy(failover_on_auth_error=True, jitter=lambda _: 0.0)
        assert attempt(service, "a", "a", "b", patience=patience) == "yes"
        assert service.calls == ["a", "b"]
        refusing = Service(a=[AuthenticationFailed("no")])
        assert isinstance(attempt(refusing, "a", patience=patience), AuthenticationFailed)

    @pytest.mark.parametrize(
        "error", [InvalidParameter("x", parameter="p", valid=["q"]), UnsupportedPart("x")], ids=repr
    )
    def test_a_way_that_cannot_be_asked_is_left_out(self, error: GenaiError) -> None:
        """Unless it is the first: then nothing has failed before."""
        service = Service(a=[DOWN], b=[error], c=["yes"])
        assert attempt(service, "a", "b", "c") == "yes"
        assert attempt(service, "a", "b") == DOWN
        assert attempt(service, "b", "c") is error

    def test_an_open_circuit_of_the_last_route_can_be_waited_for(self) -> None:
        patience = RetryPolicy(wait_for_circuit=True, jitter=lambda _: 0.0)
        soon = CircuitOpen("x")
        service = Service(a=[soon], b=[soon, DOWN, "yes"])
        assert attempt(service, "a", "b", patience=patience) == "yes"
        assert service.calls == ["a", "b", "b", "b"]
        shut = Service(a=[soon])
        assert attempt(shut, "a", patience=patience) == soon
        assert shut.calls == ["a"] * 3
        service = Service(**{each: [soon] for each in "abcdefgh"}, i=["yes"])
        assert attempt(service, *"abcdefghi", patience=patience) == "yes"


class TestHowLong:
    def test_the_wait_is_random_and_its_bound_doubles(self) -> None:
        bounds: list[float] = []

        def jitter(bound: float) -> float:
            bounds.append(bound)
            return 0.0

        patience = RetryPolicy(max_attempts=9, max_total_attempts=9, max_backoff=3.0, jitter=jitter)
        attempt(Service(a=[ServiceUnavailable("x")]), "a", patience=patience)
        assert bounds == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0]
        assert {0 <= RetryPolicy().jitter(0.5) <= 0.5 for _ in range(100)} == {True}

    @pytest.mark.parametrize("seconds", [2.0, 60.0])
    def test_what_the_service_asks_for_is_waited(self, seconds: float) -> None:
        clock, service = ManualClock(), Service(a=[RateLimited("x", retry_after=seconds), "yes"])
        with ThreadPoolExecutor(1) as pool:
            retry = Retry(clock, NO_WAIT)
            pending = pool.submit(answer, retry, service, routes("a", "b"), Cancellation())
            clock.wait_for_alarms(1)
            clock.advance(seconds - 0.001)
            assert service.calls == ["a"]
            clock.advance(0.001)
            assert pending.result(10) == "yes"

    def test_long_retry_after_is_not_waited_for(self) -> None:
        error = RateLimited("x", retry_after=86_400)
        assert attempt(Service(a=[error], b=["yes"]), "a", "b") == "yes"
        assert attempt(Service(a=[error]), "a").retry_after == 86_400

    def test_waiting_ends_when_the_call_is_cancelled(self) -> None:
        clock, limits = ManualClock(), Cancellation()
        service = Service(a=[RateLimited("x", retry_after=50)])
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(answer, Retry(clock, NO_WAIT), service, routes("a"), limits)
            clock.wait_for_alarms(1)
            limits.cancel()
            with pytest.raises(Cancelled):
                pending.result(10)
        assert service.calls == ["a"]
        assert clock.due_in() == []


class TestStreams:
    def stream(self, service: Service, *providers: str) -> tuple[list[str], Any]:
        pieces: list[str] = []
        retry = Retry(ManualClock(), NO_WAIT)
        running = retry.stream(routes(*providers), Cancellation(), service.stream)
        try:
            while True:
                pieces.append(next(running).text)
        except StopIteration as stop:
            return pieces, stop.value
        except GenaiError as error:
            return pieces, error

    @pytest.mark.parametrize("error", [ServiceUnavailable("x"), IncompleteReply("x")], ids=repr)
    def test_before_the_first_piece_another_route_answers(self, error: GenaiError) -> None:
        service = Service(a=[[error]], b=[["he", "llo", None]])
        assert self.stream(service, "a", "b") == (["he", "llo"], "hello")
        assert service.calls == ["a", "a", "a", "b"]

    def test_after_the_first_piece_there_is_no_other_try(self) -> None:
        error = IncompleteReply("x")
        service = Service(a=[["he", error]], b=[["never", None]])
        assert self.stream(service, "a", "b") == (["he"], error)
        assert service.calls == ["a"]

    def test_an_answer_without_pieces_is_one(self) -> None:
        assert self.stream(Service(a=[[None]]), "a") == ([], "")

    def test_leaving_it_ends_the_call(self) -> None:
        ended: list[bool] = []

        def act(_: Route, report: CallRecord) -> Generator[Delta, None, None]:
            try:
                yield Delta("a")
                yield Delta("b")
            finally:
                ended.append(True)

        running: Callable[..., Any] = Retry(ManualClock(), NO_WAIT).stream
        pieces = running(routes("a"), Cancellation(), act)
        next(pieces)
        pieces.close()
        assert ended == [True]


@pytest.mark.parametrize(
    ("error", "text"),
    [(None, ""), (ServiceUnavailable("x"), "he"), (IncompleteReply("x", text="hello"), "")],
    ids=repr,
)
def test_text_that_the_error_of_a_stream_lacks(error: GenaiError | None, text: str) -> None:
    assert StepTrace(pieces=["h", "e"]).text_before(error) == text


@pytest.mark.parametrize(
    ("refused", "known", "cost"),
    [(True, 0.5, 0.0), (False, 0.5, 0.5), (False, 0.0, 0.0), (False, None, None)],
)
def test_what_an_attempt_cost(
    clock: ManualClock, refused: bool, known: float | None, cost: float | None
) -> None:
    report, info = CallRecord(), RouteInfo("m", "a", "d")
    assert called(info, clock, None, report) is None, "nothing was sent"
    report.sent, report.refused = clock.monotonic(), refused
    if known is not None:
        report.result = Completion(Message("assistant", "hi"), cost=known)
    clock.advance(2.0)
    attempt = called(info, clock, None, report)
    assert attempt is not None
    assert (attempt.seconds, attempt.cost) == (2.0, cost)


def test_item_9_waits_of_a_second_or_more_are_told_if_that_is_asked_for(clock: ManualClock) -> None:
    busy, long, soon = (RateLimited("slow down", retry_after=each) for each in (30.0, 1.0, 0.5))
    for error, delays in ((busy, [30.0]), (long, [1.0]), (soon, [])):
        seconds = error.retry_after or 0
        for waits in (True, False):
            service = Service(a=[error, "yes"])
            trace = StepTrace(waits=True) if waits else StepTrace()
            pieces = Retry(clock).stream(routes("a"), Cancellation(), service.unstreamed, trace)
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(list, pieces)
                clock.wait_for_alarm_in(seconds)
                clock.advance(seconds)
                expected = [RetryWait(each, "a", "slow down") for each in delays if waits]
                assert future.result(30) == expected


def test_item_9_a_turn_tells_of_its_waits(make_host: MakeHost, clock: ManualClock) -> None:
    fake = FakeModel()
    fake.faults[0] = RateLimited("slow down", retry_after=30.0)
    host = make_host(fake=fake, clock=clock, patience=RetryPolicy())
    with ThreadPoolExecutor(1) as pool, host.open("chat", "fake") as conversation:
        future = pool.submit(list, conversation.stream("hi"))
        clock.wait_for_alarm_in(30.0)
        clock.advance(30.0)
        events = future.result(30)
    [wait] = [each.data for each in events if each.kind == "retry"]
    assert wait.text == "fake: slow down; next attempt in 30 s"
    assert events[-1].kind == "answer"

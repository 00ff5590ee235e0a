"""Faults of services that must not hurt: through a host, over real sockets, streamed and
not. A vendor's own tests run the same kit."""

from __future__ import annotations

import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from fixtures import MakeHost

from genai_host import Caps, Host, Patience
from genai_host.api import Model, Offering, Serve, http_provider
from genai_host.errors import (
    AuthenticationFailed,
    CircuitOpen,
    DeadlineExceeded,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    RateLimited,
    RequestRefused,
    Unavailable,
)
from genai_host.testing import MadePlugin, ManualClock
from genai_host.testing.fake_service import (
    CUT,
    HANG,
    HOLD,
    RESET,
    FakeService,
    Reply,
    json_reply,
    reply,
    sse_reply,
    stream_reply,
)

SECRET = "sk-canary-5f2b"
WAYS = ["whole", "streamed"]
NO_WAIT = Patience(jitter=lambda _: 0.0)


def delta(text: str) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode()


END = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).encode()
ANSWER: dict[str, Any] = {
    "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]
}


def good(way: str) -> Reply:
    if way == "whole":
        return json_reply(ANSWER)
    return sse_reply([delta("hel"), delta("lo"), END, b"[DONE]"])


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as made:
        yield made


@pytest.fixture
def stage(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Host]:
    """A host whose model `m` is at the service, streamed or whole."""
    monkeypatch.setenv("ACME_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "*")

    def make(way: str, **options: Any) -> Host:
        acme = http_provider("acme", f"{service.url}/v1", {"openai-chat": Serve()}, key="ACME_KEY")
        lacks = {"stream"} if way == "whole" else set()
        plugin = MadePlugin(
            providers=[acme],
            models=[Model("m", ["openai-chat"], capabilities={"tools", "schema"})],
            offerings=[Offering("m", "acme", "m-1", lacks=lacks)],
        )
        return make_host(acme=plugin, **{"patience": NO_WAIT, **options})

    return make


def ask(host: Host) -> tuple[str, Any]:
    """What was streamed, and the answer or the error."""
    pieces: list[str] = []
    try:
        for event in host.open("chat", "m").stream("hi"):
            pieces.append(event.text)
            if event.answer is not None:
                return "".join(pieces), event.answer.text
    except GenaiError as error:
        return "".join(pieces), error
    raise AssertionError("a stream without an end")


@pytest.mark.parametrize("way", WAYS)
class TestTries:
    def test_a_good_answer_takes_one_call(
        self, stage: Callable[..., Host], service: FakeService, way: str
    ) -> None:
        service.replies = [good(way)]
        assert ask(stage(way)) == ("hello", "hello")
        (request,) = service.requests
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        assert request.json()["model"] == "m-1"
        assert request.json().get("stream", False) == (way == "streamed")

    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
    def test_what_may_pass_is_tried_three_times(
        self, stage: Callable[..., Host], service: FakeService, way: str, status: int
    ) -> None:
        service.replies = [json_reply({"error": {"message": "busy"}}, status)]
        streamed, error = ask(stage(way))
        assert streamed == ""
        assert isinstance(error, (RateLimited, Unavailable))
        assert (error.status, error.provider, error.model) == (status, "acme", "m")
        assert len(service.requests) == 3
        service.replies = [json_reply({}, status)] * 5 + [good(way)]
        assert ask(stage(way))[1] == "hello"

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, RequestRefused),
            (401, AuthenticationFailed),
            (403, AuthenticationFailed),
            (404, RequestRefused),
            (422, RequestRefused),
        ],
    )
    def test_a_refusal_is_not_repeated(
        self,
        stage: Callable[..., Host],
        service: FakeService,
        way: str,
        status: int,
        kind: type[GenaiError],
    ) -> None:
        service.replies = [json_reply({"error": {"message": "no"}}, status)]
        _, error = ask(stage(way))
        assert (type(error), error.status, len(service.requests)) == (kind, status, 1)

    @pytest.mark.parametrize("act", [CUT, RESET])
    def test_a_broken_connection_is_tried_three_times(
        self, stage: Callable[..., Host], service: FakeService, way: str, act: Any
    ) -> None:
        service.replies = [Reply([act])]
        _, error = ask(stage(way))
        assert isinstance(error, Unavailable)
        assert len(service.requests) == 3

    @pytest.mark.parametrize("asked", ["86400", "Thu, 31 Dec 2099 00:00:00 GMT"])
    def test_a_wait_that_is_too_long_ends_at_once_and_is_told(
        self, stage: Callable[..., Host], service: FakeService, way: str, asked: str
    ) -> None:
        service.replies = [json_reply({}, 429, {"Retry-After": asked})]
        _, error = ask(stage(way))
        assert isinstance(error, RateLimited)
        assert error.retry_after is not None
        assert error.retry_after > 60
        assert len(service.requests) == 1

    @pytest.mark.parametrize("asked", ["2", "Thu, 01 Jan 2026 00:00:02 GMT"])
    def test_a_short_wait_is_kept(
        self, stage: Callable[..., Host], service: FakeService, way: str, asked: str
    ) -> None:
        clock = ManualClock()
        service.replies = [json_reply({}, 429, {"Retry-After": asked}), good(way)]
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(ask, stage(way, clock=clock))
            service.wait_for_requests(1)
            clock.wait_for_alarms(2)  # the turn's, and this
            while 2.0 not in clock.due_in():
                assert not pending.done()
            clock.advance(1.999)
            assert len(service.requests) == 1
            clock.advance(0.001)
            assert pending.result(30)[1] == "hello"

    def test_a_wait_that_is_garbage_is_none(
        self, stage: Callable[..., Host], service: FakeService, way: str
    ) -> None:
        service.replies = [json_reply({}, 429, {"Retry-After": "soon"}), good(way)]
        assert ask(stage(way))[1] == "hello"


@pytest.mark.parametrize("way", WAYS)
class TestReplies:
    @pytest.mark.parametrize(
        "bad",
        [
            reply(b"<html>hello</html>", headers={"Content-Type": "text/html"}),
            reply(b"", headers={"Content-Type": "application/json"}),
            reply(b"[" * 100_000, headers={"Content-Type": "application/json"}),
            reply(b"\xff\xfe", headers={"Content-Type": "application/json"}),
            json_reply([1, 2]),
        ],
        ids=["html", "empty", "deep", "not utf-8", "no object"],
    )
    def test_what_is_no_reply_is_a_typed_error(
        self, stage: Callable[..., Host], service: FakeService, way: str, bad: Reply
    ) -> None:
        service.replies = [bad]
        _, error = ask(stage(way))
        assert isinstance(error, MalformedReply)
        assert (error.provider, error.model) == ("acme", "m")

    def test_a_redirect_is_not_followed(
        self, stage: Callable[..., Host], service: FakeService, way: str
    ) -> None:
        with FakeService([good(way)]) as elsewhere:
            service.replies = [reply(b"", 302, {"Location": elsewhere.url})]
            _, error = ask(stage(way))
            assert isinstance(error, RequestRefused)
            assert not elsewhere.requests

    def test_silence_ends_at_the_deadline(
        self, stage: Callable[..., Host], service: FakeService, way: str
    ) -> None:
        clock = ManualClock()
        service.replies = [Reply([HANG])]
        host = stage(way, clock=clock, patience=Patience(tries=1))
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(ask, host)
            service.wait_for_requests(1)
            clock.advance(60 if way == "streamed" else 600)
            _, error = pending.result(30)
        if way == "streamed":
            assert isinstance(error, DeadlineExceeded)
            assert error.deadline == "first_token"
        service.wait_until_closed()


class TestStreams:
    def test_a_stream_that_stands_still_ends_at_its_deadline(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        clock = ManualClock()
        service.replies = [sse_reply([delta("hel"), HANG])]
        host = stage("streamed", clock=clock)
        host.instances.add("slow", "acme", models={"m": "m-1"}, calls={"total": 1e9})
        events = host.open("chat", "m@slow", caps=Caps(seconds=None)).stream("hi")
        assert next(event.text for event in events if event.text) == "hel"
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(list, events)
            while not wait([pending], timeout=0.01).done:  # it counts from when somebody reads
                clock.advance(30)
            with pytest.raises(DeadlineExceeded) as caught:
                pending.result(30)
        assert (caught.value.deadline, caught.value.text) == ("idle", "hel")
        service.wait_until_closed()

    def test_a_drip_ends_at_the_total_deadline(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        clock = ManualClock()
        service.replies = [sse_reply([step for _ in range(700) for step in (HOLD, delta("x"))])]
        host = stage("streamed", clock=clock)
        pieces = 0
        with pytest.raises(DeadlineExceeded) as caught:
            service.let_go()
            for event in host.open("chat", "m", caps=Caps(seconds=None)).stream("hi"):
                pieces += bool(event.text)
                clock.advance(1)
                service.let_go()
        assert caught.value.deadline == "total"
        assert pieces == 600

    def test_a_reader_that_is_slow_is_no_idle_service(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        clock = ManualClock()
        service.replies = [sse_reply([delta("hel"), HOLD, delta("lo"), END, b"[DONE]"])]
        events = stage("streamed", clock=clock).open("chat", "m").stream("hi")
        assert next(event.text for event in events if event.text) == "hel"
        clock.advance(300)
        service.let_go()
        assert [event.answer.text for event in events if event.answer] == ["hello"]

    def test_a_reply_that_is_whole_does_not_wait_for_the_end_of_the_transmission(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        clock = ManualClock()
        service.replies = [sse_reply([delta("hello"), END, b"[DONE]", HANG])]
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(ask, stage("streamed", clock=clock))
            while 0.25 not in clock.due_in():
                assert not pending.done()
            clock.advance(0.25)
            assert pending.result(30) == ("hello", "hello")

    @pytest.mark.parametrize("act", [CUT, RESET])
    def test_a_whole_reply_counts_whatever_the_connection_does_next(
        self, stage: Callable[..., Host], service: FakeService, act: Any
    ) -> None:
        service.replies = [sse_reply([delta("hello"), END, b"[DONE]", act])]
        host = stage("streamed")
        if act is CUT:
            assert ask(host) == ("hello", "hello")
        else:  # what was sent may be lost with the connection; it is never doubled
            _, outcome = ask(host)
            assert outcome == "hello" or isinstance(outcome, GenaiError)

    def test_cut_before_the_first_token_it_is_tried_again(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        service.replies = [sse_reply([CUT]), good("streamed")]
        assert ask(stage("streamed")) == ("hello", "hello")
        assert len(service.requests) == 2

    @pytest.mark.parametrize("end", [[], [END]])
    def test_cut_after_it_there_is_no_other_try_and_the_text_is_kept(
        self, stage: Callable[..., Host], service: FakeService, end: list[bytes]
    ) -> None:
        service.replies = [sse_reply([delta("hel"), *end, CUT]), good("streamed")]
        streamed, error = ask(stage("streamed"))
        assert isinstance(error, IncompleteReply)
        assert streamed == error.text == "hel"
        assert len(service.requests) == 1

    def test_an_end_without_its_mark_is_no_end(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        service.replies = [sse_reply([delta("hello"), END])]
        streamed, error = ask(stage("streamed"))
        assert isinstance(error, IncompleteReply)
        assert streamed == error.text == "hello"

    def test_a_malformed_event_is_a_typed_error(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        service.replies = [sse_reply([delta("hel"), b"{", delta("lo"), END, b"[DONE]"])]
        streamed, error = ask(stage("streamed"))
        assert isinstance(error, MalformedReply)
        assert streamed == "hel"

    def test_one_byte_a_chunk_with_other_line_ends_and_comments(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        text = b": ping\r\n\r\n" + b"".join(
            b"data: " + each + b"\r\n\r\n" for each in (delta("h\u2028i"), END)
        )
        text += b"data: [DONE]"  # and no blank line
        service.replies = [stream_reply([text[at : at + 1] for at in range(len(text))])]
        assert ask(stage("streamed")) == ("h\u2028i", "h\u2028i")

    def test_an_error_amid_a_stream_is_raised(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        late = json.dumps({"error": {"message": "overloaded", "code": 503}}).encode()
        service.replies = [sse_reply([delta("hel"), late])]
        streamed, error = ask(stage("streamed"))
        assert isinstance(error, Unavailable)
        assert streamed == "hel"

    def test_around_each_event_a_cut_is_never_an_answer(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        """Over loopback, one byte before each boundary, at it, and one after."""
        events = [b"data: " + delta(f"{n} ") + b"\n\n" for n in range(60)]
        text = b"".join(events) + b"data: " + END + b"\n\ndata: [DONE]\n\n"
        marks, size = [], 0
        for each in events:
            size += len(each)
            marks += [size - 1, size, size + 1]
        for place in marks:
            service.replies.append(stream_reply([text[:place], CUT]))
        host = stage("streamed", patience=Patience(tries=1), clock=ManualClock())
        host.instances.disable("acme")
        host.instances.enable("acme")
        for number, place in enumerate(marks):
            whole = text[:place].count(b"\n\n")
            if number % 4 == 0:  # a breaker would leave the service alone
                host.instances.disable("acme")
                host.instances.enable("acme")
            streamed, error = ask(host)
            assert isinstance(error, IncompleteReply), place
            assert streamed == "".join(f"{n} " for n in range(whole)), place


class TestBounds:
    def test_a_service_that_keeps_failing_is_left_alone(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        clock = ManualClock()
        service.replies = [json_reply({}, 500)] * 5 + [good("streamed")]
        host = stage("streamed", clock=clock, patience=Patience(tries=1))
        for _ in range(5):
            assert type(ask(host)[1]) is Unavailable
        assert isinstance(ask(host)[1], CircuitOpen)
        assert len(service.requests) == 5
        clock.advance(30)
        assert ask(host)[1] == "hello"

    def test_200_calls_at_once_through_a_cap_of_20(
        self, stage: Callable[..., Host], service: FakeService
    ) -> None:
        host = stage("whole")
        host.instances.add("few", "acme", calls={"at_once": 20, "line": 100}, models={"m": "m-1"})
        service.replies = [Reply([HOLD, *json_reply(ANSWER).steps], keep=True)]

        def call(_: int) -> Any:
            try:
                return host.open("chat", "m@few").say("hi").text
            except RateLimited as error:
                service.let_go()
                return error.retry_after

        with ThreadPoolExecutor(200) as pool:
            pending = [pool.submit(call, number) for number in range(200)]
            service.wait_for_requests(20)
            service.let_go(200)
            found = [each.result(60) for each in pending]
        assert service.most_at_once <= 20
        assert found.count("hello") >= 120
        assert set(found) <= {"hello", 1.0}


class TestSecrets:
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize(
        "bad",
        [
            json_reply({"error": {"message": "no"}}, 401),
            json_reply({}, 500),
            Reply([RESET]),
            reply(b"<html>"),
            sse_reply([delta("x"), CUT]),
            reply(b"", 302, {"Location": "http://elsewhere.invalid/"}),
        ],
        ids=["401", "500", "reset", "html", "cut", "redirect"],
    )
    def test_the_key_is_nowhere(
        self,
        stage: Callable[..., Host],
        service: FakeService,
        way: str,
        bad: Reply,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        service.replies = [bad]
        host = stage(way)
        _, error = ask(host)
        assert isinstance(error, GenaiError)
        told = io.StringIO()
        traceback.print_exception(error, file=told)
        shown = [
            told.getvalue(),
            caplog.text,
            repr(error),
            repr(error.__cause__),
            repr(vars(error)),
            repr(pickle.dumps(error)),
            repr(host.instances["acme"].provider),
            repr(vars(host.instances["acme"].provider).get("services")),
            repr(host.instances["acme"].config),
        ]
        assert SECRET not in "".join(shown)

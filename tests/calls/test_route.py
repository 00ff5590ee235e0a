"""One call of a model: parameters, differences of providers, faults of plugins."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import pytest
from attrs import evolve, fields

from genai_host import Host
from genai_host.api import (
    Answer,
    Cancellation,
    CancelToken,
    ChatCall,
    Completion,
    Delta,
    Dialect,
    DialectEndpoint,
    Message,
    Model,
    NoSettings,
    Offering,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    Services,
    StreamEvent,
    ToolCall,
    Usage,
    standard_parameters,
)
from genai_host.calls.retry import RetryPolicy, drained
from genai_host.calls.route import Route
from genai_host.calls.streamed_chunks import StreamedChunks
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    GenaiError,
    InvalidParameter,
    MalformedReply,
    PluginError,
    RateLimited,
    ServiceUnavailable,
)
from genai_host.plugins.observers import CallRecord
from genai_host.plugins.watchdog import Watchdog, Watched
from genai_host.providers.instances import ProviderInstances
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.internal.fixtures import MakeHost


class Wire(Dialect[ChatCall, Completion]):
    """Writes what it is given; reads the text of the reply."""

    name = "wire"
    endpoint = DialectEndpoint(extra_fields={"from_dialect": 1}, omit_fields=("secret",))
    extensible = frozenset({"variant", "choice"})
    capabilities = frozenset({"stream", "tools"})
    parameters = standard_parameters("temperature", "top_p", "max_tokens", "stop")
    variant = {"name": "dialect", "kept": True}

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        if call.messages[-1].text == "break dialect":
            raise LookupError("dialect broke")
        variant, parameters = dict(call.variant), dict(call.parameters)
        body = {"variant": variant, "parameters": parameters, "secret": "dropped"}
        return ProviderRequest(
            "chat",
            self.name,
            call.model_id,
            {"model": call.model_id, **body},
            call.stream,
            {"x-beta": "on"},
        )

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        if reply.body == b"deep":
            json.loads("[" * 100_000)
        if reply.body == b"odd":
            return 3  # type: ignore[return-value]
        return Completion(Message("assistant", reply.body.decode()))

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return BadRequest("as the dialect says") if reply.body == b"dialect" else None


class Echo(Provider):
    """Says what it was sent, or what the instance is set to do."""

    serves = {
        "wire": DialectEndpoint(
            extra_fields={"version": 2},
            omit_fields=("model",),
            header_to_body={"x-beta": "beta"},
            variant={"name": "serve"},
            parameters={"min_p": {"type": "number"}, "top_p": False},
        )
    }

    def __init__(self, settings: NoSettings, services: Services) -> None:
        self.reply: Any = None

    def provider_model_id(self, model_id: str) -> str:
        return f"eu.{model_id}"

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        if isinstance(self.reply, Exception):
            raise self.reply
        sent = {"headers": dict(request.headers), "id": request.model_id, "stream": request.stream}
        return self.reply or ProviderReply(json.dumps({**request.body, **sent}).encode())

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        return self.send(request, limits)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return RateLimited("as the provider says") if reply.body == b"provider" else None


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    plugin = InlinePlugin(
        providers=[ProviderType("echo", NoSettings, Echo)],
        dialects=[Wire()],
        models=[
            Model(
                "m",
                ["wire"],
                parameters={"max_tokens": {"type": "integer", "maximum": 10}, "stop": False},
                defaults={"temperature": 0.1, "top_p": 0.2, "max_tokens": 5},
                variant={"wire": {"name": "model"}},
            )
        ],
        offerings=[Offering("m", "echo", "m-1", variant={"extra": "offering"})],
    )
    return make_host(plain=plugin)


def provider(host: Host) -> Echo:
    instances: ProviderInstances = host.instances
    echo = instances["echo"].provider
    assert isinstance(echo, Echo)
    return echo


def say(host: Host, text: str = "hi", **parameters: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(host.open("chat", "m", parameters=parameters).say(text).text)
    return sent


class _Stream:
    """Events, and whether the stream was closed."""

    def __init__(self, events: Iterable[StreamEvent]) -> None:
        self._events = events
        self.closed = 0

    def __iter__(self) -> Any:
        yield from self._events

    def close(self) -> None:
        self.closed += 1


def streaming(host: Host, *events: Any) -> _Stream:
    """Let the mock stream events of its plain format, given as they are or as JSON."""
    mocked: Any = host.instances["mock"].provider
    stream = _Stream(
        each if isinstance(each, StreamEvent) else StreamEvent(json.dumps(each).encode())
        for each in events
    )
    mocked.stream = lambda request, limits: stream
    return stream


def replying(host: Host, reply: ProviderReply) -> None:
    """Let the mock give a whole reply."""
    mocked: Any = host.instances["mock"].provider
    mocked.send = mocked.stream = lambda request, limits: reply


def reply_form(content: Any, finish: str = "stop") -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content}, "finish": finish}


A = {"delta": {"text": "a"}}


def pieces_of(host: Host) -> list[Delta]:
    return list(host.prompt(Prompt([Message("user", "x")]), model="mock"))


def test_no_field_of_a_result_is_lost() -> None:
    """`Route` and `Driver` create these anew, with each field."""
    assert (len(fields(Completion)), len(fields(Answer))) == (10, 9)


def test_how_the_provider_serves_the_dialect_is_applied_to_the_request(host: Host) -> None:
    sent = say(host)
    assert "model" not in sent
    assert "secret" not in sent
    assert (sent["from_dialect"], sent["version"], sent["beta"]) == (1, 2, "on")
    assert sent["headers"] == {}
    assert sent["id"] == "eu.m-1"


def test_a_dialect_without_a_decoder_is_asked_for_a_whole_reply(host: Host) -> None:
    [answer] = [event.text for event in host.open("chat", "m").stream("hi") if event.text]
    assert json.loads(answer)["stream"] is False


def test_the_variant_is_merged_from_all_who_have_a_say(host: Host) -> None:
    assert say(host)["variant"] == {"name": "serve", "kept": True, "extra": "offering"}


class TestParameters:
    @pytest.fixture
    def open_host(self, host: Host) -> Host:
        """A host whose provider takes `extra_body`."""
        host.instances["echo"].provider.extra_body = {}
        host.refresh()
        return host

    def test_what_suits_the_model_is_used_where_nobody_sets_others(self, host: Host) -> None:
        assert say(host)["parameters"] == {"temperature": 0.1, "max_tokens": 5}
        assert say(host, temperature=1)["parameters"] == {"temperature": 1, "max_tokens": 5}

    def test_fields_that_only_the_service_knows_are_sent_as_they_are(self, host: Host) -> None:
        provider = host.instances["echo"].provider
        provider.extra_body = {"kept": [1], "top_k": 1, "parameters": {"min_p": 0.5}}
        host.refresh()
        extra = {"top_k": 40, "chat_template_kwargs": {"enable_thinking": False}}
        body = say(host, extra_body={**extra, "variant": {"new": 1}, "choice": {"new": 1}})
        assert body["variant"]["new"] == 1
        assert "choice" not in body  # the dialect writes none
        assert (body["kept"], body["top_k"]) == ([1], 40)
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
        assert body["parameters"] == {"temperature": 0.1, "max_tokens": 5, "min_p": 0.5}

    @pytest.mark.parametrize(("extra", "place"), [
        ({"variant": {}, "secret": 1}, "extra_body.secret cannot be set"),
        ({"parameters": {"temperature": 1}}, "extra_body.parameters.temperature cannot be set"),
        ({"parameters": 1}, "extra_body.parameters cannot be set"),
        ({"variant": {"name": 1}}, "extra_body.variant.name cannot be set"),
        ({"choice": "any"}, "extra_body cannot set choice"),
        ({"secret": {"a": 1}}, "extra_body.secret cannot be set"),
    ])  # fmt: skip
    def test_what_the_host_writes_is_kept(self, open_host: Host, extra: Any, place: str) -> None:
        with pytest.raises(InvalidParameter, match=place):
            say(open_host, extra_body=extra)

    @pytest.mark.parametrize(("extra", "why"), [
        ({"model": "x", "messages": []}, "extra_body cannot set messages, model: the host"),
        ({"stream": True}, "extra_body cannot set stream: the host"),
        ({"tools": []}, "extra_body cannot set tools: the host"),
        ([1], "expected an object"),
        ({"a": float("nan")}, "not JSON"),
    ])  # fmt: skip
    def test_its_fields_are_refused_early(self, open_host: Host, extra: Any, why: str) -> None:
        with pytest.raises(InvalidParameter, match=why):
            open_host.open("chat", "m", parameters={"extra_body": extra})

    def test_the_hint_for_a_bad_value_describes_the_parameter(self, host: Host) -> None:
        with pytest.raises(InvalidParameter) as caught:
            host.open("chat", "m", parameters={"temperature": 3})
        assert caught.value.hint.startswith("temperature: randomness")
        with pytest.raises(InvalidParameter) as caught:
            host.open("chat", "m", parameters={"min_p": "x"})
        assert caught.value.hint == ""

    def test_an_unknown_name_is_refused_with_how_it_can_be_sent(self, open_host: Host) -> None:
        with pytest.raises(InvalidParameter) as caught:
            open_host.open("chat", "m", parameters={"temprature": 1})
        assert caught.value.hint == (
            "did you mean temperature? To send it unchanged to the service: extra_body.temprature"
        )

    def test_a_provider_that_sends_no_body_takes_none(self, host: Host) -> None:
        with pytest.raises(InvalidParameter, match="does not accept parameter 'extra_body'"):
            host.open("chat", "m", parameters={"extra_body": {"top_k": 1}})

    def test_a_providers_own_are_taken(self, host: Host) -> None:
        assert say(host, min_p=0.5)["parameters"]["min_p"] == 0.5

    @pytest.mark.parametrize("name", ["top_p", "stop", "nonsense", "temperatur"])
    def test_what_is_not_taken_here_is_refused_with_what_is(self, host: Host, name: str) -> None:
        with pytest.raises(InvalidParameter) as caught:
            host.open("chat", "m", parameters={name: 1})
        error = caught.value
        assert error.parameter == name
        assert error.valid == ("max_tokens", "min_p", "temperature")
        assert (error.model, error.provider) == ("m", "echo")
        expected = "did you mean temperature?" if name == "temperatur" else "accepted: max_tokens"
        assert expected in error.hint

    @pytest.mark.parametrize(
        ("name", "value"),
        [("temperature", 3), ("temperature", "hot"), ("temperature", None), ("max_tokens", 11),
         ("max_tokens", 1.5), ("min_p", [])],
    )  # fmt: skip
    def test_a_bad_value_is_refused(self, host: Host, name: str, value: object) -> None:
        with pytest.raises(
            InvalidParameter, match=f"^invalid value for parameter '{name}': "
        ) as caught:
            host.open("chat", "m", parameters={name: value})
        assert caught.value.parameter == name


class TestErrors:
    @pytest.mark.parametrize(("reply", "kind", "message"), [
        (ProviderReply(b"provider", 400), RateLimited, "as the provider says"),
        (ProviderReply(b"dialect", 400), BadRequest, "as the dialect says"),
        (ProviderReply(b"", 300), BadRequest, "status 300"),
        (ProviderReply(b"", 401), AuthenticationFailed, "status 401"),
        (ProviderReply(b"", 403), AuthenticationFailed, "status 403"),
        (ProviderReply(b"", 404), BadRequest, "status 404"),
        (ProviderReply(b"", 408), ServiceUnavailable, "status 408"),
        (ProviderReply(b"", 422), BadRequest, "status 422"),
        (ProviderReply(b"", 429), RateLimited, "status 429"),
        (ProviderReply(b"", 500), ServiceUnavailable, "status 500"),
        (ProviderReply(b"", 529), ServiceUnavailable, "status 529"),
        (ProviderReply(b'{"detail": "no"}', 400), BadRequest, "^no$"),
        (ProviderReply(b'[{"error": {"message": "no"}}]', 503), ServiceUnavailable, "^no$"),
        (ProviderReply(b"deep"), MalformedReply, "nested too deeply"),
        (ProviderReply(b"odd"), PluginError, "dialect wire returned a int"),
    ])  # fmt: skip
    def test_provider_then_dialect_then_status_explain_a_failure(
        self, host: Host, reply: ProviderReply, kind: type[GenaiError], message: str
    ) -> None:
        provider(host).reply = reply
        with pytest.raises(GenaiError, match=message) as caught:
            say(host)
        assert type(caught.value) is kind
        assert (caught.value.model, caught.value.provider) == ("m", "echo")

    @pytest.mark.parametrize(("headers", "seconds"), [
        ({}, None),
        ({"Retry-After": "5"}, 5.0),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, 1e9),
        ({"retry-after": "120, 130"}, 120.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 GMT"}, 60.0),
        ({"retry-after": "Wed, 31 Dec 2025 23:59:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 -0000"}, None),
        ({"retry-after": "5", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "5", "retry-after-ms": "x"}, 5.0),
    ], ids=str)  # fmt: skip
    def test_the_wait_that_a_service_requests_is_read(
        self, make_host: MakeHost, clock: ManualClock, headers: Any, seconds: float | None
    ) -> None:
        host = make_host(clock=clock, patience=RetryPolicy(max_attempts=1))
        replying(host, ProviderReply(b"", 429, headers))
        with pytest.raises(RateLimited) as caught:
            host.open("chat", "mock").say("x")
        assert caught.value.retry_after == seconds

    @pytest.mark.parametrize("raised", [KeyError("x"), OSError("disk"), TypeError("no")])
    def test_what_a_plugin_raises_is_its_own_fault(self, host: Host, raised: Exception) -> None:
        provider(host).reply = raised
        with pytest.raises(PluginError, match=type(raised).__name__) as caught:
            say(host)
        assert caught.value.__cause__ is raised
        assert (caught.value.model, caught.value.provider) == ("m", "echo")
        with pytest.raises(PluginError, match="dialect broke"):
            provider(host).reply = None
            say(host, "break dialect")


@pytest.mark.parametrize("complete", [True, False])
def test_a_stream_is_closed_however_it_ends(host: Host, complete: bool) -> None:
    """Here of the plain dialect, by a provider that streams what it is set to."""
    stream = streaming(host, A, *([{"end": reply_form("a b")}] if complete else []))
    conversation = host.open("chat", "mock")
    if complete:
        assert [event.text for event in conversation.stream("x") if event.text] == ["a"]
    else:
        with pytest.raises(GenaiError):
            list(conversation.stream("x"))
    assert stream.closed


def test_a_close_that_fails_late_is_logged(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """It runs in another thread, which could not raise the error anywhere."""
    closing = threading.Event()

    def events() -> Iterator[StreamEvent]:
        yield StreamEvent(b'{"delta": {"text": "a"}}')
        assert closing.wait(10)

    def close() -> None:
        closing.set()
        raise RuntimeError("it is stuck")

    stream: Any = streaming(host)
    stream._events, stream.close = events(), close
    conversation = host.open("chat", "mock")
    caplog.set_level("DEBUG", "genai_host.calls.route")
    with pytest.raises(GenaiError):
        for event in conversation.stream("x"):
            if event.text:
                conversation.cancel()
    for thread in threading.enumerate():
        if thread.name == "genai-host-close":
            thread.join(10)
    assert "calling mock@mock in plain" in caplog.text
    [logged] = [each for each in caplog.records if each.levelname == "WARNING"]
    assert logged.message == "close() of a stream failed"
    assert "it is stuck" in caplog.text


def test_the_time_to_the_first_chunk_is_reported(make_host: MakeHost, clock: ManualClock) -> None:
    def events() -> Iterator[StreamEvent]:
        for text in ("a", "b"):
            clock.advance(1.0)
            yield StreamEvent(b'{"delta": {"text": "%s"}}' % text.encode())
        yield StreamEvent(json.dumps({"end": reply_form("ab")}).encode())

    host = make_host(clock=clock)
    streaming(host)._events = events()
    [route] = host.open("chat", "mock")._log.agents.main.routes
    report = CallRecord()
    call = ChatCall(model_id="", messages=[Message("user", "x")], stream=True)
    assert [piece.text for piece in route.stream(call, Cancellation(), report)] == ["a", "b"]
    assert report.first == 1.0


def test_only_a_provider_may_wait_for_a_cancel(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog reports other code that does not return, and a stuck `close`."""
    watched: list[tuple[str, str, bool]] = []
    watch = Watchdog.watch

    def note(self: Watchdog, kind: str, name: str, method: str = "", **more: Any) -> Watched:
        watched.append((kind, method, more.get("limits") is not None))
        return watch(self, kind, name, method, **more)

    conversation = host.open("chat", "mock")
    monkeypatch.setattr(Watchdog, "watch", note)
    list(conversation.stream("x"))
    assert [each for each in watched if each[0] in ("dialect", "provider")] == [
        ("dialect", "decoder", False),
        ("dialect", "prepare_request", False),
        ("provider", "stream", True),
        ("provider", "stream", True),
        ("dialect", "feed", False),
        ("provider", "close", False),
        ("dialect", "finish", False),
    ]
    watched.clear()
    replying(host, ProviderReply(b"", 400))
    with pytest.raises(BadRequest):
        conversation.say("x")
    assert [each for each in watched if each[0] in ("dialect", "provider")] == [
        ("dialect", "prepare_request", False),
        ("provider", "send", True),
        ("provider", "map_error", True),
        ("dialect", "map_error", False),
    ]


def test_an_error_of_another_kind_stays_when_it_interrupts_a_stream(host: Host) -> None:
    def events() -> Iterator[StreamEvent]:
        yield StreamEvent(json.dumps(A).encode())
        raise ServiceUnavailable("it is down", retryable=False)

    streaming(host)._events = events()
    with pytest.raises(ServiceUnavailable, match="it is down"):
        pieces_of(host)


@pytest.mark.parametrize("form", [b"data: %s\n\n", b"%s\n"])
def test_a_stream_that_was_not_requested_is_read(host: Host, form: bytes) -> None:
    lines = [form % json.dumps(each).encode() for each in (A, {"end": reply_form("a")})]
    replying(host, ProviderReply(b"".join(lines)))
    assert host.open("chat", "mock").say("x").text == "a"


def test_the_watchdog_follows_who_runs_while_a_stream_is_decoded() -> None:
    """Not the provider while the caller has a chunk, and it again afterwards."""
    decoder, attempt, feeding, streaming = mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock()
    decoder.feed.return_value, decoder.done = [Delta(text="a")], False
    events = [StreamEvent(b"1"), StreamEvent(b"", "ping"), StreamEvent(b"2")]
    seen = [
        [call[0] for call in streaming.mock_calls]
        for _ in StreamedChunks().decoded(_Stream(events), decoder, attempt, feeding, streaming)
    ]
    assert seen == [["pause"], ["pause", "resume", "pause"]]
    assert [call[0] for call in streaming.mock_calls[3:]] == ["resume"]
    assert [call[0] for call in feeding.mock_calls] == ["pause", *["resume", "pause"] * 2]
    assert [call[0] for call in attempt.watch.mock_calls] == ["received", "expect_next"] * 3
    assert attempt.collect.mock_calls == [mock.call(event.data) for event in events]


def test_chunks_without_content_wait_for_the_first_with_content() -> None:
    """The call can be retried until then."""
    decoder, fields = mock.Mock(), Delta(extra={"filter": {"ok": True}})
    decoder.feed.side_effect = [[fields], [fields], [Delta(text="a")], [fields]]
    decoder.done = False
    events = _Stream([StreamEvent(b"%d" % number) for number in range(4)])
    chunks = StreamedChunks().decoded(events, decoder, mock.Mock(), mock.Mock(), mock.Mock())
    assert next(chunks) is fields
    assert decoder.feed.call_count == 3
    assert list(chunks) == [fields, Delta(text="a"), fields]


def test_a_stream_is_read_to_its_end_after_the_end_of_the_reply() -> None:
    """Its connection can be reused then."""
    decoder, attempt = mock.Mock(), mock.Mock()
    decoder.feed.return_value, decoder.done = [], True
    events = iter([StreamEvent(data) for data in (b"1", b"2", b"3")])
    list(StreamedChunks().decoded(_Stream(events), decoder, attempt, mock.Mock(), mock.Mock()))
    assert next(events, None) is None
    assert decoder.feed.call_count == 1
    assert [call[0] for call in attempt.watch.mock_calls] == [
        *("received", "expect_end"),
        *("received", "received"),
    ]
    assert attempt.collect.call_count == 3


def test_what_was_not_streamed_is_given_at_the_end(host: Host) -> None:
    """A service may send the answer in one event, or omit the end event of a call."""
    call = {"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 1}}
    other = {**call, "arguments": {"a": 2}}
    end = {"end": reply_form([{"type": "text", "text": "a"}, call, other], "tool_calls")}
    streaming(host, StreamEvent(b""), StreamEvent(b"ping", "ping"), None, end)
    pieces = pieces_of(host)
    assert "".join(each.text for each in pieces) == "a"
    calls = [each.tool_call for each in pieces if each.tool_call]
    assert [call.arguments for call in calls] == [{"a": 1}, {"a": 2}]
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize(("text", "pieces"), [("a", ["a"]), ("", [])])
def test_a_whole_reply_is_one_piece_unless_empty(host: Host, text: str, pieces: list[str]) -> None:
    replying(host, ProviderReply(json.dumps(reply_form([{"type": "text", "text": text}])).encode()))
    assert [each.text for each in pieces_of(host)] == pieces


F = {"type": "tool_call", "id": "1", "name": "f"}
G = {"type": "tool_call", "id": "1", "name": "g"}


@pytest.mark.parametrize("same", [True, False])
def test_calls_of_a_whole_reply_have_ids_of_their_own(host: Host, same: bool) -> None:
    reply = reply_form([F, F if same else G], "tool_calls")
    replying(host, ProviderReply(json.dumps(reply).encode()))
    [route] = host.open("chat", "mock")._log.agents.main.routes
    chat_call = ChatCall(model_id="", messages=[Message("user", "x")])
    result = drained(route.stream(chat_call, Cancellation()))
    assert [call.id for call in result.tool_calls] == ["1", "call_1"]
    assert [call.name for call in result.tool_calls] == ["f", "f" if same else "g"]


@pytest.mark.parametrize(
    ("operation", "usage"),
    [("chat", Usage(1, 1)), ("embed", Usage(1, 0)), ("moderate", None), ("count", None)],
)
@pytest.mark.parametrize("price", [0.5, None])
def test_known_cost(host: Host, operation: Any, usage: Usage | None, price: float | None) -> None:
    [route] = host.open("chat", "mock")._log.agents.main.routes
    prices = mock.Mock()
    prices.price.return_value = price
    candidate = evolve(route.candidate, operation=operation)
    priced = Route(candidate, Wire(), host.instances, route._observers, ManualClock(), prices)
    host.instances["mock"].provider.price_provider = lambda model_id: "acme"  # type: ignore[method-assign]
    is_known = operation == "count" or (usage is not None and price is not None)
    assert priced.is_priced() is is_known
    assert [call.args[2] for call in prices.price.mock_calls[:1]] == ([usage] if usage else [])


def _call(number: int, malformed: str = "") -> ToolCall:
    return ToolCall("1", "f", {"n": number} if number else {}, malformed)


@pytest.mark.parametrize(("streamed", "result", "rest"), [
    ([], [_call(1)], [_call(1)]),
    ([_call(1)], [_call(1)], []),
    ([_call(0)], [_call(1)], []),  # the chunk may have less of it
    ([_call(1), _call(2)], [_call(1)], []),
    ([_call(1)], [_call(2), _call(1)], [_call(2)]),
    ([_call(0, "x")], [_call(0, "y"), _call(0, "x")], [_call(0, "y")]),
    ([_call(1)], [_call(1), _call(1)], [_call(1)]),
])  # fmt: skip
def test_calls_that_were_not_streamed_are_found_by_their_content(
    streamed: list[ToolCall], result: list[ToolCall], rest: list[ToolCall]
) -> None:
    chunks = StreamedChunks()
    for call in streamed:
        chunks.add(Delta(tool_call=call))
    pieces = list(chunks.rest(Completion(Message("assistant", result))))
    calls = [piece.tool_call for piece in pieces if piece.tool_call]
    assert [evolve(call, id="1") for call in calls] == rest
    assert len(calls) == len(pieces)


@pytest.mark.parametrize(("streamed", "tool_calls"), [
    pytest.param([G], [("1", "g"), ("call_1", "f")], id="the call that was not streamed"),
    pytest.param([F, G], [("1", "f"), ("call_1", "g")], id="each once"),
])  # fmt: skip
def test_calls_are_given_with_ids_of_their_own(host: Host, streamed: Any, tool_calls: Any) -> None:
    events = [{"delta": {"tool_call": each}} for each in streamed]
    streaming(host, *events, {"end": reply_form([F, G], "tool_calls")})
    calls = [each.tool_call for each in pieces_of(host) if each.tool_call]
    assert [(call.id, call.name) for call in calls] == tool_calls

"""What is traced: names, attributes, parents."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import genai_vendor_openai
import pytest
import requests
from genai_otel import OtelPlugin
from genai_otel.spans import Spans
from genai_otel.telemetry import Telemetry
from genai_vendor_mock import ScriptedReply
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode

from genai_host import Config, Host, RetryPolicy, api
from genai_host.api import Usage
from genai_host.errors import Cancelled, GenaiError, RateLimited, TurnPaused
from genai_host_testing import FakeModel, FakeService, InlinePlugin
from genai_host_testing.fake_service import json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import Background, MakeHost
from genai_host_testing.internal.servers import served

KEY = "sk-canary-otel-5b1f"
SAID = "the canary that was said"


class Traced:
    """What was traced, by the name of the span."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(environ or {})
        self.telemetry.add(Spans(self.provider.get_tracer("tests")))
        self.plugin = OtelPlugin(self.telemetry)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.of(name)
        return span


CAPTURED = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
MakeTraced = Callable[..., Traced]


@pytest.fixture
def make_traced(request: pytest.FixtureRequest) -> MakeTraced:
    def make(environ: dict[str, str] | None = None) -> Traced:
        traced = Traced(environ)
        request.addfinalizer(traced.provider.shutdown)
        return traced

    return make


@pytest.fixture
def traced(make_traced: MakeTraced) -> Traced:
    return make_traced()


def openai_host(make_host: MakeHost, service: FakeService, traced: Traced, reply: Any) -> Host:
    """A host with the service as OpenAI, which replies so."""
    service.replies = [reply]
    config = Config(providers={"openai": provider_config("openai", base_url=f"{service.url}/v1")})
    return make_host(config=config, openai=genai_vendor_openai, otel=traced.plugin)


@pytest.fixture
def host(make_host: MakeHost, traced: Traced) -> Host:
    return make_host(otel=traced.plugin)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_below(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert span.parent is not None
    return bool(span.parent.span_id == parent.context.span_id)


def test_a_turn_is_a_span_with_its_call_below(host: Host, traced: Traced) -> None:
    host.open("chat", "mock", parameters={"temperature": 0.5, "stop": ["x"]}).say("hi")
    turn, call = traced.one("invoke_agent chat"), traced.one("chat mock")
    assert (turn.kind, call.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert turn.parent is None
    assert is_below(call, turn)
    assert attributes(call) == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "mock",
        "gen_ai.request.model": "mock", "gen_ai.agent.name": "chat",
        "gen_ai.request.temperature": 0.5, "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": attributes(call)["gen_ai.usage.input_tokens"],
        "gen_ai.usage.output_tokens": 1,
    }  # fmt: skip
    assert attributes(turn)["gen_ai.usage.output_tokens"] == 1
    assert attributes(turn)["gen_ai.request.model"] == "mock"
    assert {span.status.status_code for span in traced.spans} == {StatusCode.UNSET}


@pytest.mark.part
def test_a_streamed_call_says_when_its_first_chunk_came(host: Host, traced: Traced) -> None:
    list(host.open("chat", "mock").stream("a b c"))
    attrs = attributes(traced.one("chat mock"))
    assert attrs["gen_ai.request.stream"] is True
    assert attrs["gen_ai.response.time_to_first_chunk"] > 0


def test_names_of_conventions(scripted: MakeHost, traced: Traced, features: InlinePlugin) -> None:
    reply = ScriptedReply(text="hi", usage=Usage(40, 30, 20, 10, 5))
    plugins = {"otel": traced.plugin, "mine": features, "fake": FakeModel()}
    host = scripted(reply, plugins=plugins, repeat=True)
    list(host.open("chat", "mock").stream("hi"))
    host.open("looking").say("hi")
    host.embed(["a"], provider="fake")
    embedded = attributes(traced.one("embeddings fake-embed"))
    assert embedded["gen_ai.operation.name"] == "embeddings"
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    for span in traced.spans:
        assert set(attributes(span)) <= known | {"error.type"}
    assert attributes(traced.one("chat mock"))["gen_ai.usage.reasoning.output_tokens"] == 10


def test_a_failed_call_says_what_kind_of_error_it_was(scripted: MakeHost, traced: Traced) -> None:
    host = scripted({"status": 429}, plugins={"otel": traced.plugin})
    with pytest.raises(RateLimited):
        host.open("chat", "mock").say("hi")
    for name in ("chat mock", "invoke_agent chat"):
        span = traced.one(name)
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == RateLimited.code
        assert not span.events


def test_each_try_is_a_span_also_after_failover(make_host: MakeHost, traced: Traced) -> None:
    mocks = {
        "one": provider_config("mock", replies=[{"status": 500}], repeat=True),
        "two": provider_config("mock", replies=["well"], repeat=True),
    }
    host = make_host(
        config=Config(providers=mocks, provider_order=("one", "two")),
        patience=RetryPolicy(max_attempts=2, jitter=lambda _: 0.0),
        otel=traced.plugin,
    )
    assert host.open("chat", "mock").say("hi").text == "well"
    turn = traced.one("invoke_agent chat")
    calls = traced.of("chat mock")
    assert all(is_below(call, turn) for call in calls)
    assert [
        (attributes(call)["gen_ai.provider.name"], "error.type" in attributes(call))
        for call in calls
    ] == [("one", True), ("one", True), ("two", False)]
    assert turn.status.status_code is StatusCode.UNSET


def test_cancelling_ends_spans(scripted: MakeHost, traced: Traced, background: Background) -> None:
    stream = scripted("a b c", plugins={"otel": traced.plugin}).open("chat", "mock").stream("hi")
    next(stream)
    stream.close()
    for name in ("chat mock", "invoke_agent chat"):
        assert attributes(traced.one(name))["error.type"] == Cancelled.code


def _many(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
    yield from api.All([api.Prompt([turn.message]) for _ in range(5)])
    return api.Answer("done")


def _looking(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
    yield from api.CallTools(
        [api.ToolCall("c1", "look", {"text": SAID}), api.ToolCall("c2", "fail", {})]
    )
    return api.Answer("done")


def _waiting(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
    yield from api.Pause("approval", {}, dict)
    return api.Answer("done")


def look(text: str) -> str:
    """Look."""
    with trace.get_tracer_provider().get_tracer("tools").start_as_current_span("ignored"):
        INSIDE.append(trace.get_current_span().get_span_context().trace_id)
    return text


def fail() -> str:
    """Fail."""
    raise ValueError(SAID)


INSIDE: list[int] = []


@pytest.fixture
def features() -> InlinePlugin:
    return InlinePlugin(
        features=[
            api.Feature("many", api.NoSettings, _many, roles={"main": "chat"}),
            api.Feature("looking", api.NoSettings, _looking, roles={}),
            api.Feature("waiting", api.NoSettings, _waiting, roles={}),
        ],
        tools=[api.tool(look), api.tool(fail)],
    )


def test_calls_at_once(make_host: MakeHost, traced: Traced, features: InlinePlugin) -> None:
    host = make_host(otel=traced.plugin, mine=features)
    threads = [
        threading.Thread(target=host.open("many", "mock").say, args=("hi",)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turns = traced.of("invoke_agent many")
    assert len({turn.context.trace_id for turn in turns}) == 3
    for turn in turns:
        assert len([call for call in traced.of("chat mock") if is_below(call, turn)]) == 5


def test_spans_of_tools(make_host: MakeHost, traced: Traced, features: InlinePlugin) -> None:
    INSIDE.clear()
    make_host(otel=traced.plugin, mine=features).open("looking").say("hi")
    turn = traced.one("invoke_agent looking")
    done, failed = traced.one("execute_tool look"), traced.one("execute_tool fail")
    assert is_below(done, turn)
    assert is_below(failed, turn)
    assert attributes(done) == {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function", "gen_ai.tool.call.id": "c1", "gen_ai.agent.name": "looking",
    }  # fmt: skip
    assert attributes(failed)["error.type"] == "tool_failed"
    assert [done.context.trace_id] == INSIDE


def test_pause_is_no_failure(make_host: MakeHost, traced: Traced, features: InlinePlugin) -> None:
    conversation = make_host(otel=traced.plugin, mine=features).open("waiting")
    with pytest.raises(TurnPaused):
        conversation.say("hi")
    conversation.resume({})
    paused, resumed = traced.of("invoke_agent waiting")
    assert attributes(paused)["genai_host.waits_for"] == "approval"
    assert paused.status.status_code is resumed.status.status_code is StatusCode.UNSET


def test_what_the_application_does_is_above_the_turn(host: Host, traced: Traced) -> None:
    with traced.provider.get_tracer("app").start_as_current_span("app") as above:
        host.open("chat", "mock").say("hi")
    turn = traced.one("invoke_agent chat")
    assert turn.parent is not None
    assert turn.parent.span_id == above.get_span_context().span_id


@pytest.mark.part
def test_a_request_goes_on_with_the_trace_of_its_client(host: Host, traced: Traced) -> None:
    trace_id, span_id = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}
    with served(host) as server:
        requests.post(
            f"{server.url}/v1/chat/completions?key={KEY}",
            json=body,
            headers={"traceparent": f"00-{trace_id}-{span_id}-01", "x-api-key": KEY},
        )
    request, call = traced.one("POST /v1/chat/completions"), traced.one("chat mock")
    assert request.kind is SpanKind.SERVER
    assert f"{request.context.trace_id:032x}" == trace_id
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == span_id
    assert is_below(call, request)
    attrs = attributes(request)
    assert attrs["http.response.status_code"] == 200
    assert attrs["http.route"] == attrs["url.path"] == "/v1/chat/completions"
    assert "canary" not in str([attributes(span) for span in traced.spans])


@pytest.mark.part
def test_a_request_leaves_nothing_current_in_its_thread(host: Host, traced: Traced) -> None:
    body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}
    with served(host) as server:
        for _ in range(5):
            requests.post(f"{server.url}/v1/chat/completions", json=body)
    spans = traced.of("POST /v1/chat/completions")
    assert len(spans) == len({each.context.trace_id for each in spans}) == 5


@pytest.mark.part
@pytest.mark.parametrize("asked", ["", "true"])
def test_services_are_told_of_the_trace_only_where_that_is_asked_for(
    make_host: MakeHost, make_traced: MakeTraced, service: FakeService, asked: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    traced = make_traced({"GENAI_OTEL_PROPAGATE": asked})
    body = {"choices": [{"message": {"content": "well"}, "finish_reason": "stop"}]}
    host = openai_host(make_host, service, traced, json_reply(body))
    host.open("chat", "openai/gpt-x").say("hi")
    call = traced.one("chat gpt-x").context
    sent = service.requests[0].headers.get("traceparent")
    assert sent == (
        f"00-{call.trace_id:032x}-{call.span_id:016x}-{call.trace_flags:02x}" if asked else None
    )


class TestContent:
    """What is said is recorded where that is asked for, and nowhere else."""

    def test_content_is_not_recorded_by_default(
        self, make_host: MakeHost, traced: Traced, features: InlinePlugin
    ) -> None:
        host = make_host(otel=traced.plugin, mine=features)
        host.open("chat", "mock").say(SAID)
        host.open("looking").say(SAID)
        assert len(traced.spans) == 5
        assert SAID not in "".join(span.to_json() for span in traced.spans)

    def test_it_is_recorded_as_the_conventions_have_it(
        self, make_host: MakeHost, make_traced: MakeTraced, features: InlinePlugin
    ) -> None:
        traced = make_traced(CAPTURED)
        host = make_host(otel=traced.plugin, mine=features)
        prompt = api.Prompt([api.Message("system", "be brief"), api.Message("user", "hi")])
        for _ in host.prompt(prompt, model="mock", stream=False):
            pass
        host.open("looking").say("look")
        attrs = attributes(traced.one("chat mock"))
        expected = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
        assert json.loads(attrs["gen_ai.input.messages"]) == expected
        [message] = json.loads(attrs["gen_ai.output.messages"])
        assert (message["role"], message["finish_reason"]) == ("assistant", "stop")
        brief = [{"type": "text", "content": "be brief"}]
        assert json.loads(attrs["gen_ai.system_instructions"]) == brief
        looked = attributes(traced.one("execute_tool look"))
        assert json.loads(looked["gen_ai.tool.call.arguments"]) == {"text": SAID}
        assert looked["gen_ai.tool.call.result"] == SAID

    def test_all_parts_are_recorded(self, make_host: MakeHost, make_traced: MakeTraced) -> None:
        traced = make_traced(CAPTURED)
        host = make_host(otel=traced.plugin, fake=FakeModel(lambda prompt: '{"n": 1}'))
        call = api.ToolCall("c1", "look", {"text": "a"})
        messages = [
            api.Message("user", ["hi", api.Image(b"x", "image/png")]),
            api.Message("assistant", [api.Reasoning("hm"), call]),
            api.Message("tool", api.ToolResult("c1", "look", [api.Text("b")])),
        ]
        prompt = api.Prompt(
            messages,
            tools=[
                api.ToolSchema("look", "Look.", {"type": "object"}),
                api.VendorTool("search", "", extra={"plain": {"type": "web_search_1", "key": 1}}),
                api.VendorTool("googleSearch", "", extra={"plain": {"googleSearch": {}}}),
            ],
            schema={"type": "object"},
        )
        for _ in host.prompt(prompt, model="fake", stream=False):
            pass
        attrs = attributes(traced.one("chat fake"))
        assert [message["parts"] for message in json.loads(attrs["gen_ai.input.messages"])] == [
            [{"type": "text", "content": "hi"}, {"type": "image"}],
            [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"text": "a"}},
            ],
            [{"type": "tool_call_response", "id": "c1", "response": "b"}],
        ]
        assert json.loads(attrs["gen_ai.tool.definitions"]) == [
            {"type": "function", "name": "look"},
            {"type": "web_search_1", "name": "search"},
            {"type": "googleSearch", "name": "googleSearch"},
        ]
        assert attrs["gen_ai.output.type"] == "json"

    @pytest.mark.part
    def test_no_key_is_in_any_span_whatever_the_service_answers(
        self, make_host: MakeHost, make_traced: MakeTraced, service: FakeService,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        traced = make_traced(CAPTURED)
        body = {"error": {"message": f"the key {KEY} is wrong"}}
        host = openai_host(make_host, service, traced, json_reply(body, 401))
        with pytest.raises(GenaiError):
            host.open("chat", "openai/gpt-x").say("hi")
        assert traced.of("chat gpt-x")
        assert KEY not in "".join(span.to_json() for span in traced.spans)

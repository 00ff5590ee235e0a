"""The host replaces tools of services: choices, schemas, costs, and the end of an answer."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import genai_vendor_openai
import pytest
from attrs import evolve

from genai_host import Config, Host
from genai_host.api import (
    Cancellation,
    Completion,
    Delta,
    Message,
    Part,
    Prompt,
    Reasoning,
    RouteRequest,
    Text,
    TokenCount,
    Tool,
    ToolCall,
    ToolSchema,
    Usage,
    VendorPart,
    VendorTool,
)
from genai_host.api.tools import ToolContext
from genai_host.config import ServerConfig
from genai_host.errors import Cancelled
from genai_host.serving import completion
from genai_host.serving.completion import ChatRequest
from genai_host.serving.service_tools import answer_with_tools, with_host_tools
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

SEARCH = VendorTool("search", "", kind="web_search")
CLOCK = ToolSchema("clock", "the time")
CALL, READ = ToolCall("c1", "search", {}), ToolCall("c2", "clock", {})
FIND = Tool("find", "finds", lambda arguments, context: "found", idempotent=True)
SERVER = ServerConfig(service_tools={"web_search": "find"})


class Prices:
    """A dollar a token."""

    def price(self, seller: str, model: str, usage: Usage, at: Any) -> float | None:
        return float(usage.total)


def searches(prompt: RecordedPrompt) -> Completion:
    """The model searches once."""
    if prompt.messages[-1].role == "tool":
        return Completion(Message("assistant", '{"a": 1}'), usage=Usage(3, 4))
    return Completion(Message("assistant", [Text("I look."), CALL]), "tool_calls", Usage(1, 2))


def serving(
    make_host: MakeHost, answer: Any = searches, tool: Tool = FIND, **settings: Any
) -> Host:
    plugins = {"fake": FakeModel(answer), "tools": InlinePlugin(tools=[tool])}
    config = Config(models={"chat": "fake"}, server=SERVER)
    return make_host(**{**plugins, "config": config, **settings})


def request(limits: Cancellation | None = None) -> RouteRequest:
    return RouteRequest("POST", "/", limits=limits or Cancellation())


def request_of(**fields: Any) -> ChatRequest:
    usual = {"model": None, "messages": [Message("user", "hi")], "tools": [SEARCH]}
    return ChatRequest(**{**usual, **fields})


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_by_a_schema_is_the_last_one_alone(make_host: MakeHost, stream: bool) -> None:
    host = serving(make_host)
    chat_request = request_of(schema={"type": "object"}, stream=stream)
    answering = completion.answer(host, chat_request, request())
    assert "".join(piece.text for piece in answering) == '{"a": 1}'
    assert answering.completion.text == '{"a": 1}'
    assert answering.completion.value == {"a": 1}


@pytest.mark.parametrize("choice", ["search", "required", None])
def test_choice_holds_once_and_each_round_is_paid(make_host: MakeHost, choice: str | None) -> None:
    """A repeated choice would make the model call the tool without end."""
    call = {"id": "c1", "name": "search", "arguments": {}}
    replies = [
        {"tool_calls": [call], "usage": {"input_tokens": 1, "output_tokens": 2}},
        {"text": "so", "usage": {"input_tokens": 3, "output_tokens": 4}},
    ]
    host = serving(make_host, prices=Prices())
    host.instances.add("script", "mock", {"replies": replies, "priced_as": "acme"})
    provider: Any = host.instances["script"].provider
    chat_request = request_of(model="script/m", tools=[SEARCH, CLOCK], tool_choice=choice)
    result = completion.whole(host, chat_request, request())
    assert (result.text, result.usage, result.cost) == ("so", Usage(4, 6), 10.0)
    assert [each.get("tool_choice") for each in provider.requests] == [choice, None]
    names = [[tool["name"] for tool in each["tools"]] for each in provider.requests]
    assert names == [["search", "clock"]] * 2


def test_a_model_that_must_not_call_tools_runs_none(make_host: MakeHost) -> None:
    host = serving(make_host)
    call = {"id": "c1", "name": "search", "arguments": {}}
    host.instances.add("script", "mock", {"replies": [{"text": "No.", "tool_calls": [call]}]})
    provider: Any = host.instances["script"].provider
    result = completion.whole(host, request_of(model="script/m", tool_choice="none"), request())
    assert (list(result.message.content), result.finish) == ([Text("No.")], "stop")
    assert [each["tool_choice"] for each in provider.requests] == ["none"]


def test_a_malformed_call_is_not_run(make_host: MakeHost) -> None:
    results: list[Any] = []

    def answer(prompt: RecordedPrompt) -> Completion:
        if prompt.messages[-1].role == "tool":
            results.extend(prompt.messages[-1].content)
            return Completion(Message("assistant", "no"))
        malformed = ToolCall("c1", "search", malformed="{")
        return Completion(Message("assistant", [malformed]), "tool_calls")

    result = completion.whole(serving(make_host, answer), request_of(), request())
    assert result.text == "no"
    assert [(each.error, each.content) for each in results] == [
        (True, (Text("the arguments are not a JSON object"),))
    ]


def test_calls_of_all_rounds_are_limited(make_host: MakeHost) -> None:
    """The model learns which calls were not run."""
    runs: list[Any] = []
    outputs: list[str] = []

    def run(arguments: Any, context: ToolContext) -> str:
        runs.append(arguments)
        return "found"

    def answer(prompt: RecordedPrompt) -> Completion:
        if len(prompt.messages) == 5:
            results: list[Any] = [p for message in prompt.messages[2::2] for p in message.content]
            outputs.extend(each.content[0].text for each in results)
            return Completion(Message("assistant", "so"))
        calls = [ToolCall(f"c{len(prompt.messages)}_{at}", "search", {}) for at in range(30)]
        return Completion(Message("assistant", calls), "tool_calls")

    host = serving(make_host, answer, Tool("find", "finds", run))
    assert completion.whole(host, request_of(), request()).text == "so"
    assert len(runs) == 32
    assert outputs == ["found"] * 32 + ["not run: at most 32 calls are allowed"] * 28


def test_a_round_without_text_adds_no_paragraph(make_host: MakeHost) -> None:
    def answer(prompt: RecordedPrompt) -> Completion:
        if len(prompt.messages) == 7:
            return searches(prompt)
        text = [Text("I look.")] if len(prompt.messages) == 1 else []
        call = ToolCall(f"c{len(prompt.messages)}", "search", {})
        return Completion(Message("assistant", [*text, call]), "tool_calls")

    answering = completion.answer(serving(make_host, answer), request_of(stream=True), request())
    assert "".join(piece.text for piece in answering) == 'I look.\n\n{"a": 1}'
    assert answering.completion.text == 'I look.\n\n{"a": 1}'


def test_missing_tool_harms_nothing(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
    host = serving(make_host, tool=Tool("other", "does not find", lambda arguments, context: ""))
    own = VendorTool("search", "", kind="web_search", extra={"own": {"type": "search"}})
    assert with_host_tools(host, [own, CLOCK]) == [own, CLOCK]
    assert "server.service_tools.web_search: unknown tool 'find'" in caplog.text


@pytest.mark.parametrize(
    ("own", "expected"), [({}, [1]), ({"fake": {"type": "x"}}, [0, 1])], ids=["another", "its own"]
)
def test_hidden_vendor_parts_stay_out(make_host: MakeHost, own: Any, expected: list[int]) -> None:
    """Those of a service that has the tool stay in order: it hides no round."""

    def ask(prompt: Prompt) -> Generator[Delta, None, Completion]:
        number = len(prompt.messages) // 2
        sealed = VendorPart("fake", number)
        yield Delta(opaque=sealed)
        yield Delta("so")
        calls = [] if number else [CALL]
        return Completion(Message("assistant", [sealed, Text("so"), *calls]))

    host = serving(make_host)
    [tool] = with_host_tools(host, [evolve(SEARCH, extra=own)])
    prompt = Prompt([Message("user", "hi")], tools=[tool])
    pieces = list(answer_with_tools(host, prompt, ask, Cancellation()))
    assert [piece.opaque.data for piece in pieces if piece.opaque] == expected


SIGNED, CALLED = VendorPart("fake", {"signs": "thoughts"}), VendorPart("fake", {"signs": "a call"})
HM, SO = Reasoning("hm"), Text('{"a": 1}')


@pytest.mark.parametrize(("content", "expected"), [
    ([HM, SIGNED, CALL, CALLED, READ], [HM, SIGNED, READ]),
    ([HM, SIGNED, Text("I look."), CALL], [HM, Text("I look.\n\n"), SO]),
    ([Text("I look."), HM, CALL], [Text("I look."), HM, SO]),
    ([CALL], [SO]),
], ids=["with a call of the client", "texts", "thoughts", "nothing else"])  # fmt: skip
def test_signatures_stay(make_host: MakeHost, content: list[Part], expected: list[Part]) -> None:
    def answer(prompt: RecordedPrompt) -> Completion:
        is_first = len(prompt.messages) == 1
        return (
            Completion(Message("assistant", content), "tool_calls")
            if is_first
            else searches(prompt)
        )

    result = completion.whole(
        serving(make_host, answer), request_of(tools=[SEARCH, CLOCK]), request()
    )
    assert list(result.message.content) == expected


def test_a_tool_runs_in_a_thread_of_the_server(make_host: MakeHost) -> None:
    """An event loop must not wait for it."""
    gate = provider_config("openai-compatible", base_url="http://127.0.0.1:9/v1")
    config = Config(providers={"gate": gate}, server=SERVER)
    host = serving(make_host, openai=genai_vendor_openai, config=config)
    is_in_thread = [
        completion.answer(
            host, request_of(model="gate/m", tools=tools, stream=True), request()
        ).suspends
        for tools in ([CLOCK], [SEARCH])
    ]
    assert is_in_thread == [True, False]


def test_a_client_that_goes_ends_the_tool(make_host: MakeHost) -> None:
    started, ended = threading.Event(), threading.Event()

    def wait(arguments: Any, context: ToolContext) -> str:
        with context.limits.on_cancel(ended.set):
            started.set()
            assert ended.wait(30)
        return "late"

    fake = FakeModel(searches)
    host = serving(make_host, fake=fake, tool=Tool("find", "finds", wait))
    limits = Cancellation()
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(completion.whole, host, request_of(), request(limits))
        assert started.wait(30)
        limits.cancel()
        with pytest.raises(Cancelled):
            answering.result(30)
    assert ended.wait(30)
    assert fake.calls == 1


def test_tokens_of_tools_are_counted(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = serving(make_host)

    def count(*arguments: Any, tools: Sequence[ToolSchema], **named: Any) -> TokenCount:
        return TokenCount(len(tools[0].parameters))

    monkeypatch.setattr(host, "count_tokens", count)
    tokens = completion.count_tokens(host, request_of(), Cancellation())
    assert tokens == len(FIND.schema.parameters) > 0

"""Tools that services run themselves, replaced by tools of the host or left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fronts import DELTA, FRONTS, WORD, Front, place

from genai_host import Config, Host
from genai_host.api import (
    Cancellation,
    Citation,
    Completion,
    Message,
    Reasoning,
    RouteRequest,
    RouteResponse,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host.config import ServerConfig
from genai_host.serving import service_tools
from genai_host.serving.router import HttpRoutes
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.fake_service import sse_reply
from genai_host_testing.internal.fixtures import MakeHost

WORDS = "It is 3 degrees."


class Reply(NamedTuple):
    """What a client sees: the text, the names of calls, the output tokens, and the header."""

    text: str
    calls: list[str]
    tokens: int
    dropped: str = ""


class Wire(NamedTuple):
    """An API of the server.

    Attributes:
        name: Name of the tool for the model.
        whole, stream: Path and further fields of a request.
        body: Fields of a request.
        tool: The service's tool.
        clock: A tool of the client.
        dropped: How the tool is reported if it is left out.
        seen: Reads a reply, or the events of a stream.
    """

    name: str
    plain: tuple[str, Mapping[str, Any]]
    stream: tuple[str, Mapping[str, Any]]
    body: Mapping[str, Any]
    tool: Mapping[str, Any]
    clock: Mapping[str, Any]
    dropped: str
    seen: Callable[[list[Any]], Reply]


def responses(values: list[Any]) -> Reply:
    *events, last = values
    response = last.get("response", last)
    messages = [item for item in response["output"] if item["type"] == "message"]
    text = "".join(part["text"] for message in messages for part in message["content"])
    if events:
        deltas = [each for each in events if each["type"] == "response.output_text.delta"]
        assert text == "".join(each["delta"] for each in deltas)
    calls = [item["name"] for item in response["output"] if item["type"] == "function_call"]
    return Reply(text, calls, response["usage"]["output_tokens"])


def anthropic(values: list[Any]) -> Reply:
    names = ("content_block", "delta")
    pieces = values[0].get("content") or [each[n] for each in values for n in names if n in each]
    text = "".join(each.get("text", "") for each in pieces)
    calls = [each["name"] for each in pieces if each.get("type") == "tool_use"]
    *_, usage = [each["usage"] for each in values if "usage" in each]
    return Reply(text, calls, usage["output_tokens"])


def gemini(values: list[Any]) -> Reply:
    parts = [part for each in values for part in each["candidates"][0]["content"]["parts"]]
    text = "".join(part.get("text", "") for part in parts)
    calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
    return Reply(text, calls, values[-1]["usageMetadata"]["candidatesTokenCount"])


_OBJECT = {"type": "object", "properties": {}}
_CLOCK = {"name": "clock", "description": "the time"}
WIRES = {
    "responses": Wire(
        "web_search", ("/v1/responses", {}), ("/v1/responses", {"stream": True}),
        {"model": "fake", "input": "hi", "store": False}, {"type": "web_search"},
        {"type": "function", **_CLOCK, "parameters": _OBJECT}, "tools[0].web_search", responses,
    ),
    "anthropic": Wire(
        "web_search", ("/v1/messages", {}), ("/v1/messages", {"stream": True}),
        {"model": "fake", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
        {"type": "web_search_20250305", "name": "web_search"}, {**_CLOCK, "input_schema": _OBJECT},
        "tools[0].web_search", anthropic,
    ),
    "gemini": Wire(
        "googleSearch", ("/v1beta/models/fake:generateContent", {}),
        ("/v1beta/models/fake:streamGenerateContent", {}),
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, {"googleSearch": {}},
        {"functionDeclarations": [_CLOCK]}, "tools[0].googleSearch", gemini,
    ),
}  # fmt: skip


class Api:
    """One API of a host, for one kind of reply."""

    def __init__(self, host: Host, routes: HttpRoutes, wire: Wire, streams: bool) -> None:
        self.host = host
        self.wire = wire
        self.streams = streams
        self._routes = routes

    def send(self, *tools: Any, limits: Cancellation | None = None, **more: Any) -> RouteResponse:
        path, further = self.wire.stream if self.streams else self.wire.plain
        body = {**self.wire.body, **further, "tools": list(tools), **more}
        query = {"alt": "sse"} if "stream" in path else {}
        request = RouteRequest(
            "POST", path, query=query, headers={"content-type": "application/json"},
            body=json.dumps(body).encode(), limits=limits or Cancellation(),
        )  # fmt: skip
        return self._routes.answer(request)

    def ask(self, *tools: Any, **more: Any) -> Reply:
        reply = self.send(*tools, **more)
        data = content(reply)
        assert reply.status == 200, data.decode()
        lines = [line.removeprefix(b"data: ") for line in data.split(b"\n")]
        values = [json.loads(line) for line in lines if line.startswith(b"{")]
        return self.wire.seen(values)._replace(
            dropped=reply.headers.get("x-genai-host-dropped", "")
        )


def content(reply: RouteResponse) -> bytes:
    return reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)


def search(run: Any = lambda arguments, context: WORDS, **more: Any) -> Tool:
    query = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return Tool("find", "searches the web", run, query, **more)


def output_in(message: Message) -> str:
    """The text of the output of a tool."""
    [result] = message.content
    assert isinstance(result, ToolResult)
    return "".join(part.text for part in result.content if isinstance(part, Text))


def replaces(prompt: RecordedPrompt) -> Completion:
    """The model searches once, then repeats what was found."""
    *_, last = prompt.messages
    if last.role == "tool":
        return completion_of(f"Found: {output_in(last)}", tokens=5)
    [name] = [name for name in prompt.tools if name != "clock"]
    call = ToolCall("c1", name, {"query": "weather"})
    return completion_of(Reasoning("hm"), "I look.", VendorPart("fake", {"sealed": 1}), call)


def completion_of(*parts: Any, tokens: int = 7) -> Completion:
    calls = any(isinstance(part, ToolCall) for part in parts)
    message = Message("assistant", list(parts))
    return Completion(message, "tool_calls" if calls else "stop", Usage(1, tokens))


@contextmanager
def serving(
    make_host: MakeHost, fake: FakeModel, tool: Tool, wire: Wire, streams: bool, **tools: str
) -> Iterator[Api]:
    config = Config(models={"chat": "fake"}, server=ServerConfig(service_tools=tools))
    host = make_host(fake=fake, config=config, search=InlinePlugin(tools=[tool]))
    routes = HttpRoutes(host)
    try:
        yield Api(host, routes, wire, streams)
    finally:
        routes.close()


@pytest.fixture(params=list(WIRES.values()), ids=list(WIRES))
def wire(request: pytest.FixtureRequest) -> Wire:
    value: Wire = request.param
    return value


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel(replaces)


@pytest.fixture
def tool() -> Tool:
    return search()


@pytest.fixture
def api(
    make_host: MakeHost, fake: FakeModel, tool: Tool, wire: Wire, streams: bool
) -> Iterator[Api]:
    """It replaces the search."""
    with serving(make_host, fake, tool, wire, streams, web_search="find") as api:
        yield api


def test_the_host_runs_its_tool_and_shows_the_answer(api: Api, fake: FakeModel) -> None:
    reply = api.ask(api.wire.tool, api.wire.clock)
    assert reply == (f"I look.\n\nFound: {WORDS}", [], 12, "")
    assert [set(prompt.tools) for prompt in fake.prompts] == [{api.wire.name, "clock"}] * 2
    _, called, result = fake.prompts[1].messages
    assert (called.role, result.role) == ("assistant", "tool")
    assert VendorPart("fake", {"sealed": 1}) in called.content


@pytest.mark.parametrize(("wire", "tool", "dropped"), [
    ("gemini", {"googleSearch": {"timeRangeFilter": {}}, "functionDeclarations": [_CLOCK]},
     "tools[0].googleSearch.timeRangeFilter"),
    ("gemini", {"googleSearch": {}, "function_declarations": [_CLOCK]}, ""),
    ("anthropic", {"type": "web_search_20250305", "name": "web_search", "max_uses": 1},
     "tools[0].max_uses"),
    ("responses", {"type": "web_search", "filters": {}}, "tools[0].filters"),
])  # fmt: skip
def test_options_of_a_played_tool_are_left_out_by_name(
    make_host: MakeHost, fake: FakeModel, tool: Any, wire: str, dropped: str
) -> None:
    with serving(make_host, fake, search(), WIRES[wire], False, web_search="find") as api:
        assert api.ask(tool).dropped == dropped


def test_calls_of_the_client_end_the_answer(api: Api, fake: FakeModel) -> None:
    def both(prompt: RecordedPrompt) -> Completion:
        calls = [ToolCall("c1", api.wire.name, {"query": "x"}), ToolCall("c2", "clock", {})]
        return completion_of("Both.", *calls)

    fake.answer = both
    assert api.ask(api.wire.tool, api.wire.clock) == ("Both.", ["clock"], 7, "")
    assert fake.calls == 1


def test_without_a_tool_of_the_host_it_is_left_out_by_name(
    make_host: MakeHost, fake: FakeModel, tool: Tool, wire: Wire, streams: bool
) -> None:
    fake.answer = lambda prompt: completion_of("no")
    with serving(make_host, fake, tool, wire, streams, web_fetch="find") as api:
        assert api.ask(wire.tool) == ("no", [], 7, wire.dropped)
        assert api.ask(wire.tool, wire.clock).dropped == wire.dropped
    assert [prompt.tools for prompt in fake.prompts] == [(), ("clock",)]


@pytest.mark.parametrize(
    "more", [{}, {"nonsense": 1}, {"nonsense" * 999: 1}], ids=["a tool", "a field", "a long field"]
)
def test_a_strict_server_refuses_what_it_would_leave_out(
    make_host: MakeHost, fake: FakeModel, wire: Wire, streams: bool, more: Any
) -> None:
    server = ServerConfig(strict=True)
    host = make_host(fake=fake, config=Config(models={"chat": "fake"}, server=server))
    with closing(HttpRoutes(host)) as routes:
        api = Api(host, routes, wire, streams)
        reply = api.send(*([wire.clock] if more else [wire.tool]), **more)
        assert reply.status == 400
        assert (wire.dropped if not more else "nonsense") in content(reply).decode()
        assert len(content(reply)) < 1000
        assert not fake.calls
        fake.answer = lambda prompt: completion_of("yes")
        assert api.ask(wire.clock).text == "yes"


@pytest.mark.parametrize(("tool", "name", "why"), [
    (search(approval="ask"), "find", "needs approval"),
    (search(approval="deny"), "find", "is denied"),
    (search(), "search", "unknown tool 'search'"),
], ids=["ask", "deny", "unknown"])  # fmt: skip
def test_a_tool_that_cannot_play_is_an_error_of_the_configuration(
    make_host: MakeHost, fake: FakeModel, wire: Wire, tool: Tool, name: str, why: str
) -> None:
    with serving(make_host, fake, tool, wire, False, web_search=name) as api:
        reply = api.send(wire.tool)
    assert reply.status == 400
    assert "server.service_tools.web_search: " in content(reply).decode()
    assert why in content(reply).decode()
    assert not fake.calls


def test_rounds_are_limited(api: Api, fake: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end, the model must answer without tools."""
    monkeypatch.setattr(service_tools, "MAX_ROUNDS", 2)
    fake.answer = lambda prompt: completion_of(ToolCall("c1", api.wire.name, {"query": "x"}))
    reply = api.send(api.wire.tool)
    assert b"more than 2 times" in content(reply)
    assert fake.calls == 3


@pytest.mark.part
@pytest.mark.parametrize("front", [front for front in FRONTS if front.name in WIRES], ids=str)
def test_rounds_are_streamed_over_http(
    make_host: MakeHost, tmp_path: Path, tool: Tool, front: Front
) -> None:
    wire = WIRES[front.name]
    function = {"name": wire.name, "arguments": '{"query":"weather"}'}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    calling = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    server = ServerConfig(service_tools={"web_search": "find"})
    plugins = {"search": InlinePlugin(tools=[tool])}
    with place(make_host, tmp_path, config={"server": server}, plugins=plugins) as here:
        here.service.replies = [
            sse_reply([json.dumps(calling).encode(), _END, b"[DONE]"]),
            sse_reply([DELTA, _END, b"[DONE]"]),
        ]
        answer = here.ask(front, stream=True, tools=[wire.tool]).content
        assert WORD.encode() in answer
        assert front.done in answer
        assert b"weather" not in answer
        first, second = here.service.requests
    assert [each["function"]["name"] for each in first.json()["tools"]] == [wire.name]
    assert second.json()["messages"][-1]["content"] == WORDS


_END = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


@pytest.mark.parametrize("streams", [False, True])
def test_citations_are_placed_in_the_texts_of_all_rounds(make_host: MakeHost, streams: Any) -> None:
    cited = Citation("https://example.org", start=0, end=5)

    def answer(heard: RecordedPrompt) -> Completion:
        if heard.messages[-1].role == "tool":
            return completion_of(Text("Found.", citations=[cited]))
        return replaces(heard)

    wire = WIRES["responses"]
    with serving(make_host, FakeModel(answer), search(), wire, streams, web_search="find") as api:
        data = content(api.send(wire.tool))
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n")]
    values = [json.loads(line) for line in lines if line.startswith(b"{")]
    output = values[-1].get("response", values[-1])["output"]
    [part] = [part for item in output if item["type"] == "message" for part in item["content"]]
    found = [each["annotation"] for each in values if "annotation" in each]
    assert found == part["annotations"] * streams
    [note] = part["annotations"]
    assert part["text"][note["start_index"] : note["end_index"]] == "Found"

"""The agent beside llama.cpp's own HTTP server, with a real model, as OpenAI's chat, as its
responses, as Anthropic's messages, and as Bedrock, where ministack stands in front of it.

A model as small as this one calls tools where it is made to, which no agent does: what stands
between says so. What is called, and what is said in the end, is the model's own affair; that
each call is answered, and that the loop ends, is ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import genai_feature_agent
import genai_vendor_anthropic
import genai_vendor_bedrock
import genai_vendor_openai
import pytest
import requests
from genai_feature_agent.request import StatelessAgent
from peers.llama_service import llama_instances, llama_server
from peers.ministack_service import ministack, use_ministack

from genai_host import Config, Conversation, Host, RetryPolicy
from genai_host.api import Answer, Tool, ToolCall, ToolOutput, ToolResult, tool
from genai_host.errors import LimitExceeded, TurnPaused
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

_PASSED_ON = ("authorization", "x-api-key", "anthropic-version", "content-type")


class Between:
    """Runs while it is entered.

    url       the service's address
    change    what to change of the body of a request, before it is passed on
    bodies    as they came, with their paths
    """

    def __init__(self, url: str, change: Callable[[Any], None]) -> None:
        self.bodies: list[Any] = []
        between = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                between.bodies.append(json.loads(json.dumps(body)))
                change(body)
                headers = {name: self.headers[name] for name in _PASSED_ON if self.headers[name]}
                with requests.post(
                    url + self.path, json=body, headers=headers, stream=True, timeout=100
                ) as reply:
                    self.send_response(reply.status_code)
                    self.send_header("Content-Type", reply.headers["Content-Type"])
                    self.end_headers()
                    for piece in reply.iter_content(None):
                        self.wfile.write(piece)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing is to be told of requests that are kept."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05])

    def __enter__(self) -> Between:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def must_call(body: Any) -> None:
    """Have the model call a tool, whatever the dialect of the request."""
    is_of_anthropic = "input_schema" in body["tools"][0]
    body["tool_choice"] = {"type": "any"} if is_of_anthropic else "required"


def must_not_call(body: Any) -> None:
    """Have it say something."""
    body.pop("tool_choice", None)
    del body["tools"]


def short(body: Any) -> None:
    """Have it say no more than a few words."""
    body["max_output_tokens" if "input" in body else "max_tokens"] = 48


def ends_with_result(body: Any) -> bool:
    """Whether the last thing in a request, whatever its dialect, is what a tool gave."""
    last = (body.get("messages") or body.get("input"))[-1]
    if last.get("type") == "function_call_output" or last.get("role") == "tool":
        return True
    content = last.get("content")
    return isinstance(content, list) and any(part["type"] == "tool_result" for part in content)


pytestmark = [pytest.mark.peers, pytest.mark.weights]

FOUND = "It is blue."
SEEN = {"type": "writeback", "message": "looked"}
MODELS = {
    "chat": "chat/smollm2", "responses": "responses/smollm2", "messages": "messages/smollm2",
    "bedrock": "bedrock/arn:aws:bedrock:us-east-1:000000000000:inference-profile/smollm2",
}  # fmt: skip


def _once(body: Any) -> None:
    short(body)
    (must_not_call if ends_with_result(body) else must_call)(body)


@pytest.fixture(scope="module")
def between(weights: Path) -> Iterator[Between]:
    server = llama_server(weights, window=2048, key="")
    with Between(server.listening_address, _once) as new_proxy:
        yield new_proxy


@pytest.fixture(scope="module")
def bedrock_url(between: Between, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("ministack"), between.url) as address:
        yield address


@pytest.fixture
def looked() -> list[str]:
    """Where the tool looked at."""
    return []


@pytest.fixture
def look(looked: list[str]) -> Tool:
    @tool(idempotent=True)
    def look(at: Literal["sky", "sea"]) -> ToolOutput:
        """looks at something"""
        looked.append(at)
        return ToolOutput(FOUND, reactions=[SEEN])

    return look


@pytest.fixture
def hosts(
    between: Between,
    bedrock_url: str,
    look: Tool,
    make_host: MakeHost,
    monkeypatch: pytest.MonkeyPatch,
) -> MakeHost:
    """Makes hosts with the agent and the tool, in front of what stands between."""
    between.bodies.clear()
    use_ministack(bedrock_url, monkeypatch)
    instances = {**llama_instances(between.url, monkeypatch), "bedrock": provider_config("bedrock")}

    def make(**config: Any) -> Host:
        return make_host(
            config=Config(providers=instances, **config),
            patience=RetryPolicy(min_backoff=0.05),  # it drops a connection soon after a stream
            anthropic=genai_vendor_anthropic,
            bedrock=genai_vendor_bedrock,
            openai=genai_vendor_openai,
            agent=genai_feature_agent,
            tools=InlinePlugin(tools=[look]),
        )

    return make


@pytest.fixture
def host(hosts: MakeHost) -> Host:
    return hosts()


each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def answer_of(conversation: Conversation, text: str, streamed: bool) -> Answer:
    if not streamed:
        return conversation.say(text)
    *_, last = conversation.stream(text)
    assert last.answer is not None
    return last.answer


def parts_of(conversation: Conversation, kind: type[Any]) -> list[Any]:
    parts = [part for message in conversation.history for part in message.content]
    return [part for part in parts if isinstance(part, kind)]


@each_model
@each_way
def test_a_tool_is_called_and_its_output_told(
    host: Host, between: Between, looked: list[str], model: str, streamed: bool
) -> None:
    conversation = host.open("agent", model)
    answer = answer_of(conversation, "What colour is the sky? Look at it.", streamed)
    assert len(looked) == 1
    assert [message.role for message in conversation.history] == [
        *("user", "assistant", "tool", "assistant")
    ]
    assert answer.text.strip()
    assert answer.data["reactions"][-1] == SEEN
    [call], [result] = parts_of(conversation, ToolCall), parts_of(conversation, ToolResult)
    assert (call.name, call.arguments) == ("look", {"at": looked[0]})
    assert call.id
    assert result == ToolResult(call.id, "look", FOUND)
    first, second = between.bodies
    assert call.id in json.dumps(second)
    assert call.id not in json.dumps(first)
    assert FOUND in json.dumps(second)
    assert [ends_with_result(each) for each in (first, second)] == [False, True]
    assert answer.usage.output_tokens > 0


@each_model
def test_second_turn(host: Host, between: Between, looked: list[str], model: str) -> None:
    conversation = host.open("agent", model)
    for text, streamed in (("What colour is the sky?", True), ("And the sea?", False)):
        assert answer_of(conversation, text, streamed).text.strip()
    assert len(looked) == 2
    ids = [call.id for call in parts_of(conversation, ToolCall)]
    assert [result.id for result in parts_of(conversation, ToolResult)] == ids
    sent = json.dumps(between.bodies[-1])
    assert len(between.bodies) == 4
    assert all(id in sent for id in ids)


def test_most_calls_of_the_model(host: Host, between: Between, looked: list[str]) -> None:
    conversation = host.open("agent", MODELS["chat"], settings={"round_trips": 1})
    with pytest.raises(LimitExceeded, match=r"model calls \(1\)"):
        conversation.say("What colour is the sky?")
    assert len(between.bodies) == len(looked) == 1
    assert conversation.history == ()


def test_front_end_keeps_the_conversation(host: Host, between: Between, looked: list[str]) -> None:
    agent = StatelessAgent(host, MODELS["responses"])
    first = agent.reply(agent.read({"message": "What colour is the sky?"}))
    assert (first.error, len(looked)) == (None, 1)
    history = json.loads(json.dumps(first.to_json()["history"]))
    second = agent.reply(agent.read({"message": "And the sea?", "history": history}))
    assert second.error is None
    assert second.history[: len(history)] == history
    assert len(between.bodies) == 4


@pytest.mark.parametrize(
    ("model", "approved"), [(MODELS["chat"], True), *((each, False) for each in MODELS.values())]
)
def test_a_call_waits_for_a_human(
    hosts: MakeHost, between: Between, looked: list[str], model: str, approved: bool
) -> None:
    conversation = hosts(approvals={"look": "ask"}).open("agent", model)
    with pytest.raises(TurnPaused):
        conversation.say("What colour is the sky?")
    assert conversation.current_pause is not None
    [call] = conversation.current_pause.payload["calls"]
    assert (looked, len(between.bodies)) == ([], 1)
    assert conversation.resume({call["id"]: approved}).text.strip()
    assert len(looked) == approved
    assert (FOUND if approved else "did not approve") in json.dumps(between.bodies[-1])

"""The official `anthropic` SDK as an oracle: it and we say the same to a service that writes
down what it is sent. Method, path, query, headers and body agree, but for what is listed
here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anthropic
import genai_vendor_anthropic
import pytest
from attrs import frozen
from peers.claude_conversations import PARSED, TOLD, WIRE_LOOK
from peers.conversations import LOOK, Kind, user
from peers.differences import ABSENT, HEADERS, Difference, differing, headers_in_vain
from peers.sides import Clients, Sides, clients, service, telling

from genai_host.api import (
    Answer,
    CountTokens,
    FeatureSteps,
    Message,
    NoSettings,
    Prompt,
    ToolResult,
    Turn,
)
from genai_host.api.cancellation import Cancellation
from genai_host.dialects.anthropic_messages import AnthropicCount
from genai_host.testing.fake_service import FakeService, Received, Reply, json_reply
from genai_host_testing.anthropic_service import CALLED, KEY, THOUGHT, USAGE, claude
from genai_host_testing.fixtures import MakeHost

pytestmark = pytest.mark.peers
__all__ = ["clients", "service"]

FIELDS: Mapping[Difference, str] = {
    Difference("messages[].content[].caller.type", ABSENT, "direct"): (
        "who called a tool: nobody but the model can, as nothing else is offered"
    ),
    Difference("messages[].content[].citations", ABSENT, None): "it says nothing",
}
"""All that may differ in a body, and why; the order of keys and the spelling of JSON say
nothing in any case."""

KEYS: Mapping[str, str] = {
    "x-api-key": "the service takes a key so, as do gateways that know no other way",
    "authorization": "since its version 2 the SDK sends a key as if it were a token",
}
"""Further headers that may differ where there is a key, and why."""


@frozen
class Way:
    """A service set up by environment variables, the same ones for both.

    model   its name here
    id      what the SDK calls it
    kind    what the model can do
    may     headers that may differ, beside the usual ones
    """

    name: str
    model: str
    id: str
    kind: Kind
    environment: Mapping[str, str]
    may: Mapping[str, str] = {}

    @property
    def client(self) -> Callable[[str], Any]:
        return _client


def _client(url: str) -> Any:
    return anthropic.Anthropic(max_retries=0)


_BY_KEY = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"}
_BY_TOKEN = {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": "{url}/gate"}
WAYS = [
    Way("thinking", "claude-sonnet-5-5", "claude-sonnet-5-5", "thinking", _BY_KEY, KEYS),
    Way("direct", "claude-haiku-4-5", "claude-haiku-4-5-20251001", "direct", _BY_KEY, KEYS),
    Way("by token", "anthropic/claude", "claude", "", _BY_TOKEN),
]


class ClaudeSides(Sides):
    variables = {"ALL_PROXY", "HTTP_PROXY", "NO_PROXY", *_BY_KEY, *_BY_TOKEN}
    plugins = {"anthropic": genai_vendor_anthropic}


@pytest.fixture
def sides(
    service: FakeService, clients: Clients, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> ClaudeSides:
    return ClaudeSides(service, clients, make_host, monkeypatch)


TELLINGS = {
    f"{way.name}: {name}, {'streamed' if streamed else 'whole'}": (way, name, streamed)
    for way in WAYS
    for name, (_, _, only) in TOLD.items()
    if only in ("", way.kind)
    for streamed in (False, True)
}


@pytest.mark.parametrize("name", TELLINGS)
def test_both_send_the_same(sides: ClaudeSides, name: str) -> None:
    way, said, streamed = TELLINGS[name]
    assert differing(*sent_by_both(sides, way, said, streamed), way.may) == set()


def sent_by_both(
    sides: ClaudeSides, way: Way, name: str, streamed: bool
) -> tuple[Received, Received]:
    prompt, wire, _ = TOLD[name]
    fields: Any = {"max_tokens": 16_000, **wire}
    sides.set_up(way.environment)
    conversation = sides.host(telling(prompt), "chat").open("tell", way.model)
    messages = sides.clients.of(way).messages
    replies = [claude("fine", streamed=streamed)]

    def speak() -> None:
        if streamed:
            list(conversation.stream("go"))
        else:
            conversation.say("go")

    def speak_by_sdk() -> None:
        if streamed:
            list(messages.create(model=way.id, stream=True, **fields))
        else:
            messages.create(model=way.id, **fields)

    (ours,) = sides.sent(replies, speak)
    (theirs,) = sides.sent(replies, speak_by_sdk)
    return ours, theirs


@pytest.mark.parametrize("name", [name for name in TELLINGS if name.endswith("whole")])
def test_both_count_alike(sides: ClaudeSides, name: str) -> None:
    way, said, _ = TELLINGS[name]
    prompt, wire, _ = TOLD[said]
    sides.set_up(way.environment)
    conversation = sides.host(telling(CountTokens(prompt)), "chat").open("tell", way.model)
    messages = sides.clients.of(way).messages
    taken: Any = {name: value for name, value in wire.items() if name in AnthropicCount.fields}
    replies = [json_reply({"input_tokens": 12})]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(replies, lambda: messages.count_tokens(model=way.id, **taken))
    assert differing(ours, theirs, way.may) == set()


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_both_ask_for_a_class_alike(sides: ClaudeSides, way: Way) -> None:
    prompt, form = PARSED
    sides.set_up(way.environment)
    conversation = sides.host(telling(prompt), "chat").open("tell", way.model)
    messages = sides.clients.of(way).messages
    hi: Any = [{"role": "user", "content": "hi"}]
    replies = [claude('{"name": "Oslo", "people": null}')]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(
        replies,
        lambda: messages.parse(model=way.id, max_tokens=16_000, messages=hi, output_format=form),
    )
    assert differing(ours, theirs, way.may) == set()


ASKING = json_reply(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            THOUGHT,
            {"type": "redacted_thinking", "data": "eA=="},
            {"type": "text", "text": "so:", "citations": None},
            {**CALLED, "caller": {"type": "direct"}},
            {**CALLED, "id": "toolu_2", "caller": {"type": "direct"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
    }
)
"""A reply that asks for two tools at once, and shows what it thought."""


def _use_tools(turn: Turn[NoSettings]) -> FeatureSteps:
    said = [user("hi")]
    asked = yield from Prompt(said, tools=[LOOK])
    first, second = asked.tool_calls
    results = [
        ToolResult(first.id, first.name, "fine"),
        ToolResult(second.id, second.name, "no", error=True),
    ]
    yield from Prompt([*said, asked.message, Message("tool", results)], tools=[LOOK])
    return Answer("")


def _use_tools_by_sdk(client: Any, id: str) -> None:
    """As Anthropic's guide to tool use has it."""
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    asked: Any = {"model": id, "max_tokens": 16_000, "tools": [WIRE_LOOK]}
    first = client.messages.create(messages=messages, **asked)
    one, other = (block for block in first.content if block.type == "tool_use")
    results = [
        {"type": "tool_result", "tool_use_id": one.id, "content": "fine"},
        {"type": "tool_result", "tool_use_id": other.id, "content": "no", "is_error": True},
    ]
    messages += [{"role": "assistant", "content": first.content}]
    messages += [{"role": "user", "content": results}]
    client.messages.create(messages=messages, **asked)


def tools_used_by_both(sides: ClaudeSides, way: Way) -> list[tuple[Received, Received]]:
    sides.set_up(way.environment)
    conversation = sides.host(_use_tools, "chat").open("tell", way.model)
    client = sides.clients.of(way)
    replies: list[Reply] = [ASKING, claude("fine")]
    ours = sides.sent(replies, lambda: conversation.say("go"))
    theirs = sides.sent(replies, lambda: _use_tools_by_sdk(client, way.id))
    assert len(ours) == len(theirs) == 2
    return list(zip(ours, theirs, strict=True))


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_both_use_tools_alike(sides: ClaudeSides, way: Way) -> None:
    first, second = tools_used_by_both(sides, way)
    assert differing(*first, way.may) == set()
    assert differing(*second, way.may) == FIELDS.keys()


def test_both_list_models_alike(sides: ClaudeSides) -> None:
    way = WAYS[0]
    sides.set_up(way.environment)
    provider = sides.host(telling(Prompt([])), "chat").instances["anthropic"].provider
    model = {"type": "model", "display_name": "A", "created_at": "2026-01-01T00:00:00Z",
             "lifecycle": "active"}  # fmt: skip
    replies = [
        json_reply({"data": [{**model, "id": "a"}], "has_more": True, "last_id": "a"}),
        json_reply({"data": [{**model, "id": "b"}], "has_more": False, "last_id": "b"}),
    ]
    here = sides.sent(replies, lambda: list(provider.list_models(Cancellation())))
    models = sides.clients.of(way).models
    there = sides.sent(replies, lambda: list(models.list(limit=1000)))
    assert len(here) == len(there) == 2
    for ours, theirs in zip(here, there, strict=True):
        assert differing(ours, theirs, [*way.may, "content-type"]) == set()  # which says nothing


def test_no_header_is_listed_in_vain(sides: ClaudeSides) -> None:
    """Some differ in streams alone, some in longer conversations alone."""
    streamed = sent_by_both(sides, *TELLINGS["thinking: plain, streamed"])
    _, longer = tools_used_by_both(sides, WAYS[0])
    in_vain = headers_in_vain(*streamed, headers_in_vain(*longer, [*HEADERS, *KEYS]))
    assert in_vain == []

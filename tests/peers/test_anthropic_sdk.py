"""The official `anthropic` SDK as an oracle, for Anthropic's own service and for Vertex AI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import anthropic
import genai_vendor_anthropic
import genai_vendor_gemini
import pytest
from attrs import evolve, frozen
from peers.claude_conversations import PARSED, TOLD, WIRE_LOOK
from peers.conversations import Kind
from peers.oracle import ABSENT, Case, Difference, Oracle, Place, both_ways, using_tools

from genai_host.api import CountTokens
from genai_host.dialects.anthropic_messages import AnthropicCount
from genai_host.testing.fake_service import Received, json_reply
from genai_host_testing.anthropic_service import CALLED, KEY, THOUGHT, USAGE, claude
from genai_host_testing.gemini_service import KEY as GOOGLE_KEY

pytestmark = pytest.mark.peers

KEYS: Mapping[str, str] = {
    "x-api-key": "the service takes a key so, as do gateways that know no other way",
    "authorization": "since its version 2 the SDK sends a key as if it were a token",
}
BY_KEY = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"}
BY_TOKEN = {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": "{url}/gate"}
VERTEX = {
    "CLOUDSDK_AUTH_ACCESS_TOKEN": GOOGLE_KEY,
    "GOOGLE_CLOUD_PROJECT": "mine",
    "GOOGLE_CLOUD_LOCATION": "europe-west4",
    "GOOGLE_VERTEX_BASE_URL": "{url}",
}


def _client(url: str) -> Any:
    return anthropic.Anthropic(max_retries=0)


def _vertex_client(url: str) -> Any:
    return anthropic.AnthropicVertex(
        project_id="mine",
        region="europe-west4",
        access_token=GOOGLE_KEY,
        base_url=f"{url}/v1",
        max_retries=0,
    )


@frozen
class Way:
    """
    model   its name here
    id      what the SDK calls it
    kind    what the model can do
    """

    place: Place
    model: str
    id: str
    kind: Kind

    def case(self, tell: Any, by_sdk: Callable[[Any], Any], *replies: Any, **more: Any) -> Case:
        return Case(self.place, self.model, tell, by_sdk, replies, **more)

    def says(self, name: str) -> dict[str, Case]:
        prompt, wire, _ = TOLD[name]
        fields: Any = {"max_tokens": 16_000, **wire, "model": self.id}

        def made(streamed: bool) -> Case:
            asked = {**fields, "stream": True} if streamed else fields
            return self.case(
                prompt,
                lambda client: client.messages.create(**asked),
                claude("fine", streamed=streamed),
                streamed=streamed,
            )

        return both_ways(name, made)

    def counts(self, name: str) -> Case:
        prompt, wire, _ = TOLD[name]
        taken = {name: value for name, value in wire.items() if name in AnthropicCount.fields}
        return self.case(
            CountTokens(prompt),
            lambda client: client.messages.count_tokens(model=self.id, **taken),
            json_reply({"input_tokens": 12}),
        )


BY_KEY_PLACE = Place(BY_KEY, _client, KEYS)
WAYS = {
    "thinking": Way(BY_KEY_PLACE, "claude-sonnet-5-5", "claude-sonnet-5-5", "thinking"),
    "direct": Way(BY_KEY_PLACE, "claude-haiku-4-5", "claude-haiku-4-5-20251001", "direct"),
    "by token": Way(Place(BY_TOKEN, _client), "anthropic/claude", "claude", ""),
}
CALLER = {**CALLED, "caller": {"type": "direct"}}
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
            CALLER,
            {**CALLER, "id": "toolu_2"},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
    }
)
"""A reply that asks for two tools at once, and shows what it thought."""


def _use_tools(client: Any, id: str) -> None:
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


def _cases() -> Iterator[tuple[str, Case]]:
    for name, way in WAYS.items():
        for said, (_, _, only) in TOLD.items():
            if only in ("", way.kind):
                yield from ((f"{name}: {each}", case) for each, case in way.says(said).items())
                yield f"{name}: {said}, counted", way.counts(said)
        prompt, form = PARSED
        hi: Any = [{"role": "user", "content": "hi"}]
        asked: Any = {"model": way.id, "max_tokens": 16_000, "messages": hi, "output_format": form}
        yield (
            f"{name}: a class",
            way.case(
                prompt,
                lambda client, asked=asked: client.messages.parse(**asked),
                claude('{"name": "Oslo", "people": null}'),
            ),
        )
        yield (
            f"{name}: tools",
            way.case(
                using_tools(False, True),
                lambda client, id=way.id: _use_tools(client, id),
                ASKING,
                claude("fine"),
                fields={
                    Difference("messages[].content[].caller.type", ABSENT, "direct"): (
                        "who called a tool: nobody but the model can, as nothing else is offered"
                    ),
                    Difference("messages[].content[].citations", ABSENT, None): "it says nothing",
                },
            ),
        )
    model = {"type": "model", "display_name": "A", "created_at": "2026-01-01T00:00:00Z",
             "lifecycle": "active"}  # fmt: skip
    pages = [
        json_reply({"data": [{**model, "id": "a"}], "has_more": True, "last_id": "a"}),
        json_reply({"data": [{**model, "id": "b"}], "has_more": False, "last_id": "b"}),
    ]
    listed = Case(
        BY_KEY_PLACE, "anthropic", None, lambda client: client.models.list(limit=1000), pages
    )
    yield "models", listed


class TestAnthropic(Oracle):
    variables = {*BY_KEY, *BY_TOKEN}
    plugins = {"anthropic": genai_vendor_anthropic}
    cases = dict(_cases())


_VERTEX = Way(
    Place(VERTEX, _vertex_client), "claude-haiku-4-5@vertex", "claude-haiku-4-5@20251001", "direct"
)


class TestVertex(Oracle):
    """The cache is asked for block by block here, as no service but Anthropic's knows another
    way."""

    variables = {*VERTEX}
    plugins = {"anthropic": genai_vendor_anthropic, "gemini": genai_vendor_gemini}
    cases = {
        **{
            each: case
            for name, (_, _, only) in TOLD.items()
            if only in ("", "direct") and "cache" not in name
            for each, case in _VERTEX.says(name).items()
        },
        "counted": _VERTEX.counts("system"),
    }
    fields = {
        Difference("anthropic_version", "vertex-2023-10-16", "2026-10-21"): (
            "since its version 2 the SDK says that of Anthropic's own API; the guide to Vertex AI "
            "has no other than ours"
        ),
    }

    def spelled(self, ours: Received, theirs: Received) -> tuple[Received, Received]:
        """Either side may encode the `@` of an id."""
        return evolve(ours, path=unquote(ours.path)), evolve(theirs, path=unquote(theirs.path))

"""The official `anthropic` SDK as an oracle, for Anthropic's own service and for Vertex AI."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

import anthropic
import genai_vendor_anthropic
import genai_vendor_gemini
import pytest
from attrs import evolve, frozen
from genai_wire_anthropic.dialect.messages import AnthropicCount
from peers.conversations import CONVERSATIONS, Kind, user
from peers.oracle import ABSENT, Case, Difference, Oracle, Place, both_ways, using_tools

from genai_host.api import CountTokens, File, Image, Message, Prompt
from genai_host_testing.fake_service import Received, json_reply
from genai_host_testing.services.anthropic import CALLED, KEY, THOUGHT, USAGE, claude
from genai_host_testing.services.gemini import KEY as GOOGLE_KEY

_HI = [{"role": "user", "content": "hi"}]
_PDF = base64.b64encode(b"%PDF-1.7").decode()
_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WIRE_LOOK: Mapping[str, Any] = {
    "name": "look", "description": "looks",
    "input_schema": {
        "type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"],
    },
}  # fmt: skip
_ASKED = {"messages": _HI, "tools": [WIRE_LOOK]}
_ODD = 'é 🙂 \u2028 \x00 \n "\\ </script> \ufeff'


def _what(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, *blocks]}]}


SHARED: Mapping[str, Mapping[str, Any]] = {
    "plain": {"messages": _HI},
    "odd characters": {"messages": [{"role": "user", "content": _ODD}]},
    "system": {"system": "Be brief.", "messages": _HI},
    "history": {"messages": [
        *_HI, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "and?"}]},
    "several texts": {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
    "length": {"messages": _HI, "max_tokens": 7},
    "tools": _ASKED,
    "tool choice auto": {**_ASKED, "tool_choice": {"type": "auto"}},
    "tool choice none": {**_ASKED, "tool_choice": {"type": "none"}},
    "tool choice required": {**_ASKED, "tool_choice": {"type": "any"}},
    "tool choice look": {**_ASKED, "tool_choice": {"type": "tool", "name": "look"}},
    "one tool at a time": {
        **_ASKED, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    "picture": _what({"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": _PNG}}),
    "picture by its address": _what({"type": "image", "source": {
        "type": "url", "url": "https://x.invalid/a.png"}}),
    "file": _what({"type": "document", "title": "a.pdf", "source": {
        "type": "base64", "media_type": "application/pdf", "data": _PDF}}),
    "file by its address": {"messages": [{"role": "user", "content": [
        {"type": "document", "source": {"type": "url", "url": "https://x.invalid/a.pdf"}}]}]},
}  # fmt: skip
"""Of the conversations that are had with others as well, by name."""

_CITY: Any = next(each for each in CONVERSATIONS if each.name == "class").responses
_CACHED = {"type": "ephemeral", "ttl": "1h"}


def _asked(parameters: Mapping[str, Any], wire: Mapping[str, Any], only: Kind = "") -> Any:
    return Prompt([user("hi")], parameters=parameters), {"messages": _HI, **wire}, only


OWN: Mapping[str, tuple[Prompt, Mapping[str, Any], Kind]] = {
    "stop": _asked({"stop": ["x", "\n"]}, {"stop_sequences": ["x", "\n"]}),
    "effort": _asked(
        {"reasoning_effort": "low"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        "thinking",
    ),
    "thoughts that show": _asked(
        {"thinking_display": "summarized"},
        {"thinking": {"type": "adaptive", "display": "summarized"}},
        "thinking",
    ),
    "no thoughts": _asked(
        {"reasoning_effort": "none"}, {"thinking": {"type": "between_tools"}}, "thinking"
    ),
    "a budget for thoughts": _asked(
        {"thinking_budget": 2000, "max_tokens": 3000},
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 3000},
        "direct",
    ),
    "the cache": _asked({"prompt_cache": "1h"}, {"cache_control": _CACHED}),
    "text as a file": (
        Prompt([user("what?", File("é".encode(), "text/plain", "a.txt"))]),
        _what({"type": "document", "title": "a.txt", "source": {
            "type": "text", "media_type": "text/plain", "data": "é"}}),
        "",
    ),
    "several in the system": (
        Prompt([Message("system", ["a", "b"]), user("hi")]),
        {"messages": _HI, "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        "",
    ),
    "a picture alone": (
        Prompt([user(Image(url="https://x.invalid/a.png"))]),
        {"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "url", "url": "https://x.invalid/a.png"}}]}]},
        "",
    ),
}  # fmt: skip
"""What only Claude is told, and the kind of models that is."""

PARSED: tuple[Prompt, Any] = (
    next(each for each in CONVERSATIONS if each.name == "class").prompt,
    _CITY["text_format"],
)
"""A prompt that is answered as a class, and the class."""

TOLD: Mapping[str, tuple[Prompt, Mapping[str, Any], Kind]] = {
    **{each.name: (each.prompt, SHARED[each.name], "") for each in CONVERSATIONS
       if each.name in SHARED},
    **OWN,
}  # fmt: skip
"""All of them."""


pytestmark = pytest.mark.peers

KEYS: Mapping[str, str] = {
    "x-api-key": "the service takes a key so, as do gateways that know no other way",
    "authorization": "since its version 2 the SDK sends a key as if it were a token",
}
BY_KEY = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"}
BY_TOKEN = {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": "{url}/gate"}
VERTEX = {
    "CLOUDSDK_AUTH_ACCESS_TOKEN": GOOGLE_KEY, "GOOGLE_CLOUD_PROJECT": "mine",
    "GOOGLE_CLOUD_LOCATION": "europe-west4", "GOOGLE_VERTEX_BASE_URL": "{url}",
}  # fmt: skip


def _client(url: str) -> Any:
    return anthropic.Anthropic(max_retries=0)


def _vertex_client(url: str) -> Any:
    return anthropic.AnthropicVertex(
        project_id="mine", region="europe-west4", access_token=GOOGLE_KEY, base_url=f"{url}/v1",
        max_retries=0,
    )  # fmt: skip


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

        def make_case(streamed: bool) -> Case:
            request = {**fields, "stream": True} if streamed else fields
            return self.case(
                prompt, lambda client: client.messages.create(**request),
                claude("fine", streamed=streamed), streamed=streamed,
            )  # fmt: skip

        return both_ways(name, make_case)

    def counts(self, name: str) -> Case:
        prompt, wire, _ = TOLD[name]
        counted = {name: value for name, value in wire.items() if name in AnthropicCount.fields}
        return self.case(
            CountTokens(prompt),
            lambda client: client.messages.count_tokens(model=self.id, **counted),
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


def _parse(request: Mapping[str, Any], client: Any) -> None:
    client.messages.parse(**request)


def _use_tools(client: Any, id: str) -> None:
    """As Anthropic's guide to tool use has it."""
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    request: Any = {"model": id, "max_tokens": 16_000, "tools": [WIRE_LOOK]}
    first = client.messages.create(messages=messages, **request)
    one, other = (block for block in first.content if block.type == "tool_use")
    results = [
        {"type": "tool_result", "tool_use_id": one.id, "content": "fine"},
        {"type": "tool_result", "tool_use_id": other.id, "content": "no", "is_error": True},
    ]
    messages += [{"role": "assistant", "content": first.content}]
    messages += [{"role": "user", "content": results}]
    client.messages.create(messages=messages, **request)


def _cases() -> Iterator[tuple[str, Case]]:
    for name, way in WAYS.items():
        for case_name, (_, _, only) in TOLD.items():
            if only in ("", way.kind):
                yield from ((f"{name}: {each}", case) for each, case in way.says(case_name).items())
                yield f"{name}: {case_name}, counted", way.counts(case_name)
        prompt, form = PARSED
        hi: Any = [{"role": "user", "content": "hi"}]
        request: Any = {
            "model": way.id, "max_tokens": 16_000, "messages": hi, "output_format": form,
        }  # fmt: skip
        yield (
            f"{name}: a class",
            way.case(prompt, partial(_parse, request), claude('{"name": "Oslo", "people": null}')),
        )
        yield (
            f"{name}: tools",
            way.case(
                using_tools(False, True), partial(_use_tools, id=way.id), ASKING, claude("fine"),
                fields={
                    Difference("messages[].content[].caller.type", ABSENT, "direct"): (
                        "who called a tool: nobody but the model can, as nothing else is offered"
                    ),
                    Difference("messages[].content[].citations", ABSENT, None): "it says nothing",
                },
            ),
        )  # fmt: skip
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
        )
    }

    def spelled(self, ours: Received, theirs: Received) -> tuple[Received, Received]:
        """Either side may encode the `@` of an id."""
        return evolve(ours, path=unquote(ours.path)), evolve(theirs, path=unquote(theirs.path))

"""Anthropic's messages, by the suite of API formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import genai_wire_anthropic
import pytest
from genai_wire_anthropic.dialect.messages import BETA, AnthropicMessages

from genai_host.api import DialectEndpoint, StreamEvent
from genai_host.serving.router import DROPPED
from genai_host_testing.internal.wires import WEATHER, Wire

pytestmark = pytest.mark.part


CODING_AGENT = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,thinking-token-count-2026-05-13,"
    "context-management-2025-06-27,prompt-caching-scope-2026-01-05,"
    "mid-conversation-system-2026-04-07,effort-2025-11-24,structured-outputs-2025-12-15,"
    "advanced-tool-use-2025-11-20,context-1m-2025-08-07,oauth-2025-04-20,"
    "fine-grained-tool-streaming-2025-05-14"
)


class TestAnthropicMessages(Wire):
    plugin = genai_wire_anthropic
    dialect = AnthropicMessages()
    path = "/v1/messages"
    neutral = (
        "messages.content.content.cache_control", "metadata", "system.cache_control",
        "tools.cache_control",
    )  # fmt: skip
    mark = {"type": "ephemeral", "ttl": "1h"}
    called = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    request = {
        "model": "tested", "max_tokens": 100, "system": [
            {"type": "text", "text": "Be brief.", "cache_control": mark}],
        "messages": [
            {
                "role": "user", "content": [
                    {"type": "text", "text": "What is this?"},
                    {
                        "type": "image", "source": {
                            "type": "base64", "media_type": "image/png", "data": "UE5H"}},
                    {
                        "type": "document", "title": "a.pdf", "source": {
                            "type": "base64", "media_type": "application/pdf", "data": "UERG"}}]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "so:"}, called]},
            {
                "role": "user", "content": [
                    {
                        "type": "tool_result", "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "3 degrees", "cache_control": mark}]},
                    {"type": "text", "text": "and?"}]}],
        "tools": [
            {
                "name": "weather", "description": "of a city", "input_schema": WEATHER,
                "cache_control": mark}],
        "tool_choice": {"type": "tool", "name": "weather"}, "metadata": {"user_id": "a"},
    }  # fmt: skip
    service_tools = (
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "cache_control": mark},
        {"type": "bash_20250124", "name": "bash"},
    )
    used = {"input_tokens": 3, "cache_read_input_tokens": 1, "output_tokens": 2}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1"}
    reply = {
        **head,
        "content": [thought, {"type": "text", "text": "so"}, called],
        "stop_reason": "tool_use",
        "usage": used,
    }
    stream = [
        {"type": "message_start", "message": {**head, "content": [], "usage": used}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {**called, "input": {}}},
        {
            "type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"city": "Oslo"}'}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta", "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]  # fmt: skip
    place = "the host begins and ends messages and blocks itself"
    lost_in_streams = {
        "content_block_delta: $": "the arguments of a call are read as a whole",
        "content_block_delta: delta": "the arguments of a call are read as a whole",
        "content_block_start: $": place,
        "content_block_start: content_block.input": "it is a placeholder",
        "content_block_stop: $": place,
        "message_start: $": place,
    }

    options = {
        "thinking": {"type": "adaptive", "display": "summarized", "new": 1},
        "output_config": {
            "effort": "low", "new": {"a": 1}, "format": {
                "type": "json_schema", "schema": {**WEATHER, "additionalProperties": False}}},
        "tool_choice": {"type": "tool", "name": "weather", "new": 1},
    }  # fmt: skip

    lesser = DialectEndpoint(
        parameters={"betas": False}, variant={"cache": "blocks", "unknown_fields": False}
    )
    settings = {
        "temperature": 1, "top_p": 0.5, "output_config": {"effort": "low"}, "thinking": {
            "type": "enabled", "budget_tokens": 2000, "display": "summarized"},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }  # fmt: skip

    @pytest.mark.parametrize("strict", [False, True])
    def test_betas_are_named_for_others(self, strict: bool) -> None:
        with self.serving(another=True, strict=strict) as (_, first):
            status, headers, text = first.send(self.path, self.request_with(), **{BETA: "a, b"})
        assert BETA in (headers.get(DROPPED) or text.decode())
        with self.serving(another=True, failing=True, strict=strict) as (service, second):
            found = second.send(self.path, self.request_with(), **{BETA: "a, b"})
        assert (status < 400, headers.get(DROPPED)) == (found[0] < 400, found[1].get(DROPPED))
        assert (status < 400, bool(service.bodies)) == (not strict, not strict)

    @pytest.mark.parametrize("failing", [False, True])
    def test_what_coding_agents_send_is_neutral_for_others(self, failing: bool) -> None:
        """Claude Code sends these betas and this field with each request."""
        edits = [{"type": "clear_thinking_20251015", "keep": "all"}]
        request = self.request_with(context_management={"edits": edits})
        with self.serving(another=True, failing=failing, strict=True) as (service, client):
            status, headers, _ = client.send(self.path, request, **{BETA: CODING_AGENT})
        assert (status, len(service.bodies), headers.get(DROPPED)) == (200, 1, None)

    @pytest.mark.parametrize("given", [
        {"edits": [{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}]},
        {"edits": [{"type": "clear_thinking_20251015"}], "new": 1},
        {"new": 1},
    ])  # fmt: skip
    def test_other_context_management_is_named_for_others(self, given: Any) -> None:
        request = self.request_with(context_management=given)
        with self.serving(another=True) as (_, client):
            assert client.dropped(self.path, request) == {"context_management"}

    def test_unknown_options_are_named_for_others(self) -> None:
        with self.serving(another=True) as (_, client):
            _, headers, _ = client.send(self.path, {**self.request, **self.options})
        assert set(headers[DROPPED].split(", ")) == {
            "thinking.new", "output_config.new", "tool_choice.new",
        }  # fmt: skip

    def test_unknown_options_without_known_ones_are_named(self) -> None:
        """The service would refuse the objects without their types."""
        without_tools = {"tools": [], "tool_choice": {"type": "auto", "new": 1}}
        with self.serving() as (service, client):
            _, headers, _ = client.send(self.path, self.request_with(**without_tools))
            assert headers[DROPPED] == "tool_choice.new"
            assert "tool_choice" not in service.bodies[-1]

    cited = (
        {"type": "web_search_result_location", "url": "https://x", "cited_text": "3 degrees"},
        {"type": "web_search_result_location", "url": "https://y", "cited_text": "snow"},
    )  # fmt: skip
    ran = (
        {"type": "text", "text": "Let me see.", "citations": []},
        {
            "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
            "input": {"query": "é"}, "caller": {"type": "direct"}},
        {
            "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                {"type": "web_search_result", "url": "https://x", "encrypted_content": "eA=="}]},
        {"type": "text", "text": "It is ", "citations": []},
        {"type": "text", "text": "cold", "citations": list(cited)},
        {"type": "text", "text": ".", "citations": []},
        {
            "type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution",
            "input": {"code": "1"}},
        {
            "type": "code_execution_tool_result", "tool_use_id": "srvtoolu_2", "content": {
                "type": "code_execution_result", "stdout": "1", "return_code": 0}},
        {
            "type": "advisor_tool_result", "tool_use_id": "srvtoolu_2", "content": {
                "type": "advisor_result", "text": "well"}},
        {"type": "fallback", "from": {"model": "m-1"}, "to": {"model": "m-2"}},
        {"type": "mcp_tool_listing", "input": {"server": "a"}, "tools": [{"name": "b"}]},
        {"type": "compaction", "content": "it was cold", "encrypted_content": "eA=="},
        {"type": "text", "text": "So.", "citations": []},
    )  # fmt: skip
    container = {"id": "container_1", "expires_at": "2026-11-28T00:00:00Z"}
    searched = {**used, "server_tool_use": {"web_search_requests": 1}}

    def request_with(self, *blocks: Any, **more: Any) -> dict[str, Any]:
        """A request; `blocks` are the answer before it."""
        answer = [{"role": "assistant", "content": list(blocks)}] if blocks else []
        user = {"role": "user", "content": "hi"}
        return {"model": "tested", "max_tokens": 9, "messages": [user, *answer, user], **more}

    def test_what_the_service_ran_is_shown(self) -> None:
        with self.serving() as (service, client):
            service.reply = {
                **self.head, "content": self.ran, "stop_reason": "end_turn",
                "container": self.container, "usage": self.searched,
            }  # fmt: skip
            shown = json.loads(client.post(self.path, self.request_with()))
        assert shown["content"] == list(self.ran)
        assert shown["container"] == self.container
        assert shown["usage"]["server_tool_use"] == {"web_search_requests": 1}

    def test_what_the_service_ran_is_shown_in_its_place_in_a_stream(self) -> None:
        start = {**self.head, "content": [], "usage": self.used}
        end = {"stop_reason": "end_turn", "container": self.container}
        events = [
            {"type": "message_start", "message": start},
            *in_pieces(self.ran),
            {"type": "message_delta", "delta": end, "usage": self.searched},
            {"type": "message_stop"},
        ]
        with self.serving() as (service, client):
            service.events = [StreamEvent(json.dumps(each).encode()) for each in events]
            shown = events_in(client.post(self.path, self.request_with(stream=True)))
        assert blocks_of(shown) == list(self.ran)
        assert shown[-2]["delta"]["container"] == self.container
        assert shown[-2]["usage"]["server_tool_use"] == {"web_search_requests": 1}

    def test_an_unknown_event_changes_nothing_in_a_stream(self) -> None:
        unknown = {"type": "new_event", "index": 0, "delta": {"type": "new_delta", "stop": True}}
        events = [StreamEvent(json.dumps(each).encode()) for each in self.stream]
        with self.serving() as (service, client):
            usual = events_in(client.post(self.path, self.request_with(stream=True)))
            for at in range(len(events)):
                new = StreamEvent(json.dumps(unknown).encode(), "new_event")
                service.events = [*events[:at], new, *events[at:]]
                shown = events_in(client.post(self.path, self.request_with(stream=True)))
                assert shown[1:] == usual[1:], at

    def test_what_the_service_ran_is_sent_back(self) -> None:
        with self.serving() as (service, client):
            client.post(self.path, self.request_with(*self.ran))
            sent = service.bodies[-1]["messages"][1]["content"]
        assert [{"citations": [], **each} if "text" in each else each for each in sent] == list(
            self.ran
        )

    def test_what_is_sent_is_not_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not for a service that has betas elsewhere, such as Bedrock, either."""
        monkeypatch.delitem(AnthropicMessages.parameters, "betas")
        with self.serving() as (service, client):
            _, headers, _ = client.send(self.path, self.request_with(*self.ran))
        assert service.bodies[-1]["messages"][1]["content"][1] == self.ran[1]
        assert DROPPED not in headers

    def test_what_a_service_ran_is_left_out_for_others_and_named(self) -> None:
        with self.serving(another=True) as (_, client):
            status, headers, _ = client.send(self.path, self.request_with(*self.ran))
        assert status == 200
        assert headers[DROPPED].split(", ") == [
            "messages[1].content[1].server_tool_use",
            "messages[1].content[2].web_search_tool_result", "messages[1].content[4].citations",
            "messages[1].content[6].server_tool_use",
            "messages[1].content[7].code_execution_tool_result",
            "messages[1].content[8].advisor_tool_result", "messages[1].content[9].fallback",
            "messages[1].content[10].mcp_tool_listing", "messages[1].content[11].compaction",
        ]  # fmt: skip


def in_pieces(blocks: Any) -> Iterator[dict[str, Any]]:
    """The events of blocks as Anthropic's service sends them."""
    for index, block in enumerate(blocks):
        deltas: list[dict[str, Any]] = []
        begun = dict(block)
        if block["type"] == "text":
            cited = [{"type": "citations_delta", "citation": each} for each in block["citations"]]
            half = len(block["text"]) // 2
            pieces = [block["text"][:half], block["text"][half:]]
            deltas = [*cited, *({"type": "text_delta", "text": each} for each in pieces if each)]
            begun = {"type": "text", "text": ""}
        elif block["type"].endswith("tool_use"):
            written = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": each} for each in ("", written)]
            begun["input"] = {}
        elif block["type"] == "compaction":
            begun = {"type": "compaction", "content": None}
            deltas = [{**block, "type": "compaction_delta"}]
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


def events_in(stream: bytes) -> list[dict[str, Any]]:
    blocks = stream.decode().split("\n\n")[:-1]
    return [json.loads(each.partition("data: ")[2]) for each in blocks]


def blocks_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of a stream, as Anthropic's clients join them: inputs are in deltas."""
    blocks: list[dict[str, Any]] = []
    for each in events:
        if each["type"] == "content_block_start":
            assert each["index"] == len(blocks)
            is_call = each["content_block"]["type"].endswith("tool_use")
            assert not (is_call and each["content_block"]["input"])
            blocks.append(each["content_block"])
        elif each["type"] == "content_block_delta":
            block, delta = blocks[each["index"]], each["delta"]
            if delta["type"] == "text_delta":
                block["text"] += delta["text"]
            elif delta["type"] == "citations_delta":
                block["citations"].append(delta["citation"])
            else:
                assert block["type"].endswith("tool_use")
                block["input"] = json.loads(delta["partial_json"])
    return blocks

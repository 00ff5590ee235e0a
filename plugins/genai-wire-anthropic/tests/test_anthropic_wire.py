"""Anthropic's messages, by the suite of API formats."""

from __future__ import annotations

import genai_wire_anthropic
import pytest
from genai_wire_anthropic.dialect.messages import AnthropicMessages

from genai_host_testing.internal.wires import WEATHER, Wire

pytestmark = pytest.mark.part


class TestAnthropicMessages(Wire):
    plugin = genai_wire_anthropic
    dialect = AnthropicMessages()
    path = "/v1/messages"
    neutral = (
        "messages.content.content.cache_control",
        "metadata",
        "system.cache_control",
        "tools.cache_control",
    )
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
        "message_stop: $": place,
    }

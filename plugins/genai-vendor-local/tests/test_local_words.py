"""Tool calls and results told in words, to a model that knows of neither."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from genai_vendor_local.tool_choice import in_plain_text
from genai_wire_openai.dialect.chat import OpenAIChat

from genai_host.api import ChatCall, Message, Text, ToolCall, ToolResult


def wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as the host's dialect writes them."""
    request = OpenAIChat().prepare_request(ChatCall(model_id="m", messages=messages))
    written: list[dict[str, Any]] = json.loads(request.data())["messages"]
    return written


def test_calls_and_results_are_told_in_words() -> None:
    call = ToolCall("1", "get_weather", {"city": "Oslo"})
    messages = [
        Message("system", "Be brief."),
        Message("user", "weather?"),
        Message("assistant", ["Let me look.", call]),
        Message(
            "tool", [ToolResult("1", "get_weather", (Text("rain"),)), ToolResult("9", "", ("?",))]
        ),
        Message("assistant", "It rains."),
    ]
    told = list(in_plain_text(wire(messages)))
    assert told == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": 'Let me look.\n{"tool": "get_weather", "arguments": {"city": "Oslo"}}',
        },
        {"role": "user", "content": "The result of get_weather: rain"},
        {"role": "user", "content": "The result of a tool: ?"},
        {"role": "assistant", "content": "It rains."},
    ]


@pytest.mark.parametrize("said", [[], ["one"], ["one ", "two"]])
def test_a_call_may_come_with_any_number_of_texts(said: list[str]) -> None:
    message = Message("assistant", [*said, ToolCall("1", "get_time")])
    (told,) = in_plain_text(wire([message]))
    assert told["role"] == "assistant"
    assert all(text in json.dumps(told["content"]) for text in said)
    assert "get_time" in json.dumps(told["content"])


def test_messages_without_tools_are_left_as_they_are() -> None:
    messages = wire([Message("user", ["one ", "two"]), Message("assistant", "")])
    assert list(in_plain_text(messages)) == messages

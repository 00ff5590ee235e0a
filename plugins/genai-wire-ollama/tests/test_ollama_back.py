"""What is written for Ollama's chat can be read back: nothing said is lost or changed."""

from __future__ import annotations

import base64
import json
from typing import Any

from attrs import evolve
from genai_wire_ollama.dialect.chat import OllamaChat
from hypothesis import given
from hypothesis import strategies as st

from genai_host.api import ChatCall, Image, Message, Part, Reasoning, Text, ToolCall, ToolResult

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
data = st.binary(min_size=1, max_size=9)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
arguments = st.dictionaries(st.text(max_size=3), values, max_size=2)
names = st.text(min_size=1, max_size=3)
calls = st.builds(ToolCall, names, names, arguments)
images = st.builds(Image, data)
parts = st.builds(Text, texts) | images
results = st.builds(ToolResult, names, names, st.lists(parts, max_size=3), st.booleans())
thoughts = st.builds(Reasoning, texts)
conversations = st.lists(
    st.one_of(
        st.builds(Message, st.just("system"), st.lists(st.builds(Text, texts), max_size=2)),
        st.builds(Message, st.just("user"), st.lists(parts, max_size=3)),
        st.builds(Message, st.just("assistant"), st.lists(parts | thoughts | calls, max_size=4)),
        st.builds(Message, st.just("tool"), st.lists(results, max_size=2)),
    ),
    max_size=5,
)


@given(conversations)
def test_what_is_written_can_be_read_back(messages: list[Message]) -> None:
    call = ChatCall(model_id="m", messages=messages)
    body = json.loads(OllamaChat().prepare_request(call).data())
    assert [_read(wire) for wire in body["messages"]] == [
        plain for message in messages for plain in _plain(message)
    ]


def _read(wire: dict[str, Any]) -> Message:
    """One message on the wire, as the host would have it."""
    content: list[Part] = [Text(wire["content"])]
    images = [Image(base64.b64decode(each)) for each in wire.get("images", [])]
    if wire["role"] == "tool":
        result = ToolResult(wire["tool_call_id"], wire["tool_name"], (wire["content"], *images))
        return Message("tool", result)
    if "thinking" in wire:
        content.append(Reasoning(wire["thinking"]))
    content += images
    for call in wire.get("tool_calls", []):
        function = call["function"]
        content.append(ToolCall(call["id"], function["name"], function["arguments"]))
    return Message(wire["role"], content)


def _plain(message: Message) -> list[Message]:
    """A message as the format can say it: texts in one, then what was thought, pictures and
    calls; a result is a message of its own, and says in words that it is a failure."""
    if message.role == "tool":
        return [Message("tool", _plain_result(part)) for part in message.content]
    found = message.content
    thoughts = [part.text for part in found if isinstance(part, Reasoning)]
    sorted_parts: list[Part] = [Text(message.text)]
    sorted_parts += [Reasoning("".join(thoughts))] if thoughts else []
    sorted_parts += [part for part in found if isinstance(part, Image)]
    sorted_parts += [part for part in found if isinstance(part, ToolCall)]
    return [Message(message.role, sorted_parts)]


def _plain_result(part: Part) -> ToolResult:
    assert isinstance(part, ToolResult)
    text = "".join(each.text for each in part.content if isinstance(each, Text))
    images = [each for each in part.content if isinstance(each, Image)]
    said = f"error: {text}" if part.error else text
    return evolve(part, content=(said, *images), error=False)

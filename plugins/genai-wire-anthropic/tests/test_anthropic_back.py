"""What is written in Anthropic's messages can be read back: nothing said is lost or
changed, and what follows each other of one role is one message."""

from __future__ import annotations

import base64
import json
from itertools import groupby
from typing import Any

from attrs import evolve
from genai_wire_anthropic.dialect.messages import AnthropicMessages, wire_id
from hypothesis import given

from genai_host.api import (
    ChatCall,
    File,
    Image,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from genai_host_testing.internal.samples import conversations, images, joined, texts

Said = list[tuple[str, list[Part]]]


def read_content(content: Any) -> list[Part]:
    return [Text(content)] if isinstance(content, str) else [read_block(each) for each in content]


def read_block(wire: Any) -> Part:
    kind = wire["type"]
    if kind == "text":
        return Text(wire["text"])
    if kind == "tool_use":
        return ToolCall(wire["id"], wire["name"], wire["input"])
    if kind == "tool_result":
        content: Any = read_content(wire.get("content", []))
        return ToolResult(wire["tool_use_id"], content=content, error=wire.get("is_error", False))
    source = wire["source"]
    if kind == "image":
        return Image(**read_source(source))
    if source["type"] == "text":
        return File(source["data"].encode(), "text/plain", wire["title"])
    return File(name=wire["title"], **read_source(source))


def read_source(source: Any) -> dict[str, Any]:
    if source["type"] == "url":
        return {"url": source["url"]}
    return {"data": base64.b64decode(source["data"]), "media_type": source["media_type"]}


def expected_of(message: Message) -> list[Part]:
    """Texts that show nothing are left out, ids are made to fit."""
    found: list[Part] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            part = ToolCall(wire_id(part.id), part.name, part.arguments)
        elif isinstance(part, ToolResult):
            content = [each for each in part.content if not_blank(each)]
            part = ToolResult(wire_id(part.id), content=content, error=part.error)
        elif isinstance(part, File) and part.media_type != "application/pdf":
            part = File(part.data, "text/plain", part.name)
        if not_blank(part):
            found.append(part)
    return found


def not_blank(part: Part) -> bool:
    return not isinstance(part, Text) or bool(part.text.strip())


def is_text(part: Part) -> bool:
    """Whether a document is in UTF-8; another one is refused."""
    if not isinstance(part, File) or part.media_type == "application/pdf":
        return True
    try:
        part.data.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(messages=conversations(texts | images))
def test_messages_can_be_read_back(messages: list[Message]) -> None:
    messages = [Message(each.role, [*filter(is_text, each.content)]) for each in messages]
    call = ChatCall(model_id="m", messages=messages)
    body = json.loads(AnthropicMessages().prepare_request(call).data())
    system = [part for each in messages if each.role == "system" for part in expected_of(each)]
    assert joined(read_content(body.get("system", []))) == joined(system)
    spoken = [
        ("assistant" if each.role == "assistant" else "user", expected_of(each))
        for each in messages
        if each.role != "system" and expected_of(each)
    ]
    expected: Said = [
        (role, [part for _, parts in turn for part in parts])
        for role, turn in groupby(spoken, key=lambda said: said[0])
    ]
    found: Said = [(each["role"], read_content(each["content"])) for each in body["messages"]]
    assert found == expected


@given(messages=conversations(texts | images))
def test_a_conversation_that_has_grown_is_written_as_one_that_is_new(
    messages: list[Message],
) -> None:
    messages = [Message(each.role, [*filter(is_text, each.content)]) for each in messages]
    grown = ChatCall(model_id="m", messages=())
    for count in range(len(messages) + 1):
        grown = evolve(grown, messages=messages[:count])
        AnthropicMessages().prepare_request(grown)
    new = ChatCall(model_id="m", messages=[Message(each.role, each.content) for each in messages])
    dialect = AnthropicMessages()
    assert dialect.prepare_request(grown).data() == dialect.prepare_request(new).data()

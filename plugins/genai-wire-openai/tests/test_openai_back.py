"""What is written in OpenAI's formats can be read back: nothing said is lost or changed."""

from __future__ import annotations

import base64
import json
from typing import Any

from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.responses import OpenAIResponses
from hypothesis import given

from genai_host.api import ChatCall, File, Image, Message, Part, Text, ToolCall, ToolResult
from genai_host_testing.internal.samples import Said, conversations, images, joined, texts


def plain(result: ToolResult) -> Part:
    """Which tool it was is not written, nor how its words were cut."""
    words = "".join(part.text for part in result.content if isinstance(part, Text))
    pictures = [part for part in result.content if isinstance(part, Image)]
    return ToolResult(result.id, content=joined([Text(words), *pictures]))


def from_url(url: str) -> dict[str, Any]:
    if not url.startswith("data:"):
        return {"url": url}
    kind, _, encoded = url.removeprefix("data:").partition(";base64,")
    return {"data": base64.b64decode(encoded), "media_type": kind}


def read_content(content: Any) -> list[Part]:
    return [Text(content)] if isinstance(content, str) else [read_part(each) for each in content]


def read_part(wire: Any) -> Part:
    kind = wire["type"]
    if kind in ("text", "input_text"):
        return Text(wire["text"])
    if kind in ("image_url", "input_image"):
        url = wire["image_url"]
        return Image(**from_url(url if isinstance(url, str) else url["url"]))
    file = wire.get("file", wire)
    return File(name=file["filename"], **from_url(file["file_data"]))


def read_chat(messages: Any) -> Said:
    said: Said = []
    for wire in messages:
        if wire["role"] == "tool":
            result = ToolResult(wire["tool_call_id"], content=read_content(wire["content"]))
            said.append(("tool", [plain(result)]))
            continue
        parts = read_content(wire["content"] or [])
        for call in wire.get("tool_calls", ()):
            function = call["function"]
            parts.append(ToolCall(call["id"], function["name"], json.loads(function["arguments"])))
        said.append((wire["role"], parts))
    return said


def read_responses(items: Any) -> Said:
    said: Said = []
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            call = ToolCall(item["call_id"], item["name"], json.loads(item["arguments"]))
            said.append(("assistant", [call]))
        elif kind == "function_call_output":
            result = ToolResult(item["call_id"], content=read_content(item["output"]))
            said.append(("tool", [plain(result)]))
        else:
            said.append((item["role"], read_content(item["content"])))
    return said


@given(messages=conversations(texts))
def test_chat_completions_can_be_read_back(messages: list[Message]) -> None:
    call = ChatCall(model_id="m", messages=messages)
    body = json.loads(OpenAIChat().prepare_request(call).data())
    expected: Said = []
    for message in messages:
        if message.role == "tool":
            results = [part for part in message.content if isinstance(part, ToolResult)]
            expected += [("tool", [plain(result)]) for result in results]
        elif message.role == "assistant":  # what is said comes before what is asked for
            words = [part for part in message.content if isinstance(part, Text)]
            expected.append(("assistant", [*words, *message.tool_calls]))
        else:
            expected.append((message.role, list(message.content)))
    found = read_chat(body["messages"])
    assert [(role, joined(parts)) for role, parts in found] == [
        (role, joined(parts)) for role, parts in expected
    ]


@given(messages=conversations(texts | images))
def test_responses_can_be_read_back(messages: list[Message]) -> None:
    call = ChatCall(model_id="m", messages=messages)
    body = json.loads(OpenAIResponses().prepare_request(call).data())
    expected: Said = []
    for message in messages:
        if message.role == "tool":
            results = [part for part in message.content if isinstance(part, ToolResult)]
            expected += [("tool", [plain(result)]) for result in results]
        elif message.role == "assistant":  # each thing that it says is an item
            expected += [("assistant", [part]) for part in joined(message.content)]
        else:
            expected.append((message.role, list(message.content)))
    found = [each for each in read_responses(body["input"]) if each != ("assistant", [Text("")])]
    assert [(role, joined(parts)) for role, parts in found] == [
        (role, joined(parts)) for role, parts in expected
    ]

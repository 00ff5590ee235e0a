"""Items as the messages of the host, and the parts of its messages as items' content.

What a model said, thought and asked for one after the other is one message, and so are the
results of its tools. Each result must answer a call before it, and each call have a result.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from genai_host.api import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from genai_host.api.given import MOST_LEVELS, bytes_of
from genai_host.api.messages import Role
from genai_host.api.reply_fields import read_tool_call
from genai_host.errors import InvalidData
from genai_host.server.responses.items import Item, inline, is_inline

DIALECT = "openai-responses"
"""What the dialect of this format calls itself, in whose parts the phase of a message is."""

_INPUT = "$.input"


def messages_of(items: Iterable[Item], instructions: str | None = None) -> list[Message]:
    """Raises `InvalidData` for results without calls, and calls without results."""
    said: list[tuple[Role, Part]] = []
    ends: list[int] = []  # of what is a message by itself
    pending: dict[str, str] = {}
    for item in items:
        for role, part in _parts(item):
            if isinstance(part, ToolCall):
                pending[part.id] = part.name
            elif isinstance(part, ToolResult):
                part = _named(part, pending)
            said.append((role, part))
        if item["type"] == "message" and item["role"] != "assistant":
            ends.append(len(said))
    for id in pending:
        raise InvalidData(f"there is no output for the function call {id!r}", path=_INPUT)
    messages = [] if instructions is None else [Message("system", instructions)]
    return messages + _joined(said, ends)


def _named(result: ToolResult, pending: dict[str, str]) -> ToolResult:
    """With the name of the tool that was called."""
    if result.id not in pending:
        raise InvalidData(f"there is no function call {result.id!r} for an output", path=_INPUT)
    return ToolResult(result.id, pending.pop(result.id), result.content)


def _joined(said: list[tuple[Role, Part]], ends: list[int]) -> list[Message]:
    messages: list[Message] = []
    marks = set(ends)
    number = 0
    keyed = []
    for at, (role, part) in enumerate(said):
        number += at in marks
        keyed.append((number, role, part))
    for (_, role), parts in groupby(keyed, key=lambda each: each[:2]):
        messages.append(Message(role, [part for _, _, part in parts]))
    return messages


def _parts(item: Item) -> Iterator[tuple[Role, Part]]:
    """What an item is made of, and who says it."""
    kind = item["type"]
    if kind == "function_call":
        yield "assistant", _call(item["call_id"], item["name"], item["arguments"])
    elif kind == "function_call_output":
        yield "tool", ToolResult(item["call_id"], content=_output(item["output"]))
    elif kind == "reasoning":
        for part in (*item["summary"], *item.get("content", ())):
            if part["text"]:
                yield "assistant", Reasoning(part["text"])
        for kept in item.get("opaque", ()):
            yield "assistant", Opaque(kept["dialect"], kept["data"])
    elif kind == "image_generation_call":
        yield "assistant", Image(bytes_of(item["result"], _INPUT))
    elif item["role"] == "assistant":
        if item.get("phase"):
            yield "assistant", Opaque(DIALECT, {"phase": item["phase"]})
        for part in item["content"]:
            yield "assistant", Text(part["refusal" if part["type"] == "refusal" else "text"])
    else:
        role: Role = "user" if item["role"] == "user" else "system"
        for part in item["content"]:
            yield role, _part(part)


def _call(id: str, name: str, arguments: str) -> ToolCall:
    """Arguments that are nested too deeply stay as the model wrote them."""
    call = read_tool_call(id, name, arguments)
    level: list[Any] = [call.arguments]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return ToolCall(id, name, malformed=arguments) if level else call


def _output(output: str | list[Item]) -> list[Part]:
    return [Text(output)] if isinstance(output, str) else [_part(part) for part in output]


def _part(part: Mapping[str, str]) -> Part:
    if part["type"] == "input_text":
        return Text(part["text"])
    if part["type"] == "input_image":
        return _image(part["image_url"])
    name = part.get("filename", "")
    if "file_url" in part:
        return File(url=part["file_url"], name=name)
    data, media_type = inline(part["file_data"], _INPUT, bare=True)
    return File(data, media_type or mimetypes.guess_type(name)[0] or "", name)


def _image(url: str) -> Image:
    if not is_inline(url):
        return Image(url=url)
    data, media_type = inline(url, _INPUT)
    return Image(data, media_type)

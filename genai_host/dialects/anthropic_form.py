"""How what is said is written in Anthropic's messages: blocks, in messages of two roles.

Source: Claude API reference, "Create a Message", as of November 2026.

What the system says stands apart, wherever in a conversation it was said. Messages of one
role that follow each other become one, as the service asks; the results of tools are the
user's. Texts without a character that shows, which the service refuses, say nothing and
are left out.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import ne
from typing import Any, Literal

from genai_host.api import (
    ChatCall,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
)
from genai_host.api.exchange import Encoded
from genai_host.api.json_text import write_json
from genai_host.api.messages import remember_each
from genai_host.api.request_parts import fitting_id, system_texts, unsupported
from genai_host.dialects.anthropic_replies import NAME
from genai_host.errors import UnsupportedPart

Block = Mapping[str, Any]
_Said = tuple[Literal[b"", b"user", b"assistant"], bytes]

_ID = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
_TEXT_TYPES = ("text/", "application/json", "application/xml")


def wire_messages(call: ChatCall, mark: bytes = b"") -> list[Encoded]:
    """What the user and the model said.

    mark   a field for the last block of it, as `"name":value`
    """
    said = remember_each(call.messages, NAME, _said_in)
    roles = [role for role, _ in said if role]
    if not mark and all(map(ne, roles, roles[1:])):  # as they usually are
        return call.written(_WRITTEN, _write)
    spoken = [
        (message, *each) for message, each in zip(call.messages, said, strict=True) if each[0]
    ]
    turns = [list(turn) for _, turn in groupby(spoken, key=lambda each: each[1])]
    wires = [_turn([message for message, *_ in turn]) for turn in turns]
    if mark and turns:
        role = turns[-1][0][1]
        blocks = b",".join(blocks for *_, blocks in turns[-1])
        wires[-1] = _MESSAGE % (role, blocks[:-1] + b"," + mark + b"}")  # they end with an object
    return [Encoded(wire) for wire in wires]


def _turn(messages: list[Message]) -> bytes:
    """What one role said at once. A message of its own is written as it always is."""
    if len(messages) == 1:
        return messages[0].remember(_WRITTEN, _write)
    said = [message.remember(NAME, _said_in) for message in messages]
    return _MESSAGE % (said[0][0], b",".join(blocks for _, blocks in said))


_WRITTEN = (NAME, "message")
_MESSAGE = b'{"role":"%b","content":[%b]}'
_TEXT_MESSAGE = b'{"role":"%b","content":%b}'


def _write(message: Message) -> bytes:
    role, blocks = message.remember(NAME, _said_in)
    content = message.content
    if role and len(content) == 1 and type(content[0]) is Text:  # as most are
        return _TEXT_MESSAGE % (role, write_json(content[0].text))
    return _MESSAGE % (role, blocks) if role else b""


def _said_in(message: Message) -> _Said:
    """Whose message it is, and its blocks; nobody's, if it says nothing here."""
    if message.role == "system":
        return b"", b""
    blocks = b",".join(write_json(block) for block in _blocks(message))
    if not blocks:
        return b"", b""
    return b"assistant" if message.role == "assistant" else b"user", blocks


def _blocks(message: Message) -> Iterator[Block]:
    citations: Block = {}
    for part in message.content:
        if isinstance(part, Reasoning) or (isinstance(part, Opaque) and part.dialect != NAME):
            continue
        if isinstance(part, Opaque) and _is_of_text(part.data):
            citations = {"citations": part.data["citations"]}
        elif isinstance(part, Text) and message.role != "tool":
            if _shows(part):
                yield {"type": "text", "text": part.text, **citations}
            citations = {}
        else:
            yield _block(part, message)


def _is_of_text(data: Any) -> bool:
    """Whether it is what belongs to the text that follows."""
    return isinstance(data, Mapping) and "citations" in data and "type" not in data


def _block(part: Part, message: Message) -> Block:
    role = message.role
    if role == "user" and isinstance(part, Image):
        return {"type": "image", "source": _source(part, "image/png")}
    if role == "user" and isinstance(part, File):
        return _document(part)
    if role == "assistant" and isinstance(part, ToolCall):
        given = {"INVALID_JSON": part.malformed} if part.malformed else part.arguments
        return {"type": "tool_use", "id": wire_id(part.id), "name": part.name, "input": given}
    if role != "tool" and isinstance(part, Opaque) and isinstance(part.data, Mapping):
        return part.data
    if role == "tool" and isinstance(part, ToolResult):
        return _tool_result(part)
    raise unsupported(part, f"in a message of role {role}", NAME)


def _document(file: File) -> Block:
    kind = file.media_type
    title = {"title": file.name} if file.name else {}
    if kind in ("", "application/pdf"):
        return {"type": "document", "source": _source(file, "application/pdf"), **title}
    if kind.startswith(_TEXT_TYPES) and not file.url:
        try:
            source = {"type": "text", "media_type": "text/plain", "data": file.data.decode()}
        except UnicodeDecodeError as error:
            raise UnsupportedPart(
                f"a document of type {kind} is not in UTF-8", part=file.type, dialect=NAME
            ) from error
        return {"type": "document", "source": source, **title}
    raise UnsupportedPart(
        f"{NAME} has no place for a document of type {kind}{' by its address' * bool(file.url)}",
        hint="it takes PDF, and text",
        part=file.type,
        dialect=NAME,
    )


def _source(part: Image | File, usual_type: str) -> Block:
    if part.url:
        return {"type": "url", "url": part.url}
    data = base64.b64encode(part.data).decode()
    return {"type": "base64", "media_type": part.media_type or usual_type, "data": data}


def _tool_result(result: ToolResult) -> Block:
    said = [part for part in result.content if not isinstance(part, Text) or _shows(part)]
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id(result.id)}
    if len(said) == 1 and isinstance(said[0], Text):
        block["content"] = said[0].text
    elif said:
        block["content"] = [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {"type": "image", "source": _source(part, "image/png")}
            for part in said
        ]
    if result.error:
        block["is_error"] = True
    return block


def _shows(text: Text) -> bool:
    return bool(text.text.strip())


def wire_id(id: str) -> str:
    return fitting_id(id, _ID)


def wire_system(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """What the system says, as blocks."""
    return [{"type": "text", "text": text} for text in system_texts(messages, NAME) if text.strip()]


def wire_tool(tool: ToolSchema) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {
        "name": tool.name,
        **described,
        "input_schema": {"type": "object", **tool.parameters},
    }


def wire_choice(choice: str | None, parallel: bool | None) -> dict[str, Any] | None:
    """Which tools the model is to take, and whether it may ask for several at once; None
    if nothing is said of it."""
    if choice is None and parallel is None:
        return None
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    kind = kinds.get(choice or "auto")
    wire: dict[str, Any] = {"type": kind} if kind else {"type": "tool", "name": choice}
    if parallel is not None and kind != "none":
        wire["disable_parallel_tool_use"] = not parallel
    return wire

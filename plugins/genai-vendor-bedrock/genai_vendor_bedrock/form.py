"""Conversion of messages to Converse: blocks in messages of two roles.

Source: Amazon Bedrock API reference, "Converse", "ContentBlock", "ToolConfiguration".

System messages are sent separately, wherever they are in the conversation. Consecutive messages of
one role are merged, as the service requires. Tool results have the role of the user. Texts without
a visible character, which the service rejects, are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from genai_host.api import (
    ChatCall,
    EncodedJson,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
    fitting_id,
    picture_in_words,
    system_texts,
    unsupported,
    write_json,
    write_long_json,
)
from genai_host.errors import UnsupportedPart
from genai_vendor_bedrock.documents import NAME, document_names, wire_document, wire_image

ConverseBlock = Mapping[str, Any]
_RoleBlocks = tuple[str, bytes]

_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}", re.ASCII)
_MESSAGE = b'{"role":"%b","content":[%b]}'


def wire_messages(
    messages: Sequence[Message], mark: ConverseBlock | None = None
) -> list[EncodedJson]:
    """Return the messages of the user and the model.

    Args:
        messages: The messages.
        mark: Block to add at the end.
    """
    encoded = [each for each in _encoded(messages) if each[1]]
    turns = [
        (role, [each for _, each in turn]) for role, turn in groupby(encoded, lambda it: it[0])
    ]
    if mark is not None and turns:
        turns[-1][1].append(write_json(mark))
    return [EncodedJson(_MESSAGE % (role.encode(), b",".join(blocks))) for role, blocks in turns]


def _encoded(messages: Sequence[Message]) -> Iterator[_RoleBlocks]:
    """Yield the role and the blocks of each message. Blocks with documents are not cached, because
    the name of a document depends on the other names.
    """
    files = [part for each in messages for part in each.content if isinstance(part, File)]
    names = iter(document_names(files))
    for message in messages:
        if any(isinstance(part, File) for part in message.content):
            yield _encoded_message(message, names)
        else:
            yield message.remember(NAME, _without_documents)


def _without_documents(message: Message) -> _RoleBlocks:
    return _encoded_message(message, iter(()))


def _encoded_message(message: Message, names: Iterator[str]) -> _RoleBlocks:
    if message.role == "system":
        return "", b""
    role = "assistant" if message.role == "assistant" else "user"
    return role, b",".join(write_long_json(block) for block in _blocks(message, names))


def _blocks(message: Message, names: Iterator[str]) -> Iterator[ConverseBlock]:
    citations: Sequence[Any] = ()
    for part in message.content:
        if isinstance(part, Reasoning) or (isinstance(part, VendorPart) and part.dialect != NAME):
            continue
        if (
            isinstance(part, VendorPart)
            and isinstance(part.data, Mapping)
            and "citations" in part.data
        ):
            citations = part.data["citations"]  # belongs to the following text
        elif isinstance(part, Text) and message.role != "tool":
            if citations:
                cited = {"content": [{"text": part.text}], "citations": citations}
                yield {"citationsContent": cited}
            elif shows(part):
                yield {"text": part.text}
            citations = ()
        else:
            yield _block(part, message, names)


def _block(part: Part, message: Message, names: Iterator[str]) -> ConverseBlock:
    role = message.role
    if role == "user" and isinstance(part, Image):
        return wire_image(part)
    if role == "user" and isinstance(part, File):
        return wire_document(part, next(names))
    if role == "assistant" and isinstance(part, ToolCall):
        given = {"INVALID_JSON": part.malformed} if part.malformed else part.arguments
        return {"toolUse": {"toolUseId": wire_id(part.id), "name": part.name, "input": given}}
    if role != "tool" and isinstance(part, VendorPart) and isinstance(part.data, Mapping):
        return part.data
    if role == "tool" and isinstance(part, ToolResult):
        return _tool_result(part)
    raise unsupported(part, f"in a message of role {role}", NAME)


def _tool_result(result: ToolResult) -> ConverseBlock:
    content = [
        {"text": part.text} if isinstance(part, Text) else _picture(part)
        for part in result.content
        if not isinstance(part, Text) or shows(part)
    ]
    block: dict[str, Any] = {"toolUseId": wire_id(result.id), "content": content}
    if result.error:
        block["status"] = "error"
    return {"toolResult": block}


def _picture(image: Image) -> ConverseBlock:
    try:
        return wire_image(image)
    except UnsupportedPart:
        return {"text": picture_in_words(image).text}


def shows(text: Text) -> bool:
    return bool(text.text.strip())


def wire_id(id: str) -> str:
    return fitting_id(id, _ID)


def wire_system(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the system messages as blocks."""
    return [{"text": text} for text in system_texts(messages, NAME) if text.strip()]


def wire_tool(tool: ToolSchema) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    schema = {"json": {"type": "object", **tool.parameters}}
    return {"toolSpec": {"name": tool.name, **described, "inputSchema": schema}}


def wire_choice(choice: str | None) -> dict[str, Any] | None:
    """Return the tool choice; None for the default, and for no tools, which has no value."""
    if choice in (None, "none"):
        return None
    kinds = {"auto": "auto", "required": "any"}
    return {kinds[choice]: {}} if choice in kinds else {"tool": {"name": choice}}


def tools_before(call: ChatCall) -> list[ToolSchema]:
    """Return the tools used in the conversation, which a request must always declare."""
    names = {
        part.name: None
        for message in call.messages
        for part in message.content
        if isinstance(part, ToolCall)
    }
    return [ToolSchema(name, "") for name in names]

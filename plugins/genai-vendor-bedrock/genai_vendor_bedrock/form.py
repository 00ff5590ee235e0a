"""Conversion of messages to Converse: blocks in messages of two roles.

Source: Amazon Bedrock API reference, "Converse", "ContentBlock", "ToolConfiguration", "ImageBlock",
"DocumentBlock", "S3Location".

System messages are sent separately, wherever they are in the conversation. Consecutive messages of
one role are merged, as the service requires. Tool results have the role of the user. Texts without
a visible character, which the service rejects, are omitted. Images and documents have certain
formats only, as bytes or from S3. Names of documents allow few characters.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath
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

NAME = "bedrock-converse"

_IMAGES: Mapping[str, str] = {
    "image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif",
    "image/webp": "webp",
}  # fmt: skip
_MARKS: Sequence[tuple[bytes, int, str]] = (
    (b"\x89PNG", 0, "png"), (b"\xff\xd8\xff", 0, "jpeg"), (b"GIF8", 0, "gif"),
    (b"WEBP", 8, "webp"), (b"%PDF", 0, "pdf"),
)  # fmt: skip
"""Signatures of files without a type: bytes, offset and format."""

_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS: Mapping[str, str] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/markdown": "md",
    "application/json": "txt",
    "application/xml": "txt",
}
_BY_ENDING = frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"})
_NO_NAME = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_MAX_NAME = 190  # the limit is 200; the rest is for a number


def wire_image(image: Image) -> dict[str, Any]:
    format = _IMAGES.get(image.media_type.lower())
    if format is None and not image.media_type:
        format = _by_mark(image.data) or PurePosixPath(image.url).suffix[1:].lower()
    if format == "jpg":
        format = "jpeg"
    if format not in _IMAGES.values():
        raise _unsupported(image, f"an image of type {image.media_type or 'unknown'}")
    return {"image": {"format": format, "source": _source(image)}}


def wire_document(file: File, name: str) -> dict[str, Any]:
    """A file as a block. Its name must be unique in the conversation; see `document_names`."""
    kind = file.media_type.partition(";")[0].strip().lower()
    format = _DOCUMENTS.get(kind) or ("txt" if kind.startswith("text/") else None)
    if format is None and not kind:
        ending = PurePosixPath(file.name or file.url).suffix[1:].lower()
        format = _by_mark(file.data) or (ending if ending in _BY_ENDING else None)
    if format is None or format in _IMAGES.values():
        raise _unsupported(file, f"a document of type {kind or 'unknown'}")
    return {"document": {"format": format, "name": name, "source": _source(file)}}


def document_names(files: Sequence[File]) -> list[str]:
    """Return a valid and unique name for each file."""
    names: list[str] = []
    taken: dict[str, int] = {}
    for file in files:
        stem = PurePosixPath(file.name).stem if file.name else ""
        name = _NO_NAME.sub(" ", stem)[:_MAX_NAME].strip() or "document"
        while True:
            number = taken[name] = taken.get(name, 0) + 1
            if number == 1:
                break
            name = f"{name} ({number})"
        names.append(name)
    return names


def _by_mark(data: bytes) -> str | None:
    found = (format for mark, at, format in _MARKS if data[at : at + len(mark)] == mark)
    return next(found, None)


def _source(part: Image | File) -> dict[str, Any]:
    if not part.url:
        return {"bytes": base64.b64encode(part.data).decode()}
    if part.url.startswith("s3://"):
        return {"s3Location": {"uri": part.url}}
    raise _unsupported(part, f"a part of type {part.type} by URL")


def _unsupported(part: Image | File, what: str) -> UnsupportedPart:
    return UnsupportedPart(
        f"{NAME} does not support {what}",
        hint="use the bytes, or an s3:// URL" if part.url else "",
        part=part.type,
        dialect=NAME,
    )


ConverseBlock = Mapping[str, Any]
_RoleBlocks = tuple[str, bytes]

_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}", re.ASCII)
_MESSAGE = b'{"role":"%b","content":[%b]}'


def wire_messages(
    messages: Sequence[Message], mark: ConverseBlock | None = None
) -> list[EncodedJson]:
    """Return the messages of the user and the model."""
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

"""Conversion of messages to Gemini's contents, with the roles `user` and `model`.

Source: Gemini API reference, "Content", "Part", "FunctionResponse"; the guide to thought
signatures; as of November 2026.

Consecutive messages of one role are one content, which is required for the results of parallel tool
calls. The format has no file names. Reasoning is sent back only as its signatures.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import ne
from typing import Any, NamedTuple

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
    VendorPart,
    joined_extra,
    remember_each,
    system_texts,
    unsupported,
    with_extra,
    with_tool_names,
    write_json,
    write_long_json,
)
from genai_host.errors import UnsupportedPart
from genai_wire_gemini.dialect.replies import NAME, SIGNATURE, has_own_id

_CONTENT = b'{"role":"%b","parts":[%b]}'
_MEDIA_TYPES: Mapping[str, str] = {
    "csv": "text/csv",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "md": "text/markdown",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
}
"""MIME types by file extension for content referenced by address: Vertex AI requires one."""


class ServiceVariant(NamedTuple):
    """Differences between services in the format of messages.

    Attributes:
        unsigned_calls: Signature for tool calls without one, from another service; empty to send
            them unsigned.
    """

    unsigned_calls: str

    def write(self, message: Message) -> bytes:
        role, parts = message.remember((NAME, self), self.role_and_parts)
        return _content(role, parts, [message]) if parts else b""

    def role_and_parts(self, message: Message) -> tuple[bytes, bytes]:
        """Return the role and the encoded parts of a message; both empty if there is nothing to
        send.
        """
        if message.role == "system":
            return b"", b""
        parts = list(_joined(_wire_parts(message)))
        calls = [each for each in parts if "functionCall" in each]
        if calls and self.unsigned_calls:  # only the first parallel call is signed
            calls[0].setdefault(SIGNATURE, self.unsigned_calls)
        role = b"model" if message.role == "assistant" else b"user"
        return role, b",".join(map(write_long_json, parts))


def wire_contents(call: ChatCall, form: ServiceVariant) -> list[EncodedJson]:
    """Return the contents of the user and the model. Raises `UnsupportedPart`."""
    call = with_tool_names(call)
    encoded = remember_each(call.messages, (NAME, form), form.role_and_parts)
    pairs = zip(encoded, call.messages, strict=True)
    written = [(*each, message) for each, message in pairs if each[1]]
    roles = [role for role, *_ in written]
    if all(map(ne, roles, roles[1:])):  # the usual case
        return call.written((NAME, "content", form), form.write)
    turns = [(role, [*turn]) for role, turn in groupby(written, key=lambda each: each[0])]
    return [
        EncodedJson(_content(role, b",".join(each[1] for each in turn), [each[2] for each in turn]))
        for role, turn in turns
    ]


def _content(role: bytes, parts: bytes, messages: Iterable[Message]) -> bytes:
    """A content, with the further fields of the messages it is made of."""
    wire = _CONTENT % (role, parts)
    extra = joined_extra(*messages)
    if extra is None or NAME not in extra:
        return wire
    further = {name: each for name, each in extra[NAME].items() if name not in ("role", "parts")}
    return wire[:-1] + b"," + write_json(further)[1:] if further else wire


def wire_system(messages: Iterable[Message]) -> dict[str, Any] | None:
    """Return all system messages as the single system instruction."""
    parts = [{"text": text} for text in system_texts(messages, NAME)]
    return {"parts": parts} if parts else None


def _wire_parts(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.content:
        if isinstance(part, Reasoning) or (isinstance(part, VendorPart) and part.dialect != NAME):
            continue
        yield with_extra(_wire_part(part, message), part, NAME)


def _joined(parts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Put each signature into the part before it."""
    last: dict[str, Any] | None = None
    for part in parts:
        if part.keys() != {SIGNATURE}:
            if last is not None:
                yield last
            last = dict(part)
        elif last is not None and SIGNATURE not in last:
            last.update(part)
        else:
            if last is not None:
                yield last
            last = {"text": "", **part}
    if last is not None:
        yield last


def _wire_part(part: Part, message: Message) -> dict[str, Any]:
    role = message.role
    if isinstance(part, VendorPart) and isinstance(part.data, Mapping) and part.data:
        return dict(part.data)
    if role == "tool":
        if isinstance(part, ToolResult):
            return {"functionResponse": _wire_result(part)}
    elif isinstance(part, Text):
        return {"text": part.text}
    elif isinstance(part, Image):
        return _wire_data(part, "image/png")
    elif isinstance(part, File):
        return _wire_data(part, "application/pdf")
    elif isinstance(part, ToolCall) and role == "assistant":
        # the format requires an object, so malformed arguments are sent in one
        given = {"malformed": part.malformed} if part.malformed else part.arguments
        return {"functionCall": {**_wire_id(part.id), "name": part.name, "args": given}}
    raise unsupported(part, f"in a message of role {role}", NAME)


def _wire_result(result: ToolResult) -> dict[str, Any]:
    texts = [part.text for part in result.content if isinstance(part, Text)]
    pictures = [part for part in result.content if isinstance(part, Image)]
    if not result.name:
        raise UnsupportedPart(
            f"{NAME} requires the tool name of each result, but no call has the id {result.id!r}",
            part=result.type,
            dialect=NAME,
        )
    wire: dict[str, Any] = {
        **_wire_id(result.id),
        "name": result.name,
        "response": {"error" if result.error else "output": "\n".join(texts)},
    }
    if pictures:
        wire["parts"] = [with_extra(_wire_data(part, "image/png"), part, NAME) for part in pictures]
    return wire


def _wire_id(id: str) -> dict[str, str]:
    return {"id": id} if has_own_id(id) else {}


def _wire_data(part: Image | File, usual_type: str) -> dict[str, Any]:
    if part.data:
        data = base64.b64encode(part.data).decode()
        return {"inlineData": {"mimeType": part.media_type or usual_type, "data": data}}
    suffix = part.url.partition("?")[0].rpartition(".")[2].lower()
    media_type = part.media_type or _MEDIA_TYPES.get(suffix, "")
    return {"fileData": {**({"mimeType": media_type} if media_type else {}), "fileUri": part.url}}

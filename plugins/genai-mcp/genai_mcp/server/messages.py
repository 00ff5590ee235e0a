"""Steps of a call, messages to a client, and results of tools.

A call is a generator of `Steps`, as a feature is, and does not know how they reach the client.
The server writes answers, errors, notifications and questions to the client's user
(`elicitation`). Outputs of tools and answers of features become results of MCP tools.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypeAlias

from attrs import frozen

from genai_host import __version__
from genai_host.api import Answer, Image, Text, ToolOutput
from genai_host.api.json_text import write_json
from genai_host.errors import GenaiError
from genai_mcp.rpc import MODERN, OWN, Id, RpcError, one_line


@frozen
class News:
    """How it goes, in a line."""

    text: str


@frozen
class Question:
    """Whether something may be done, for a human to decide; True or False is sent back.

    text      what is asked
    refusal   what the client is told that has no way to ask
    """

    text: str
    refusal: str


Result: TypeAlias = "Mapping[str, Any]"
"""What a tool gave, as MCP writes it: `content`, `isError`, `structuredContent`."""

Steps: TypeAlias = "Generator[News | Question, bool | None, Result]"


Outgoing: TypeAlias = "dict[str, Any]"

SERVER = {"name": "genai-host", "version": __version__}
CAPABILITIES: Mapping[str, Any] = {"tools": {}}  # nobody says when the tools of others change
CACHED: Mapping[str, Any] = {"ttlMs": 60_000, "cacheScope": "private"}
"""How long, and for whom, what is listed may be taken to hold."""

UNSUPPORTED_VERSION = -32022
MISSING_CAPABILITY = -32021
HEADER_MISMATCH = -32020

ELICIT = "elicitation/create"
_ALLOW = "allow"


def result(id: Id, value: Mapping[str, Any], *, modern: bool) -> Outgoing:
    """modern   whether it is for 2026-07-28, in which results say what they are"""
    if modern:
        value = {"resultType": "complete", **value}
        value["_meta"] = {f"{OWN}serverInfo": SERVER, **value.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Id | None, code: int, message: str, data: Any = None) -> Outgoing:
    told = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": told if data is None else {**told, "data": data}}


def of_error(id: Id | None, failure: RpcError) -> Outgoing:
    return error(id, failure.code, failure.message, failure.data)


def notification(method: str, params: Mapping[str, Any]) -> Outgoing:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def elicitation(question: Question) -> dict[str, Any]:
    """A question, as the parameters of `elicitation/create`."""
    allow = {
        "type": "boolean",
        "title": "Allow it",
        "description": "Whether it may be done, this once.",
        "default": False,
    }
    form = {"type": "object", "properties": {_ALLOW: allow}, "required": [_ALLOW]}
    return {"message": question.text, "requestedSchema": form}


def is_allowed(given: Any) -> bool:
    """Whether the answer to that is yes."""
    if not isinstance(given, Mapping) or given.get("action") != "accept":
        return False
    content = given.get("content")
    return isinstance(content, Mapping) and content.get(_ALLOW) is True


def can_ask(capabilities: Any) -> bool:
    """Whether a client with these capabilities can ask its user something in a form."""
    own = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(own, Mapping) and (not own or "form" in own)


def wrong_version(requested: str) -> RpcError:
    data = {"supported": [MODERN], "requested": requested}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


MOST_TEXT = 100_000
"""Characters of a feature's answer; what is beyond is cut off. The host caps tools."""

MOST_DATA = 1 << 20
"""Bytes of a feature's data, as JSON; what has more is left out."""

_UNKNOWN = "application/octet-stream"
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def result_of_output(output: ToolOutput) -> Result:
    """What a tool gave. Reactions and context, which are for front ends, are left out."""
    return {"content": list(_parts(output.content)), "isError": output.error}


def result_of_answer(answer: Answer) -> Result:
    """What a feature answered: its summary, and its data, where that is an object."""
    text = answer.summary
    if len(text) > MOST_TEXT:
        rest = len(text) - MOST_TEXT
        text = f"{text[:MOST_TEXT]}\n(cut here: {rest} more characters)"
    parts = [_text(text)]
    result: dict[str, Any] = {"content": parts, "isError": False}
    if isinstance(answer.data, Mapping) and answer.data:
        data = write_json(answer.data)
        if len(data) <= MOST_DATA:
            parts.append(_text(data.decode()))  # for clients that do not read the other
            result["structuredContent"] = answer.data
        else:
            parts.append(_text(f"(data of {len(data)} bytes was left out)"))
    return result


def result_of_error(error: GenaiError) -> Result:
    hint = f" ({error.hint})" if error.hint else ""
    return failed(one_line(f"{error.message}{hint}"))


def failed(why: str) -> Result:
    return {"content": [_text(why)], "isError": True}


def _parts(content: Iterable[Text | Image]) -> Iterable[dict[str, Any]]:
    for part in content:
        if isinstance(part, Text):
            yield _text(part.text)
        elif part.data:
            data = b64encode(part.data).decode()
            yield {"type": "image", "data": data, "mimeType": part.media_type or _kind(part.data)}
        else:  # who asks decides whether to fetch it
            yield _text(f"(a picture: {part.url})")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _kind(data: bytes) -> str:
    return next((kind for begins, kind in _BEGINNINGS if data.startswith(begins)), _UNKNOWN)

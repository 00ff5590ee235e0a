"""Steps of a call, messages to a client, and results of tools.

A call is a generator of `Steps`, like a feature, and is independent of the transport. The server
writes answers, errors, notifications and questions to the client's user (`elicitation`). Outputs of
tools and answers of features become results of MCP tools.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypeAlias

from attrs import frozen

from genai_host import __version__
from genai_host.api import Answer, Image, Text, ToolOutput, write_json
from genai_host.errors import GenaiError
from genai_mcp.rpc import MODERN, OWN, Id, RpcError
from genai_mcp.text import one_line


@frozen
class News:
    """Progress of a call as one line."""

    text: str


@frozen
class Question:
    """Request for a human decision; the generator receives True or False.

    Attributes:
        text: The question.
        refusal: The error for a client that cannot ask its user.
    """

    text: str
    refusal: str


Result: TypeAlias = "Mapping[str, Any]"
"""Result of a tool in the MCP format: `content`, `isError`, `structuredContent`."""

Steps: TypeAlias = "Generator[News | Question, bool | None, Result]"


Outgoing: TypeAlias = "dict[str, Any]"

SERVER = {"name": "genai-host", "version": __version__}
CAPABILITIES: Mapping[str, Any] = {"tools": {}}  # no `listChanged`: changes are unknown
CACHED: Mapping[str, Any] = {"ttlMs": 60_000, "cacheScope": "private"}
"""Caching fields of a list: duration and scope."""

UNSUPPORTED_VERSION = -32022
MISSING_CAPABILITY = -32021
HEADER_MISMATCH = -32020

ELICIT = "elicitation/create"
_ALLOW = "allow"


def result(id: Id, value: Mapping[str, Any], *, modern: bool) -> Outgoing:
    """Return a result message. `modern`: for 2026-07-28, in which results name their type."""
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
    """Return the parameters of `elicitation/create` for a question."""
    allow = {
        "type": "boolean",
        "title": "Allow it",
        "description": "Whether to allow this call.",
        "default": False,
    }
    form = {"type": "object", "properties": {_ALLOW: allow}, "required": [_ALLOW]}
    return {"message": question.text, "requestedSchema": form}


def is_allowed(given: Any) -> bool:
    """Whether the user's answer to an elicitation is yes."""
    if not isinstance(given, Mapping) or given.get("action") != "accept":
        return False
    content = given.get("content")
    return isinstance(content, Mapping) and content.get(_ALLOW) is True


def can_ask(capabilities: Any) -> bool:
    """Whether a client with these capabilities can ask its user with a form."""
    own = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(own, Mapping) and (not own or "form" in own)


def wrong_version(requested: str) -> RpcError:
    data = {"supported": [MODERN], "requested": requested}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


MOST_TEXT = 100_000
"""Maximum number of characters of a feature's answer; longer ones are truncated."""

MOST_DATA = 1 << 20
"""Maximum number of bytes of a feature's data as JSON; larger data is omitted."""

_UNKNOWN = "application/octet-stream"
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def result_of_output(output: ToolOutput) -> Result:
    """Convert the output of a tool, without reactions and context, which are for front ends."""
    return {"content": list(_parts(output.content)), "isError": output.error}


def result_of_answer(answer: Answer) -> Result:
    """Convert the answer of a feature: its summary, and its data if that is an object."""
    text = answer.summary
    if len(text) > MOST_TEXT:
        rest = len(text) - MOST_TEXT
        text = f"{text[:MOST_TEXT]}\n(truncated: {rest} more characters)"
    parts = [_text(text)]
    result: dict[str, Any] = {"content": parts, "isError": False}
    if isinstance(answer.data, Mapping) and answer.data:
        data = write_json(answer.data)
        if len(data) <= MOST_DATA:
            parts.append(_text(data.decode()))  # for clients that do not read `structuredContent`
            result["structuredContent"] = answer.data
        else:
            parts.append(_text(f"(data of {len(data)} bytes omitted)"))
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
        else:  # the client decides whether to fetch it
            yield _text(f"(an image: {part.url})")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _kind(data: bytes) -> str:
    return next((kind for begins, kind in _BEGINNINGS if data.startswith(begins)), _UNKNOWN)

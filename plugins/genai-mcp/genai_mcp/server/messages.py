"""Steps of a call, and results of tools.

A call is a generator of `Steps`, like a feature, and is independent of the protocol. Outputs of
tools and answers of features become results of MCP tools.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypeAlias

from attrs import frozen
from mcp_types import CallToolResult, ElicitResult, ImageContent, TextContent

from genai_host.api import Answer, Image, Text, ToolOutput, cited_pages, well_formed, write_json
from genai_host.errors import GenaiError
from genai_mcp.text import one_line


@frozen
class ProgressUpdate:
    """Progress of a call as one line."""

    text: str


@frozen
class ApprovalRequest:
    """Request for a human decision; the generator receives True or False. `refusal` is the error
    for a client that cannot ask its user."""

    text: str
    refusal: str


Steps: TypeAlias = "Generator[ProgressUpdate | ApprovalRequest, bool | None, CallToolResult]"

CallStep: TypeAlias = "ProgressUpdate | ApprovalRequest | CallToolResult"

MAX_TEXT = 100_000
"""Maximum number of characters of a feature's answer; longer ones are truncated."""

MAX_DATA = 1 << 20
"""Maximum number of bytes of a feature's data as JSON; larger data is omitted."""

_ALLOW = "allow"

FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        _ALLOW: {
            "type": "boolean",
            "title": "Allow it",
            "description": "Whether to allow this call.",
            "default": False,
        }
    },
    "required": [_ALLOW],
}
"""Form of the decision."""

_UNKNOWN = "application/octet-stream"
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def is_allowed(given: object) -> bool:
    """Whether the user has allowed the call."""
    if not isinstance(given, ElicitResult) or given.action != "accept":
        return False
    return (given.content or {}).get(_ALLOW) is True


def result_of_output(output: ToolOutput) -> CallToolResult:
    """Convert the output of a tool, without reactions and context, which are for front ends."""
    return CallToolResult(content=list(_parts(output.content)), is_error=output.error)


def result_of_answer(answer: Answer) -> CallToolResult:
    """Convert the answer of a feature: its summary, the pages that it cites, and its data if that
    is an object."""
    text = answer.summary
    if len(text) > MAX_TEXT:
        rest = len(text) - MAX_TEXT
        text = f"{text[:MAX_TEXT]}\n(truncated: {rest} more characters)"
    content = [_text(text)]
    if pages := cited_pages(answer.citations):
        lines = (f"{one_line(title)} {url}".lstrip() for url, title in pages.items())
        content.append(_text("\n".join(["Sources:", *lines])[:MAX_TEXT]))
    if not isinstance(answer.data, Mapping) or not answer.data:
        return CallToolResult(content=content)
    data = write_json(answer.data)
    if len(data) > MAX_DATA:
        return CallToolResult(content=[*content, _text(f"(data of {len(data)} bytes omitted)")])
    # the text is for clients that do not read structured content
    content.append(_text(data.decode()))
    plain = well_formed(json.dumps(json.loads(data), ensure_ascii=False))
    return CallToolResult(content=content, structured_content=json.loads(plain))


def result_of_error(error: GenaiError) -> CallToolResult:
    hint = f" ({error.hint})" if error.hint else ""
    return failed(one_line(f"{error.message}{hint}"))


def failed(why: str) -> CallToolResult:
    return CallToolResult(content=[_text(why)], is_error=True)


def _parts(content: Iterable[Text | Image]) -> Iterable[TextContent | ImageContent]:
    for part in content:
        if isinstance(part, Text):
            yield _text(part.text)
        elif part.data:
            data = b64encode(part.data).decode()
            known = (kind for begins, kind in _BEGINNINGS if part.data.startswith(begins))
            kind = part.media_type or next(known, _UNKNOWN)
            yield ImageContent(type="image", data=data, mime_type=kind)
        else:  # the client decides whether to fetch it
            yield _text(f"(an image: {part.url})")


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=well_formed(text))

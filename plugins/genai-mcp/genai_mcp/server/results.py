"""What tools and features give, as results of an MCP server's tools."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from genai_host.api import Answer, Image, Text, ToolOutput
from genai_host.api.json_text import write_json
from genai_host.errors import GenaiError
from genai_mcp.server.steps import Result
from genai_mcp.texts import one_line

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

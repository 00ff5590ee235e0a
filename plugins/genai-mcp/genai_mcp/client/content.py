"""What a tool of a server gives, as the output of a tool here.

Models get texts and pictures; sounds and resources are told of in words. All of it is a
stranger's, and the toolbox caps it.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from itertools import islice
from typing import Any

from genai_host.api import Image, Text, ToolOutput
from genai_host.api.json_text import write_json
from genai_host.errors import MalformedReply
from genai_mcp.texts import one_line

_MOST_PARTS = 1001  # one more than the toolbox keeps, so that it tells of the rest


def output_of(result: Mapping[str, Any]) -> ToolOutput:
    """Raises `MalformedReply` for what is no result of a tool."""
    content = result.get("content", [])
    if not isinstance(content, list):
        raise MalformedReply("its content is no list")
    parts = [_part(each) for each in islice(content, _MOST_PARTS)]
    if not parts and "structuredContent" in result:
        parts = [Text(write_json(result["structuredContent"]).decode())]
    return ToolOutput(parts, error=result.get("isError") is True)


def _part(item: Any) -> Text | Image:
    if not isinstance(item, Mapping):
        return Text("(content that is no object)")
    kind = item.get("type")
    if kind == "text" and isinstance(item.get("text"), str):
        return Text(item["text"])
    if kind == "image":
        data = _bytes(item.get("data"))
        return Image(data, _word(item, "mimeType")) if data else Text("(a picture without data)")
    if kind == "audio":
        size = len(_bytes(item.get("data")))
        return Text(f"(a sound, {_word(item, 'mimeType') or 'of unknown type'}, {size} bytes)")
    if kind == "resource_link":
        return Text(f"(a resource: {_described(item)})")
    if kind == "resource" and isinstance(item.get("resource"), Mapping):
        return _resource(item["resource"])
    return Text(f"(content of a kind that is not known: {one_line(str(kind))})")


def _resource(resource: Mapping[str, Any]) -> Text:
    text = resource.get("text")
    if isinstance(text, str):
        return Text(f"(a resource: {_described(resource)})\n{text}")
    size = len(_bytes(resource.get("blob")))
    return Text(f"(a resource: {_described(resource)}, {size} bytes)")


def _described(resource: Mapping[str, Any]) -> str:
    names = ("uri", "name", "mimeType", "description")
    return ", ".join(filter(None, (_word(resource, name) for name in names))) or "without a name"


def _word(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return one_line(value) if isinstance(value, str) else ""


def _bytes(value: Any) -> bytes:
    """What base64 stands for; nothing if it is none."""
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""

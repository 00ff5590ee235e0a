"""JSON objects, which are what everything is that the service says."""

from __future__ import annotations

from typing import Any

from genai_host.api.json_text import read_json
from genai_host.api.reply_fields import malformed


def read_object(data: bytes) -> dict[str, Any]:
    """Raises `MalformedReply`."""
    try:
        value = read_json(data)
    except ValueError as error:
        raise malformed(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise malformed(f"it is a {type(value).__name__}")
    return value

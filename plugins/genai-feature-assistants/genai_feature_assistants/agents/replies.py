"""What comes back of a request: its bytes, what it says of an error, and when to ask again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from genai_host.api.json_text import read_json

if TYPE_CHECKING:
    import requests

_CHUNK = 64 * 1024


def arrived(response: requests.Response) -> Iterator[bytes]:
    """What comes of a reply, as soon as it has come: a read that waits for more would let a
    service take its time."""
    read = getattr(response.raw, "read1", None)
    if read is None:
        yield from response.iter_content(1)
        return
    while piece := read(_CHUNK, decode_content=True):
        yield piece


def message_in(body: bytes) -> str:
    """What a reply says of an error: `{"error": {"message"}}`, or other JSON or text."""
    try:
        data = read_json(body)
    except ValueError:
        return body.decode(errors="replace")
    error = data.get("error") if isinstance(data, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return error if isinstance(error, str) else json.dumps(data)


def retry_after(header: str | None) -> float | None:
    """What `Retry-After` asks for: seconds, or a date (RFC 9110, section 10.2.3)."""
    try:
        seconds = float(header or "")
    except ValueError:
        try:
            until = parsedate_to_datetime(header or "")
            seconds = (until - datetime.now(timezone.utc)).total_seconds()
        except (ValueError, TypeError):  # no date, or one without an offset
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None

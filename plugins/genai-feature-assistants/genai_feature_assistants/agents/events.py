"""Replies and server-sent events of a service.

A reply is read as its bytes arrive (`arrived`). `retry_after` reads a header of an error.
`server_events` decodes one line at a time, so that a character sent in two chunks stays intact.

Source: WHATWG HTML, "Server-sent events", section 9.2.6.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from attrs import frozen

from genai_host.api import malformed

if TYPE_CHECKING:
    import requests


_CHUNK = 64 * 1024


def arrived(response: requests.Response) -> Iterator[bytes]:
    """Yield the bytes of a response as they arrive.

    A read that waits for more would let a slow service exceed the time limit.
    """
    read = getattr(response.raw, "read1", None)
    if read is None:
        yield from response.iter_content(1)
        return
    while piece := read(_CHUNK, decode_content=True):
        yield piece


def retry_after(header: str | None) -> float | None:
    """Return the seconds of `Retry-After`: a number, or a date (RFC 9110, section 10.2.3)."""
    try:
        seconds = float(header or "")
    except ValueError:
        try:
            until = parsedate_to_datetime(header or "")
            seconds = (until - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):  # no date, or one without an offset
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


LARGEST = 16 * 2**20
"""Limit of an event, in bytes."""

_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


@frozen
class ServerEvent:
    """A server-sent event."""

    event: str
    data: str


def server_events(chunks: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events of a stream. An incomplete event at the end is left out.

    Raises:
        MalformedReply: The stream is not UTF-8, or an event is too large.
    """
    event, size = "", 0
    data: list[str] = []
    for line in _lines(chunks):
        size += len(line)
        if size > LARGEST:
            raise malformed("an event of the stream is too large")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                yield ServerEvent(event, "\n".join(data))
            event, data, size = "", [], 0
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        if b"\n" not in chunk and b"\r" not in chunk and not _ends_in_return(waiting):
            waiting.append(chunk)
            size += len(chunk)
            if size > LARGEST:
                raise malformed("a line of the stream is too long")
            continue
        *whole, rest = _END.split(b"".join([*waiting, chunk]))
        yield from map(_text, whole)
        waiting, size = [rest], len(rest)
    rest = b"".join(waiting)
    if rest.endswith(b"\r"):
        yield _text(rest[:-1])


def _ends_in_return(waiting: list[bytes]) -> bool:
    """Whether the next chunk decides if a line has ended, since a CR may precede an LF."""
    return bool(waiting) and waiting[-1].endswith(b"\r")


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise malformed("the stream is not UTF-8") from error

"""Parsers of streamed replies: server-sent events and NDJSON.

Server-sent events are read as defined by the HTML standard (section 9.2, "Server-sent events").
Both parsers read bytes: in text, a line would also end at U+2028.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from genai_host.api.json_text import read_json
from genai_host.api.provider_requests import StreamEvent
from genai_host.api.providers import StreamParser
from genai_host.errors import MalformedReply

_MAX_EVENT = 16 << 20  # bytes, sufficient for an image as base64


def read_sse(blocks: Iterable[bytes], *, whole: bool = False) -> Iterator[StreamEvent]:
    """The events of a `text/event-stream`.

    Args:
        blocks: The stream.
        whole: Whether to drop a last event that no blank line ends. Some servers leave that line
            out, but the event may also be incomplete.

    Raises:
        MalformedReply: An event is too large.
    """
    mark = b"\xef\xbb\xbf"  # byte order mark, allowed at the start
    for raw in _split(blocks, b"\n\n", lines_end_otherwise=True, whole=whole):
        if mark:
            raw = raw.removeprefix(mark)
            mark = b""
        if raw.startswith(b"data: ") and b"\n" not in raw:  # the usual case
            yield StreamEvent(raw[6:])
        else:
            yield from _read_events(raw)


def read_ndjson(blocks: Iterable[bytes]) -> Iterator[StreamEvent]:
    """The lines of an `application/x-ndjson`, one event each, without blank lines."""
    for raw in _split(blocks, b"\n"):
        line = raw.strip(_BETWEEN_LINES)
        if line:
            yield StreamEvent(line)


FRAMINGS: Mapping[str, StreamParser] = {
    "text/event-stream": read_sse,
    "application/x-ndjson": read_ndjson,
    "application/jsonl": read_ndjson,
    "application/json-seq": read_ndjson,
}
"""Parsers by content type."""

_BETWEEN_LINES = b" \t\r\n\x1e"  # the last one begins a record (RFC 7464)
_BLANKS = b"\xef\xbb\xbf \t\r\n"  # byte order mark
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_MAX_BLANKS = 64 << 10  # bytes


def detect_parser(
    blocks: Iterator[bytes], labelled: StreamParser | None = None
) -> tuple[StreamParser | None, Iterator[bytes]]:
    """Select the parser of a body by its first bytes, since some services label streams wrongly, or
    stream although no stream was requested.

    Args:
        blocks: The body.
        labelled: Parser for its content type; None if that is no stream.

    Returns:
        The parser, None for a complete reply, and the whole body.
    """
    start = b""
    for block in blocks:
        start += block
        begin = start.lstrip(_BLANKS)
        if len(begin) >= max(map(len, _FIELDS)) or len(start) > _MAX_BLANKS:
            break
    begin = start.lstrip(_BLANKS)
    if begin.startswith(_FIELDS):
        return read_sse, chain([start], blocks)
    if begin.startswith(b"[") and labelled is not read_ndjson:
        return None, chain([start], blocks)
    if begin.startswith(b"{") and labelled is not read_ndjson:
        held = [begin]
        has_lines = _has_lines(held, blocks)
        return (read_ndjson if has_lines else None), chain(held, blocks)
    return labelled, chain([start], blocks)


def _has_lines(held: list[bytes], blocks: Iterator[bytes]) -> bool:
    """Whether a body has several lines, and the first one is an object. Blocks read meanwhile are
    added to `held`."""
    line = bytearray()
    is_ended = False
    for block in chain([held.pop()], blocks):
        held.append(block)
        rest = block
        if not is_ended:
            piece, end, rest = block.partition(b"\n")
            line += piece
            is_ended = bool(end)
        if len(line) > _MAX_EVENT:
            return False
        if rest.strip():
            break
    else:
        return False
    return _is_object(bytes(line))


def _split(
    blocks: Iterable[bytes],
    separator: bytes,
    *,
    lines_end_otherwise: bool = False,
    whole: bool = False,
) -> Iterator[bytes]:
    r"""Split a stream at separators; the last item is the rest.

    Args:
        blocks: The stream.
        separator: The separator.
        lines_end_otherwise: Whether \r\n and \r also end lines.
        whole: Whether to omit the rest.

    Raises:
        MalformedReply: An event is too long.
    """
    pending: list[bytes] = []
    size = 0
    tail = b""  # of the pending data: a block may end within a separator
    held = b""  # a \r, possibly the first half of \r\n
    for block in blocks:
        if lines_end_otherwise and (held or b"\r" in block):
            block, held = _with_plain_line_ends(held + block)
        at = block.find(separator)
        if at >= 0 and not size and at + len(separator) == len(block):
            yield block[:at]  # one complete event, as most servers send them
            continue
        if at >= 0 or separator in tail + block:
            first, *rest = (b"".join(pending) + block).split(separator)
            yield first
            last = rest.pop()
            yield from rest
            pending, size = [last], len(last)
        else:
            pending.append(block)
            size += len(block)
            last = tail + block
        if size > _MAX_EVENT:
            raise MalformedReply(f"an event of the reply is longer than {_MAX_EVENT} bytes")
        tail = last[1 - len(separator) :] if len(separator) > 1 else b""
    if size and not whole:
        yield b"".join(pending)


def _with_plain_line_ends(block: bytes) -> tuple[bytes, bytes]:
    r"""A block with \n as line ends, and the bytes to prepend to the next one."""
    held = b"\r" if block.endswith(b"\r") else b""
    if held:
        block = block[:-1]
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), held


def _read_events(raw: bytes) -> Iterator[StreamEvent]:
    """Parse one event; none if it has no data, for example a comment.

    Some servers omit the blank line between events, name an error in place of `data`, or send an
    error or `[DONE]` without a field.
    """
    name: str | None = None
    data: list[bytes] = []
    for line in raw.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode(errors="replace")
        elif field == b"error":
            name = "error"
            data.append(value)
    if not data and raw.lstrip().startswith((b"{", b"[")):
        yield StreamEvent(raw.strip())
    elif len(data) > 1 and _is_object(data[0]):
        yield from (StreamEvent(each, name) for each in data)
    elif data:
        yield StreamEvent(b"\n".join(data), name)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(read_json(text), dict)
    except ValueError:
        return False

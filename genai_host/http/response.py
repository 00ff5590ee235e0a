"""HTTP/1 responses read from a socket, and the parsers of streams (SSE, NDJSON).

llhttp, the parser of Node.js, reads the responses (through httptools). It accepts HTTP/1.1 as
defined in RFC 9112 and nothing else.

Server-sent events are read as the HTML standard defines them (section 9.2, "Server-sent events").
Both parsers of streams read bytes: in text, a line would end at U+2028 too.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from genai_host.api import StreamEvent
from genai_host.api.providers import StreamParser
from genai_host.errors import MalformedReply

_BLOCK = 64 << 10  # bytes that are read at once where many come
_SMALL = 2 << 10  # and elsewhere: whoever waits for the next holds room for as many
_LARGEST_HEAD = 256 << 10  # bytes


class Response:
    """A reply that is still being read.

    status    0 until the head has come
    headers   names in lower case; values of one name are joined by commas
    ended     whether all of it has come
    clean     whether nothing else has come, and the connection stays open: it can be used
              again
    begun     whether anything has come
    """

    def __init__(self, sock: socket.socket) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = False
        self.clean = False
        self.begun = False
        self._socket = sock
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._body: list[bytes] = []
        self._has_head = False
        self._room = _SMALL

    @property
    def tells_its_length(self) -> bool:
        """If it does not, it ends where the connection does; and if it is cut amid its
        headers it looks like an empty one."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    def read_head(self) -> None:
        """Wait for the status and the headers.

        Raises `OSError` where the connection breaks, `MalformedReply`.
        """
        size = 0
        while not self._has_head:
            data = self._receive()
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, "Connection closed")
            self._feed(data)
            size += len(data)
            if size > _LARGEST_HEAD and not self._has_head:
                raise MalformedReply(f"the head of the reply is longer than {_LARGEST_HEAD} bytes")

    def read_body(self) -> Iterator[bytes]:
        """The body as it comes, as it was sent: it may be compressed.

        Raises `OSError` where the connection breaks, `MalformedReply`.
        """
        while True:
            if self._body:
                body, self._body = self._body, []
                yield body[0] if len(body) == 1 else b"".join(body)
            if self.ended:
                return
            data = self._receive()
            if data:
                self._feed(data)
            elif self.tells_its_length:
                raise ConnectionResetError(errno.ECONNRESET, "Connection closed")
            else:
                self.ended = True

    def close(self) -> None:
        """Let go of the parser, which holds this object as this object holds it."""
        self._parser = None

    def _receive(self) -> bytes:
        data = self._socket.recv(self._room)
        self._room = _SMALL if len(data) < _SMALL else _BLOCK
        return data

    def _feed(self, data: bytes) -> None:
        self.begun = True
        assert self._parser is not None  # nobody reads what is closed
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.clean = False
            if not self.ended:  # else what comes unasked is no matter
                raise MalformedReply("the reply is not HTTP/1.1") from error

    # as the parser calls them

    def on_message_begin(self) -> None:
        self.clean = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.ended:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
            before = self.headers.get(key)
            self.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if not self.ended:
            self.status = self._parser.get_status_code()
            self._has_head = self.status >= 200

    def on_body(self, body: bytes) -> None:
        if not self.ended:
            self._body.append(body)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if self._has_head:
            self.clean = not self.ended and self._parser.should_keep_alive()
            self.ended = True
        else:  # one of status 1xx, which another one follows (RFC 9110, 15.2)
            self.headers.clear()


_LARGEST_EVENT = 16 << 20  # bytes: an image as base64 still fits


def read_sse(blocks: Iterable[bytes]) -> Iterator[StreamEvent]:
    """The events of a `text/event-stream`. One that is not ended by a blank line is
    given too if the reply ends there: some servers leave the last one out."""
    mark = b"\xef\xbb\xbf"  # of the byte order, which may stand at the very beginning
    for raw in _split(blocks, b"\n\n", lines_end_otherwise=True):
        event = _read_event(raw.removeprefix(mark) if mark else raw)
        mark = b""
        if event is not None:
            yield event


def read_ndjson(blocks: Iterable[bytes]) -> Iterator[StreamEvent]:
    """The lines of an `application/x-ndjson`, each one event; blank lines are none."""
    for raw in _split(blocks, b"\n"):
        line = raw.strip()
        if line:
            yield StreamEvent(line)


FRAMINGS: Mapping[str, StreamParser] = {
    "text/event-stream": read_sse,
    "application/x-ndjson": read_ndjson,
    "application/jsonl": read_ndjson,
    "application/json-seq": read_ndjson,
}
"""How a streamed reply is read, by its content type."""


def _split(
    blocks: Iterable[bytes], separator: bytes, *, lines_end_otherwise: bool = False
) -> Iterator[bytes]:
    r"""What stands between separators, and what stands after the last one.

    lines_end_otherwise   whether \r\n and \r stand for \n as well

    Raises `MalformedReply` for more than an event may have.
    """
    pending: list[bytes] = []
    size = 0
    tail = b""  # of what is pending: a separator may be cut by the end of a block
    held = b""  # a \r, which may be half of \r\n
    for block in blocks:
        if lines_end_otherwise and (held or b"\r" in block):
            block, held = _with_plain_line_ends(held + block)
        at = block.find(separator)
        if at >= 0 and not size and at + len(separator) == len(block):
            yield block[:at]  # one event, whole: so most servers send them
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
        if size > _LARGEST_EVENT:
            raise MalformedReply(f"an event of the reply is longer than {_LARGEST_EVENT} bytes")
        tail = last[1 - len(separator) :] if len(separator) > 1 else b""
    if size:
        yield b"".join(pending)


def _with_plain_line_ends(block: bytes) -> tuple[bytes, bytes]:
    r"""A block whose lines end with \n, and what is to stand before the next one."""
    held = b"\r" if block.endswith(b"\r") else b""
    if held:
        block = block[:-1]
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), held


def _read_event(raw: bytes) -> StreamEvent | None:
    """One block of lines; None if it has no data, as comments have none."""
    if raw.startswith(b"data: ") and b"\n" not in raw:  # nearly all of them
        return StreamEvent(raw[6:])
    name: str | None = None
    data: list[bytes] = []
    for line in raw.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode(errors="replace")
    return StreamEvent(b"\n".join(data), name) if data else None

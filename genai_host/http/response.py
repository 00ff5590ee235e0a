"""HTTP/1 responses read from a socket.

llhttp, the parser of Node.js, reads the responses (through httptools). It accepts HTTP/1.1 as
defined in RFC 9112 and nothing else.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from genai_host.errors import MalformedReply
from genai_host.util.waiting import receive

_BLOCK = 64 << 10  # bytes per read of a large reply
_SMALL = 2 << 10  # bytes per other read: the buffer of a waiting read
_MAX_HEAD = 256 << 10  # bytes


class Response:
    """A response that is being read.

    Attributes:
        status: HTTP status; 0 until the head is read.
        headers: Headers, with names in lower case; repeated ones are joined by commas.
        ended: Whether it is complete.
        clean: Whether the connection stays open and no further data was received, so that it can be
            reused.
        begun: Whether any data was received.
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
    def has_length(self) -> bool:
        """Whether the length is known. If not, the end of the connection is the end of the body."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    def read_head(self) -> None:
        """Wait for the status and the headers.

        Raises:
            OSError: The connection failed.
            MalformedReply: The reply is not HTTP/1.1, or its head is too long.
        """
        size = 0
        while not self._has_head:
            data = self._receive()
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, "Connection closed")
            self._feed(data)
            size += len(data)
            if size > _MAX_HEAD and not self._has_head:
                raise MalformedReply(f"the head of the reply is longer than {_MAX_HEAD} bytes")

    def read_body(self) -> Iterator[bytes]:
        """Yield the body as received; it may be compressed.

        Raises:
            OSError: The connection failed.
            MalformedReply: The reply is not HTTP/1.1.
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
            elif self.has_length:
                raise ConnectionResetError(errno.ECONNRESET, "Connection closed")
            else:
                self.ended = True

    def close(self) -> None:
        """Release the parser, which refers to this object."""
        self._parser = None

    def _receive(self) -> bytes:
        data = receive(self._socket, self._room)
        self._room = _SMALL if len(data) < _SMALL else _BLOCK
        return data

    def _feed(self, data: bytes) -> None:
        self.begun = True
        assert self._parser is not None  # closed
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.clean = False
            if not self.ended:  # other unexpected data is ignored
                raise MalformedReply("the reply is not HTTP/1.1") from error

    # callbacks of the parser

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
        else:  # a status of 1xx, followed by another response (RFC 9110, 15.2)
            self.headers.clear()

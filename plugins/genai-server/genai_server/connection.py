"""HTTP connections: those of uvicorn, with limits on what precedes a request.

A head is limited in size and time. The next request on a connection is not read until the previous
one is answered (pipelining); otherwise a disconnect would not be detected. Fields after a body
(trailers) are not treated as headers. A client that stops reading the reply is disconnected.

Once the limit of connections is reached, only health checks are answered, in a small reserve.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, MutableMapping
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from genai_host.api import HttpProblem
from genai_host.serving.apis import problem_reply
from genai_server.asgi import CONNECTION
from genai_server.heads import below_root, pairs_of
from genai_server.settings import ServerSettings
from genai_server.state import HEALTH_METHODS, HEALTH_PATHS

_LOG_INTERVAL = 60.0  # seconds
RESERVE = 16  # connections; more than the loop accepts before it reads from the first of them
_RESERVE_SECONDS = 1.0  # timeout of the head of a request in the reserve
_LINGER_SECONDS = 5.0  # seconds in which a client may continue to send data, which is discarded

_log = logging.getLogger(__name__)


class _Pipelined(Exception):
    """A second request arrived before the first was answered."""


class _TooLarge(Exception):
    """The head is larger than the limit."""


class _TooManyConnections(Exception):
    """The request is not a health check, and its connection is one of the reserve."""


class _UnsupportedCoding(Exception):
    """The body has transfer codings other than `chunked`."""


class _ServerOptions(Exception):
    """The request is `OPTIONS *`."""


_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)((?:[/?][^#]*)?)", re.IGNORECASE)


class ServerConnection(HttpToolsProtocol):
    """A connection. Each server sets these attributes in a subclass.

    Attributes:
        settings: The limits.
        max_connections: Maximum number of open connections, without the reserve.
        reserve: Open connections beyond `max_connections`.
        handshakes: Connections in a TLS handshake by file descriptor; see `TlsListener`.
        last_logged: Time of the last log entry about too many connections.
        is_draining: Whether the next request on each connection is the last, because the server is
            stopping.
    """

    settings: ServerSettings
    max_connections: int
    reserve: list[ServerConnection]
    handshakes: MutableMapping[int, Any]
    last_logged: list[float]
    is_draining = False

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.logger = _log
        self.access_log = False
        self._in_head = True  # or before it
        self._ignores_input = False
        self._is_reserve = False
        self._received = self._parsed = 0  # bytes of the head: received, and parsed
        self._unsent_bytes = 0
        self._on_disconnect: Callable[[], None] | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.handshakes.pop(transport.get_extra_info("socket").fileno(), None)
        if len(self.connections) - len(self.reserve) > self.max_connections:
            self.log_full(self.loop.time())
            if not self._enter_reserve():
                self._close_full()
                return
        self._await_head()

    @classmethod
    def log_full(cls, now: float) -> None:
        """Log that there are too many connections, at most once a minute."""
        if now - cls.last_logged[0] >= _LOG_INTERVAL:
            cls.last_logged[0] = now
            _log.warning(
                "%d connections are open; further connections are refused", cls.max_connections
            )

    def _enter_reserve(self) -> bool:
        """Join the reserve, and close its oldest idle connection if it is full. Returns whether
        there was room."""
        if len(self.reserve) >= RESERVE:
            idle = next((each for each in self.reserve if each.is_idle), None)
            if idle is None:
                return False
            idle._close_full()
        self.reserve.append(self)
        self._is_reserve = True
        return True

    def _leave_reserve(self) -> None:
        if self._is_reserve:
            self._is_reserve = False
            self.reserve.remove(self)

    def _close_full(self) -> None:
        self._leave_reserve()
        if not self._ignores_input:
            self._ignores_input = True
            self.transport.write(_OVERLOADED)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ignores_input = True
        self._leave_reserve()
        self._unset_keepalive_if_required()  # its timer would keep a reference to the connection
        for timer in (self._head_timer, self._send_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        if self._on_disconnect is not None:
            self._on_disconnect()

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        self._unset_keepalive_if_required()
        if self._in_head:
            self._received += len(data)
            self._await_head()
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._ignore_upgrade(data[upgrade.args[0] :])
            if self._in_head and self._received > self.settings.head_size:
                raise _TooLarge
        except httptools.HttpParserError as error:
            self._refuse(_REFUSALS.get(type(error.__context__), _BAD_REQUEST))
        except _TooLarge:
            self._refuse(_TOO_LARGE)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse a request to upgrade the protocol again, as plain HTTP/1.1: otherwise, its body
        would not be read. `Upgrade` has no effect without `Connection`."""
        head = b"%b %b HTTP/1.1\r\n" % (self.parser.get_method(), self.url)
        for name, value in self.headers:
            if name not in (b"connection", b"http2-settings", b"proxy-connection"):
                head += b"%b: %b\r\n" % (name, value)
        self.parser = httptools.HttpRequestParser(self)
        self._in_head = True
        self.parser.feed_data(b"%bconnection: close\r\n\r\n%b" % (head, rest))

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self._is_busy():
            raise _Pipelined
        self._parsed = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._read_target()
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if codings and [each.lower() for each in codings] != [b"chunked"]:
            raise _UnsupportedCoding
        if self.parser.should_upgrade():
            return
        if self._is_reserve and not self._is_health_check():
            raise _TooManyConnections
        self._in_head = False
        self._received = 0
        self._stop_awaiting_head()
        super().on_headers_complete()
        if self.is_draining or self._is_reserve:
            self.cycle.keep_alive = False
        transport_class = (
            _Http10Transport if self.parser.get_http_version() == "1.0" else _ReplyTransport
        )
        reply_transport: Any = transport_class(
            self.transport, self.loop, self._close_gracefully, self._watch
        )
        self.cycle.transport = reply_transport
        extensions: Any = {CONNECTION: reply_transport}
        self.scope["extensions"] = extensions

    def _read_target(self) -> None:
        """Make the target of the request a path. The host of an address is that of the request
        (RFC 9112, section 3.2.2)."""
        if self.url == b"*" and self.parser.get_method() == b"OPTIONS":
            raise _ServerOptions
        if absolute := _ABSOLUTE.fullmatch(self.url):
            authority, path = absolute.groups()
            self.url = path if path.startswith(b"/") else b"/" + path
            self.headers[:] = [
                (name, authority if name == b"host" else value) for name, value in self.headers
            ]
        if not self.url.startswith(b"/"):
            raise ValueError("the request target is not a path")

    def _is_health_check(self) -> bool:
        path = self.url.partition(b"?")[0].decode("latin-1")
        method = self.parser.get_method().decode("latin-1")
        return (
            method in HEALTH_METHODS and below_root(path, self.settings.root_path) in HEALTH_PATHS
        )

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_head = True
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        if not self._is_busy():  # it was answered before it was complete
            self._await_head()
        super().on_message_complete()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        return not self._is_busy()

    def close_after_reply(self) -> None:
        """Accept no request after the one in progress, if any."""
        if self._is_busy():
            self.shutdown()

    def _watch(self, on_disconnect: Callable[[], None]) -> None:
        if self.cycle.disconnected:
            on_disconnect()
        else:
            self._on_disconnect = on_disconnect
            self.flow.resume_reading()  # otherwise, a disconnect is not detected

    def _is_busy(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    # sending

    def on_response_complete(self) -> None:
        self._on_disconnect = None
        super().on_response_complete()
        if not self._in_head and not self._ignores_input and not self.transport.is_closing():
            self._linger_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_sending()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_sending()  # it is closed once all data is sent, which may never happen

    def _watch_sending(self) -> None:
        if self._send_timer is None and self.transport.get_write_buffer_size():
            self._unsent_bytes = self.transport.get_write_buffer_size()
            self._send_timer = self.loop.call_later(self.settings.send_seconds, self._check_sending)

    def _check_sending(self) -> None:
        self._send_timer = None
        if self.transport.get_write_buffer_size() >= self._unsent_bytes:
            self.transport.abort()
        else:
            self._watch_sending()

    # the head

    def _await_head(self) -> None:
        if self._head_timer is None and not self._is_busy():
            seconds, end = self.settings.head_seconds, self.transport.close
            if self._is_reserve:
                seconds, end = min(seconds, _RESERVE_SECONDS), self._close_full
            self._head_timer = self.loop.call_later(seconds, end)

    def _stop_awaiting_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > self.settings.head_size:
            raise _TooLarge

    def _refuse(self, refusal: bytes) -> None:
        """Reply with an error, and ignore further data."""
        self._ignores_input = True
        self._stop_awaiting_head()
        if self._in_head and self._is_busy():  # the error is in the request after this one
            self.cycle.keep_alive = False
            return
        if not (self._is_busy() and self.cycle.response_started):
            self.transport.write(refusal)
        self._close_gracefully()

    def _close_gracefully(self) -> None:
        """Close the connection, but read what the client still sends: unread data causes a reset,
        and the client would not receive the error (RFC 9112, section 9.6)."""
        if (self._in_head and not self._ignores_input) or not self.transport.can_write_eof():
            self._close()
            return
        self._ignores_input = True
        self.transport.write_eof()
        self.flow.resume_reading()
        self._linger_timer = self.loop.call_later(_LINGER_SECONDS, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._watch_sending()


class _ReplyTransport:
    """Transport of one reply that sends its head together with the data after it. It is also the
    `ClientConnection` of the request."""

    __slots__ = ("_close_gracefully", "_head", "_is_head", "_loop", "_transport", "watch")

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        close: Callable[[], None],
        watch: Callable[[Callable[[], None]], None],
    ) -> None:
        self.watch = watch
        self._transport = transport
        self._loop = loop
        self._close_gracefully = close
        self._is_head = True
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._is_head:
            self._is_head = False
            self._head = data
            self._loop.call_soon(self._flush)
        elif self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._close_gracefully()

    async def break_off(self) -> None:
        gone = asyncio.Event()
        self.watch(gone.set)
        self.close()
        await gone.wait()

    def end(self) -> None:
        """Nothing: a connection watches until its reply is sent."""

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)


class _Http10Transport(_ReplyTransport):
    """That of a client of HTTP/1.0, which does not understand chunks: a body of unknown size ends
    with the connection."""

    __slots__ = ("_is_chunked",)

    def write(self, data: bytes) -> None:
        if self._is_head:
            head = data.replace(_CHUNKED, b"" if _CLOSE in data else _CLOSE, 1)
            self._is_chunked = head != data
            super().write(head)
        else:
            super().write(_decoded_chunks(data) if self._is_chunked else data)


_CHUNKED = b"transfer-encoding: chunked\r\n"
_CLOSE = b"connection: close\r\n"
"""Not written by older versions of uvicorn, which close the connection too."""


def _decoded_chunks(chunks: bytes) -> bytes:
    """The content of complete chunks."""
    pieces = []
    while chunks:
        size, _, rest = chunks.partition(b"\r\n")
        end = int(size, 16)
        pieces.append(rest[:end])
        chunks = rest[end + 2 :]
    return b"".join(pieces)


def _refusal(status: int, phrase: str, code: str, message: str) -> bytes:
    """A complete error reply, for requests whose target is unknown."""
    reply = problem_reply(HttpProblem(status, code, message))
    head = b"".join(b"%b: %b\r\n" % pair for pair in pairs_of(reply, {"connection": "close"}))
    assert isinstance(reply.body, bytes)
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, phrase.encode(), head, reply.body)


_OVERLOADED = _refusal(503, "Service Unavailable", "overloaded", "too many open connections")
_BAD_REQUEST = _refusal(400, "Bad Request", "bad_request", "invalid HTTP request")
_TOO_LARGE = _refusal(
    431, "Request Header Fields Too Large", "too_large", "the request head is too large"
)
_NOT_IMPLEMENTED = _refusal(
    501, "Not Implemented", "bad_request", "the only transfer coding of requests is chunked"
)
_OPTIONS = b"HTTP/1.1 204 No Content\r\nallow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"
_OPTIONS += b"connection: close\r\n\r\n"
_REFUSALS: dict[object, bytes] = {
    _TooLarge: _TOO_LARGE,
    _TooManyConnections: _OVERLOADED,
    _UnsupportedCoding: _NOT_IMPLEMENTED,
    _ServerOptions: _OPTIONS,
}

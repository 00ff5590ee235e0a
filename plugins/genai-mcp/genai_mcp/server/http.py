"""The server over HTTP ("Streamable HTTP"), as routes of the host at `/mcp`.

    McpEndpoint.post → _Exchange → StreamableHTTPSessionManager (in the loop) → Service

The ASGI application of the SDK runs in an event loop, in a thread; the host has already checked the
client's access and the size of the body. There is no stream of unsolicited messages (GET), because
the server sends none.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import frozen
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from genai_host.api import RouteRequest, RouteResponse, ValueBudget, json_response
from genai_host.errors import ValidationError
from genai_mcp.server.calls import USER, Service, close_within_grace
from genai_mcp.server.offer import Choice, Offer
from genai_mcp.text import one_line

if TYPE_CHECKING:
    from genai_host.api import HostServices

MAX_SESSIONS = 1000
"""Maximum number of open sessions; beyond it new ones are refused."""

MAX_SIZE = 4 << 20
"""Maximum number of bytes of a client message."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SSE = "text/event-stream"
_EVENTS = {"content-type": _SSE, "cache-control": "no-cache", "x-accel-buffering": "no"}
_PING = b": ping\n\n"
_OF_CONNECTION = ("connection", "content-length", "transfer-encoding")

_log = logging.getLogger(__name__)


class McpEndpoint:
    """The MCP endpoint of one host. Thread-safe."""

    def __init__(self, host: HostServices) -> None:
        # each worker may receive the next request, and knows neither sessions nor calls of others
        is_alone = host.config.server.workers == 1
        self._service = Service(Offer(host, Choice(can_ask=is_alone)))
        self._sessions = StreamableHTTPSessionManager(
            self._service.server,
            stateless=not is_alone,
            max_sessions=MAX_SESSIONS,
            max_request_body_size=MAX_SIZE,
        )
        self._exit = contextlib.ExitStack()
        self._portal = self._exit.enter_context(start_blocking_portal(name="mcp server"))
        self._tasks = self._exit.enter_context(
            self._portal.wrap_async_context_manager(self._running())
        )

    def post(self, request: RouteRequest) -> RouteResponse:
        """Answer a message."""
        refusal = _wrong_origin(request)
        if refusal is not None:
            return refusal
        message = None
        if request.body:
            try:  # the SDK does not limit the number of values
                message = ValueBudget().read(request.body)
            except (ValueError, ValidationError) as error:
                return _error(400, PARSE_ERROR, f"invalid JSON: {one_line(str(error))}")
        exchange = _Exchange(self._portal, request)
        version = request.headers.get("mcp-protocol-version")
        in_session = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if not in_session:
                await self._service.find_headers(message)
            await self._sessions.handle_request(scope, receive, send)

        def start() -> None:
            self._tasks.start_soon(exchange.run, answer)

        self._portal.call(start)
        if in_session:
            return exchange.begin()  # its head comes immediately, and can name a session
        return RouteResponse(exchange, headers=_EVENTS, keepalive=_PING, begin=exchange.begin)

    delete = post  # ends a session

    def close(self) -> None:
        close_within_grace("the endpoint", self._exit.close)
        self._service.close()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[TaskGroup]:
        async with self._sessions.run(), anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()


class _Exchange:
    """One request and its reply: a body of events, or a complete body."""

    def __init__(self, portal: BlockingPortal, request: RouteRequest) -> None:
        self._portal = portal
        self._request = request
        self._body: bytes | None = None
        self._is_replaced = False
        self._gone = portal.call(anyio.Event)
        self._write, self._read = anyio.create_memory_object_stream[dict[str, Any]](0)
        self._registration = request.limits.on_cancel(self._leave)

    async def run(self, answer: Callable[[Any, Any, Any], Awaitable[None]]) -> None:
        """Answer the request with an ASGI application, in the loop."""
        received = False

        async def receive() -> dict[str, Any]:
            nonlocal received
            if received:
                await self._gone.wait()
                return {"type": "http.disconnect"}
            received = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}

        async def send(message: Any) -> None:
            with contextlib.suppress(anyio.BrokenResourceError):  # the client has disconnected
                await self._write.send(message)

        with self._write:
            try:
                await answer(_scope(self._request), receive, send)
            except Exception as error:  # noqa: BLE001 - the others are served on
                _log.warning("a request to /mcp failed", exc_info=error)

    def begin(self) -> RouteResponse:
        """Wait for the head of the reply, and for its body unless that is events."""
        head = self._next()
        if head is None:
            self.finish()
            return _error(500, INTERNAL_ERROR, "internal error; see the log of the server")
        given = {name.decode(): value.decode("latin-1") for name, value in head["headers"]}
        headers = {name: given[name] for name in given if name not in _OF_CONNECTION}
        if headers.get("content-type", "").startswith(_SSE):
            self._is_replaced = True
            return RouteResponse(_Events(self), headers=headers, keepalive=_PING)
        self._body = b"".join(self.chunks())
        self.finish()
        return RouteResponse(self._body, status=int(head["status"]), headers=headers)

    def chunks(self) -> Iterator[bytes]:
        """The data of the body, as it is produced."""
        while (message := self._next()) is not None:
            if message["body"]:
                yield message["body"]

    def finish(self) -> None:
        """Stop reading; a self-contained request is cancelled, if it is in progress."""
        self._registration.release()
        self._leave()
        try:
            self._portal.call(self._read.close)
        except (CancelledError, RuntimeError):  # the endpoint is closed, and so is its loop
            self._read.close()
            self._write.close()

    def __iter__(self) -> Iterator[bytes]:
        """The body, if the headers have been sent as those of events before `begin` returned."""
        self._is_replaced = False
        if self._body is not None:
            yield b"event: message\ndata: " + self._body + b"\n\n"
        yield from self.chunks()

    def close(self) -> None:
        if not self._is_replaced:
            self.finish()

    def _next(self) -> dict[str, Any] | None:
        try:
            message: dict[str, Any] = self._portal.call(self._read.receive)
        except (anyio.EndOfStream, anyio.ClosedResourceError, CancelledError, RuntimeError):
            return None
        return message

    def _leave(self) -> None:
        with contextlib.suppress(RuntimeError):  # the endpoint is closed
            self._portal.start_task_soon(self._gone.set)


@frozen(eq=False, repr=False)
class _Events:
    """The events of an exchange, with the headers of its reply."""

    _exchange: _Exchange

    def __iter__(self) -> Iterator[bytes]:
        return self._exchange.chunks()

    def close(self) -> None:
        self._exchange.finish()


def _scope(request: RouteRequest) -> dict[str, Any]:
    headers = [
        (name.encode("latin-1"), value.strip().encode("latin-1", "replace"))
        for name, value in request.headers.items()
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": "/mcp",
        "query_string": b"",
        "headers": headers,
        USER: request.user,
    }


def _wrong_origin(request: RouteRequest) -> RouteResponse | None:
    """Reject a foreign `Origin`, against DNS rebinding. Pages of this machine are allowed."""
    origin = request.headers.get("origin")
    if origin is None:
        return None
    with contextlib.suppress(ValueError):
        if urlsplit(origin).hostname in _LOOPBACK:
            return None
    return _error(403, INVALID_REQUEST, "pages of this origin cannot use this server")


def _error(status: int, code: int, message: str) -> RouteResponse:
    error = {"code": code, "message": message}
    return json_response({"jsonrpc": "2.0", "id": None, "error": error}, status)

"""The handling of one request.

    RequestHandler.run → _ask → _body → _enter → [a thread: _answer → ResponseBuffer] → _send

The function that answers a request may block, so it runs in a thread. The event loop reads the
request and sends the response. It also generates the chunks of a reply that suspends
(`RouteResponse.suspends`), once the reply has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from typing import Any, Protocol

from attrs import frozen

from genai_host.api import HttpProblem, HttpRoute, RouteRequest, RouteResponse
from genai_host.api.cancellation import Cancellation
from genai_host.errors import GenaiError
from genai_host.plugins.observers import Observation
from genai_host.serving.apis import problem_reply
from genai_host.serving.router import RouteMatch
from genai_server.heads import (
    Head,
    Refused,
    full_root_path,
    is_sendable,
    pairs_of,
    read_head,
    request_id_of,
)
from genai_server.keepalive import Keepalive
from genai_server.response_buffer import Broken, ResponseBuffer
from genai_server.settings import AccessLogEntry
from genai_server.state import ServerState
from genai_server.suspendable import SuspendableCall

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

CONNECTION = "genai_host.connection"
"""ASGI extension that holds the `ClientConnection` of a request."""

_SLICE = 64 * 1024  # bytes per message of a complete body
_GONE = 499  # in the log: the client disconnected before a reply

_log = logging.getLogger(__name__)


class ClientConnection(Protocol):
    """The connection of a request."""

    def watch(self, has_gone: Callable[[], None]) -> None:
        """Set the function called when the client disconnects, immediately if it already has."""

    async def break_off(self) -> None:
        """Close the connection, so that the client does not mistake a partial reply for a complete
        one."""

    def end(self) -> None:
        """Stop watching: the request has ended."""


class _AsgiConnection:
    """The connection of a request in any ASGI server."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None

    def watch(self, has_gone: Callable[[], None]) -> None:
        self._watching = asyncio.create_task(self._wait(has_gone))

    async def _wait(self, has_gone: Callable[[], None]) -> None:
        with contextlib.suppress(Exception):  # of the server: the connection is of no more use
            while (await self._receive())["type"] != "http.disconnect":
                pass
        has_gone()

    async def break_off(self) -> None:
        """Nothing: servers close the connection if an application returns before its reply is
        complete. `BaseHTTPMiddleware` of Starlette completes it, even after an error."""

    def end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()


class _Gone(Exception):
    """The client has disconnected."""


@frozen
class _Rest:
    """A reply that suspends, after its first chunk.

    Attributes:
        reply: The reply.
        found: Its route.
        ends: Releases what belongs to the reply.
    """

    reply: RouteResponse
    found: RouteMatch | HttpProblem
    ends: contextlib.ExitStack


class RequestHandler:
    """Handler of one request. Its methods run in the loop, except `_answer` and its callees."""

    def __init__(
        self, shared: ServerState, scope: AsgiMessage, receive: Receive, send: Send
    ) -> None:
        self._shared = shared
        self._scope = scope
        connection = (scope.get("extensions") or {}).get(CONNECTION)
        self._is_own = connection is not None  # of `Server`
        self._connection: ClientConnection = connection or _AsgiConnection(receive)
        self._receive = receive
        self._send_message = send
        self._root_path = full_root_path(scope, shared.settings.root_path)
        self._loop = asyncio.get_running_loop()
        self._began = shared.clock.monotonic()
        self._status = _GONE
        self._id = request_id_of(scope["headers"])
        self._user = ""
        self._more: dict[str, str] = {}
        self._head: Head | None = None
        self._is_answering = False  # whether the function of the route has been called
        self._found: RouteMatch | HttpProblem | None = None
        self._limits = Cancellation()
        self._outbox = ResponseBuffer(self._loop, shared.errands)
        self._turn: asyncio.Future[None] | None = None
        self._begun: RouteResponse | None = None
        self._context = contextvars.Context()  # as that of a new thread
        self._rest: _Rest | None = None
        self._call: SuspendableCall | None = None
        self._unsent = bytearray()
        self._iterating: asyncio.Task[Any] | None = None
        self._held = 0
        self._has_begun = False
        self._is_gone = False
        self._is_over = False

    async def run(self) -> None:
        is_complete = False
        try:
            await self._answer_or_refuse()
            is_complete = True
        except _Gone:
            pass
        finally:
            if not is_complete:  # the client has gone, or the server has cancelled this task
                self._shared.cancel(self._limits)
            self._is_over = True
            self._connection.end()
            self._outbox.close()
            if self._outbox.is_handed_over and self._rest is not None and self._call is None:
                await self._suspendable(self._rest.ends.close).run()
            self._shared.bodies.give_back(self._held)
            self._shared.log(self._answered)

    async def _answer_or_refuse(self) -> None:
        try:
            await self._ask()
        except Refused as refused:
            await self._refuse(refused.problem)
        except Broken:
            await self._connection.break_off()

    def interrupt(self, error: GenaiError) -> None:
        """Interrupt the request with an error, if it supports its limits."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(Refused(STOPPING))
        self._shared.cancel(self._limits, error)

    def abandon(self) -> None:
        """End a request although its thread is still running. The client receives an error, unless
        the reply has begun."""
        if self._head is not None:
            path, headers = self._head.path, self._head.headers
            if self._is_answering:
                plugin = self._shared.plugin_of(self._found)
                who = f"plugin {plugin}" if plugin else "the server"
                _log.warning("%s has not returned from %s %s", who, self._head.method, path[:200])
            self._outbox.put_reply(self._shared.error_reply(path, headers, STOPPING, self._id))
        self._outbox.end(is_broken=True)
        self._shared.errands.wake()
        iterating, self._iterating = self._iterating, None
        if iterating is not None:
            iterating.cancel()

    def _answered(self) -> AccessLogEntry:
        method, path = (self._head.method, self._head.path) if self._head else ("-", "-")
        seconds = self._shared.clock.monotonic() - self._began
        return AccessLogEntry(method, path[:200], self._status, seconds, self._user, self._id)

    async def _ask(self) -> None:
        shared = self._shared
        self._head = head = read_head(self._scope, shared.settings.root_path)
        if not self._is_own:
            shared.guard.check_client(head)
        if head.method == "OPTIONS" and "access-control-request-method" in head.headers:
            await self._send(RouteResponse(status=204), shared.guard.preflight(head))
            return
        self._more = shared.guard.cors(head)
        self._user = await shared.admit(head)
        health = await shared.health.reply(head, shared.lack)
        if health is not None:
            await self._send(health, self._more)
            return
        method = "GET" if head.method == "HEAD" else head.method
        routes = await shared.routes()
        self._found = found = routes.find(method, head.path)
        if isinstance(found, HttpProblem) or found[0].rate_limited:
            shared.count(self._user, head.client)
        body = b"" if isinstance(found, HttpProblem) else await self._body(head, found[0])
        await self._enter(head)
        request = RouteRequest(
            method,
            head.path,
            query=head.query,
            headers=head.headers,
            body=body,
            limits=self._limits,
            user=self._user,
            root=self._root_path,
            request_id=self._id,
        )
        try:
            shared.workers.submit(partial(self._work, request, found))
        except RuntimeError as error:
            self._leave()
            _log.warning("cannot answer a request: %s", error)
            raise Refused(
                HttpProblem(503, "overloaded", "no thread is available", retry_after=1)
            ) from None
        reply = await self._outbox.reply()
        if reply is None:
            raise _Gone
        await self._send(reply, self._more)

    async def _body(self, head: Head, route: HttpRoute) -> bytes:
        if head.length == 0:
            return b""
        if head.length is not None and head.length > route.max_body_size:
            raise _too_large(route)
        seconds = self._shared.settings.body_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._pieces(route)
        except TimeoutError:
            raise Refused(
                HttpProblem(
                    408,
                    "timeout",
                    f"the body was not received within {seconds:g} seconds",
                    headers={"connection": "close"},
                )
            ) from None

    async def _pieces(self, route: HttpRoute) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            piece = message.get("body", b"")
            size += len(piece)
            if size > route.max_body_size:
                raise _too_large(route)
            self._shared.bodies.take(len(piece))
            self._held = size
            pieces.append(piece)
            if not message.get("more_body"):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _enter(self, head: Head) -> None:
        """Wait for a slot; from now on, a disconnect of the client is detected."""
        self._connection.watch(self._has_gone)
        if self._is_gone:
            raise _Gone
        self._place = self._shared.place_for(head)
        self._turn = self._place.enter()
        if self._turn is not None:
            try:
                await self._turn
            except BaseException:
                self._place.give_up(self._turn)
                if self._turn.cancelled() and self._is_gone:
                    raise _Gone from None
                raise

    def _leave(self) -> None:
        self._place.leave()

    def _has_gone(self) -> None:
        self._is_gone = True
        if self._is_over:
            return
        self._outbox.close()
        if self._turn is not None and not self._turn.done():
            self._turn.cancel()
        self._shared.cancel(self._limits)

    def _work(self, request: RouteRequest, found: RouteMatch | HttpProblem) -> None:
        """In a thread: answer the request, up to where the loop can continue."""
        self._rest = rest = self._context.run(self._answer, request, found)
        if rest is not None and not self._outbox.hand_over():
            self._context.run(rest.ends.close)

    def _answer(self, request: RouteRequest, found: RouteMatch | HttpProblem) -> _Rest | None:
        """Write the reply into the buffer and release the slot, or return the rest for the loop."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._shared.errands.put, self._leave)
            ends.callback(self._outbox.end, is_broken=True)  # no effect on a complete reply
            watched = ends.enter_context(self._shared.watching(request, found))
            reply = self._reply(request, found, watched)
            if reply is None:
                return None
            ends.callback(self._close_body, reply, found)
            return _Rest(reply, found, ends.pop_all())

    def _reply(
        self, request: RouteRequest, found: RouteMatch | HttpProblem, watched: Observation
    ) -> RouteResponse | None:
        """Write the reply, or return it for the loop."""
        self._is_answering = True
        reply = self._sendable(self._shared.answer(request, found, self._begins), request)
        self._is_answering = False
        wanted = self._outbox.put_reply(reply)
        reply = self._outbox.sent or reply  # the reply whose head was sent earlier, if any
        if self._begun is not None and self._begun is not reply:
            _close(self._begun)
        watched.status = reply.status
        if isinstance(reply.body, bytes):
            return None
        wanted = wanted and self._wants_body()
        if wanted and self._shared.suspends(reply, found):
            return reply
        try:
            if not wanted or self._write(reply, found, self._outbox.put):
                self._outbox.end()
        finally:
            self._close_body(reply, found)
        return None

    def _begins(self, reply: RouteResponse) -> None:
        """Send the head early if the reply is slow: clients and proxies have timeouts."""
        self._begun = reply
        if is_sendable(reply):
            self._shared.errands.put(self._wait_to_send, reply)

    def _wait_to_send(self, reply: RouteResponse) -> None:
        self._loop.call_later(self._shared.settings.head_wait, self._send_early, reply)

    def _send_early(self, reply: RouteResponse) -> None:
        if not self._is_over:
            self._outbox.put_reply(reply)

    def _sendable(self, reply: RouteResponse, request: RouteRequest) -> RouteResponse:
        if is_sendable(reply):
            return reply
        _log.error(
            "the reply to %s %s has invalid headers; its request is %s",
            request.method,
            request.path,
            self._id,
        )
        _close(reply)
        problem = HttpProblem(500, "internal", "internal error; see the log of the server")
        return self._shared.error_reply(request.path, request.headers, problem, self._id)

    def _wants_body(self) -> bool:
        return bool(self._scope["method"] != "HEAD")

    def _write(
        self, reply: RouteResponse, found: RouteMatch | HttpProblem, put: Callable[[bytes], bool]
    ) -> bool:
        """Write the chunks of a reply as they are generated; False if it was interrupted."""
        try:
            pieces: Iterable[Any] = reply.body
            with self._shared.watched(found, "body", self._limits) as watched:
                for piece in pieces:
                    watched.pause()  # while the client reads
                    if not put(piece):
                        break
                    watched.resume()
            return True
        except GenaiError as error:
            _log.info("a reply was interrupted: %s", error)
        except Exception:  # noqa: BLE001 - a plugin's fault must not end the server
            _log.exception("a reply was interrupted")
        return False

    def _close_body(self, reply: RouteResponse, found: RouteMatch | HttpProblem) -> None:
        with self._shared.watched(found, "close"):
            _close(reply)

    async def _refuse(self, problem: HttpProblem) -> None:
        head = self._head
        path, headers = (head.path, head.headers) if head else ("", {})
        more = dict(self._more)
        if self._waits_to_send(headers):
            more["connection"] = "close"
        more |= {name: value for name, value in problem.headers.items() if name == "connection"}
        if self._scope.get("http_version", "1.1") >= "2":
            more.pop("connection", None)  # RFC 9113, section 8.2.2
        await self._shared.loading()  # plugins declare the form of the error
        try:
            reply = self._shared.error_reply(path, headers, problem, self._id)
            await self._send(reply, more)
        except Broken:
            await self._connection.break_off()

    def _waits_to_send(self, headers: Any) -> bool:
        """Whether the client waits for "100 Continue" before it sends the body. Otherwise, the next
        bytes could be the body or another request."""
        return "expect" in headers and not self._has_begun

    async def _send(self, reply: RouteResponse, more: dict[str, str]) -> None:
        self._status = reply.status
        path, headers = (self._head.path, self._head.headers) if self._head else ("", {})
        ids = self._shared.request_id_headers(path, headers, self._id)
        await self._emit(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": pairs_of(reply, {**more, **ids}),
            }
        )
        self._has_begun = True
        if not self._wants_body():  # after the head, the client sends its next request
            await self._send_piece(b"", is_last=True)
        elif isinstance(reply.body, bytes):
            await self._send_whole(reply.body)
        else:
            await self._send_pieces(reply.keepalive)

    async def _send_whole(self, body: bytes) -> None:
        for at in range(0, len(body) - _SLICE, _SLICE):
            await self._send_piece(body[at : at + _SLICE], is_last=False)
        await self._send_piece(body[-(len(body) % _SLICE or _SLICE) :], is_last=True)

    async def _send_pieces(self, silence: bytes) -> None:
        seconds = self._shared.settings.silence if silence else 0
        while (piece := await self._outbox.take(seconds or None)) is not None:
            await self._send_piece(piece or silence, is_last=False)
        if self._outbox.is_handed_over and self._rest is not None:
            await self._iterate(self._rest, silence)
        if not self._is_gone:
            await self._send_piece(b"", is_last=True)

    async def _iterate(self, rest: _Rest, silence: bytes) -> None:
        """Send the chunks of a reply that suspends, as they are generated."""
        seconds = self._shared.settings.silence if silence else math.inf
        self._iterating = asyncio.current_task()
        with Keepalive(
            self._loop, seconds, partial(self._send_keepalive, silence)
        ) as self._keepalive:
            try:
                await self._suspendable(partial(self._write_rest, rest)).run()
            except asyncio.CancelledError:
                if self._iterating is None:  # it was abandoned
                    raise Broken from None
                raise
        if self._is_broken:
            raise Broken

    async def _send_keepalive(self, silence: bytes) -> None:
        with contextlib.suppress(_Gone):
            await self._send_piece(silence, is_last=False)

    def _suspendable(self, function: Callable[[], None]) -> SuspendableCall:
        submit = self._shared.workers.submit
        self._call = SuspendableCall(self._loop, submit, self._context, function, self._flush)
        return self._call

    def _write_rest(self, rest: _Rest) -> None:
        """In the suspendable call: send the chunks, and release what belongs to the reply."""
        self._is_broken = True
        with rest.ends:
            self._is_broken = not self._write(rest.reply, rest.found, self._put)
            self._flush()

    def _put(self, piece: bytes) -> bool:
        """In the suspendable call: send a chunk before the call waits for the next one. Return
        whether the client wants more."""
        self._unsent += piece
        if len(self._unsent) >= _SLICE:
            self._flush()
        return not self._is_gone

    def _flush(self) -> None:
        """In the suspendable call: send the chunks that have not been sent."""
        if not self._unsent or self._is_gone:
            return
        assert self._call is not None
        sent, self._unsent = bytes(self._unsent), bytearray()
        try:
            with self._keepalive.paused() as sending:
                if sending is not None:
                    self._call.wait_for(sending)
                self._call.wait_for(self._send_piece(sent, is_last=False), at_once=self._is_own)
        except _Gone:
            self._is_gone = True

    async def _send_piece(self, piece: bytes, *, is_last: bool) -> None:
        await self._emit({"type": "http.response.body", "body": piece, "more_body": not is_last})

    async def _emit(self, message: AsgiMessage) -> None:
        try:
            await self._send_message(message)
        except OSError:  # some servers raise it if the client has disconnected
            raise _Gone from None


def _too_large(route: HttpRoute) -> Refused:
    return Refused(
        HttpProblem(413, "too_large", f"the body must be at most {route.max_body_size} bytes")
    )


def _close(reply: RouteResponse) -> None:
    close = getattr(reply.body, "close", None)
    if close is None:
        return
    try:
        close()
    except Exception:  # noqa: BLE001 - a plugin's fault must not end the server
        _log.warning("cannot close the body of a reply", exc_info=True)


STOPPING = HttpProblem(503, "stopping", "the server is shutting down", retry_after=1)
"""The problem of a request to a server that is stopping."""


async def send_problem(send: Send, problem: HttpProblem) -> None:
    """Send the reply for a problem, without a state of the server."""
    reply = problem_reply(problem)
    pairs = pairs_of(reply, {})
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    await send({"type": "http.response.body", "body": reply.body})

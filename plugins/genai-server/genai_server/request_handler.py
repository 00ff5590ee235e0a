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
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from urllib.parse import quote

from genai_host.api import HttpProblem, HttpRoute, RouteRequest, RouteResponse
from genai_host.api.cancellation import Cancellation
from genai_host.errors import GenaiError
from genai_host.plugins.observers import Observation
from genai_host.serving.router import RouteMatch
from genai_server.asgi import (
    CONNECTION,
    AsgiConnection,
    AsgiMessage,
    ClientConnection,
    ClientGone,
    Receive,
    Send,
)
from genai_server.heads import (
    Head,
    Refused,
    full_root_path,
    is_sendable,
    pairs_of,
    read_head,
    request_id_of,
)
from genai_server.response_buffer import Broken, ResponseBuffer
from genai_server.settings import AccessLogEntry
from genai_server.state import ServerState
from genai_server.suspended_reply import SuspendedReply

_SLICE = 64 * 1024  # bytes per message of a complete body
_GONE = 499  # in the log: the client disconnected before a reply

_log = logging.getLogger(__name__)


class RequestHandler:
    """Handler of one request. Its methods run in the loop, except `_answer` and its callees."""

    def __init__(
        self, shared: ServerState, scope: AsgiMessage, receive: Receive, send: Send
    ) -> None:
        self._shared = shared
        self._scope = scope
        connection = (scope.get("extensions") or {}).get(CONNECTION)
        self._is_own = connection is not None  # of `Server`
        self._connection: ClientConnection = connection or AsgiConnection(receive)
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
        self._rest: SuspendedReply | None = None
        self._held = 0
        self._has_begun = False
        self._is_gone = False
        self._is_over = False

    async def run(self) -> None:
        is_complete = False
        try:
            await self._answer_or_refuse()
            is_complete = True
        except ClientGone:
            pass
        finally:
            if not is_complete:  # the client has gone, or the server has cancelled this task
                self._shared.cancel(self._limits)
            self._is_over = True
            self._connection.end()
            self._outbox.close()
            try:
                if self._outbox.is_handed_over and self._rest is not None:
                    await self._rest.close()
            finally:
                self._rest = None  # no reference cycles
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
        if self._rest is not None:
            self._rest.abandon()

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
        health = await shared.health.reply(head, shared.unavailable_reason)
        if health is not None:
            await self._send(health, self._more)
            return
        if head.path == "/" and not self._scope["path"].endswith("/"):
            # links of the page are relative
            location = {"location": f"{quote(self._root_path)}/"}
            await self._send(RouteResponse(status=308, headers=location), self._more)
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
            raise ClientGone
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
                raise ClientGone
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
            raise ClientGone
        self._place = self._shared.place_for(head)
        self._turn = self._place.enter()
        if self._turn is not None:
            try:
                await self._turn
            except BaseException:
                self._place.give_up(self._turn)
                if self._turn.cancelled() and self._is_gone:
                    raise ClientGone from None
                raise

    def _leave(self) -> None:
        self._place.leave()

    def _has_gone(self) -> None:
        self._is_gone = True
        if self._is_over:
            return
        self._outbox.close()
        if self._rest is not None:
            self._rest.client_has_gone()
        if self._turn is not None and not self._turn.done():
            self._turn.cancel()
        self._shared.cancel(self._limits)

    def _work(self, request: RouteRequest, found: RouteMatch | HttpProblem) -> None:
        """In a thread: answer the request, up to where the loop can continue."""
        self._rest = rest = self._context.run(self._answer, request, found)
        if rest is not None and not self._outbox.hand_over():
            self._rest = None  # no reference cycles
            rest.close_in_thread()

    def _answer(
        self, request: RouteRequest, found: RouteMatch | HttpProblem
    ) -> SuspendedReply | None:
        """Write the reply into the buffer and release the slot, or return the rest for the loop."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._shared.errands.put, self._leave)
            ends.callback(self._outbox.end, is_broken=True)  # no effect on a complete reply
            watched = ends.enter_context(self._shared.watching(request, found))
            reply = self._reply(request, found, watched)
            if reply is None:
                return None
            ends.callback(self._close_body, reply, found)
            return SuspendedReply(
                partial(self._write, reply, found),
                ends.pop_all(),
                self._context,
                submit=self._shared.workers.submit,
                send=partial(self._send_piece, is_last=False),
                at_once=self._is_own,
                keepalive=reply.keepalive,
                silence=self._shared.settings.silence,
            )

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
            await self._rest.send()
        if not self._is_gone:
            await self._send_piece(b"", is_last=True)

    async def _send_piece(self, piece: bytes, *, is_last: bool) -> None:
        await self._emit({"type": "http.response.body", "body": piece, "more_body": not is_last})

    async def _emit(self, message: AsgiMessage) -> None:
        try:
            await self._send_message(message)
        except OSError:  # some servers raise it if the client has disconnected
            raise ClientGone from None


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

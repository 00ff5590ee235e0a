"""The handling of one request.

    RequestHandler.run → _handle → _read_body → _take_slot → [_answer in a thread] → _send

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

_CHUNK_SIZE = 64 * 1024  # bytes per message of a complete body
_CLIENT_CLOSED_REQUEST = 499  # in the log: the client disconnected before a reply

_log = logging.getLogger(__name__)


class RequestHandler:
    """Handler of one request. Its methods run in the loop, except `_answer` and its callees."""

    def __init__(
        self, state: ServerState, scope: AsgiMessage, receive: Receive, send: Send
    ) -> None:
        self._state = state
        self._scope = scope
        connection = (scope.get("extensions") or {}).get(CONNECTION)
        self._is_own = connection is not None  # of `Server`
        self._connection: ClientConnection = connection or AsgiConnection(receive)
        self._receive = receive
        self._send_message = send
        self._root_path = full_root_path(scope, state.settings.root_path)
        self._loop = asyncio.get_running_loop()
        self._began = state.clock.monotonic()
        self._status = _CLIENT_CLOSED_REQUEST
        self._id = request_id_of(scope["headers"])
        self._user = ""
        self._extra_headers: dict[str, str] = {}
        self._head: Head | None = None
        self._is_answering = False  # whether the function of the route has been called
        self._match: RouteMatch | HttpProblem | None = None
        self._limits = Cancellation()
        self._buffer = ResponseBuffer(self._loop, state.callbacks)
        self._slot: asyncio.Future[None] | None = None
        self._early_reply: RouteResponse | None = None
        self._context = contextvars.Context()  # as that of a new thread
        self._suspended: SuspendedReply | None = None
        self._body_size = 0
        self._has_begun = False
        self._is_disconnected = False
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
                self._state.cancel(self._limits)
            self._is_over = True
            self._connection.end()
            self._buffer.close()
            try:
                if self._buffer.is_handed_over and self._suspended is not None:
                    await self._suspended.close()
            finally:
                self._suspended = None  # no reference cycles
                self._state.body_budget.release(self._body_size)
                self._state.log(self._log_entry)

    async def _answer_or_refuse(self) -> None:
        try:
            await self._handle()
        except Refused as refused:
            await self._refuse(refused.problem)
        except Broken:
            await self._connection.break_off()

    def interrupt(self, error: GenaiError) -> None:
        """Interrupt the request with an error, if it supports its limits."""
        if self._slot is not None and not self._slot.done():
            self._slot.set_exception(Refused(STOPPING))
        self._state.cancel(self._limits, error)

    def abandon(self) -> None:
        """End a request although its thread is still running. The client receives an error, unless
        the reply has begun."""
        if self._head is not None:
            path, headers = self._head.path, self._head.headers
            if self._is_answering:
                plugin = self._state.plugin_of(self._match)
                who = f"plugin {plugin}" if plugin else "the server"
                _log.warning("%s has not returned from %s %s", who, self._head.method, path[:200])
            self._buffer.put_reply(self._state.error_reply(path, headers, STOPPING, self._id))
        self._buffer.end(is_broken=True)
        self._state.callbacks.wake()
        if self._suspended is not None:
            self._suspended.abandon()

    def _log_entry(self) -> AccessLogEntry:
        method, path = (self._head.method, self._head.path) if self._head else ("-", "-")
        seconds = self._state.clock.monotonic() - self._began
        return AccessLogEntry(method, path[:200], self._status, seconds, self._user, self._id)

    async def _handle(self) -> None:
        state = self._state
        self._head = head = read_head(self._scope, state.settings.root_path)
        if not self._is_own:
            state.access.check_client(head)
        if head.method == "OPTIONS" and "access-control-request-method" in head.headers:
            await self._send(RouteResponse(status=204), state.access.preflight(head))
            return
        self._extra_headers = state.access.cors(head)
        self._user = await state.admit(head)
        health = await state.health.reply(head, state.unavailable_reason)
        if health is not None:
            await self._send(health, self._extra_headers)
            return
        if head.path == "/" and not self._scope["path"].endswith("/"):
            # links of the page are relative
            location = {"location": f"{quote(self._root_path)}/"}
            await self._send(RouteResponse(status=308, headers=location), self._extra_headers)
            return
        method = "GET" if head.method == "HEAD" else head.method
        routes = await state.routes()
        self._match = match = routes.find(method, head.path)
        if isinstance(match, HttpProblem) or match[0].rate_limited:
            state.count(self._user, head.client)
        body = b"" if isinstance(match, HttpProblem) else await self._read_body(head, match[0])
        await self._take_slot(head)
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
            state.workers.submit(partial(self._run, request, match))
        except RuntimeError as error:
            self._release_slot()
            _log.warning("cannot answer a request: %s", error)
            raise Refused(
                HttpProblem(503, "overloaded", "no thread is available", retry_after=1)
            ) from None
        reply = await self._buffer.reply()
        if reply is None:
            raise ClientGone
        await self._send(reply, self._extra_headers)

    async def _read_body(self, head: Head, route: HttpRoute) -> bytes:
        if head.length == 0:
            return b""
        if head.length is not None and head.length > route.max_body_size:
            raise _body_too_large(route)
        seconds = self._state.settings.body_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._read_chunks(route)
        except TimeoutError:
            raise Refused(
                HttpProblem(
                    408,
                    "timeout",
                    f"the body was not received within {seconds:g} seconds",
                    headers={"connection": "close"},
                )
            ) from None

    async def _read_chunks(self, route: HttpRoute) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > route.max_body_size:
                raise _body_too_large(route)
            self._state.body_budget.acquire(len(chunk))
            self._body_size = size
            chunks.append(chunk)
            if not message.get("more_body"):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _take_slot(self, head: Head) -> None:
        """Wait for a slot; from now on, a disconnect of the client is detected."""
        self._connection.watch(self._on_disconnect)
        if self._is_disconnected:
            raise ClientGone
        self._queue = self._state.queue_for(head)
        self._slot = self._queue.acquire()
        if self._slot is not None:
            try:
                await self._slot
            except BaseException:
                self._queue.cancel_wait(self._slot)
                if self._slot.cancelled() and self._is_disconnected:
                    raise ClientGone from None
                raise

    def _release_slot(self) -> None:
        self._queue.release()

    def _on_disconnect(self) -> None:
        self._is_disconnected = True
        if self._is_over:
            return
        self._buffer.close()
        if self._suspended is not None:
            self._suspended.on_disconnect()
        if self._slot is not None and not self._slot.done():
            self._slot.cancel()
        self._state.cancel(self._limits)

    def _run(self, request: RouteRequest, match: RouteMatch | HttpProblem) -> None:
        """In a thread: answer the request, up to where the loop can continue."""
        self._suspended = suspended = self._context.run(self._answer, request, match)
        if suspended is not None and not self._buffer.hand_over():
            self._suspended = None  # no reference cycles
            suspended.close_in_thread()

    def _answer(
        self, request: RouteRequest, match: RouteMatch | HttpProblem
    ) -> SuspendedReply | None:
        """Write the reply into the buffer and release the slot, or return the rest for the loop."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._state.callbacks.put, self._release_slot)
            ends.callback(self._buffer.end, is_broken=True)  # no effect on a complete reply
            watched = ends.enter_context(self._state.watching(request, match))
            reply = self._reply(request, match, watched)
            if reply is None:
                return None
            ends.callback(self._close_body, reply, match)
            return SuspendedReply(
                partial(self._write, reply, match),
                ends.pop_all(),
                self._context,
                submit=self._state.workers.submit,
                send=partial(self._send_chunk, is_last=False),
                at_once=self._is_own,
                keepalive=reply.keepalive,
                keepalive_interval=self._state.settings.keepalive_interval,
            )

    def _reply(
        self, request: RouteRequest, match: RouteMatch | HttpProblem, watched: Observation
    ) -> RouteResponse | None:
        """Write the reply, or return it for the loop."""
        self._is_answering = True
        reply = self._sendable(self._state.answer(request, match, self._on_begin), request)
        self._is_answering = False
        is_wanted = self._buffer.put_reply(reply)
        reply = self._buffer.sent or reply  # the reply whose head was sent earlier, if any
        if self._early_reply is not None and self._early_reply is not reply:
            _close(self._early_reply)
        watched.status = reply.status
        if isinstance(reply.body, bytes):
            return None
        is_wanted = is_wanted and self._wants_body()
        if is_wanted and self._state.suspends(reply, match):
            return reply
        try:
            if not is_wanted or self._write(reply, match, self._buffer.put):
                self._buffer.end()
        finally:
            self._close_body(reply, match)
        return None

    def _on_begin(self, reply: RouteResponse) -> None:
        """Send the head early if the reply is slow: clients and proxies have timeouts."""
        self._early_reply = reply
        if is_sendable(reply):
            self._state.callbacks.put(self._schedule_head, reply)

    def _schedule_head(self, reply: RouteResponse) -> None:
        self._loop.call_later(self._state.settings.head_delay, self._send_head, reply)

    def _send_head(self, reply: RouteResponse) -> None:
        if not self._is_over:
            self._buffer.put_reply(reply)

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
        return self._state.error_reply(request.path, request.headers, problem, self._id)

    def _wants_body(self) -> bool:
        return bool(self._scope["method"] != "HEAD")

    def _write(
        self, reply: RouteResponse, match: RouteMatch | HttpProblem, put: Callable[[bytes], bool]
    ) -> bool:
        """Write the chunks of a reply as they are generated; False if it was interrupted."""
        try:
            chunks: Iterable[Any] = reply.body
            with self._state.watched(match, "body", self._limits) as watched:
                for chunk in chunks:
                    watched.pause()  # while the client reads
                    if not put(chunk):
                        break
                    watched.resume()
            return True
        except GenaiError as error:
            _log.info("a reply was interrupted: %s", error)
        except Exception:  # noqa: BLE001 - a plugin's fault must not end the server
            _log.exception("a reply was interrupted")
        return False

    def _close_body(self, reply: RouteResponse, match: RouteMatch | HttpProblem) -> None:
        with self._state.watched(match, "close"):
            _close(reply)

    async def _refuse(self, problem: HttpProblem) -> None:
        head = self._head
        path, headers = (head.path, head.headers) if head else ("", {})
        extra = dict(self._extra_headers)
        if self._expects_continue(headers):
            extra["connection"] = "close"
        extra |= {name: value for name, value in problem.headers.items() if name == "connection"}
        if self._scope.get("http_version", "1.1") >= "2":
            extra.pop("connection", None)  # RFC 9113, section 8.2.2
        await self._state.loading()  # plugins declare the form of the error
        try:
            reply = self._state.error_reply(path, headers, problem, self._id)
            await self._send(reply, extra)
        except Broken:
            await self._connection.break_off()

    def _expects_continue(self, headers: Any) -> bool:
        """Whether the client waits for "100 Continue" before it sends the body. Otherwise, the next
        bytes could be the body or another request."""
        return "expect" in headers and not self._has_begun

    async def _send(self, reply: RouteResponse, extra: dict[str, str]) -> None:
        self._status = reply.status
        path, headers = (self._head.path, self._head.headers) if self._head else ("", {})
        ids = self._state.request_id_headers(path, headers, self._id)
        await self._emit(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": pairs_of(reply, {**extra, **ids}),
            }
        )
        self._has_begun = True
        if not self._wants_body():  # after the head, the client sends its next request
            await self._send_chunk(b"", is_last=True)
        elif isinstance(reply.body, bytes):
            await self._send_whole(reply.body)
        else:
            await self._send_chunks(reply.keepalive)

    async def _send_whole(self, body: bytes) -> None:
        for at in range(0, len(body) - _CHUNK_SIZE, _CHUNK_SIZE):
            await self._send_chunk(body[at : at + _CHUNK_SIZE], is_last=False)
        await self._send_chunk(body[-(len(body) % _CHUNK_SIZE or _CHUNK_SIZE) :], is_last=True)

    async def _send_chunks(self, keepalive: bytes) -> None:
        seconds = self._state.settings.keepalive_interval if keepalive else 0
        while (chunk := await self._buffer.take(seconds or None)) is not None:
            await self._send_chunk(chunk or keepalive, is_last=False)
        if self._buffer.is_handed_over and self._suspended is not None:
            await self._suspended.send()
        if not self._is_disconnected:
            await self._send_chunk(b"", is_last=True)

    async def _send_chunk(self, chunk: bytes, *, is_last: bool) -> None:
        await self._emit({"type": "http.response.body", "body": chunk, "more_body": not is_last})

    async def _emit(self, message: AsgiMessage) -> None:
        try:
            await self._send_message(message)
        except OSError:  # some servers raise it if the client has disconnected
            raise ClientGone from None


def _body_too_large(route: HttpRoute) -> Refused:
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

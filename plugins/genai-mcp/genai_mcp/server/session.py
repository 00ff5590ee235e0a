"""The messages of one client and the replies to them, without I/O.

    ServerSession.receive → RequestExchange → _answer → _initialize | _discover | _list
                                                      | SessionCalls.answer

Both generations of the protocol are supported, per request. A request with a version is
self-contained (2026-07-28). Other requests belong to the session opened by `initialize`.
"""

from __future__ import annotations

import logging
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from genai_mcp import rpc
from genai_mcp.rpc import (
    CANCELLED,
    HANDSHAKES,
    HEARD,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTEN,
    METHOD_NOT_FOUND,
    MODERN,
    OWN,
    Id,
    RpcError,
    RpcRequest,
)
from genai_mcp.server import messages
from genai_mcp.server.calls import (
    SLOW,
    Asking,
    RequestExchange,
    Sending,
    SessionCalls,
    SharedState,
    caller_of,
)
from genai_mcp.text import one_line

PAGE = 100
"""Number of tools per page of a list."""

_log = logging.getLogger(__name__)


class ServerSession:
    """Session of one client. Thread-safe.

    Attributes:
        version: Negotiated version of the protocol; empty before, and for requests with their own
            version.
    """

    def __init__(self, service: SharedState) -> None:
        self.version = ""
        self._service = service
        self._capabilities: Mapping[str, Any] = {}
        self._asking = Asking()
        self._calls = SessionCalls(service, self._asking)
        self._lock = threading.Lock()
        self._under_way: dict[Id, RequestExchange] = {}
        self._closed = False

    def receive(self, message: rpc.Message) -> RequestExchange | None:
        """Accept a message. For a request, return an exchange, which starts when it is iterated;
        its place is reserved until its end. For other messages, return None.
        """
        if isinstance(message, rpc.RpcAnswer):
            self._asking.answered(message)
            return None
        if isinstance(message, rpc.Notification):
            if message.method == CANCELLED:
                self._cancel(message.params.get("requestId"))
            return None
        with self._lock:
            exchange = RequestExchange(message, self._send, self._refusal(message))
            if exchange.refusal is None:
                self._under_way[message.id] = exchange
        return exchange

    def close(self) -> None:
        """Cancel all requests in progress and reject new ones."""
        with self._lock:
            self._closed = True
            exchanges = list(self._under_way.values())
        for exchange in exchanges:
            exchange.cancel()

    def _refusal(self, request: RpcRequest) -> RpcError | None:
        """Return why a request is rejected, or reserve a place for it if it needs one."""
        if self._closed:
            return RpcError(rpc.INTERNAL_ERROR, "the session is closed")
        if request.id in self._under_way:
            return RpcError(INVALID_REQUEST, "the id is already used by a request in progress")
        if request.method in SLOW and not self._service.places.acquire(blocking=False):
            return RpcError(rpc.INTERNAL_ERROR, "too many concurrent requests")
        return None

    def _cancel(self, id: Any) -> None:
        with self._lock:
            exchange = self._under_way.get(id) if type(id) in (int, str) else None
        if exchange is not None and exchange.request.method != "initialize":
            exchange.cancel()

    def _send(self, exchange: RequestExchange) -> Sending:
        request = exchange.request
        if exchange.refusal is not None:
            yield messages.of_error(request.id, exchange.refusal)
            return
        try:
            yield from self._answer(exchange)
        except RpcError as error:
            if not exchange.cancelled:
                yield messages.of_error(request.id, error)
        except Exception as error:  # noqa: BLE001 - the others are served on
            _log.warning("%s failed", one_line(request.method), exc_info=error)
            if not exchange.cancelled:
                why = "internal error; see the log of the server"
                yield messages.error(request.id, rpc.INTERNAL_ERROR, why)
        finally:
            with self._lock:
                del self._under_way[request.id]
            if not exchange.is_quick:
                self._service.places.release()

    def _answer(self, exchange: RequestExchange) -> Sending:
        request = exchange.request
        caller = caller_of(request, self.version, self._capabilities)
        if request.method == "tools/call":
            yield from self._calls.answer(exchange, caller)
            return
        if request.method == LISTEN and caller.modern:
            yield from _no_news(request)
            return
        known = _MODERN if caller.modern else _OLD
        if request.method not in known:
            what = f"unknown method {one_line(request.method)!r}"
            raise RpcError(METHOD_NOT_FOUND, what)
        value = known[request.method](self, request.params)
        if not exchange.cancelled:
            yield messages.result(request.id, value, modern=caller.modern)

    def _discover(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "supportedVersions": [MODERN],
            "capabilities": messages.CAPABILITIES,
            **messages.CACHED,
        }

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        version, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if not isinstance(version, str) or not isinstance(capabilities, Mapping):
            raise RpcError(INVALID_PARAMS, "protocolVersion or capabilities are missing")
        with self._lock:
            if self.version:
                raise RpcError(INVALID_REQUEST, "the session is already open")
            self._capabilities = capabilities
            self.version = version if version in HANDSHAKES else HANDSHAKES[0]
        return {
            "protocolVersion": self.version,
            "capabilities": messages.CAPABILITIES,
            "serverInfo": messages.SERVER,
        }

    def _ping(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def _list(self, params: Mapping[str, Any]) -> dict[str, Any]:
        after = _name_of_cursor(params.get("cursor"))
        tools = self._service.offer.tools()
        names = [name for name in tools if name > after]
        page: dict[str, Any] = {"tools": [tools[name].definition for name in names[:PAGE]]}
        if len(names) > PAGE:
            page["nextCursor"] = urlsafe_b64encode(names[PAGE - 1].encode()).decode()
        return page

    def _list_for_a_while(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._list(params), **messages.CACHED}


_OLD = {
    "initialize": ServerSession._initialize,
    "ping": ServerSession._ping,
    "tools/list": ServerSession._list,
}
_MODERN = {
    "server/discover": ServerSession._discover,
    "tools/list": ServerSession._list_for_a_while,
}


def _no_news(request: RpcRequest) -> Sending:
    """End a subscription immediately, because the server reports no changes."""
    of = {f"{OWN}subscriptionId": request.id}
    yield messages.notification(HEARD, {"_meta": of, "notifications": {}})
    yield messages.result(request.id, {"_meta": of}, modern=True)


def _name_of_cursor(cursor: Any) -> str:
    """Return the last tool of the previous page; empty for the first page."""
    if cursor is None:
        return ""
    try:
        name = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (AttributeError, ValueError):
        name = ""
    if not name:
        raise RpcError(INVALID_PARAMS, "unknown cursor")
    return name

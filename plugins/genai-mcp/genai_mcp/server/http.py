"""The server over HTTP ("Streamable HTTP"), as a route of the host at `/mcp`.

    McpEndpoint.post → _alone (2026-07-28) | _opened (initialize) | _of_session
                  → ServerSession.receive → RequestExchange → one message as JSON, several as events

The host has already checked the client's access. Up to 2025-11-25 there is a session, which the
client names and can end. In 2026-07-28 each request is self-contained, and a client that
disconnects cancels its call. Headers then repeat fields of the body. Intermediaries trust the
headers, so `check_headers` rejects a request whose headers differ from the body.

There is no stream of unsolicited messages (GET), because the server sends none.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from genai_host.api import RouteRequest, RouteResponse, json_response, write_json
from genai_host.errors import ValidationError
from genai_mcp import mirrored, rpc
from genai_mcp.rpc import HANDSHAKES, INVALID_REQUEST, OWN, RpcError, RpcRequest, WrongMessage
from genai_mcp.server import messages
from genai_mcp.server.calls import RequestExchange, SharedState, is_alone
from genai_mcp.server.messages import HEADER_MISMATCH, Outgoing
from genai_mcp.server.offer import Offer
from genai_mcp.server.session import ServerSession

if TYPE_CHECKING:
    from genai_host.api import HostServices


def check_headers(request: RpcRequest, headers: Mapping[str, str], offer: Offer) -> None:
    """Check that the headers, in lower case, match the body. Raises `RpcError`."""
    version = request.params["_meta"].get(f"{OWN}protocolVersion")
    if isinstance(version, str):  # otherwise it is rejected for the type
        _check("mcp-protocol-version", headers.get("mcp-protocol-version"), version)
    _check("mcp-method", headers.get("mcp-method"), request.method)
    if request.method != "tools/call":
        return
    name, arguments = request.params.get("name"), request.params.get("arguments", {})
    if isinstance(name, str):
        _check("mcp-name", _decoded(headers, "mcp-name"), name)
        if isinstance(arguments, Mapping):
            _check_arguments(name, arguments, headers, offer)


def _check_arguments(
    name: str, arguments: Mapping[str, Any], headers: Mapping[str, str], offer: Offer
) -> None:
    offered = offer.tool(name)
    if offered is None or not offered.mirrored:
        return
    try:
        values = mirrored.values(offered.mirrored, arguments)
    except ValidationError as error:
        raise RpcError(HEADER_MISMATCH, str(error)) from error
    for header in offered.mirrored:
        given, expected = _decoded(headers, header), values.get(header)
        if given is None or expected is None or not _are_equal_numbers(given, expected):
            _check(header, given, expected)


def _decoded(headers: Mapping[str, str], name: str) -> str | None:
    """Return the decoded value of a header; None if it is missing."""
    value = headers.get(name)
    if value is None:
        return None
    text = mirrored.header_text(value.strip())
    if text is None:
        raise RpcError(HEADER_MISMATCH, f"the header {name} has invalid characters")
    return text


def _check(name: str, given: str | None, expected: str | None) -> None:
    if given is None and expected is not None:
        raise RpcError(HEADER_MISMATCH, f"the header {name} is missing")
    if given != expected:
        raise RpcError(HEADER_MISMATCH, f"the header {name} does not match the body")


def _are_equal_numbers(one: str, other: str) -> bool:
    """Whether two numbers are equal, for example `42.0` and `42`."""
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


MOST_SESSIONS = 100
"""Maximum number of open sessions; beyond it the least recently used one ends."""

_BATCHES = "2025-03-26"  # the only version with batches
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SSE = "text/event-stream"
_EVENTS = {"content-type": _SSE, "cache-control": "no-cache", "x-accel-buffering": "no"}
_PING = b": ping\n\n"
_STATUS = {
    rpc.PARSE_ERROR: 400,
    rpc.INVALID_REQUEST: 400,
    rpc.INVALID_PARAMS: 400,
    messages.HEADER_MISMATCH: 400,
    messages.MISSING_CAPABILITY: 400,
    messages.UNSUPPORTED_VERSION: 400,
    rpc.METHOD_NOT_FOUND: 404,
}


class McpEndpoint:
    """The MCP endpoint of one host. Thread-safe."""

    def __init__(self, host: HostServices) -> None:
        self._service = SharedState(Offer(host))
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, ServerSession] = OrderedDict()

    def post(self, request: RouteRequest) -> RouteResponse:
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        try:
            received = rpc.read_messages(request.body)
        except WrongMessage as error:
            return _error(400, error.rpc_code, str(error), error.id)
        if rpc.is_batch(request.body):
            return self._of_session(request, received, is_batch=True)
        [message] = received
        if isinstance(message, RpcRequest):
            if is_alone(message) or _is_modern(request):
                return self._alone(request, message)
            if message.method == "initialize":
                return self._opened(message)
        return self._of_session(request, received, is_batch=False)

    def delete(self, request: RouteRequest) -> RouteResponse:
        """End a session."""
        refusal = _wrong_origin(request)
        if refusal is not None:
            return refusal
        with self._lock:
            session = self._sessions.pop(request.headers.get("mcp-session-id", ""), None)
        if session is None:
            return _error(404, INVALID_REQUEST, "unknown session")
        session.close()
        return RouteResponse(status=204)

    def close(self) -> None:
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.close()
        self._service.close()

    def _alone(self, request: RouteRequest, message: RpcRequest) -> RouteResponse:
        """Answer a self-contained request."""
        if is_alone(message):
            try:
                check_headers(message, request.headers, self._service.offer)
            except RpcError as error:
                return json_response(messages.of_error(message.id, error), _STATUS[error.code])
        exchange = ServerSession(self._service).receive(message)
        assert exchange is not None  # true for a request
        return _reply(exchange, request, modern=True)

    def _opened(self, message: RpcRequest) -> RouteResponse:
        session = ServerSession(self._service)
        exchange = session.receive(message)
        assert exchange is not None  # true for a request
        [answer] = exchange
        if not session.version:
            return json_response(answer)
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[name] = session
            gone = self._sessions.popitem(last=False)[1] if self._is_full() else None
        if gone is not None:
            gone.close()
        return json_response(answer, headers={"mcp-session-id": name})

    def _is_full(self) -> bool:
        return len(self._sessions) > MOST_SESSIONS

    def _of_session(
        self, request: RouteRequest, received: list[rpc.Message], *, is_batch: bool
    ) -> RouteResponse:
        if _is_modern(request):  # 2026-07-28 has no notifications and no answers over HTTP
            return RouteResponse(status=202)
        version = request.headers.get("mcp-protocol-version", "")
        if version and version not in HANDSHAKES:
            return json_response(
                messages.of_error(_id(received), messages.wrong_version(version)), 400
            )
        name = request.headers.get("mcp-session-id", "")
        if not name:
            why = f"the request has neither mcp-session-id nor {OWN}protocolVersion in its _meta"
            return _error(400, INVALID_REQUEST, why, _id(received))
        with self._lock:
            session = self._sessions.get(name)
            if session is not None:
                self._sessions.move_to_end(name)
        if session is None:
            return _error(404, INVALID_REQUEST, "unknown session", _id(received))
        if is_batch and (session.version != _BATCHES or not received):
            return _error(400, INVALID_REQUEST, "the body must be one message")
        exchanges = [each for message in received if (each := session.receive(message))]
        if not exchanges:
            return RouteResponse(status=202)
        if is_batch:
            return RouteResponse(_Batch(exchanges), headers=_EVENTS, keepalive=_PING)
        return _reply(exchanges[0], request, modern=False)


def _refusal(request: RouteRequest) -> RouteResponse | None:
    """Return the response to an invalid POST; None if it is valid."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # other origins need a preflight for it
        return _error(415, INVALID_REQUEST, "the content-type must be application/json")
    accepted = request.headers.get("accept", "*/*")
    if "*/*" not in accepted and not all(each in accepted for each in ("application/json", _SSE)):
        return _error(
            406, INVALID_REQUEST, f"the accept header must include application/json and {_SSE}"
        )
    return _wrong_origin(request)


def _wrong_origin(request: RouteRequest) -> RouteResponse | None:
    """Reject a foreign `Origin`, against DNS rebinding. Pages of this machine are allowed."""
    origin = request.headers.get("origin")
    if origin is None:
        return None
    try:
        name = urlsplit(origin).hostname
    except ValueError:
        name = None
    if name in _LOOPBACK:
        return None
    return _error(403, INVALID_REQUEST, "pages of this origin cannot use this server")


def _is_modern(request: RouteRequest) -> bool:
    """Whether a request is self-contained: its version is not one of those with sessions."""
    version = request.headers.get("mcp-protocol-version", "")
    return bool(version) and version not in HANDSHAKES and "mcp-session-id" not in request.headers


def _reply(exchange: RequestExchange, request: RouteRequest, *, modern: bool) -> RouteResponse:
    """Return the messages for a request: one as JSON, several as events. If the first one takes
    long, the headers are sent meanwhile, so that all are events."""
    body = _Body(exchange, request, modern=modern)
    return RouteResponse(body, headers=_EVENTS, keepalive=_PING, begin=body.begin)


class _Body:
    """The messages for a request, as events."""

    def __init__(self, exchange: RequestExchange, request: RouteRequest, *, modern: bool) -> None:
        self._registration = request.limits.on_cancel(exchange.cancel) if modern else None
        self._sent = iter(exchange)
        self._first: Outgoing | None = None
        self._modern = modern

    def begin(self) -> RouteResponse | None:
        """Wait for the first message. Returns the response if it is the only one."""
        self._first = first = next(self._sent, None)
        if first is not None and "method" in first:
            return None
        next(self._sent, None)  # run it to its end
        if first is None:  # cancelled
            return RouteResponse(status=202)
        error = first.get("error", {})
        return json_response(first, _STATUS.get(error.get("code", 0), 200) if self._modern else 200)

    def __iter__(self) -> Iterator[bytes]:
        if self._first is not None:
            yield from _events(itertools.chain([self._first], self._sent))

    def close(self) -> None:
        self._sent.close()
        if self._registration is not None:
            self._registration.release()


class _Batch:
    """The messages for the requests of a batch, as events."""

    def __init__(self, exchanges: Iterable[RequestExchange]) -> None:
        self._sent = itertools.chain.from_iterable(exchanges)

    def __iter__(self) -> Iterator[bytes]:
        return _events(self._sent)

    def close(self) -> None:
        """Answer the other requests, since a client that disconnects has not cancelled them."""
        for _ in self._sent:
            pass


def _events(sent: Iterator[Outgoing]) -> Iterator[bytes]:
    for message in sent:
        yield b"event: message\ndata: " + write_json(message) + b"\n\n"


def _error(status: int, code: int, message: str, id: rpc.Id | None = None) -> RouteResponse:
    return json_response(messages.error(id, code, message), status)


def _id(received: list[rpc.Message]) -> rpc.Id | None:
    only = received[0] if len(received) == 1 else None
    return only.id if isinstance(only, RpcRequest) else None

"""A client's messages, and what is sent back for them; nothing here reads or writes.

    Session.receive → Exchange → _answer → _initialize | _list | _call ...
                                           _call → Work → News, Question, Done

Both eras of the protocol are spoken, each request in its own: one that carries its version
stands for itself (2026-07-28), others belong to the session that `initialize` has opened.
"""

from __future__ import annotations

import itertools
import logging
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Generator, Iterator, Mapping
from typing import Any, TypeAlias

from attrs import frozen

from genai_host.errors import GenaiError
from genai_mcp import rpc
from genai_mcp.protocol import CANCELLED, HANDSHAKES, HEARD, LISTEN, MODERN, OWN
from genai_mcp.rpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Id, Request, RpcError
from genai_mcp.server import messages
from genai_mcp.server.messages import Outgoing
from genai_mcp.server.offer import Offer
from genai_mcp.server.results import failed, result_of_error
from genai_mcp.server.steps import News, Question
from genai_mcp.server.work import Done, Waiting, Work
from genai_mcp.texts import one_line

PAGE = 100
"""Tools of one page of a list."""

MOST_CALLS = 32
"""Requests of all clients that are under way at once."""

MOST_NEWS = 1000
"""Notifications of one call on how it goes; there are no more then."""

DECISION_SECONDS = 600.0
"""How long a human may take to decide, where the client is asked while it waits."""

_ASKS_SINCE = HANDSHAKES[:2]  # clients of older versions cannot be asked
_OF_REQUEST = ("protocolVersion", "clientInfo", "clientCapabilities")

_log = logging.getLogger(__name__)

_Sending: TypeAlias = "Generator[Outgoing, None, None]"


class Service:
    """What the sessions of all clients share."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.waiting = Waiting()
        self.places = threading.BoundedSemaphore(MOST_CALLS)

    def session(self) -> Session:
        return Session(self)

    def close(self) -> None:
        self.waiting.close()


@frozen
class _Caller:
    """What is known of who sent a request.

    modern   whether the request stands for itself
    asks     whether its user can be asked something
    """

    modern: bool
    asks: bool


class Exchange:
    """What is sent back for one request: iterate once, in any thread. The last message is
    the answer, unless it is cancelled: then there is none.

    refusal    why it is not done; None if it is
    is_quick   whether it is answered at once
    """

    def __init__(
        self, session: Session, request: Request, *, refusal: RpcError | None = None
    ) -> None:
        self.request = request
        self.refusal = refusal
        self.is_quick = refusal is not None or request.method not in _SLOW
        self.cancelled = False
        self.work: Work | None = None
        self._session = session

    def __iter__(self) -> Iterator[Outgoing]:
        return self._session._sent(self)

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self.cancelled = True
        work = self.work
        if work is not None:
            work.end()


class _Asked:
    """What the client was asked, and has not answered yet."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: rpc.Answer | None = None


class Session:
    """Of one client. May be used from many threads.

    version   of the protocol, which was agreed on; empty before that, and where each
              request names its own
    """

    def __init__(self, service: Service) -> None:
        self.version = ""
        self._service = service
        self._capabilities: Mapping[str, Any] = {}
        self._lock = threading.Lock()
        self._under_way: dict[Id, Exchange] = {}
        self._numbers = itertools.count(1)
        self._asked: dict[Id, _Asked] = {}
        self._closed = False

    def receive(self, message: rpc.Message) -> Exchange | None:
        """Take a message: what is to be sent back for a request, which begins when that is
        iterated; nothing for others."""
        if isinstance(message, rpc.Answer):
            self._answered(message)
            return None
        if isinstance(message, rpc.Notification):
            if message.method == CANCELLED:
                self._cancel(message.params.get("requestId"))
            return None
        with self._lock:
            refusal = self._refusal(message)
            exchange = Exchange(self, message, refusal=refusal)
            if refusal is None:
                self._under_way[message.id] = exchange
        return exchange

    def close(self) -> None:
        """Cancel all that is under way, and begin nothing more."""
        with self._lock:
            self._closed = True
            exchanges = list(self._under_way.values())
        for exchange in exchanges:
            exchange.cancel()

    def _refusal(self, request: Request) -> RpcError | None:
        """Why a request is not begun; None if it is: it has a place then, if it needs one."""
        if self._closed:
            return RpcError(rpc.INTERNAL_ERROR, "the session is closed")
        if request.id in self._under_way:
            return RpcError(INVALID_REQUEST, "its id is that of one under way")
        if request.method in _SLOW and not self._service.places.acquire(blocking=False):
            return RpcError(rpc.INTERNAL_ERROR, "too many requests are under way")
        return None

    def _cancel(self, id: Any) -> None:
        with self._lock:
            exchange = self._under_way.get(id) if type(id) in (int, str) else None
        if exchange is not None and exchange.request.method != "initialize":
            exchange.cancel()

    def _answered(self, answer: rpc.Answer) -> None:
        with self._lock:
            asked = self._asked.pop(answer.id, None) if answer.id is not None else None
        if asked is not None:
            asked.answer = answer
            asked.done.set()

    def _sent(self, exchange: Exchange) -> Iterator[Outgoing]:
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
                why = "the server failed; its log says why"
                yield messages.error(request.id, rpc.INTERNAL_ERROR, why)
        finally:
            with self._lock:
                del self._under_way[request.id]
            if not exchange.is_quick:
                self._service.places.release()

    def _answer(self, exchange: Exchange) -> _Sending:
        request = exchange.request
        caller = self._caller(request)
        method = request.method
        if method == "tools/call":
            yield from self._call(exchange, caller)
            return
        if method == LISTEN and caller.modern:
            yield from _no_news(request)
            return
        known = _MODERN if caller.modern else _OLD
        if method not in known:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {one_line(method)!r} here")
        value = known[method](self, request.params)
        if not exchange.cancelled:
            yield messages.result(request.id, value, modern=caller.modern)

    def _caller(self, request: Request) -> _Caller:
        """Raises `RpcError` if it does not say what it has to."""
        if is_alone(request):
            return _standing_alone(request.params["_meta"])
        if request.method in ("initialize", "ping"):
            return _Caller(modern=False, asks=False)
        if not self.version:
            raise RpcError(
                INVALID_PARAMS,
                f"a request is to have {OWN}protocolVersion and {OWN}clientCapabilities in its "
                f"_meta, for {MODERN}, or to come after initialize",
            )
        asks = self.version in _ASKS_SINCE and messages.can_ask(self._capabilities)
        return _Caller(modern=False, asks=asks)

    def _discover(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "supportedVersions": [MODERN],
            "capabilities": messages.CAPABILITIES,
            "ttlMs": messages.FRESH,
            "cacheScope": "private",
        }

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        version, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if not isinstance(version, str) or not isinstance(capabilities, Mapping):
            raise RpcError(
                INVALID_PARAMS, "initialize names no protocolVersion, or no capabilities"
            )
        with self._lock:
            if self.version:
                raise RpcError(INVALID_REQUEST, "the session is open already")
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

    def _list_for_while(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._list(params), "ttlMs": messages.FRESH, "cacheScope": "private"}

    def _call(self, exchange: Exchange, caller: _Caller) -> _Sending:
        request = exchange.request
        work, question, given = self._taken_up(request, caller)
        step: News | Question | Done | None = question
        exchange.work = work
        if exchange.cancelled:  # meanwhile
            work.end()
        token, count, is_kept = _token(request.params), 0, False
        try:
            while True:
                step = step or _next(work, given)
                if exchange.cancelled:
                    return
                given = None
                if isinstance(step, Done):
                    yield messages.result(request.id, step.result, modern=caller.modern)
                    return
                if isinstance(step, Question):
                    if not caller.asks:
                        yield _refused(request, step, caller)
                        return
                    if caller.modern:
                        is_kept = True
                        yield self._input_required(request, work, step)
                        return
                    given = yield from self._elicit(exchange, work, step)
                elif token is not None and count < MOST_NEWS:
                    count += 1
                    yield _progress(token, count, step)
                step = None
        finally:
            if not is_kept:
                work.drop()

    def _taken_up(
        self, request: Request, caller: _Caller
    ) -> tuple[Work, Question | None, bool | None]:
        """What is to be done: from its beginning, or from where its client was asked
        something, with the answer, or with the question, if that is not answered. Raises
        `RpcError`."""
        name, arguments = request.params.get("name"), request.params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "a call needs a name, and arguments that are an object")
        state = request.params.get("requestState")
        if caller.modern and state is not None:
            kept = self._service.waiting.take(str(state), name, arguments)
            if kept is None:
                raise RpcError(INVALID_PARAMS, "its requestState is not known, or not any more")
            responses = request.params.get("inputResponses")
            if not isinstance(responses, Mapping) or _APPROVAL not in responses:
                return kept.work, kept.question, None
            return kept.work, None, messages.is_allowed(responses[_APPROVAL])
        offered = self._service.offer.tools().get(name)
        if offered is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {one_line(name)}")
        begin = self._service.offer.begin
        return Work(name, arguments, lambda limits: begin(offered, arguments, limits)), None, None

    def _input_required(self, request: Request, work: Work, question: Question) -> Outgoing:
        asked = {"method": messages.ELICIT, "params": messages.elicitation(question)}
        value = {
            "resultType": "input_required",
            "inputRequests": {_APPROVAL: asked},
            "requestState": self._service.waiting.keep(work, question),
        }
        return messages.result(request.id, value, modern=True)

    def _elicit(
        self, exchange: Exchange, work: Work, question: Question
    ) -> Generator[Outgoing, None, bool]:
        """Ask the client while it waits."""
        asked = _Asked()
        id = f"ask-{next(self._numbers)}"
        with self._lock:
            self._asked[id] = asked
        params = messages.elicitation(question)
        try:
            yield {"jsonrpc": "2.0", "id": id, "method": messages.ELICIT, "params": params}
            with work.limits.on_cancel(asked.done.set):
                asked.done.wait(DECISION_SECONDS)
        finally:
            with self._lock:
                self._asked.pop(id, None)
        if asked.answer is None:
            if not exchange.cancelled:
                yield messages.notification(CANCELLED, {"requestId": id})
            return False
        return asked.answer.error is None and messages.is_allowed(asked.answer.result)


_APPROVAL = "approval"
_SLOW = ("tools/call", "tools/list")
_OLD = {"initialize": Session._initialize, "ping": Session._ping, "tools/list": Session._list}
_MODERN = {"server/discover": Session._discover, "tools/list": Session._list_for_while}


def is_alone(request: Request) -> bool:
    """Whether a request says of itself what a session would know."""
    meta = request.params.get("_meta")
    return isinstance(meta, Mapping) and any(f"{OWN}{name}" in meta for name in _OF_REQUEST)


def _standing_alone(meta: Mapping[str, Any]) -> _Caller:
    version, capabilities = (meta.get(f"{OWN}{name}") for name in _OF_REQUEST[::2])
    if not isinstance(version, str) or not isinstance(capabilities, Mapping):
        raise RpcError(
            INVALID_PARAMS,
            f"its _meta lacks {OWN}protocolVersion or {OWN}clientCapabilities, or they are wrong",
        )
    if version != MODERN:
        raise messages.wrong_version(version)
    return _Caller(modern=True, asks=messages.can_ask(capabilities))


def _next(work: Work, given: bool | None) -> News | Question | Done:
    try:
        return work.go_on(given)
    except GenaiError as error:
        return Done(result_of_error(error))


def _refused(request: Request, question: Question, caller: _Caller) -> Outgoing:
    """The answer where a client would have to ask its user, and cannot."""
    if not caller.modern:
        return messages.result(request.id, failed(question.refusal), modern=False)
    needed: Mapping[str, Any] = {"requiredCapabilities": {"elicitation": {}}}
    return messages.error(request.id, messages.MISSING_CAPABILITY, question.refusal, needed)


def _no_news(request: Request) -> _Sending:
    """There is nothing to be told of changes: a subscription ends as soon as it is there."""
    of = {f"{OWN}subscriptionId": request.id}
    yield messages.notification(HEARD, {"_meta": of, "notifications": {}})
    yield messages.result(request.id, {"_meta": of}, modern=True)


def _token(params: Mapping[str, Any]) -> Id | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return token if type(token) in (int, str) else None


def _progress(token: Id, count: int, news: News) -> Outgoing:
    params = {"progressToken": token, "progress": count, "message": news.text}
    return messages.notification("notifications/progress", params)


def _name_of_cursor(cursor: Any) -> str:
    """The tool after which a page begins; empty for the first page."""
    if cursor is None:
        return ""
    try:
        name = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (AttributeError, ValueError):
        name = ""
    if not name:
        raise RpcError(INVALID_PARAMS, "the cursor is none that was given here")
    return name

"""Execution of tool calls, with approval and cancellation.

    SessionCalls.answer → _taken_up → RunningCall.go_on → News (progress)
                                                        → Question (Asking.ask, or Waiting.keep)
                                                        → Done (the result)

A `RequestExchange` is one request of a client and the messages sent back for it. `RunningCall` is
one call from its beginning to its result. It can outlive a request if the client has to ask its
user (`Waiting`). Before 2026-07-28 the client is asked while it waits for the answer (`Asking`).
`Caller` has the properties of a client that affect the answer. The sessions of all clients share
one `SharedState`.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias

from attrs import frozen

from genai_host.api import Cancellation, Clock
from genai_host.errors import GenaiError
from genai_mcp import rpc
from genai_mcp.rpc import (
    CANCELLED,
    HANDSHAKES,
    INVALID_PARAMS,
    MODERN,
    OWN,
    Id,
    RpcError,
    RpcRequest,
)
from genai_mcp.server import messages
from genai_mcp.server.messages import (
    News,
    Outgoing,
    Question,
    Result,
    Steps,
    failed,
    result_of_error,
)
from genai_mcp.server.offer import Offer
from genai_mcp.text import one_line

KEPT_SECONDS = 600.0
"""Seconds that a call waits for the client to return with the decision."""

MOST_KEPT = 64
"""Maximum number of waiting calls; beyond it the oldest one ends."""


class RunningCall:
    """A call. One thread at a time runs it; any thread can end it.

    Its steps start with the first `go_on`.
    """

    def __init__(
        self, name: str, arguments: Mapping[str, Any], begin: Callable[[Cancellation], Steps]
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.limits = Cancellation()
        self._steps = begin(self.limits)

    def go_on(self, given: bool | None = None) -> News | Question | Done:
        """Run to the next step. Raises the errors of the call."""
        try:
            return self._steps.send(given)
        except StopIteration as stop:
            return Done(stop.value)

    def end(self) -> None:
        """Cancel the call; the thread that runs it gets the error."""
        self.limits.cancel()

    def drop(self) -> None:
        """Discard a call that no thread runs."""
        self.end()
        self._steps.close()


@frozen
class Done:
    result: Result


@frozen
class _Kept:
    work: RunningCall
    question: Question
    until: float


class Waiting:
    """The calls that wait for their client to return, by unguessable names.

    Args:
        clock: Source of time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def keep(self, work: RunningCall, question: Question) -> str:
        """Store a call and return its name."""
        name = secrets.token_urlsafe(24)
        with self._lock:
            now = self._clock.monotonic()
            self._kept[name] = _Kept(work, question, now + KEPT_SECONDS)
            gone = [key for key, kept in self._kept.items() if kept.until < now]
            gone += list(self._kept)[: max(0, len(self._kept) - len(gone) - MOST_KEPT)]
            dropped = [self._kept.pop(key) for key in dict.fromkeys(gone)]
        for kept in dropped:
            kept.work.drop()
        return name

    def take(self, name: str, tool: str, arguments: Mapping[str, Any]) -> _Kept | None:
        """Remove and return a call; None if it is unknown, or has another tool or arguments."""
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.until < self._clock.monotonic():
                return None
            if (kept.work.name, kept.work.arguments) != (tool, arguments):
                return None
            return self._kept.pop(name)

    def close(self) -> None:
        with self._lock:
            dropped = list(self._kept.values())
            self._kept.clear()
        for kept in dropped:
            kept.work.drop()


SLOW = ("tools/call", "tools/list")
"""Methods that can take long."""

Sending: TypeAlias = "Generator[Outgoing, None, None]"


class RequestExchange:
    """One request and the messages sent back for it. Iterate once, in any thread. The last message
    is the answer; a cancelled exchange has none.

    Args:
        send: Generator of the messages.
        refusal: Why the request is refused; None if it is not.

    Attributes:
        is_quick: Whether the answer needs no waiting.
        work: The call; None before its start.
    """

    def __init__(
        self,
        request: RpcRequest,
        send: Callable[[RequestExchange], Sending],
        refusal: RpcError | None = None,
    ) -> None:
        self.request = request
        self.refusal = refusal
        self.is_quick = refusal is not None or request.method not in SLOW
        self.cancelled = False
        self.work: RunningCall | None = None
        self._send = send

    def __iter__(self) -> Sending:
        return self._send(self)

    def begin(self, work: RunningCall) -> None:
        self.work = work
        if self.cancelled:  # while it was running
            work.end()

    def cancel(self) -> None:
        """Cancel the exchange: no answer is sent."""
        self.cancelled = True
        work = self.work
        if work is not None:
            work.end()


SECONDS = 600.0
"""Seconds that a human has to decide."""


class _Asked:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: rpc.RpcAnswer | None = None


class Asking:
    """The questions to the client in one session. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[Id, _Asked] = {}

    def ask(self, question: Question, limits: Cancellation) -> Generator[Outgoing, None, bool]:
        """Yield the messages of a question, and return whether the answer is yes. Without an answer
        in time the result is False, and the client receives a cancellation.
        """
        asked = _Asked()
        id = f"ask-{next(self._numbers)}"
        with self._lock:
            self._open[id] = asked
        params = messages.elicitation(question)
        try:
            yield {"jsonrpc": "2.0", "id": id, "method": messages.ELICIT, "params": params}
            with limits.on_cancel(asked.done.set):
                asked.done.wait(SECONDS)
        finally:
            with self._lock:
                self._open.pop(id, None)
        if asked.answer is None:
            yield messages.notification(CANCELLED, {"requestId": id})
            return False
        return asked.answer.error is None and messages.is_allowed(asked.answer.result)

    def answered(self, answer: rpc.RpcAnswer) -> None:
        """Record an answer of the client; answers without a question are ignored."""
        with self._lock:
            asked = self._open.pop(answer.id, None) if answer.id is not None else None
        if asked is not None:
            asked.answer = answer
            asked.done.set()


_ASK_SINCE = HANDSHAKES[:2]  # older clients do not support elicitation
_VERSION, _CAPABILITIES = f"{OWN}protocolVersion", f"{OWN}clientCapabilities"
_OF_REQUEST = (_VERSION, _CAPABILITIES, f"{OWN}clientInfo")


@frozen
class Caller:
    """Properties of the client that sent a request.

    Attributes:
        modern: Whether the request is self-contained, without a session.
        asks: Whether the client can ask its user.
    """

    modern: bool
    asks: bool


def is_alone(request: RpcRequest) -> bool:
    """Whether a request contains what a session would otherwise provide."""
    meta = request.params.get("_meta")
    return isinstance(meta, Mapping) and any(name in meta for name in _OF_REQUEST)


def caller_of(request: RpcRequest, version: str, capabilities: Mapping[str, Any]) -> Caller:
    """Return the properties of the client that sent a request.

    Args:
        request: The request.
        version: Version of the session; empty without a session.
        capabilities: Capabilities of the client in the session.

    Raises:
        RpcError: The request lacks a required field.
    """
    if is_alone(request):
        return _of_meta(request.params["_meta"])
    if request.method in ("initialize", "ping"):
        return Caller(modern=False, asks=False)
    if not version:
        raise RpcError(
            INVALID_PARAMS,
            f"a request must have {_VERSION} and {_CAPABILITIES} in its _meta ({MODERN}), or "
            "follow initialize",
        )
    return Caller(modern=False, asks=version in _ASK_SINCE and messages.can_ask(capabilities))


def _of_meta(meta: Mapping[str, Any]) -> Caller:
    version, capabilities = meta.get(_VERSION), meta.get(_CAPABILITIES)
    if not isinstance(version, str) or not isinstance(capabilities, Mapping):
        raise RpcError(
            INVALID_PARAMS, f"_meta lacks {_VERSION} or {_CAPABILITIES}, or they are invalid"
        )
    if version != MODERN:
        raise messages.wrong_version(version)
    return Caller(modern=True, asks=messages.can_ask(capabilities))


MOST_CALLS = 32
"""Maximum number of concurrent requests of all clients."""


class SharedState:
    """State shared by the sessions of all clients. Thread-safe.

    Args:
        offer: The tools and features offered.

    Attributes:
        waiting: Calls that wait for their client to return.
        places: Semaphore for requests in progress.
    """

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.waiting = Waiting(offer.clock)
        self.places = threading.BoundedSemaphore(MOST_CALLS)

    def close(self) -> None:
        self.waiting.close()


MOST_NEWS = 1000
"""Maximum number of progress notifications per call."""

_APPROVAL = "approval"  # key of the approval in requests and answers


class SessionCalls:
    """The calls of one session. Thread-safe."""

    def __init__(self, service: SharedState, asking: Asking) -> None:
        self._service = service
        self._asking = asking

    def answer(self, exchange: RequestExchange, caller: Caller) -> Sending:
        """Run a call and yield the messages for it. Raises `RpcError`."""
        request = exchange.request
        work, question, given = self._taken_up(request, caller)
        step: News | Question | Done | None = question
        exchange.begin(work)
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
                    given = yield from self._asking.ask(step, work.limits)
                elif token is not None and count < MOST_NEWS:
                    count += 1
                    yield _progress(token, count, step)
                step = None
        finally:
            if not is_kept:
                work.drop()

    def _taken_up(
        self, request: RpcRequest, caller: Caller
    ) -> tuple[RunningCall, Question | None, bool | None]:
        """Start a call, or find the waiting one. Returns it with its unanswered question, or with
        the answer. Raises `RpcError`.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "a call must have a name and an object as arguments")
        state = request.params.get("requestState")
        if caller.modern and state is not None:
            kept = self._service.waiting.take(str(state), name, arguments)
            if kept is None:
                raise RpcError(INVALID_PARAMS, "unknown or expired requestState")
            responses = request.params.get("inputResponses")
            if not isinstance(responses, Mapping) or _APPROVAL not in responses:
                return kept.work, kept.question, None
            return kept.work, None, messages.is_allowed(responses[_APPROVAL])
        offered = self._service.offer.tool(name)
        if offered is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {one_line(name)}")
        begin = self._service.offer.begin
        return (
            RunningCall(name, arguments, lambda limits: begin(offered, arguments, limits)),
            None,
            None,
        )

    def _input_required(
        self, request: RpcRequest, work: RunningCall, question: Question
    ) -> Outgoing:
        """Return the answer that makes the client ask its user and repeat the call."""
        asked = {"method": messages.ELICIT, "params": messages.elicitation(question)}
        value = {
            "resultType": "input_required",
            "inputRequests": {_APPROVAL: asked},
            "requestState": self._service.waiting.keep(work, question),
        }
        return messages.result(request.id, value, modern=True)


def _next(work: RunningCall, given: bool | None) -> News | Question | Done:
    try:
        return work.go_on(given)
    except GenaiError as error:
        return Done(result_of_error(error))


def _refused(request: RpcRequest, question: Question, caller: Caller) -> Outgoing:
    """Return the answer for a client that would have to ask its user and cannot."""
    if not caller.modern:
        return messages.result(request.id, failed(question.refusal), modern=False)
    needed: Mapping[str, Any] = {"requiredCapabilities": {"elicitation": {}}}
    return messages.error(request.id, messages.MISSING_CAPABILITY, question.refusal, needed)


def _token(params: Mapping[str, Any]) -> Id | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return token if type(token) in (int, str) else None


def _progress(token: Id, count: int, news: News) -> Outgoing:
    params = {"progressToken": token, "progress": count, "message": news.text}
    return messages.notification("notifications/progress", params)

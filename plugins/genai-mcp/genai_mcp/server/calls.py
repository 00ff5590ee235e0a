"""The server of the SDK with our tools, and calls of them, with approval and cancellation.

    Calls.answer → _find_call → RunningCall.advance (a thread) → ProgressUpdate
                                                               → ApprovalRequest → _ask, or Waiting
                                                               → the result

`RunningCall` is one call from its beginning to its result. It can outlive a request if the client
has to ask its user (`Waiting`). Before 2026-07-28 the client is asked while it waits.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio import to_thread
from attrs import frozen
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from genai_host import __version__
from genai_host.api import Cancellation, Clock
from genai_host.errors import GenaiError
from genai_mcp.server.messages import (
    FORM,
    ApprovalRequest,
    CallStep,
    ProgressUpdate,
    Steps,
    failed,
    is_allowed,
    result_of_error,
)
from genai_mcp.server.offer import Offer
from genai_mcp.text import one_line

WAITING_SECONDS = 600.0
"""Seconds that a call waits for the client to return with the decision."""

MAX_WAITING = 64
"""Maximum number of waiting calls; beyond it the oldest one ends."""

DECISION_SECONDS = 600.0
"""Seconds that a human has to decide."""

MAX_CALLS = 32
"""Maximum number of concurrent requests of all clients."""

GRACE = 3.0
"""Seconds at the end for calls to end, and for answers to be written."""

MAX_UPDATES = 1000
"""Maximum number of progress notifications per call."""

USER = "genai_host.user"
"""Key of the user in the ASGI scope of a request over HTTP."""

_ASK_SINCE = "2025-06-18"  # older versions of MCP have no elicitation
_APPROVAL = "approval"  # key of the approval in requests and answers

_log = logging.getLogger(__name__)


def close_within_grace(what: str, *works: Callable[[], object]) -> None:
    """Run functions that end work concurrently, and wait up to `GRACE` seconds: they run code of
    plugins, which may not return.
    """

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001 - a plugin may raise anything
            _log.warning("an error occurred while %s was closed", what, exc_info=True)

    until = time.monotonic() + GRACE
    threads = []
    for work in works:
        thread = threading.Thread(target=run, args=[work], name="mcp close", daemon=True)
        try:
            thread.start()
            threads.append(thread)
        except RuntimeError:  # the system cannot start more threads
            run(work)
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


class RunningCall:
    """A call. One thread at a time runs it; any thread can end it.

    Its steps start with the first `advance`.
    """

    def __init__(
        self, name: str, arguments: Mapping[str, Any], begin: Callable[[Cancellation], Steps]
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.limits = Cancellation()
        self._steps = begin(self.limits)

    def advance(self, given: bool | None = None) -> CallStep:
        """Run to the next step, or to the result."""
        try:
            return self._steps.send(given)
        except StopIteration as stop:
            result: CallToolResult = stop.value
            return result
        except GenaiError as error:
            return result_of_error(error)

    def drop(self) -> None:
        """Discard a call that no thread runs."""
        self.limits.cancel()
        self._steps.close()


@frozen
class _WaitingCall:
    work: RunningCall
    approval: ApprovalRequest
    until: float


class Waiting:
    """The calls that wait for their client to return, by unguessable names."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[str, _WaitingCall] = {}

    def keep(self, work: RunningCall, approval: ApprovalRequest) -> tuple[str, list[RunningCall]]:
        """Store a call. Returns its name, and the calls to drop: expired ones, or the oldest."""
        name = secrets.token_urlsafe(24)
        with self._lock:
            now = self._clock.monotonic()
            self._calls[name] = _WaitingCall(work, approval, now + WAITING_SECONDS)
            gone = [key for key, waiting in self._calls.items() if waiting.until < now]
            gone += list(self._calls)[: max(0, len(self._calls) - len(gone) - MAX_WAITING)]
            dropped = [self._calls.pop(key) for key in dict.fromkeys(gone)]
        return name, [waiting.work for waiting in dropped]

    def take(self, name: str, tool: str, arguments: Mapping[str, Any]) -> _WaitingCall | None:
        """Remove and return a call; None if it is unknown, or has another tool or arguments."""
        with self._lock:
            waiting = self._calls.get(name)
            if waiting is None or waiting.until < self._clock.monotonic():
                return None
            if (waiting.work.name, waiting.work.arguments) != (tool, arguments):
                return None
            return self._calls.pop(name)

    def close(self) -> None:
        with self._lock:
            dropped = list(self._calls.values())
            self._calls.clear()
        close_within_grace("a waiting call", *(waiting.work.drop for waiting in dropped))


class Calls:
    """The calls of all clients."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._waiting = Waiting(offer.clock)
        self._places = threading.BoundedSemaphore(MAX_CALLS)

    async def answer(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Run a call. Raises `MCPError`."""
        if not self._places.acquire(blocking=False):
            raise MCPError(INTERNAL_ERROR, "too many concurrent requests")
        try:
            return await self._answer(context, params)
        finally:
            self._places.release()

    def close(self) -> None:
        self._waiting.close()

    async def _answer(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        scope = {} if context.request is None else context.request.scope
        user = scope.get(USER)  # of this request: sessions are not bound to users
        work, approval, given = await self._find_call(params, user, modern=modern)
        count, ended = 0, [work]
        try:
            while True:
                step = approval or await _in_thread(work, given)
                approval = given = None
                if isinstance(step, CallToolResult):
                    return step
                if isinstance(step, ProgressUpdate):
                    count += 1
                    if count <= MAX_UPDATES:
                        await context.session.report_progress(count, message=step.text)
                elif not self._offer.can_ask:
                    return failed(step.refusal)
                elif not _can_ask(context):
                    return _refused(step, modern=modern)
                elif modern:
                    name, ended = self._waiting.keep(work, step)
                    return _input_required(name, step)
                else:
                    given = await _ask(context, step, self._offer.clock)
        finally:
            # this runs code of plugins, which would block all clients in the loop
            with anyio.CancelScope(shield=True):
                for each in ended:
                    await to_thread.run_sync(each.drop, limiter=anyio.CapacityLimiter(1))

    async def _find_call(
        self, params: CallToolRequestParams, user: str | None, *, modern: bool
    ) -> tuple[RunningCall, ApprovalRequest | None, bool | None]:
        """Start a call, or find the waiting one. Returns it with its unanswered approval, or with
        the answer. Raises `MCPError`.
        """
        name, arguments = params.name, params.arguments or {}
        if modern and params.request_state is not None:
            waiting = self._waiting.take(params.request_state, name, arguments)
            if waiting is None:
                raise MCPError(INVALID_PARAMS, "unknown or expired requestState")
            responses = params.input_responses or {}
            if _APPROVAL not in responses:
                return waiting.work, waiting.approval, None
            return waiting.work, None, is_allowed(responses[_APPROVAL])
        offered = await to_thread.run_sync(self._offer.tool, name)
        if offered is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {one_line(name)}")
        begin = self._offer.begin
        work = RunningCall(name, arguments, lambda limits: begin(offered, arguments, limits, user))
        return work, None, None


def _input_required(name: str, approval: ApprovalRequest) -> InputRequiredResult:
    """Return the answer that makes the client ask its user and repeat the call of this name."""
    form = ElicitRequestFormParams(message=approval.text, requested_schema=dict(FORM))
    return InputRequiredResult(
        input_requests={_APPROVAL: ElicitRequest(params=form)}, request_state=name
    )


async def _in_thread(work: RunningCall, given: bool | None) -> CallStep:
    """Run a call to its next step in a thread. It is cancelled with the request."""
    done = False

    async def cancel() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if not done:
                work.limits.cancel()

    # not the limiter of all threads: `MAX_CALLS` is the limit
    limiter = anyio.CapacityLimiter(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        step = await to_thread.run_sync(work.advance, given, limiter=limiter)
        done = True
        tasks.cancel_scope.cancel()
    return step


def _can_ask(context: ServerRequestContext[Any]) -> bool:
    """Whether the client can ask its user with a form."""
    if context.protocol_version < _ASK_SINCE:
        return False
    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def _ask(context: ServerRequestContext[Any], approval: ApprovalRequest, clock: Clock) -> bool:
    """Ask the user of a client that waits. Without an answer in time the result is False, and the
    client receives a cancellation.
    """
    loop, scope = asyncio.get_running_loop(), anyio.CancelScope()

    def give_up() -> None:
        loop.call_soon_threadsafe(scope.cancel)

    with scope, clock.call_later(DECISION_SECONDS, give_up):
        try:
            given = await context.session.elicit_form(
                approval.text, dict(FORM), related_request_id=context.request_id
            )
        except (MCPError, ValidationError):
            return False
        return is_allowed(given)
    return False


def _refused(approval: ApprovalRequest, *, modern: bool) -> CallToolResult:
    """Return the answer for a client that would have to ask its user and cannot."""
    if not modern:
        return failed(approval.refusal)
    needed: dict[str, Any] = {"requiredCapabilities": {"elicitation": {}}}
    raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, approval.refusal, needed)


PAGE = 100
"""Number of tools per page of a list."""

_CACHED = CacheHint(ttl_ms=60_000, scope="private")


class Service:
    """The MCP server of a host, for all clients; transports run `server`, which is the SDK's."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._calls = Calls(offer)
        self.server: Server[Any] = Server(
            "genai-host",
            version=__version__,
            cache_hints={"tools/list": _CACHED, "server/discover": _CACHED},
            get_tool_input_schema=offer.marked.get,
            on_list_tools=self._list,
            on_call_tool=self._calls.answer,
        )
        self.server.middleware.append(_hide_faults)

    def close(self) -> None:
        self._calls.close()

    async def find_headers(self, message: Any) -> None:
        """Look up which arguments a `tools/call` has in headers, which the SDK then validates."""
        params = message.get("params") if isinstance(message, dict) else None
        name = params.get("name") if isinstance(params, dict) else None
        if isinstance(name, str) and message.get("method") == "tools/call":
            await to_thread.run_sync(self._offer.tool, name)

    async def _list(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        after = _name_of_cursor(params.cursor if params is not None else None)
        tools = await to_thread.run_sync(self._offer.tools)
        names = [name for name in tools if name > after]
        following = None
        if len(names) > PAGE:
            following = urlsafe_b64encode(names[PAGE - 1].encode()).decode()
        page = [Tool.model_validate(tools[name].definition) for name in names[:PAGE]]
        return ListToolsResult(tools=page, next_cursor=following)


async def _hide_faults(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Log unexpected errors, which the SDK would send to clients."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        _log.warning("%s failed", one_line(ctx.method), exc_info=error)
        raise MCPError(INTERNAL_ERROR, "internal error; see the log of the server") from error


def _name_of_cursor(cursor: str | None) -> str:
    """Return the last tool of the previous page; empty for the first page."""
    if cursor is None:
        return ""
    try:
        name = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except ValueError:
        name = ""
    if not name:
        raise MCPError(INVALID_PARAMS, "unknown cursor")
    return name

"""Session with one server. The client of the SDK runs in an event loop, in a thread of its own.

    Connection.tools, Connection.call → mcp.Client (in the loop) → client.stdio | client.http

The SDK negotiates the version of the protocol, matches responses to requests, validates results,
and notifies the server of cancelled requests. Its errors become errors of the host here.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from genai_host import __version__
from genai_host.api import CancelToken
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ServiceUnavailable,
    error_of_status,
)
from genai_mcp.client.servers import HTTP_STATUS, SESSION_GONE, McpServer, SessionGone
from genai_mcp.text import one_line

MAX_PAGES = 100
"""Maximum number of pages of a list; further pages are ignored."""

GRACE = 8.0
"""Seconds for a session to end, including those of a child process (`client.stdio`)."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)
_UNLOGGED = logging.NullHandler()


class Connection:
    """Session with a server. Thread-safe. `announces` is whether the server reports changes of its
    tools, and `changed` whether it has; the caller resets that."""

    def __init__(self, server: McpServer) -> None:
        self.changed = False
        self.announces = False
        self._name = server.name
        self._end: GenaiError | None = None
        self._closing = threading.Lock()
        # the SDK logs messages with their contents; what fails is reported by exceptions
        for name in ("mcp", "client"):
            logging.getLogger(name).addHandler(_UNLOGGED)
        self._exit = contextlib.ExitStack()
        self._portal = self._exit.enter_context(start_blocking_portal(name=f"mcp {server.name}"))
        self._stop = self._portal.call(anyio.Event)
        self._opened: Future[Client] = Future()
        self._session = self._portal.start_task_soon(self._hold, server)
        self._session.add_done_callback(lambda _: self._opened.cancel())

    @property
    def alive(self) -> bool:
        """Whether it is usable; a connection never recovers."""
        return self._end is None and not self._session.done()

    @property
    def about(self) -> tuple[str, str]:
        """Name and version of the server, and the version of MCP; empty before `open`."""
        if not self._is_open():
            return "", ""
        info = self._client.server_info
        named = "" if info is None else one_line(f"{info.name} {info.version}")
        return named, self._client.protocol_version

    def open(self, limits: CancelToken) -> None:
        """Wait until the session is open. If `limits` end earlier, opening continues.

        Raises:
            ConfigurationError: The server cannot be started, or its URL is invalid.
            ProviderError: The server or the connection failed.
            GenaiError: The error of `limits`.
        """
        woken = threading.Event()
        self._opened.add_done_callback(lambda _: woken.set())
        with limits.on_cancel(woken.set):
            woken.wait()
        if not self._opened.done():
            limits.check()
        if not self._is_open():
            raise self._why()

    def tools(self, limits: CancelToken) -> tuple[list[Tool], float]:
        """Return the definitions of tools, and the seconds for which the server declares them
        valid. Raises the same errors as `open`, and `SessionGone`.
        """
        return self._run(self._list, limits)

    def call(self, tool: str, arguments: Mapping[str, Any], limits: CancelToken) -> CallToolResult:
        """Call a tool. Raises the same errors as `tools`."""

        async def call() -> CallToolResult | InputRequiredResult:
            return await self._client.session.call_tool(
                tool, dict(arguments), allow_input_required=True
            )

        result = self._run(call, limits)
        if isinstance(result, InputRequiredResult):
            methods = {each.method for each in (result.input_requests or {}).values()}
            wanted = one_line(", ".join(sorted(methods))) or "unspecified"
            raise BadRequest(f"{self._name} requires input, which is not supported: {wanted}")
        return result

    def close(self) -> None:
        """Close the connection within seconds, even with requests in progress."""
        self.ended(ServiceUnavailable(f"{self._name} was closed"))
        with self._closing:
            if not self._session.done():
                if self._is_open():
                    self._portal.call(self._stop.set)
                    wait([self._session], GRACE)
                self._session.cancel()
            self._exit.close()

    def ended(self, error: GenaiError) -> None:
        """Record why requests fail from now on; the first reason stays."""
        self._end = self._end or error

    @property
    def _client(self) -> Client:
        return self._opened.result()

    def _is_open(self) -> bool:
        return self._opened.done() and not self._opened.cancelled()

    async def _hold(self, server: McpServer) -> None:
        """Keep the session open until `close`, and follow the changes that the server reports."""
        if server.transport == "http":
            from genai_mcp.client.http import http_transport as transport
        else:
            from genai_mcp.client.stdio import stdio_transport as transport
        client = Client(
            transport(server, self.ended),
            client_info=Implementation(name="genai-host", version=__version__),
            message_handler=self._received,
            cache=None,
        )
        async with client:
            listed = client.server_capabilities.tools
            announces = listed is not None and listed.list_changed is True
            modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
            # over HTTP, it is unknown whether older servers can report them
            self.announces = announces and not modern and server.transport == "stdio"
            async with anyio.create_task_group() as tasks:
                if announces and modern:
                    tasks.start_soon(self._listen, client)
                self._opened.set_result(client)
                await self._stop.wait()
                tasks.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        """Follow the changes until their stream ends; lists expire anyway."""
        try:
            async with client.listen(tools_list_changed=True) as changes:
                self.announces = self.changed = True
                async for _ in changes:
                    self.changed = True
        except (MCPError, SubscriptionLost) as error:
            _log.debug("%s reports no changes any more: %s", self._name, one_line(str(error)))
        finally:
            self.announces, self.changed = False, True  # changes may have been missed

    async def _received(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.changed = True

    async def _list(self) -> tuple[list[Tool], float]:
        found: list[Tool] = []
        seconds, cursor = float("inf"), None
        if self._client.server_capabilities.tools is None:
            return [], 0.0
        for _ in range(MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor)
            page = await self._client.session.list_tools(params=params)
            found += page.tools
            seconds = min(seconds, (page.ttl_ms or 0) / 1000)
            if page.next_cursor in (None, cursor):
                return found, seconds
            cursor = page.next_cursor
        _log.warning(
            "%s has more than %d pages of tools; further pages are ignored", self._name, MAX_PAGES
        )
        return found, seconds

    def _run(self, function: Callable[[], Awaitable[_T]], limits: CancelToken) -> _T:
        """Run a function in the loop. What `limits` end is cancelled there as well."""
        if not self.alive:
            raise self._why()
        try:
            future = self._portal.start_task_soon(function)
        except RuntimeError:  # closed meanwhile
            raise self._why() from None

        def cancel() -> None:
            future.cancel()

        try:
            with limits.on_cancel(cancel):
                return future.result()
        except CancelledError:
            limits.check()
            raise self._why() from None
        except Exception as error:
            raise self._translated(error) from error

    def _why(self) -> Exception:
        """Return why the session has ended."""
        failed = self._session.done() and not self._session.cancelled()
        error = self._session.exception() if failed else None
        if error is not None and self._end is None:
            return self._translated(error)
        return copy.copy(self._end) or ServiceUnavailable(f"{self._name} was closed")

    def _translated(self, error: BaseException) -> Exception:
        """Return the error of the host for an error of the SDK."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, GenaiError):
            return error
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            what = one_line(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
            return MalformedReply(f"{self._name} sent an invalid result: {what}")
        if not isinstance(error, MCPError):
            return MalformedReply(f"{self._name} violates the protocol: {one_line(str(error))}")
        message = one_line(error.message)
        status = error.data.get(HTTP_STATUS) if isinstance(error.data, Mapping) else None
        if isinstance(status, int):
            refusal = error_of_status(status, message)
            if isinstance(refusal, AuthenticationFailed):
                refusal.hint = (
                    'set "headers", for example {"Authorization": "Bearer ${A_VARIABLE}"}'
                )
            return refusal
        if error.code == SESSION_GONE:
            return SessionGone()
        if error.code == CONNECTION_CLOSED:
            return copy.copy(self._end) or IncompleteReply(f"{self._name}: {message}")
        if error.code == PARSE_ERROR:
            return MalformedReply(f"{self._name}: {message}")
        return BadRequest(f"{self._name} returned an error: {message} (error {error.code})")

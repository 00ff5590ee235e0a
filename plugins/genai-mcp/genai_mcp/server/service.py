"""The server of the SDK with our tools."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from anyio import to_thread
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, ListToolsResult, PaginatedRequestParams, Tool
from pydantic import ValidationError

from genai_host import __version__
from genai_mcp.server.calls import Calls
from genai_mcp.server.offer import Offer
from genai_mcp.text import one_line

_log = logging.getLogger(__name__)

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

"""The tools of one server, as a source of tools."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from genai_host.api import CancelToken, Tool, ToolContext, ToolOutput, ToolSource
from genai_host.errors import ServiceUnavailable
from genai_mcp.client.connection import Connection
from genai_mcp.client.content import output_of
from genai_mcp.client.definitions import tools_of
from genai_mcp.client.servers import Server
from genai_mcp.client.session import PROBE, Session
from genai_mcp.protocol import MODERN

FRESH = 60.0
"""Seconds that a list holds where the server says neither how long it does, nor when it
changes."""

_LONGEST = 3600.0  # seconds that a list may hold, whatever the server says

_log = logging.getLogger(__name__)


class McpSource(ToolSource):
    """The server is started, or connected to, when its tools are first asked for, and again
    where it has ended since.

    probe   seconds that a server may take to say which version it speaks
    """

    def __init__(self, server: Server, probe: float = PROBE) -> None:
        self.name = server.name
        self._server = server
        self._probe = probe
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._tools: list[Tool] | None = None
        self._until = 0.0

    def tools(self, limits: CancelToken) -> list[Tool]:
        """Raises `ConfigurationError`, `ProviderError`, and whatever ends `limits`."""
        with self._lock:
            limits.check()
            is_new = not self._is_alive()
            try:
                return self._listed(limits)
            except ServiceUnavailable:
                if is_new or self._is_alive():
                    raise
            # it had ended, and nobody had noticed yet
            return self._listed(limits)

    def about(self) -> tuple[str, str]:
        """What the server says that it is, and the version of MCP that is spoken."""
        session = self._session
        return ("", "") if session is None else (session.server, session.version)

    def expire(self) -> None:
        """Ask the server anew when its tools are next asked for."""
        self._until = 0.0

    def close(self) -> None:
        self._closed.set()  # not under the lock: somebody may wait for the server under it
        connection = self._connection
        if connection is not None:
            connection.close()

    def _listed(self, limits: CancelToken) -> list[Tool]:
        session, connection = self._live()
        changed, connection.changed = connection.changed, False
        if self._tools is not None and not changed and time.monotonic() < self._until:
            return self._tools
        try:
            definitions, seconds = session.tools(limits)
        except BaseException:
            connection.changed = connection.changed or changed
            raise
        self._tools = tools_of(
            self.name,
            definitions,
            self._call,
            has_headers=self._server.transport == "http" and session.version == MODERN,
        )
        usual = _LONGEST if session.announces else FRESH
        self._until = time.monotonic() + min(max(seconds, usual), _LONGEST)
        return self._tools

    def _live(self) -> tuple[Session, Connection]:
        if self._server.fault is not None:
            raise copy.copy(self._server.fault)
        if not self._closed.is_set() and not self._is_alive():
            before, self._connection = self._connection, None
            if before is not None:
                _log.warning("%s is started anew", self.name)
                before.close()
            self._tools = None
            self._connection = _connected(self._server)
            self._session = Session(self.name, self._connection, self._probe)
            if self._closed.is_set():  # meanwhile
                self._connection.close()
        if self._closed.is_set():
            raise ServiceUnavailable(f"{self.name} is closed")
        assert self._session is not None
        assert self._connection is not None
        return self._session, self._connection

    def _is_alive(self) -> bool:
        return self._connection is not None and self._connection.alive

    def _call(
        self, name: str, arguments: Mapping[str, Any], headers: Mapping[str, str], run: ToolContext
    ) -> ToolOutput:
        with self._lock:
            session, _ = self._live()
        return output_of(session.call(name, arguments, run.limits, headers))


def _connected(server: Server) -> Connection:
    """Imported where it is needed: HTTP takes long to import, and many need none."""
    if server.transport == "http":
        from genai_mcp.client.http import HttpConnection

        return HttpConnection(server)
    from genai_mcp.client.stdio import StdioConnection

    return StdioConnection(server)

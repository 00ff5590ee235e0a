"""The tools of a server, by the suite that strangers' sources run."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest
from genai_mcp.client.servers import McpServer
from genai_mcp.client.source import McpSource

from genai_host.api import ToolSource, hookimpl
from genai_host_testing.services import mcp as mcp_service
from genai_host_testing.suites import ToolSourceSuite


class _OneServer:
    """The plugin as it is where one server is named, over stdio: a source of its own each
    time."""

    @hookimpl
    def genai_tool_sources(self) -> Iterable[ToolSource]:
        command = ("-m", mcp_service.__name__)
        yield McpSource(McpServer("shop", command=sys.executable, args=command))


@pytest.mark.process
class TestAServer(ToolSourceSuite):
    plugin = _OneServer()
    source = "shop"
    samples = {"add": [({"a": 1, "b": 2}, "3")], "dotted_name_1": [({}, "dotted")]}

    def unusable_source(self) -> ToolSource:
        return McpSource(
            McpServer("shop", command=sys.executable, args=("-c", "raise SystemExit(1)"))
        )

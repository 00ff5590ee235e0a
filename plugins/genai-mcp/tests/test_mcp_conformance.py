"""The tools of a server, by the suite that strangers' sources run."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest
from genai_mcp.client.servers import McpServer
from genai_mcp.client.source import McpSource

from genai_host.api import ToolSource, hookimpl
from genai_host_testing.suites import ToolSourceSuite


class _OneServer:
    """The plugin as it is where one server is named, over stdio: a source of its own each
    time."""

    command: tuple[str, ...] = ()

    @hookimpl
    def genai_tool_sources(self) -> Iterable[ToolSource]:
        yield McpSource(McpServer("shop", command=self.command[0], args=self.command[1:]))


@pytest.mark.process
class TestAServer(ToolSourceSuite):
    plugin = _OneServer()
    source = "shop"
    samples = {"add": [({"a": 1, "b": 2}, "3")], "dotted_name_1": [({}, "dotted")]}

    @pytest.fixture(autouse=True)
    def _shop(self, mcp_shop: tuple[str, ...]) -> None:
        self.plugin.command = mcp_shop

    def unusable_source(self) -> ToolSource:
        return McpSource(
            McpServer("shop", command=sys.executable, args=("-c", "raise SystemExit(1)"))
        )

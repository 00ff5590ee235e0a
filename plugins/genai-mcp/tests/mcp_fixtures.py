"""Fixtures of the tests of the MCP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from genai_host.api import Feature, Tool
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

from .mcp_clients import NEW, OLD, McpClient, service_of

MakeClient = Callable[..., McpClient]


@pytest.fixture(params=[NEW, OLD])
def version(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture(autouse=True)
def closing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the clients of a test."""
    clients: list[McpClient] = []
    original = McpClient.__init__

    def init(self: McpClient, *args: Any) -> None:
        clients.append(self)
        original(self, *args)

    monkeypatch.setattr(McpClient, "__init__", init)
    yield
    for each in clients:
        each.close()


@pytest.fixture
def make_client(make_host: MakeHost, version: str) -> MakeClient:
    """A client of a host with tools and features: `make_client(tool("a"), approved=["a"])`."""

    def make(*own: Tool | Feature[Any], capabilities: Any = None, **choice: Any) -> McpClient:
        tools = [each for each in own if isinstance(each, Tool)]
        features = [each for each in own if isinstance(each, Feature)]
        host = make_host(own=InlinePlugin(tools=tools, features=features))
        return McpClient(service_of(host, **choice), version, capabilities)

    return make

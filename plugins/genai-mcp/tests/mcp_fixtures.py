"""Fixtures of the tests of the MCP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from genai_host.api import Feature, Tool
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

from .mcp_talk import NEW, OLD, Talk, service_of

TalkTo = Callable[..., Talk]


@pytest.fixture(params=[NEW, OLD])
def version(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture(autouse=True)
def closing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the clients of a test."""
    made: list[Talk] = []
    usual = Talk.__init__

    def init(self: Talk, *given: Any) -> None:
        made.append(self)
        usual(self, *given)

    monkeypatch.setattr(Talk, "__init__", init)
    yield
    for each in made:
        each.close()


@pytest.fixture
def talk_to(make_host: MakeHost, version: str) -> TalkTo:
    """A client of a host with these tools and features: `talk_to(tool("a"), approved=["a"])`."""

    def make(*own: Tool | Feature[Any], capabilities: Any = None, **choice: Any) -> Talk:
        tools = [each for each in own if isinstance(each, Tool)]
        features = [each for each in own if isinstance(each, Feature)]
        host = make_host(own=InlinePlugin(tools=tools, features=features))
        return Talk(service_of(host, **choice), version, capabilities)

    return make

"""A client of the MCP server, without a transport."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from genai_mcp import rpc
from genai_mcp.server.calls import RequestExchange, SharedState
from genai_mcp.server.offer import Choice, Offer
from genai_mcp.server.session import ServerSession

from genai_host import Host
from genai_host.api import Tool, ToolContext

NEW, OLD = "2026-07-28", "2025-11-25"
OWN = "io.modelcontextprotocol/"


class Talk:
    """A client without a transport.

    version        that it speaks; it shakes hands if that wants it
    capabilities   of the client
    """

    def __init__(self, service: SharedState, version: str, capabilities: Any = None) -> None:
        self.session = ServerSession(service)
        self._meta: dict[str, Any] = {}
        self._last = 0
        capabilities = capabilities or {}
        if version == NEW:
            self._meta = {
                f"{OWN}protocolVersion": NEW,
                f"{OWN}clientCapabilities": capabilities,
            }
        else:
            asked = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {}}
            self.opened = self.ask("initialize", **asked)
            self.tell("notifications/initialized")

    def begin(
        self, method: str, meta: Mapping[str, Any] | None = None, **params: Any
    ) -> RequestExchange:
        self._last += 1
        all_meta = {**self._meta, **(meta or {})}
        if all_meta:
            params["_meta"] = all_meta
        exchange = self.session.receive(rpc.RpcRequest(self._last, method, params))
        assert exchange is not None
        return exchange

    def tell(self, method: str, **params: Any) -> None:
        assert self.session.receive(rpc.Notification(method, params)) is None

    def ask(self, method: str, meta: Mapping[str, Any] | None = None, **params: Any) -> Any:
        """The answer: its result, or its error."""
        [answer] = as_sent(self.begin(method, meta, **params))
        assert answer["id"] == self._last
        return answer.get("result", answer.get("error"))

    def call(self, name: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=name, arguments=arguments)


def as_sent(exchange: RequestExchange) -> Iterator[Any]:
    """The messages, as they are once they were written and read."""
    for message in exchange:
        yield json.loads(json.dumps(message, default=dict))


def text(result: Any) -> str:
    return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")


def repeat(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return str(arguments.get("say", ""))


def service_of(host: Host, **choice: Any) -> SharedState:
    return SharedState(Offer(host, Choice(**choice)))


def tool(name: str, run: Any = repeat, **fields: Any) -> Tool:
    return Tool(name, f"It is {name}.", run, {"properties": {"say": {}}}, **fields)


@pytest.fixture(params=[NEW, OLD])
def version(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value

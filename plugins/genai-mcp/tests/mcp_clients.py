"""Clients of the MCP server: one that sends and receives messages without a transport, and the
official one."""

from __future__ import annotations

import json
import queue
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import anyio
import mcp_types
from anyio.from_thread import start_blocking_portal
from genai_mcp.server.calls import Service
from genai_mcp.server.offer import Choice, Offer
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from genai_host import Host
from genai_host.api import Feature, NoSettings, Tool, ToolContext

NEW, OLD = "2026-07-28", "2025-11-25"
OWN = "io.modelcontextprotocol/"
NO_META: Mapping[str, Any] = {}
META = {f"{OWN}protocolVersion": NEW, f"{OWN}clientCapabilities": {}}
MODES = [("legacy", OLD), ("auto", NEW), (NEW, NEW)]
"""How the official client calls the eras of the protocol, and the versions that it uses then."""


class McpClient:
    """A client without a transport.

    Args:
        service: The server.
        version: Version that it uses; it opens a session if that has sessions.
        capabilities: Its capabilities.
    """

    def __init__(self, service: Service, version: str, capabilities: Any = None) -> None:
        self._exit = ExitStack()
        self._portal = self._exit.enter_context(start_blocking_portal(name="client"))
        self._write, incoming = anyio.create_memory_object_stream[Any](100)
        outgoing, self._read = anyio.create_memory_object_stream[Any](2000)
        server = service.server
        self._serving = self._portal.start_task_soon(
            server.run, incoming, outgoing, server.create_initialization_options()
        )
        self._receiving = self._portal.start_task_soon(self._receive)
        self._received: queue.Queue[Any] = queue.Queue()
        self._meta: dict[str, Any] = {}
        self._last = 0
        own = {"name": "client", "version": "1"}
        capabilities = {} if capabilities is None else capabilities
        if version == NEW:
            self._meta = {f"{OWN}protocolVersion": NEW, f"{OWN}clientCapabilities": capabilities}
        elif version:
            options = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": own}
            self.opened = self.ask("initialize", **options)
            self.notify("notifications/initialized")

    def send(self, message: Mapping[str, Any]) -> None:
        read = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message})
        self._portal.call(self._write.send, SessionMessage(read))

    def begin(self, method: str, meta: Mapping[str, Any] | None = None, **params: Any) -> int:
        """Send a request, and return its id."""
        self._last += 1
        all_meta = {**self._meta, **(meta or {})}
        if all_meta:
            params["_meta"] = all_meta
        self.send({"id": self._last, "method": method, "params": params})
        return self._last

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def receive(self) -> Any:
        """The next message."""
        return self._received.get(timeout=30)

    def all_until(self, id: int) -> Iterator[Any]:
        """The messages up to the answer to a request."""
        while True:
            message = self.receive()
            yield message
            if message.get("id") == id and "method" not in message:
                return

    def ask(self, method: str, meta: Mapping[str, Any] | None = None, **params: Any) -> Any:
        """The answer: its result, or its error."""
        [answer] = self.all_until(self.begin(method, meta, **params))
        return answer.get("result", answer.get("error"))

    def call(self, name: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=name, arguments=arguments)

    def close(self) -> None:
        """End the session, as a client that closes its end."""
        if self._receiving.done():
            return
        self._portal.call(self._write.close)
        self._serving.result(30)
        self._receiving.result(30)
        self._exit.close()

    async def _receive(self) -> None:
        async with self._read:
            async for sent in self._read:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._received.put(json.loads(text))


def text(result: Any) -> str:
    return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")


def repeat(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return str(arguments.get("say", ""))


def service_of(host: Host, **choice: Any) -> Service:
    return Service(Offer(host, Choice(**choice)))


def tool(name: str, run: Any = repeat, **fields: Any) -> Tool:
    return Tool(name, f"It is {name}.", run, {"properties": {"say": {}}}, **fields)


def feature(respond: Any) -> Feature[NoSettings]:
    return Feature("f", NoSettings, respond, roles={})


def with_client(
    server: Any, mode: Any, use: Callable[[Client], Awaitable[None]], **more: Any
) -> None:
    """Use the official client."""

    async def run() -> None:
        with anyio.fail_after(100):
            async with Client(server, mode=mode, **more) as client:
                await use(client)

    anyio.run(run)


def buy_with_consent(server: Any, mode: Any) -> None:
    """Call the tool `buy`, whose user is asked and agrees."""

    async def decide(context: Any, params: Any) -> mcp_types.ElicitResult:
        assert "May the tool buy run" in params.message
        return mcp_types.ElicitResult(action="accept", content={"allow": True})

    async def use(client: Client) -> None:
        result = await client.call_tool("buy", {})
        assert result.content == [mcp_types.TextContent(type="text", text="bought")]

    with_client(server, mode, use, elicitation_callback=decide)

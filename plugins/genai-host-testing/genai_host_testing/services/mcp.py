"""A server made with the official package `mcp`: over stdio when run as a program (`python -m`),
and over HTTP in a thread.
"""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def make_server(happened: Callable[[str], None] = lambda what: None) -> MCPServer:
    """Return a server with tools of each kind, which reports the events that a test checks."""
    server = MCPServer("shop", version="1.5")

    @server.tool(description="Add two numbers.")
    def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool(description="A picture.")
    def look() -> Image:
        return Image(data=PIXEL, format="png")

    @server.tool(description="One of each kind.", structured_output=False)
    def kinds() -> list[Any]:
        data = base64.b64encode(b"12345").decode()
        text = mcp_types.TextResourceContents(uri="file:///a.txt", text="what is in it")
        return [
            mcp_types.TextContent(type="text", text="a text"),
            mcp_types.AudioContent(type="audio", data=data, mime_type="audio/wav"),
            mcp_types.ResourceLink(type="resource_link", uri="file:///b.txt", name="b"),
            mcp_types.EmbeddedResource(type="resource", resource=text),
        ]

    @server.tool(description="Data.")
    def price(what: str) -> dict[str, int]:
        return {what: 3}

    @server.tool(description="It fails.")
    def fail() -> str:
        raise ToolError("sold out")

    @server.tool(name="dotted.name/1", description="A name that tools here cannot have.")
    def dotted() -> str:
        return "dotted"

    @server.tool(description="It takes very long.")
    async def wait() -> str:
        happened("waiting")
        try:
            await anyio.sleep_forever()
        finally:
            happened("cancelled")
        return "never"

    @server.tool(description="From now on there is another tool.")
    async def grow(ctx: Context[Any]) -> str:
        server.add_tool(lambda: "new", name="grown", description="It is new.")
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"

    return server


@contextmanager
def served(app: App) -> Iterator[str]:
    """Serve an ASGI application over HTTP in a thread and yield its address."""
    import uvicorn

    sock = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(30)
        sock.close()


def only_old(app: App, forgets: threading.Event) -> App:
    """Wrap the application as a server that only supports versions before 2026-07-28. It loses the
    session of the next request if `forgets` is set."""
    from starlette.responses import JSONResponse

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-protocol-version") == b"2026-07-28":
            error = {"code": -32600, "message": "Bad Request: Missing session ID"}
            refusal = {"jsonrpc": "2.0", "id": "server-error", "error": error}
            await JSONResponse(refusal, status_code=400)(scope, receive, send)
            return
        if forgets.is_set() and b"mcp-session-id" in headers:
            forgets.clear()
            await JSONResponse({}, status_code=404)(scope, receive, send)
            return
        await app(scope, receive, send)

    return wrapped


def main() -> None:
    make_server().run()


if __name__ == "__main__":
    main()

"""MCP (Model Context Protocol): a client for the servers in `mcp.json`, and the host as a server.

    McpSource.tools → _live → StdioConnection | HttpConnection
                    → Session.open → Session.tools → tools_of
    Tool.run → Session.call → output_of

client    the tools of MCP servers, as tools of the host
    servers      the file `mcp.json`, and the interface of a connection
    source       the tools of one server: definitions → tools, results → outputs
    session      versions of MCP, and what each requires
    stdio, http  the connections
server    the host's tools and features, as tools of an MCP server
    offer        what is offered, and how it is called: a generator of `Steps`
    calls        a call as a request: progress, approval, result
    messages     steps, messages to the client, results of tools
    session      a client's messages, and what is sent back for them; no I/O
    stdio, http  the transports
rpc       for both ends: JSON-RPC 2.0, lines, versions of MCP
mirrored  arguments that are repeated in headers
within    own limits, inside those of the caller

The client of the package `mcp` is not used: it is for asyncio, brings pydantic, an HTTP client
and a web server, and takes longer to import than all of the host, while four requests of the
protocol are needed. That package is the other end in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import Command, HttpRoute, ToolSource, hookimpl

__all__: list[str] = []


@hookimpl
def genai_tool_sources() -> Iterable[ToolSource]:
    from genai_host.errors import ConfigurationError
    from genai_mcp.client.servers import Server, read_servers
    from genai_mcp.client.source import McpSource

    try:
        servers = read_servers()
    except ConfigurationError as error:
        # the plugin is not broken, its file is: a source that says so, when it is asked
        servers = [Server("mcp", fault=error)]
    return [McpSource(server) for server in servers]


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command("mcp", "List MCP servers, or run genai-host as one.", "genai_mcp.cli:mcp")


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute("POST", "/mcp", "genai_mcp.server.http:Endpoint.post", max_body_size=4 << 20)
    yield HttpRoute("DELETE", "/mcp", "genai_mcp.server.http:Endpoint.delete")

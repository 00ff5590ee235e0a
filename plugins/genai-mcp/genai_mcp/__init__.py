"""MCP (Model Context Protocol), both ends of it: the tools of servers that the user names in
`mcp.json`, and the host as a server.

    McpSource.tools → _live → StdioConnection | HttpConnection
                    → Session.open → Session.tools → tools_of
    Tool.run → Session.call → output_of

client    the tools of others, as tools here
    servers      the file, and what stands in it
    source       the tools of one server
    session      versions of MCP, and what each wants
    connection   what both transports can; `stdio` and `http` are they
    definitions  from what a server says of its tools to tools
    content      from what they give to outputs
server    the host's tools and features, as tools of a server
    offer        what is offered, and how it is called: a generator of `steps`
    work         a call, from its beginning to its result, though the client is asked something
    session      a client's messages, and what is sent back for them; no I/O
    calls        a call as a request: progress, approval, result
    stdio, http  what carries them; `headers`: what they repeat over HTTP
protocol  what both ends know of MCP; `rpc`: JSON-RPC 2.0; `mirrored`: arguments in headers

The client is written here, and not that of the package `mcp`, which is for asyncio, brings
pydantic, an HTTP client and a web server, and takes longer to import than all of the host;
what is used of the protocol are four requests. That package is the other end in the tests.
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
    yield Command("mcp", "List MCP servers and what they have; be one.", "genai_mcp.cli:mcp")


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute("POST", "/mcp", "genai_mcp.server.http:Endpoint.post", size=4 << 20)
    yield HttpRoute("DELETE", "/mcp", "genai_mcp.server.http:Endpoint.delete")

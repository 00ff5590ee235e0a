"""MCP (Model Context Protocol): a client for the servers in `mcp.json`, and the host as a server.

    McpSource.tools → Connection.open → Connection.tools → tools_of
    Tool.run → Connection.call → output_of
    Service → Calls.answer → RunningCall → Offer.begin

Sessions, versions and transports of the protocol are those of the SDK (package `mcp`), under our
limits, names, approvals and environment of child processes.

- `client.servers`: the file `mcp.json`
- `client.source`: the tools of one server as tools of the host
- `client.connection`: the client of the SDK, in an event loop
- `client.stdio`, `client.http`: its transports
- `server.offer`: the host's tools and features as MCP tools; a call is a generator of `Steps`
- `server.messages`: steps of calls, results of tools
- `server.calls`: the server of the SDK with our tools, and calls: progress, approval, result
- `server.stdio`, `server.http`: its transports
- `text`: lines and texts from a peer

The SDK takes longer to import than the whole host. It is imported when a server is first needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from genai_host import paths
from genai_host.api import Command, HttpRoute, ToolSource, hookimpl

__all__: list[str] = []

VARIABLE = "GENAI_MCP"


def file() -> str:
    """Return the absolute path of the configuration file: from the environment, or the default."""
    named = os.environ.get(VARIABLE)
    return os.path.abspath(named) if named else os.path.join(paths.config_dir(), "mcp.json")


def _has_file() -> bool:
    """Whether there may be servers; a file that cannot be read is reported by `read_servers`."""
    try:
        os.stat(file())
    except FileNotFoundError:
        return bool(os.environ.get(VARIABLE))
    except OSError:
        pass
    return True


@hookimpl
def genai_tool_sources() -> Iterable[ToolSource]:
    if not _has_file():
        return []
    from genai_host.errors import ConfigurationError
    from genai_mcp.client.servers import McpServer, read_servers
    from genai_mcp.client.source import McpSource

    try:
        servers = read_servers()
    except ConfigurationError as error:
        # an invalid file must not disable the plugin: the source reports the error when its tools
        # are listed
        servers = [McpServer("mcp", fault=error)]
    return [McpSource(server) for server in servers]


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command("mcp", "List MCP servers, or run genai-host as one.", "genai_mcp.cli:mcp")


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute("POST", "/mcp", "genai_mcp.server.http:McpEndpoint.post", max_body_size=4 << 20)
    yield HttpRoute("DELETE", "/mcp", "genai_mcp.server.http:McpEndpoint.delete")

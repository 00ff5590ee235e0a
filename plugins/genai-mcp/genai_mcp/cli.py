"""`genai-host mcp`: the servers, whether they answer, and what they have."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from genai_host.errors import GenaiError
from genai_mcp.client.servers import Server, file, read_servers
from genai_mcp.client.source import McpSource
from genai_mcp.texts import one_line
from genai_mcp.within import Within

_SECONDS = 30.0  # that a server may take: it may have to be started


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def mcp(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """List the MCP servers of mcp.json, or those that are named: whether they answer, and
    the tools that they have.

    Each is started, or connected to. Exits with 1 if one of them does not answer.
    """
    known = {server.name: server for server in read_servers()}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"there is no server {name!r} in {file()}", param_hint="NAME")
    chosen = [known[name] for name in dict.fromkeys(names)] or list(known.values())
    with ThreadPoolExecutor(max(1, len(chosen))) as pool:
        rows = list(pool.map(_row, chosen))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo(f"no servers: {file()} has none", err=True)
    else:
        for row in rows:
            click.echo(_told(row))
    ctx.exit(any(row["error"] for row in rows))


def _row(server: Server) -> dict[str, Any]:
    source, error, tools = McpSource(server), "", []
    try:
        with Within(_SECONDS, f"asking {server.name}") as limits:
            tools = source.tools(limits)
    except GenaiError as failure:
        error = str(failure)
    except OSError as failure:  # the system is out of something
        error = str(failure.strerror)
    about, version = source.about()
    source.close()
    return {
        "name": server.name,
        "transport": "" if server.fault else server.transport,
        "server": about,
        "version": version,
        "error": one_line(error),
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools],
    }


def _told(row: dict[str, Any]) -> str:
    if row["error"]:
        return f"{row['name']}: {row['error']}"
    about = f"{row['server'] or 'it does not say what it is'}, MCP {row['version']}"
    lines = [f"{row['name']} ({row['transport']}): {about}, {len(row['tools'])} tools"]
    return "\n".join([*lines, *(f"  {_line(tool)}" for tool in row["tools"])])


def _line(tool: dict[str, str]) -> str:
    return one_line(f"{tool['name']}: {tool['description'].splitlines()[0]}")

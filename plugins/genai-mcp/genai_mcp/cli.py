"""`genai-host mcp`: lists MCP servers and their tools, and runs the host as an MCP server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import click

from genai_host.api import Cancellation
from genai_host.errors import GenaiError, ProviderTimeout
from genai_mcp import file
from genai_mcp.client.servers import McpServer, read_servers
from genai_mcp.client.source import McpSource
from genai_mcp.text import one_line

if TYPE_CHECKING:  # not needed to list servers
    from genai_host.api import CommandState
    from genai_mcp.server.stdio import StdioServer

_SECONDS = 30.0  # timeout of a server, including its start


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def mcp(ctx: click.Context, as_json: bool) -> None:
    """List MCP servers, or run genai-host as one."""
    if ctx.invoked_subcommand is None:
        _list(ctx, (), as_json)


@mcp.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """List the MCP servers of mcp.json, or those named, with their tools.

    Each server is started or connected to. The exit code is 1 if one does not respond.
    """
    _list(ctx, names, as_json)


@mcp.command("serve")
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME", help="Offer only this tool (repeatable)."
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME",
    help="Offer only this feature (repeatable).",
)
@click.option("--no-tools", is_flag=True, help="Offer no tools.")
@click.option("--no-features", is_flag=True, help="Offer no features.")
@click.option(
    "--auto-approve",
    "approved",
    multiple=True,
    metavar="NAME",
    help="Run this tool without asking for approval (repeatable).",
)
@click.option("-m", "--model", metavar="NAME", help="Model for features.")
@click.option("--record", is_flag=True, help="Save the conversations with features.")
@click.pass_context
def serve_command(
    ctx: click.Context,
    *,
    tools: tuple[str, ...],
    features: tuple[str, ...],
    no_tools: bool,
    no_features: bool,
    approved: tuple[str, ...],
    model: str | None,
    record: bool,
) -> None:
    """Run an MCP server on standard input and output.

    It offers the host's tools, and each feature as a tool called ask_FEATURE. MCP clients start
    this command. It ends when the client closes its input, or on SIGTERM or SIGINT. A NAME that
    ends with * is a prefix. A tool that needs approval runs only if the client can ask its
    user, or with --auto-approve.
    """
    from genai_mcp.server.calls import Service
    from genai_mcp.server.offer import Choice, Offer
    from genai_mcp.server.stdio import StdioServer

    reader, writer = _own_streams()
    state: CommandState = ctx.obj
    host = state.recording_host if record else state.host
    for name in features:
        if not name.endswith("*"):
            host.feature(name)  # raises if the feature does not exist
    choice = Choice(
        tools=() if no_tools else tools or None,
        features=() if no_features else features or None,
        approved=approved,
        model=model,
        record=record,
        how_to_allow="start the server with --auto-approve {name} to allow it",
    )
    service = Service(Offer(host, choice))
    server = StdioServer(service, reader, writer)
    with _ended_by_signals(server) as heard:
        server.run()
    service.close()
    ctx.exit(128 + heard[0] if heard else 0)


def _list(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    known = {server.name: server for server in read_servers()}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"unknown MCP server {name!r} in {file()}", param_hint="NAME")
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


def _row(server: McpServer) -> dict[str, Any]:
    source, error, tools = McpSource(server), "", []
    limits = Cancellation()
    late = ProviderTimeout(f"connecting to {server.name} took longer than {_SECONDS:g} s")
    timer = threading.Timer(_SECONDS, limits.cancel, [late])
    timer.start()
    try:
        tools = source.tools(limits)
    except GenaiError as failure:
        error = str(failure)
    except OSError as failure:  # for example too many open files
        error = str(failure.strerror)
    finally:
        timer.cancel()
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
    about = f"{row['server'] or 'no description'}, MCP {row['version']}"
    lines = [f"{row['name']} ({row['transport']}): {about}, {len(row['tools'])} tools"]
    return "\n".join([*lines, *(f"  {_line(tool)}" for tool in row["tools"])])


def _line(tool: dict[str, str]) -> str:
    return one_line(f"{tool['name']}: {tool['description'].splitlines()[0]}")


def _own_streams() -> tuple[int, int]:
    """Return private descriptors of the client's streams, and detach `stdin` and `stdout`."""
    reader, writer = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if sys.stdout is not None:
        sys.stdout.flush()  # text printed before
    if sys.platform == "win32":
        import msvcrt

        for number in (reader, writer):
            msvcrt.setmode(number, os.O_BINARY)
    return reader, writer


@contextlib.contextmanager
def _ended_by_signals(server: StdioServer) -> Iterator[list[int]]:
    """Yield a list that collects the signals that ended the server."""
    heard: list[int] = []

    def end(number: int, frame: object) -> None:
        heard.append(number)
        server.end()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, end) for number in numbers]
    try:
        yield heard
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)

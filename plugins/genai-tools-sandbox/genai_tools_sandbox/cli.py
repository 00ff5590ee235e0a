"""`genai-host sandbox`: downloads the sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import click

from genai_host import commands
from genai_host.api import Cancellation, CommandState
from genai_host.errors import ServiceUnavailable
from genai_tools_sandbox import Settings
from genai_tools_sandbox.process import can_run, save_snapshot
from genai_tools_sandbox.pyodide import KNOWN, folder_of, pull, registry


@click.group()
def sandbox() -> None:
    """Download the sandbox in which Python code of models runs."""


@sandbox.command("pull")
@click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
@click.pass_obj
def pull_command(state: CommandState, quiet: bool) -> None:
    """Download Pyodide from the npm registry and verify it.

    The registry is set by npm_config_registry, or in ~/.npmrc.
    """

    def show_progress(size: int, whole: int) -> None:
        of = f" of {whole / 1e6:.1f}" if whole else ""
        line.show(f"{size / 1e6:.1f}{of} MB")

    folder = folder_of(commands.tool_settings(state.host, "sandbox", Settings).folder)
    with commands.ProgressLine(quiet=quiet) as line:
        file = pull(KNOWN, folder, registry(os.environ, Path.home()), show_progress)
    if can_run():
        try:
            save_snapshot(file, Cancellation())
        except ServiceUnavailable as error:
            click.echo(f"cannot create a snapshot; sessions start more slowly: {error}", err=True)
    click.echo(file)

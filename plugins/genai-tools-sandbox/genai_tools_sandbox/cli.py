"""`genai-host sandbox`: downloads the sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from genai_host.api import CommandState, read_settings
from genai_tools_sandbox import Settings
from genai_tools_sandbox.pyodide import KNOWN, folder_of, pull, registry


@click.group()
def sandbox() -> None:
    """Download the sandbox in which Python code of models runs."""


@sandbox.command("pull")
@click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
@click.pass_context
def pull_command(ctx: click.Context, quiet: bool) -> None:
    """Download Pyodide from the npm registry and verify it.

    The registry is set by npm_config_registry, or in ~/.npmrc.
    """
    is_seen = not quiet and sys.stderr.isatty()

    def show_progress(size: int, whole: int) -> None:
        if is_seen:
            of = f" of {whole / 1e6:.1f}" if whole else ""
            click.echo(f"\r{size / 1e6:.1f}{of} MB\033[K", err=True, nl=False)

    folder = folder_of(_settings(ctx).folder)
    try:
        click.echo(pull(KNOWN, folder, registry(os.environ, Path.home()), show_progress))
    finally:
        if is_seen:
            click.echo(err=True)


def _settings(ctx: click.Context) -> Settings:
    state: CommandState = ctx.obj
    config = state.host.config.tools.get("sandbox")
    given: Any = {} if config is None else config.settings
    overrides: Any = {} if config is None else config.overrides
    return read_settings(Settings, given, owner="tools.sandbox", overrides=overrides)

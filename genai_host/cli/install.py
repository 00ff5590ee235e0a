"""`genai-host install`."""

from __future__ import annotations

import os

import click

from genai_host.cli.installing import InstallerCommand, further, install_options, perform


@click.command(name="install", cls=InstallerCommand)
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option(
    "-e",
    "--editable",
    multiple=True,
    metavar="PATH",
    help="A folder that is used as it stands, to work on it.",
)
@install_options
@click.pass_context
def command(
    ctx: click.Context,
    plugins: tuple[str, ...],
    editable: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Install plugins where the host runs: in its own environment.

    PLUGIN is the exact name of a distribution, a folder, a wheel or an address. What
    follows -- is for the installer (pip, uv or pipx):

    \b
    genai-host install genai-vendor-acme
    genai-host install genai-vendor-acme -- --index-url https://pypi.example.org
    """
    from genai_host.installer import Place, find_installer

    if not plugins and not editable:
        raise click.UsageError("which plugin? genai-host install genai-vendor-acme", ctx)
    wanted = [_as_path(plugin) for plugin in plugins]
    folders = [os.path.abspath(os.path.expanduser(path)) for path in editable]
    installer = find_installer(Place.here(), further(ctx))
    commands = installer.install(wanted, folders, further(ctx))
    return perform(commands, wanted, dry_run=dry_run, as_json=as_json)


def _as_path(plugin: str) -> str:
    """A folder or a file by its whole path; a name stays one, even if there is a folder
    of that name here."""
    path = os.path.expanduser(plugin)
    is_path = os.path.dirname(path) or path in (os.curdir, os.pardir) or path.endswith(".whl")
    return os.path.abspath(path) if is_path and os.path.exists(path) else plugin

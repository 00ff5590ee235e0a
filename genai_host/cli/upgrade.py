"""`genai-host upgrade`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from genai_host.cli.install import (
    TRUST,
    InstallerCommand,
    further,
    install_options,
    must_be_installed,
    must_be_trusted,
    perform,
)
from genai_host.cli.terminal import note
from genai_host.util.names import APP

if TYPE_CHECKING:
    from genai_host.plugins.installer import Installed


@click.command(name="upgrade", cls=InstallerCommand)
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option("--all", "all_plugins", is_flag=True, help="Upgrade genai-host and all plugins.")
@TRUST
@install_options
@click.pass_context
def command(
    ctx: click.Context,
    plugins: tuple[str, ...],
    all_plugins: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Upgrade plugins or genai-host. PLUGIN is the exact name of a distribution.

    --all skips what was installed from a directory, a file or a URL, since no package index
    has a newer version. If one of these is named, the command asks first, as the package index may
    have a distribution of somebody else under that name.
    """
    from genai_host.plugins.installer import Place, find_installer, installed_distributions

    if bool(plugins) == all_plugins:
        raise click.UsageError("name plugins or use --all", ctx)
    installed = installed_distributions()
    names = _all(installed) if all_plugins else must_be_installed(plugins, installed, suggest=True)
    if not names:
        note("nothing to upgrade")
        return 0
    if not dry_run:
        again = shlex.join([APP, "upgrade", "--yes", *plugins])
        must_be_trusted(names, installed, yes=yes, again=again)
    installer = find_installer(Place.here(), further(ctx))
    commands = installer.upgrade([installed[name].name for name in names], further(ctx))
    return perform(commands, (), dry_run=dry_run, as_json=as_json)


def _all(installed: Mapping[str, Installed]) -> list[str]:
    from genai_host.plugins.index import PluginIndex
    from genai_host.util.names import normal_name

    plugins = dict.fromkeys(normal_name(found.distribution) for found in PluginIndex().plugins())
    names = []
    for name in plugins:
        found = installed.get(name)
        if found is not None and found.source:
            note(f"skipped: {name}, not installed from a package index", dim=True)
        elif found is not None:
            names.append(name)
    return names

"""`genai-host uninstall`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from genai_host.cli.install import (
    InstallerCommand,
    further,
    install_options,
    must_be_installed,
    perform,
)
from genai_host.util.names import APP

if TYPE_CHECKING:
    from genai_host.plugins.installer import Installed


@click.command(name="uninstall", cls=InstallerCommand)
@click.argument("plugins", nargs=-1, required=True, metavar="PLUGIN...")
@install_options
@click.pass_context
def command(ctx: click.Context, plugins: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Uninstall plugins. PLUGIN is the exact name of a distribution.

    genai-host itself and the dependencies of other plugins are not uninstalled.
    """
    from genai_host.plugins.installer import Place, find_installer, installed_distributions

    installed = installed_distributions()
    names = must_be_installed(plugins, installed, suggest=False)
    _must_be_free(names, installed)
    installer = find_installer(Place.here(), further(ctx))
    commands = installer.uninstall([installed[name].name for name in names], further(ctx))
    return perform(commands, (), dry_run=dry_run, as_json=as_json)


def _must_be_free(names: Sequence[str], installed: Mapping[str, Installed]) -> None:
    """Raises `ConfigurationError` for the host, for what it needs, and for what a plugin
    needs that stays."""
    from genai_host.errors import ConfigurationError
    from genai_host.plugins.index import PluginIndex
    from genai_host.plugins.installer import who_needs
    from genai_host.util.names import normal_name

    plugins = [normal_name(found.distribution) for found in PluginIndex().plugins()]
    staying = [name for name in dict.fromkeys(plugins) if name not in (*names, APP)]
    for name in names:
        if name == APP:
            raise ConfigurationError(
                f"{APP} cannot uninstall itself",
                hint=f"use the installer that created its environment: pip uninstall {APP}, "
                f"pipx uninstall {APP} or uv tool uninstall {APP}",
            )
        holder = who_needs(name, installed, [APP, *staying])
        if holder:
            hint = "" if holder == APP else f"genai-host uninstall {holder} {name}"
            raise ConfigurationError(f"cannot uninstall {name}: {holder} needs it", hint=hint)

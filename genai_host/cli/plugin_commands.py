"""Commands of plugins: listed from the index, and imported when they run."""

from __future__ import annotations

import importlib
import logging
from typing import NamedTuple

import click

from genai_host.util.names import COMMANDS, our_distributions

_log = logging.getLogger(__name__)


class IndexedCommand(NamedTuple):
    """A command of a plugin, as it was when the plugin was loaded the last time.

    Attributes:
        load: Object reference of the command, `package.module:object`.
    """

    plugin: str
    distribution: str
    help: str
    load: str


def indexed_commands() -> dict[str, IndexedCommand]:
    """The commands of installed plugins by name, without those of blocked plugins."""
    from genai_host.cli.terminal import safe
    from genai_host.config import read_config, unread_config
    from genai_host.errors import ConfigurationError
    from genai_host.plugins.index import PluginIndex

    try:
        config = read_config()
    except ConfigurationError:  # help must work with any error
        config = unread_config()
    index = PluginIndex()
    outcomes = index.outcomes()
    commands: dict[str, IndexedCommand] = {}
    for found in index.plugins():
        if found.key in outcomes and not config.blocks(found.name, found.distribution):
            for name, help, load in outcomes[found.key].commands:
                place = (found.name, found.distribution)
                commands.setdefault(name, IndexedCommand(*place, safe(help), load))
    return {name: found for name, found in commands.items() if name not in COMMANDS}


def plugin_command(ctx: click.Context, name: str) -> click.Command | None:
    """A command of a plugin; None if there is none.

    One of a plugin of this project is imported without loading the other plugins: some commands,
    such as the supervisor of a server, need no host. Those of others are only imported together
    with the measures against plugins that crash.

    Raises:
        PluginError: The command cannot be loaded.
    """
    from genai_host.cli.app import App, no_output_of_plugins
    from genai_host.errors import PluginError

    indexed = indexed_commands().get(name)
    if indexed is not None and indexed.distribution in our_distributions():
        try:
            with no_output_of_plugins():
                return _import(indexed.plugin, indexed.load)
        except Exception as error:  # noqa: BLE001 - the sources may have changed: what they declare now counts
            _log.debug("the command %s is not as in the index: %s", name, error)
    host = ctx.ensure_object(App).host
    declared = host.registry.commands.get(name)
    if declared is None:
        return None
    plugin = host.registry.owner("command", name)
    try:
        with no_output_of_plugins():
            return _import(plugin, declared.load)
    except PluginError:
        raise
    except Exception as error:  # a plugin's command must not break others
        raise PluginError(
            f"cannot load command {name!r} of plugin {plugin!r}: {error}",
            plugin=plugin,
            hint=f"genai-host plugins show {plugin}",
        ) from error


def _import(plugin: str, reference: str) -> click.Command:
    from genai_host.errors import PluginError

    module, _, attribute = reference.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    if not isinstance(command, click.Command):
        raise PluginError(f"{reference} of plugin {plugin!r} is not a click command", plugin=plugin)
    return command

"""`genai-host plugins`. Listing loads no plugin, so it works with broken ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from genai_host.cli.app import no_output_of_plugins
from genai_host.cli.terminal import echo, echo_json, echo_rows, note
from genai_host.errors import ConfigurationError
from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex, plugin_row

if TYPE_CHECKING:
    from genai_host.config import Config
    from genai_host.plugins.discovery import InstalledPlugins
    from genai_host.plugins.results import PluginResult


@click.group(name="plugins", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the installed plugins and the result of their last load."""
    if ctx.invoked_subcommand is not None:
        return
    index = PluginIndex()
    outcomes = index.outcomes()
    config = _config()
    rows = [plugin_row(found, outcomes.get(found.key), config) for found in index.plugins()]
    show_rows(rows, as_json)


@command.command("check")
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(names: tuple[str, ...], as_json: bool) -> int:
    """Load all plugins, or those named, and report errors.

    Third-party plugins are first loaded in a separate process. A plugin that ends that process or
    takes too long is not loaded again until you check it by name. The exit code is 1 if a plugin is
    broken.
    """
    from genai_host.plugins.discovery import InstalledPlugins

    _must_exist(names)
    config = _config()
    index = PluginIndex()
    index.forget(found for found in index.plugins() if _is_named(found, names))
    rows = [
        plugin_row(result.found, _outcome(result), config)
        for result in _load(config, InstalledPlugins(index, on_trial="all"))
        if not names or _is_named(result.found, names)
    ]
    show_rows(rows, as_json)
    return int(any(row["status"] == "broken" for row in rows))


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> None:
    """Load a plugin and show its details."""
    from genai_host.plugins.discovery import InstalledPlugins

    _must_exist((name,))
    config = _config()
    for result in _load(config, InstalledPlugins()):
        if not _is_named(result.found, (name,)):
            continue
        row = plugin_row(result.found, _outcome(result), config)
        row["trace"] = getattr(result, "trace", "")
        if as_json:
            echo_json(row)
            continue
        for key, value in row.items():
            if isinstance(value, dict):
                value = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in value.items())
            if value:
                echo(f"{key + ':':<14}{value}")


@command.command("disable")
@click.argument("names", nargs=-1, required=True)
def disable(names: tuple[str, ...]) -> None:
    """Disable plugins. A name is NAME or DISTRIBUTION:NAME."""
    from genai_host.config import edit_config

    _must_exist(names, suggest=False)
    installed = PluginIndex().plugins()
    added, known = [], []
    with edit_config() as document:
        disabled = document.setdefault("plugins", {}).setdefault("disabled", [])
        for name in dict.fromkeys(names):
            if all(_is_named(each, disabled) for each in installed if _is_named(each, [name])):
                known.append(name)
            else:
                disabled.append(name)
                added.append(name)
    if added:
        note(f"disabled: {', '.join(added)}")
    if known:
        note(f"already disabled: {', '.join(known)}")
    _note_override()


@command.command("enable")
@click.argument("names", nargs=-1, required=True)
def enable(names: tuple[str, ...]) -> None:
    """Enable disabled plugins. NAME enables that plugin in every distribution."""
    from genai_host.config import edit_config

    with edit_config() as document:
        disabled = document.get("plugins", {}).get("disabled", [])
        taken = _that_disable(names, disabled)
        for entry in taken:
            while entry in disabled:
                disabled.remove(entry)
    note(f"enabled: {', '.join(taken)}")
    _note_override()


def _that_disable(names: Sequence[str], disabled: Sequence[str]) -> list[str]:
    """Entries of `plugins.disabled` for these plugins: `mock` is disabled by `mock` and by
    `some-distribution:mock`. Raises `ConfigurationError` for a plugin that is not disabled, or an
    entry that also disables others."""
    found: dict[str, None] = {}
    for name in names:
        plain = name.rpartition(":")[2]
        entries = [each for each in disabled if name in (each, each.rpartition(":")[2])]
        if not entries and plain in disabled:
            raise ConfigurationError(
                f"{name} is disabled by {plain}, which applies to every distribution",
                hint=f"genai-host plugins enable {plain}",
            )
        if not entries:
            _must_exist((name,))
            raise ConfigurationError(f"{name} is not disabled")
        found |= dict.fromkeys(entries)
    return list(found)


@command.command("new")
@click.argument("kind", type=click.Choice(["vendor", "feature", "tool"]))
@click.argument("name")
@click.option(
    "--directory",
    metavar="DIR",
    default=".",
    type=click.Path(exists=True, file_okay=False),
    help="Create the project in this directory.  [current directory]",
)
def new(kind: str, name: str, directory: str) -> None:
    """Create a plugin project with passing tests.

    The project gets its own directory; existing files are not overwritten.

    \b
    genai-host plugins new vendor acme     a provider over HTTP, and its models
    genai-host plugins new feature poet    a feature, which answers the user
    genai-host plugins new tool letters    a tool that models can call
    """
    from pathlib import Path

    from genai_host.cli.scaffold import new_scaffold

    scaffold = new_scaffold(kind, name, PluginIndex())
    folder = scaffold.write(Path(directory))
    for path in scaffold.files():
        echo(str(folder / path))
    note(scaffold.next_steps(folder))


def _config() -> Config:
    """The configuration; if it is invalid, print a warning and use the defaults, so that users can
    repair it."""
    from genai_host.config import read_config, unread_config

    try:
        return read_config()
    except ConfigurationError as error:
        note(f"warning: {error}", fg="yellow")
        return unread_config()


def _note_override() -> None:
    import os

    from genai_host.config.environment import overrides_in

    variable = overrides_in(os.environ).get("plugins.disabled")
    if variable is not None:
        note(f"the environment variable {variable} overrides it", fg="yellow")


def _load(config: Config, discovery: InstalledPlugins) -> list[PluginResult]:
    from genai_host.plugins.discovery import Plugins

    with no_output_of_plugins():
        return Plugins(discovery, config._replace(strict=False)).results


def _outcome(result: PluginResult) -> LoadResult | None:
    from genai_host.plugins.results import BlockedPlugin

    return None if isinstance(result, BlockedPlugin) else result.outcome()


def show_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    echo_rows(rows, ("name", "distribution", "version", "status", "reason"), as_json)
    for row in rows:
        if row["fix"] and not as_json:
            note(f"fix {row['name']}: {row['fix']}")


def _is_named(found: InstalledPlugin, names: Collection[str]) -> bool:
    return found.name in names or f"{found.distribution}:{found.name}" in names


def _must_exist(names: tuple[str, ...], *, suggest: bool = True) -> None:
    plugins = PluginIndex().plugins() if names else []
    for name in names:
        if not any(_is_named(found, (name,)) for found in plugins):
            from genai_host.util.text import did_you_mean

            known = sorted({found.name for found in plugins}) if suggest else ()
            raise ConfigurationError(
                f"unknown plugin {name!r}",
                hint=did_you_mean(name, known) or "list plugins: genai-host plugins",
            )

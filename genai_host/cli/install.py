"""`genai-host install`, `upgrade` and `uninstall`.

They run an installer, then report the plugins that were added or changed. Plugins are loaded only
in a separate process, so that the commands work with any broken plugin.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from genai_host.cli.plugins import show_rows
from genai_host.cli.terminal import echo, echo_json, is_terminal, note
from genai_host.errors import ConfigurationError, PluginError
from genai_host.plugins.index import PluginIndex
from genai_host.plugins.installer import (
    PythonEnvironment,
    installed_sources,
    installer_command,
    required_name,
    without_passwords,
)
from genai_host.util.interpreter import interpreter_command
from genai_host.util.names import APP, normal_name, our_distributions

F = TypeVar("F", bound=Callable[..., Any])

_FURTHER = f"{APP}.further"
_LIST = "list plugins: genai-host plugins"
_PATIENCE = 120.0  # seconds for loading all plugins
# in another process, because modules of this process may be older than the installed ones
_COMMAND = "from genai_host.cli.main import main\nmain()"
_BUILD = ("name", "distribution", "version", "record")


class InstallerCommand(click.Command):
    """A command that passes arguments after `--` to the installer; see `_further`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_FURTHER] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


def _further(ctx: click.Context) -> list[str]:
    arguments: list[str] = ctx.meta[_FURTHER]
    return arguments


_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the command without running it.")


def _install_options(function: F) -> F:
    """Add `yes`, `dry_run` and `as_json` to a command."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the plugins as JSON."),
        _DRY_RUN,
        click.option("-y", "--yes", is_flag=True, help="Do not ask before third-party code."),
    ):
        function = option(function)
    return function


@click.command(name="install", cls=InstallerCommand)
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option(
    "-e", "--editable", multiple=True, metavar="PATH", help="Install a directory in editable mode."
)
@_install_options
@click.pass_context
def install(
    ctx: click.Context,
    plugins: tuple[str, ...],
    editable: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Install plugins into genai-host's environment.

    PLUGIN is the exact name of a distribution, a directory, a wheel or a URL. The command asks
    before it installs code of a third party. It then lists the plugins that were added or changed,
    and whether each one loads. Arguments after -- are passed to the installer, pip or uv:

    \b
    genai-host install genai-vendor-openai
    genai-host install genai-vendor-openai -- --index-url https://pypi.example.org
    """
    if not plugins and not editable:
        raise click.UsageError(
            "nothing to install: name a plugin, for example genai-host install genai-vendor-openai",
            ctx,
        )
    wanted = [_as_path(plugin) for plugin in plugins]
    folders = [os.path.abspath(os.path.expanduser(path)) for path in editable]
    if not dry_run:
        again = shlex.join([APP, "install", "--yes", *without_passwords(plugins)])
        _must_be_trusted(wanted, installed_sources(), yes=yes, again=again)
    command = installer_command(PythonEnvironment.here(), "install", wanted, folders, _further(ctx))
    return _install(command, wanted, dry_run=dry_run, as_json=as_json)


@click.command(name="upgrade", cls=InstallerCommand)
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option("--all", "all_plugins", is_flag=True, help="Upgrade genai-host and all plugins.")
@_install_options
@click.pass_context
def upgrade(
    ctx: click.Context,
    plugins: tuple[str, ...],
    all_plugins: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Upgrade plugins or genai-host. PLUGIN is the exact name of a distribution.

    --all skips what was installed from a directory, a file or a URL, since no package index
    has a newer version. If one of these is named, the command asks first, because the package
    index may have an unrelated distribution of that name.
    """
    if bool(plugins) == all_plugins:
        raise click.UsageError("nothing to upgrade: name plugins or use --all", ctx)
    sources = installed_sources()
    names = [normal_name(each) for each in plugins]
    if all_plugins:
        names = [name for name in _distributions() if name in sources]
        for name in filter(sources.get, names):
            note(f"skipped: {name}, not installed from a package index", dim=True)
        names = [name for name in names if not sources[name]]
    _must_be_installed("upgrade", names, sources)
    if not names:
        note("nothing to upgrade")
        return 0
    if not dry_run:
        again = shlex.join([APP, "upgrade", "--yes", *plugins])
        _must_be_trusted(names, sources, yes=yes, again=again)
    command = installer_command(PythonEnvironment.here(), "upgrade", names, further=_further(ctx))
    return _install(command, (), dry_run=dry_run, as_json=as_json)


@click.command(name="uninstall", cls=InstallerCommand)
@click.argument("plugins", nargs=-1, required=True, metavar="PLUGIN...")
@_DRY_RUN
@click.pass_context
def uninstall(ctx: click.Context, plugins: tuple[str, ...], dry_run: bool) -> int:
    """Uninstall plugins. PLUGIN is the exact name of a distribution.

    Neither genai-host itself nor the dependencies of a plugin are uninstalled.
    """
    names = [normal_name(each) for each in plugins]
    if APP in names:
        raise ConfigurationError(
            f"{APP} cannot uninstall itself",
            hint=f"use the installer that created its environment: pip uninstall {APP}, "
            f"pipx uninstall {APP} or uv tool uninstall {APP}",
        )
    _must_be_installed("uninstall", names, _distributions())
    command = installer_command(PythonEnvironment.here(), "uninstall", names, further=_further(ctx))
    return _print(command, as_json=False) if dry_run else _run(command)


def _as_path(plugin: str) -> str:
    """Complete the path of a directory or a file. A plain name is not treated as a path."""
    path = os.path.expanduser(plugin)
    is_path = os.path.dirname(path) or path in (os.curdir, os.pardir) or path.endswith(".whl")
    return os.path.abspath(path) if is_path and os.path.exists(path) else plugin


def _distributions() -> list[str]:
    """Normalized names of the distributions with plugins."""
    found = PluginIndex().plugins()
    return list(dict.fromkeys(normal_name(each.distribution) for each in found))


def _must_be_installed(action: str, names: Sequence[str], installed: Iterable[str]) -> None:
    """Raise `ConfigurationError` if a name is not among the installed distributions."""
    for name in names:
        if name not in installed:
            hint = _meant(name) if action == "upgrade" else _LIST
            raise ConfigurationError(f"cannot {action} {name!r}: not installed", hint=hint)


def _meant(name: str) -> str:
    from genai_host.util.text import did_you_mean

    for found in PluginIndex().plugins():
        if found.name == name:
            return f"the plugin {name} is in the distribution {found.distribution}"
    return did_you_mean(name, _distributions()) or _LIST


def _must_be_trusted(
    wanted: Sequence[str], sources: Mapping[str, str], *, yes: bool, again: str
) -> None:
    """Ask for confirmation before installing third-party code from an index for the first time.
    Local files are installed without confirmation. Raises `ConfigurationError` if there is no
    terminal, `click.Abort` if the user declines."""
    strange = {each: why for each in wanted if (why := _why_untrusted(each, sources))}
    if not strange or yes:
        return
    lines = [f"{without_passwords([each])[0]} {why}{_ours(each)}" for each, why in strange.items()]
    if not is_terminal(sys.stdin):
        raise ConfigurationError("; ".join(lines), hint=f"if you trust it: {again}")
    for line in lines:
        note(line, fg="yellow")
    note("Plugins run with your permissions and can read all API keys.")
    click.confirm("Install it?" if len(lines) == 1 else "Install them?", abort=True, err=True)


def _why_untrusted(wanted: str, sources: Mapping[str, str]) -> str:
    """Why the code is untrusted; empty if it is trusted."""
    if "git+" in wanted:
        return f"is a Git repository, not a distribution of {APP}"
    if "://" in wanted:
        return f"is a URL, not a distribution of {APP}"
    name = required_name(wanted)
    if not name or os.path.isabs(wanted) or name in (APP, *our_distributions()):
        return ""
    if name not in sources:
        return f"is a third-party package, not a distribution of {APP}"
    source = sources[name]
    return f"may be a third-party package: the installed one is from {source}" if source else ""


def _ours(wanted: str) -> str:
    """A distribution of this project with a similar name."""
    from genai_host.util.text import close_matches

    name = required_name(wanted)
    ours = our_distributions()
    near = [each for each in ours if name and each.endswith(f"-{name}")]
    near = near or close_matches(name, ours)
    return f"; did you mean {near[0]}?" if near else ""


def _install(command: Sequence[str], wanted: Sequence[str], *, dry_run: bool, as_json: bool) -> int:
    """Run an installer, and report the plugins that were added or changed. Returns the exit code:
    the installer's, or 1 if one of these plugins does not load."""
    if dry_run:
        return _print(command, as_json=as_json)
    before = {tuple(getattr(found, key) for key in _BUILD) for found in PluginIndex().plugins()}
    code = _run(command)
    if code:
        return code
    rows = [row for row in _loaded() if tuple(row[key] for key in _BUILD) not in before]
    show_rows(rows, as_json)
    for row in rows:
        if row["status"] == "unchecked":
            name = f"{row['distribution']}:{row['name']}"
            note(f"{row['name']} could not be checked; load it: {APP} plugins check {name}")
    if not rows:
        note("no plugin was added or changed")
    plugins = _distributions()
    for name in map(required_name, wanted):
        if name in installed_sources() and name not in plugins:
            remove = shlex.join(installer_command(PythonEnvironment.here(), "uninstall", [name]))
            note(f"{name} has no plugin of {APP}; to remove it: {remove}")
    return int(any(row["status"] in ("broken", "unchecked") for row in rows))


def _print(command: Sequence[str], *, as_json: bool) -> int:
    shown = without_passwords(command)
    if as_json:
        echo_json({"command": shown})
    else:
        echo(shlex.join(shown))
    return 0


def _run(command: Sequence[str]) -> int:
    """Run an installer, which may ask for a password. Its output goes to standard error. Raises
    `ConfigurationError` if the configuration is read-only."""
    from genai_host.config import must_be_writable

    must_be_writable()
    note(shlex.join(without_passwords(command)), dim=True)
    with subprocess.Popen(command, stdout=_errors()) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()  # the installer was interrupted as well, and cleans up
            raise


def _errors() -> int:
    """Standard error; the null device if it is closed or has no descriptor."""
    try:
        return sys.stderr.fileno() if sys.stderr is not None else subprocess.DEVNULL
    except (OSError, ValueError):
        return subprocess.DEVNULL


def _loaded() -> list[dict[str, Any]]:
    """Load all plugins in another process, and return the rows of `plugins --json`. Raises
    `PluginError` if the host itself no longer starts."""
    try:
        _genai_host("plugins", "check", seconds=_PATIENCE)  # may print output of plugins
    except subprocess.TimeoutExpired:
        note(f"warning: loading the plugins takes longer than {_PATIENCE:g} s", fg="yellow")
    done = _genai_host("plugins", "--json")
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows
    except ValueError as error:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise PluginError(
            f"{APP} no longer starts: {last}",
            hint=f"install it again: pip install --force-reinstall {APP}",
        ) from error


def _genai_host(*arguments: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        interpreter_command(_COMMAND, *arguments), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", timeout=seconds, check=False,
    )  # fmt: skip

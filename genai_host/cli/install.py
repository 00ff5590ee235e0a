"""`genai-host install`; what it shares with uninstall and upgrade.

The commands run an installer, then report which plugins changed. Plugins are loaded only in a
separate process, so that the commands work with any broken plugin.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from genai_host.cli.terminal import echo, echo_json, echo_table, is_terminal, note
from genai_host.util.interpreter import interpreter_command
from genai_host.util.names import APP

if TYPE_CHECKING:
    from genai_host.plugins.installer import Installed


F = TypeVar("F", bound=Callable[..., Any])

_FURTHER = f"{APP}.further"
_LISTED = f"{APP} plugins lists what is"
_PATIENCE = 120.0  # seconds for all plugins to be loaded
# in a process of its own, as the modules of this one may be older than what is installed
_ANEW = "from genai_host.cli.main import main\nmain()"


class InstallerCommand(click.Command):
    """A command whose words after `--` are for the installer, see `further`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_FURTHER] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


def further(ctx: click.Context) -> list[str]:
    """The arguments that are for the installer."""
    arguments: list[str] = ctx.meta[_FURTHER]
    return arguments


def install_options(function: F) -> F:
    """Add `dry_run` and `as_json` to a command."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON."),
        click.option("--dry-run", is_flag=True, help="Print the commands without running them."),
    ):
        function = option(function)
    return function


TRUST = click.option("-y", "--yes", is_flag=True, help="Do not ask before third-party code.")


def must_be_installed(
    plugins: Sequence[str], installed: Mapping[str, Installed], *, suggest: bool
) -> list[str]:
    """The normal names of distributions. Raises `ConfigurationError` for one that is not
    installed.

    suggest   whether the error names the one that may be meant
    """
    from genai_host.util.names import normal_name

    names = {normal_name(plugin): plugin for plugin in plugins}
    for name, written in names.items():
        if name not in installed:
            from genai_host.errors import ConfigurationError

            hint = _meant(name) if suggest else _LISTED
            raise ConfigurationError(f"{written} is not installed", hint=hint)
    return list(names)


def _meant(name: str) -> str:
    from genai_host.plugins.index import PluginIndex
    from genai_host.util.text import did_you_mean

    plugins = PluginIndex().plugins()
    for found in plugins:
        if found.name == name:
            return f"the plugin {name} comes with {found.distribution}"
    return did_you_mean(name, [found.distribution for found in plugins]) or _LISTED


def must_be_trusted(
    wanted: Sequence[str], installed: Mapping[str, Installed], *, yes: bool, again: str
) -> None:
    """Ask before code of a third party is installed: what is neither of this project nor
    installed from an index already. Files of this machine need no question.

    yes     whether that is agreed to
    again   the command that agrees to it

    Raises `ConfigurationError` where nobody can be asked, `click.Abort` if the user declines.
    """
    strange = {each: why for each in wanted if (why := _why_strange(each, installed))}
    if not strange or yes:
        return
    lines = [f"{_shown([each])[0]} {why}{_ours(each)}" for each, why in strange.items()]
    if not is_terminal(sys.stdin):
        from genai_host.errors import ConfigurationError

        raise ConfigurationError("; ".join(lines), hint=f"if you trust it: {again}")
    for line in lines:
        note(line, fg="yellow")
    note("Plugins run with your rights, and can read all keys.")
    click.confirm("Install it?" if len(lines) == 1 else "Install them?", abort=True, err=True)


def _why_strange(wanted: str, installed: Mapping[str, Installed]) -> str:
    """Why something to install may be anyone's; empty if it is known."""
    from genai_host.plugins.installer import required_name
    from genai_host.util.names import our_distributions

    if "git+" in wanted:
        return f"is a Git repository, not a distribution of {APP}"
    if "://" in wanted:
        return f"is an address, not a distribution of {APP}"
    name = required_name(wanted)
    if not name or os.path.isabs(wanted) or name in (APP, *our_distributions()):
        return ""
    if name not in installed:
        return f"is a third party's, not a distribution of {APP}"
    source = installed[name].source
    return f"may be a third party's: the installed one is from {source}" if source else ""


def _ours(wanted: str) -> str:
    """Which distribution of this project may be meant."""
    from genai_host.plugins.installer import required_name
    from genai_host.util.names import our_distributions
    from genai_host.util.text import close_matches

    name = required_name(wanted)
    ours = our_distributions()
    near = [each for each in ours if name and each.endswith(f"-{name}")]
    near = near or close_matches(name, ours)
    return f"; did you mean {near[0]}?" if near else ""


def perform(
    commands: Sequence[Sequence[str]], wanted: Sequence[str], *, dry_run: bool, as_json: bool
) -> int:
    """Run the commands of an installer, up to one that fails, and tell what became of the
    plugins; the exit code: the installer's, or 1 if a plugin that came is broken.

    wanted   what was asked for, as far as it is to be there afterwards

    What the installer writes is shown as it writes it, on standard error: the output is
    what changed. Raises `ConfigurationError` if the configuration is read-only.
    """
    if dry_run:
        if as_json:
            echo_json({"commands": [_shown(command) for command in commands]})
        else:
            for command in commands:
                echo(shlex.join(_shown(command)))
        return 0
    from genai_host.config import must_be_writable
    from genai_host.plugins.installer import installed_distributions

    must_be_writable()
    plugins, before = _listed_anew(), installed_distributions()
    code = 0
    for command in commands:
        if not code:
            note(shlex.join(_shown(command)), dim=True)
            code = _run(command)
    _load_anew()
    changes = _changes(plugins, _listed_anew())
    after = installed_distributions()
    came = [each for name, each in after.items() if before.get(name) != each]
    strange = _without_plugin(came, wanted, after) if not code else []
    _tell(commands, code, changes, strange, as_json=as_json)
    is_broken = any(row["status"] in ("broken", "unchecked") for row in _there(changes))
    return code or int(is_broken)


def _shown(command: Sequence[str]) -> list[str]:
    """Without the users and passwords of addresses."""
    return [re.sub(r"//[^/\s]*@", "//***@", word) for word in command]


def _run(command: Sequence[str]) -> int:
    """Run an installer, which may ask for a password; its exit code."""
    with subprocess.Popen(command, stdout=_errors()) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()  # it was interrupted as well, and tidies up
            raise


def _errors() -> int:
    """Standard error; nothing where it is closed, or no file."""
    try:
        return sys.stderr.fileno() if sys.stderr is not None else subprocess.DEVNULL
    except (OSError, ValueError):
        return subprocess.DEVNULL


def _load_anew() -> None:
    """Load all plugins once more, so that it is known how that ends."""
    try:
        # what plugins print while they are loaded is of no interest, nor how it ends: one
        # may end the process
        subprocess.run(
            [*_anew(), "check"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        note(f"warning: loading the plugins takes longer than {_PATIENCE:g} s", fg="yellow")


def _listed_anew() -> list[dict[str, Any]]:
    """The rows of `plugins --json`. Raises `PluginError` if the host itself does not work
    any more."""
    from genai_host.errors import PluginError

    done = subprocess.run(
        [*_anew(), "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows
    except ValueError as error:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise PluginError(
            f"{APP} does not start any more: {last}",
            hint=f"install it anew, as with: pip install --force-reinstall {APP}",
        ) from error


def _anew() -> list[str]:
    return interpreter_command(_ANEW, "plugins")


def _changes(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Which plugins came, went, or are of another build now."""
    earlier = {(row["distribution"], row["name"]): row for row in before}
    came, changed = [], []
    for row in after:
        old = earlier.pop((row["distribution"], row["name"]), None)
        kept = {key: row[key] for key in ("name", "distribution", "version")}
        kept["before"] = old["version"] if old else ""
        kept |= {key: row[key] for key in ("status", "reason", "fix")}
        if old is None:
            came.append(kept)
        elif (old["version"], old["record"]) != (row["version"], row["record"]):
            changed.append(kept)
    went = [
        {"name": old["name"], "distribution": old["distribution"], "before": old["version"]}
        for old in earlier.values()
    ]
    return {"came": came, "went": went, "changed": changed}


def _there(changes: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [*changes["came"], *changes["changed"]]


def _without_plugin(
    came: Sequence[Installed], wanted: Sequence[str], after: Mapping[str, Installed]
) -> list[str]:
    """Of what was asked for, and of what came and nothing needs, what brings no plugin."""
    from genai_host.plugins.index import PluginIndex
    from genai_host.plugins.installer import required_name
    from genai_host.util.names import normal_name

    plugins = {normal_name(found.distribution) for found in PluginIndex().plugins()}
    needed = {name for each in after.values() for name in each.needs}
    names = {required_name(each) for each in wanted} & after.keys()
    names |= {normal_name(each.name) for each in came} - needed
    return sorted(names - plugins)


def _tell(
    commands: Sequence[Sequence[str]],
    code: int,
    changes: Mapping[str, list[dict[str, Any]]],
    strange: Sequence[str],
    *,
    as_json: bool,
) -> None:
    if as_json:
        done: dict[str, Any] = {
            "commands": [_shown(each) for each in commands],
            "exit_code": code,
        }
        echo_json({**done, **changes, "without_plugin": list(strange)})
    else:
        columns = ("change", "plugin", "distribution", "version", "status", "reason")
        rows = [
            (
                change,
                row["name"],
                row["distribution"],
                row.get("version") or row["before"],
                row.get("status", ""),
                row.get("reason", ""),
            )
            for change, those in changes.items()
            for row in those
        ]
        if rows:
            echo_table(columns, rows)
        elif not code:
            note("no plugin came, went or changed")
    for row in _there(changes):
        if row["status"] == "unchecked":
            note(
                f"{row['name']} could not be checked: loading the plugins ended before. "
                f"genai-host plugins disable {row['distribution']}:{row['name']}"
            )
        elif row["fix"]:
            note(f"fix {row['name']}: {row['fix']}")
    for name in strange:
        note(
            f"{name} brings no plugin of {APP}; it stays. To remove it: genai-host uninstall {name}"
        )


@click.command(name="install", cls=InstallerCommand)
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option(
    "-e",
    "--editable",
    multiple=True,
    metavar="PATH",
    help="Install a directory in editable mode.",
)
@TRUST
@install_options
@click.pass_context
def command(
    ctx: click.Context,
    plugins: tuple[str, ...],
    editable: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Install plugins into genai-host's environment.

    PLUGIN is the exact name of a distribution, a directory, a wheel or a URL. The command asks
    before it installs code of a third party. Arguments after -- are passed to the installer
    (pip, uv or pipx):

    \b
    genai-host install genai-vendor-openai
    genai-host install genai-vendor-openai -- --index-url https://pypi.example.org
    """
    from genai_host.plugins.installer import Place, find_installer, installed_distributions

    if not plugins and not editable:
        raise click.UsageError("which plugin? genai-host install genai-vendor-openai", ctx)
    wanted = [_as_path(plugin) for plugin in plugins]
    folders = [os.path.abspath(os.path.expanduser(path)) for path in editable]
    if not dry_run:
        again = shlex.join([APP, "install", "--yes", *_shown(plugins)])
        must_be_trusted(wanted, installed_distributions(), yes=yes, again=again)
    installer = find_installer(Place.here(), further(ctx))
    commands = installer.install(wanted, folders, further(ctx))
    return perform(commands, wanted, dry_run=dry_run, as_json=as_json)


def _as_path(plugin: str) -> str:
    """A folder or a file by its whole path; a name stays one, even if there is a folder
    of that name here."""
    path = os.path.expanduser(plugin)
    is_path = os.path.dirname(path) or path in (os.curdir, os.pardir) or path.endswith(".whl")
    return os.path.abspath(path) if is_path and os.path.exists(path) else plugin

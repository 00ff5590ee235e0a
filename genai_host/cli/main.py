"""`genai-host`: the command group, and error handling.

Exit codes: 0 success, 1 an expected error (including errors of the operating system, and a closed
output pipe), 2 wrong usage, 3 the turn waits for input, 130 interrupted. Bugs are shown as
tracebacks.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from genai_host.cli.app import App, no_output_of_plugins, show_log
from genai_host.util.interpreter import pause_collection, resume_collection
from genai_host.util.names import (
    APP,
    COMMANDS,
    COMMANDS_OF_PLUGINS,
    FORMER_COMMANDS,
    SAFE,
    __version__,
    install_line,
    our_distributions,
)

if TYPE_CHECKING:
    from types import FrameType


_log = logging.getLogger(__name__)

_WAITING = 3
_FILES = dict.fromkeys(("install", "uninstall", "upgrade"), "install")  # share a file


class Commands(click.Group):
    """Commands of the host and of plugins. Modules are imported when a command runs."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Make the help option not eager, so that it is processed after the options it depends
        on."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.is_eager = False
        return option

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Use `ask` for a question in place of a command: text with a space or a question mark."""
        if any(each.isspace() for each in args[0].strip()) or args[0].endswith("?"):
            args = ["ask", *args]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from genai_host.util.text import did_you_mean

            hint = _absent(args[0])
            hint = hint or did_you_mean(args[0], self.list_commands(ctx)).capitalize()
            if not hint and not args[0].startswith("-"):
                import shlex

                hint = f"To ask the model: {APP} ask {shlex.quote(args[0])}"
            if not hint:
                raise
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *indexed_commands()})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = FORMER_COMMANDS.get(name, name)
        if name in COMMANDS:
            file = _FILES.get(name, name)
            module = importlib.import_module(f"genai_host.cli.{file}")
            command: click.Command = getattr(module, name if name in _FILES else "command")
            return command
        return plugin_command(ctx, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the index; help imports no command and no plugin."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        commands = indexed_commands()
        if commands:
            with formatter.section("Plugin commands"):
                formatter.write_dl([(name, commands[name].help) for name in sorted(commands)])


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
    with the measures against plugins that crash. Raises `PluginError` if it cannot be loaded."""
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


def _absent(command: str) -> str:
    """A hint for a command of one of our plugins that is not there; empty if it is of none."""
    from genai_host.plugins.index import PluginIndex

    plugin = COMMANDS_OF_PLUGINS.get(command)
    if plugin is None:
        return ""
    if any(each.distribution == plugin for each in PluginIndex().plugins()):
        return f"Its plugin, {plugin}, is disabled or broken: {APP} plugins"
    return f"Install its plugin: {install_line(plugin)}"


def _use_config(ctx: click.Context, option: click.Parameter, file: str | None) -> None:
    if file is not None:
        # for child processes too, in any directory
        os.environ["GENAI_HOST_CONFIG"] = os.path.abspath(file)


def _keep_safe(ctx: click.Context, option: click.Parameter, safe: bool) -> None:
    if safe:
        os.environ[SAFE] = "1"  # for child processes too


# its options are processed before the command is looked up, which may be a plugin's
@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=APP, is_eager=False)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_use_config,
    help="Use this configuration file.",
)
@click.option(
    "--safe",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_safe,
    help="Load no plugins of third parties.",
)
@click.option(
    "-v",
    "--verbose",
    count=True,
    is_eager=True,
    expose_value=False,
    callback=show_log,
    help="Verbose output; repeat for debug logs.",
)
def cli() -> None:
    """Chat with AI models at any provider.

    \b
    genai-host "What is the capital of France?"
    git diff | genai-host ask "Write a commit message"
    genai-host chat --model smollm2
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    pause_collection()  # until the host or the store is opened
    code = 1  # if `run` raises an error
    try:
        code = run(arguments)
    finally:
        resume_collection()  # the interpreter searches at its end
        if "genai_host.plugins.discovery" in sys.modules:  # plugins may have been loaded
            _end_soon(code)
    sys.exit(code)


EXIT_SECONDS = (5.0, 15.0)
"""Seconds until a process that does not exit names the plugin, and from then until it is ended."""
_EXIT_INTERVAL = 0.1  # seconds between checks


def _end_soon(code: int) -> None:
    """End the process even if threads or exit handlers of plugins do not end. The interpreter waits
    for them, and daemon threads still run then."""
    import threading

    from genai_host.cli.terminal import note

    never = threading.Event()

    def end() -> None:
        never.wait(EXIT_SECONDS[0])
        named: set[str] = set()
        for _ in range(math.ceil(EXIT_SECONDS[1] / _EXIT_INTERVAL)):
            for each in {*_awaited()} - named:
                note(f"warning: {each} keeps the process from exiting", fg="yellow")
                named.add(each)
            never.wait(_EXIT_INTERVAL)
        with contextlib.suppress(OSError, ValueError):
            if sys.stdout is not None:  # the interpreter flushes it after all threads
                sys.stdout.flush()
        os._exit(code)

    threading.Thread(target=end, name="exit", daemon=True).start()


def _awaited() -> Iterator[str]:
    """The threads that the interpreter waits for: their plugins, or their names if unknown."""
    import threading

    from genai_host.plugins.index import PluginIndex

    theirs = [each for each in PluginIndex().plugins() if each.distribution != APP]
    plugins = {re.split("[.:]", each.value)[0]: each.name for each in theirs}
    threads = {each.ident: each for each in threading.enumerate() if not each.daemon}
    for ident, top in sys._current_frames().items():
        frame: FrameType | None = top if ident in threads else None
        while frame is not None:
            plugin = plugins.get(str(frame.f_globals.get("__name__")).partition(".")[0])
            if plugin:
                yield f"plugin {plugin}"
                break
            frame = frame.f_back
        else:
            if ident in threads and threads[ident] is not threading.main_thread():
                yield f"thread {threads[ident].name!r}"


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    app = App(arguments)
    try:
        return _run(app, arguments)
    finally:
        app.end_log()


def _run(app: App, arguments: Sequence[str]) -> int:
    from genai_host.cli.terminal import color, drop, note

    try:
        with app:
            code = cli.main(arguments, prog_name=APP, standalone_mode=False, obj=app, color=color())
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        if sys.stderr is not None:  # click would use standard output instead
            try:
                error.show()
            except OSError:
                drop(sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        note("interrupted")
        return 130
    except BrokenPipeError:
        drop(sys.stdout)
        return 1
    except Exception as error:  # noqa: BLE001 - bugs are raised again there
        return _expected(error)


def _expected(error: Exception) -> int:
    """Print an expected error, and return the exit code; raise any other error again."""
    from genai_host.cli.log import log_error, show_error
    from genai_host.cli.terminal import drop, note
    from genai_host.errors import GenaiError, TurnPaused

    if isinstance(error, GenaiError):
        show_error(error)
        if isinstance(error, TurnPaused):
            return _WAITING
    elif isinstance(error, OSError):
        log_error(error)
        what = f"{error.filename}: " if error.filename else ""
        note(f"error: {what}{error.strerror or error}", fg="red")
        drop(sys.stdout)
    else:
        raise error
    return 1


def commands() -> Iterable[tuple[str, Any]]:
    """Import the host's commands and yield them by name, for the documentation and its tests."""
    context = click.Context(cli, **cli.context_settings)
    for name in COMMANDS:
        yield name, cli.get_command(context, name)

"""`genai-host`: the group of all commands, and what becomes of errors.

Exit codes: 0 done, 1 an error that was expected (or nobody reads the output, which is
no news to anyone), 2 a wrong use, 130 interrupted. Bugs are tracebacks.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from genai_host import __version__
from genai_host.names import APP

_COMMANDS = {
    "ask": "Ask one question and print the answer.",
    "chat": "Converse, turn by turn.",
    "completion": "Print the completion script of a shell.",
    "doctor": "Check that everything is in order, and say what is not.",
    "features": "List what can be conversed with.",
    "models": "List the models, and where they run.",
    "plugins": "List, check, enable and disable plugins.",
    "providers": "List the providers and their settings.",
    "routes": "Show which model runs on which provider, and why not.",
}


class Commands(click.Group):
    """The host's commands, imported when they run, and those of plugins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_COMMANDS, *_plugin_commands()})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _COMMANDS:
            module = importlib.import_module(f"genai_host.cli.{name}")
            command: click.Command = module.command
            return command
        from genai_host.cli.app import plugin_command

        return plugin_command(ctx, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From what is known of them: help imports no command, and no plugin."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))
        commands = _plugin_commands()
        if commands:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(sorted(commands.items()))


def _plugin_commands() -> dict[str, str]:
    """Name and help of the commands that plugins brought when they were last loaded."""
    from genai_host.index import PluginIndex

    outcomes = PluginIndex().outcomes().values()
    found = {name: help for outcome in outcomes for name, help in outcome.commands}
    return {name: help for name, help in found.items() if name not in _COMMANDS}


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=APP)
@click.option("--config", metavar="FILE", help="Use this configuration file.")
@click.option("-v", "--verbose", count=True, help="Say what happens; twice for more.")
@click.pass_context
def cli(ctx: click.Context, config: str | None, verbose: int) -> None:
    """Converse with any model on any provider, through any feature.

    \b
    genai-host ask "What is the capital of France?"
    git diff | genai-host ask "Write a commit message"
    genai-host chat --model smollm2
    """
    from genai_host.cli.app import App

    if config is not None:
        os.environ["GENAI_HOST_CONFIG"] = config  # for what this command starts, too
    if verbose:
        _log_to_stderr(verbose)
    ctx.obj = App(verbose=verbose)
    ctx.call_on_close(ctx.obj.close)


def _log_to_stderr(verbose: int) -> None:
    import logging

    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    level = logging.INFO if verbose == 1 else logging.DEBUG
    logging.getLogger("genai_host").setLevel(level)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        code = cli.main(arguments, prog_name=APP, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # nobody reads any more: keep the interpreter from flushing into the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - bugs are raised again there
        return _expected(error)


def _expected(error: Exception) -> int:
    """Print an expected error; raise any other."""
    from genai_host.errors import GenaiError

    if not isinstance(error, GenaiError):
        raise error
    from genai_host.cli.terminal import show_error

    show_error(error)
    return 1


def commands() -> Iterable[tuple[str, Any]]:
    """The host's commands by name, imported: for the documentation and its tests."""
    context = click.Context(cli)
    for name in _COMMANDS:
        yield name, cli.get_command(context, name)

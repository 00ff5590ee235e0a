"""`genai-host completion`: shell completion of command lines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from genai_host.cli.terminal import echo
from genai_host.util.names import APP


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script, to be evaluated when the shell starts:

    \b
    eval "$(genai-host completion bash)"
    genai-host completion fish > ~/.config/fish/completions/genai-host.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click has a class for each choice
    variable = f"_{APP.upper().replace('-', '_')}_COMPLETE"
    echo(kind(ctx.find_root().command, {}, APP, variable).source(), raw=True)

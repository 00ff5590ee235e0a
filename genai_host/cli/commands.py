"""Parts of commands, for commands of plugins: options, and output.

    from genai_host import commands

    @click.command()
    @commands.conversation_options
    @click.pass_obj
    def shop(state: CommandState, **chosen: Any) -> None:
        arguments = commands.conversation_arguments(state.host, **chosen)
        with state.host.open(**arguments) as opened:
            commands.echo(opened.say("hi").text)

`genai-batch` uses it, and so do the commands of tools and assistants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from genai_host.cli.options import (
    Chosen as _Chosen,
    LastUsed as _LastUsed,
    RenamedOption as RenamedOption,
    changes as _changes,
    conversation_options as conversation_options,
    named_values as named_values,
    read_schema as read_schema,
)
from genai_host.cli.terminal import (
    ProgressLine as ProgressLine,
    echo as echo,
    echo_json as echo_json,
    echo_table as echo_table,
    is_terminal as is_terminal,
    note as note,
    piped_text as piped_text,
)

if TYPE_CHECKING:
    from genai_host.api import HostServices

S = TypeVar("S")


def conversation_arguments(host: HostServices, **chosen: Any) -> dict[str, Any]:
    """Return the arguments of `Host.open` from the options of `conversation_options`.

    Args:
        host: The host. If its configuration sets `remember`, missing names are those used last.
        chosen: Values of the options.

    Raises:
        click.BadParameter: A value is invalid.
    """
    given = _changes(**chosen)
    if host.config.remember:
        names = _Chosen(given["feature"], given["model"], given["provider"])
        given.update(names.over(_LastUsed().read())._asdict())
    return given


def tool_settings(host: HostServices, name: str, settings: type[S]) -> S:
    """Return the settings of a set of tools, from the table `[tools.NAME]` and the environment.
    Raises `ConfigurationError` if a setting is invalid."""
    from genai_host.api.settings import read_settings
    from genai_host.config.schema import SetConfig

    config = host.config.tools.get(name, SetConfig())
    return read_settings(
        settings, config.settings, owner=f"tools.{name}", overrides=config.overrides
    )

"""A command that a plugin adds to the command line."""

from __future__ import annotations

from attrs import frozen


@frozen
class Command:
    """A subcommand of `genai-host`.

    name   what the user types; `[a-z0-9-]+`
    help   one line for `--help`
    load   the click command, as `package.module:name`; imported when it runs
    """

    name: str
    help: str
    load: str

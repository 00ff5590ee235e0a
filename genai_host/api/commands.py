"""A command that a plugin adds to the command line."""

from __future__ import annotations

from attrs import field, frozen

from genai_host.api.validators import ADDRESS, TEXT


@frozen
class Command:
    """A subcommand of `genai-host`.

    name   what the user types; `[a-z0-9-]+`
    help   one line for `--help`
    load   the click command, as `package.module:name`; imported when it runs
    """

    name: str = field(validator=TEXT)
    help: str = field(validator=TEXT)
    load: str = field(validator=ADDRESS)

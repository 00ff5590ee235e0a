"""The access log of `genai-host serve`, and its warnings, as text or as JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import attrs

from genai_host.cli.log import write_json
from genai_host.cli.terminal import note

if TYPE_CHECKING:
    from genai_server.settings import AccessLogEntry

_REQUESTS = "genai_host.requests"


class ServeLog(NamedTuple):
    """Functions that show an answered request and a warning."""

    answered: Callable[[AccessLogEntry], None]
    warning: Callable[[str], None]


def text_log() -> ServeLog:
    """The log as text on standard error."""
    return ServeLog(lambda answered: note(str(answered)), lambda line: note(line, fg="yellow"))


def json_log() -> ServeLog:
    """The log as JSON lines on standard error."""
    return ServeLog(_write_answered, _write_warning)


def _write_answered(answered: AccessLogEntry) -> None:
    fields = {"message": str(answered), **attrs.asdict(answered)}
    fields["seconds"] = round(answered.seconds, 6)
    write_json(datetime.now(UTC).timestamp(), "INFO", _REQUESTS, fields)


def _write_warning(text: str) -> None:
    fields = {"message": text.removeprefix("warning: ")}
    write_json(datetime.now(UTC).timestamp(), "WARNING", "genai_host.cli", fields)

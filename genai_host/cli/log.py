"""Errors, and the log on standard error, as text or as JSON lines.

As text, each warning is one line; `-v` adds informational messages, and the cause of an error. As
JSON, each record is one line, for log collectors:

    {"time": "2026-11-23T21:05:00.123Z", "level": "info", "logger": "genai_host", "message": "..."}

`time` is when the record was logged, in UTC (RFC 3339). A record of an exception has its class in
`exception`, and with `-v` the traceback in `trace`. A record of a request has `method`, `path`,
`status`, `seconds` and `user`. Characters beyond ASCII are escaped, so that no record can control a
terminal.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from genai_host.cli.terminal import note
from genai_host.errors import (
    AuthenticationFailed,
    CircuitOpen,
    GenaiError,
    ProviderError,
    RateLimited,
    ServiceUnavailable,
)
from genai_host.util.text import shorten

_log = logging.getLogger(__name__)


def show_log(verbose: int, *, as_json: bool = False) -> Callable[[], None]:
    """Show the host's log, and return a function that stops it. It shows warnings for 0,
    informational messages as well for 1, all messages from 2."""
    logger = logging.getLogger("genai_host")
    level = logger.level
    notes = _handler(verbose, as_json=as_json)
    logger.addHandler(notes)
    logger.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])

    def end() -> None:
        logger.removeHandler(notes)
        logger.setLevel(level)

    return end


def _handler(verbose: int, *, as_json: bool) -> logging.Handler:
    if as_json:
        return JsonLines(traces=verbose > 0)
    notes = _Notes() if verbose else _Warnings()
    notes.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    return notes


class _Notes(logging.Handler):
    """Prints log messages, escaped: they may contain text of models or plugins."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


class _Warnings(logging.Handler):
    """Prints warnings without a traceback, which `-v` shows."""

    def emit(self, record: logging.LogRecord) -> None:
        note(f"warning: {shorten(record.getMessage())}", fg="yellow")


def log_error(error: BaseException) -> None:
    _log.info("traceback of the error", exc_info=error)


def log_cause(error: BaseException) -> None:
    """Log the cause of an error with its traceback. For errors of provider calls, messages of
    libraries are omitted, because they may quote headers with keys."""
    cause = error.__cause__
    if cause is None:
        return
    if isinstance(error, ProviderError):
        _log.info("cause of the error\n%s", _without_messages(cause))
    else:
        _log.info("cause of the error", exc_info=cause)


def _without_messages(error: BaseException) -> str:
    """A traceback, deepest cause first, with only the class of each exception."""
    text = ""
    cause: BaseException | None = error
    while cause is not None:
        frames = "".join(traceback.format_tb(cause.__traceback__))
        text = f"Traceback (most recent call last):\n{frames}{type(cause).__name__}\n{text}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return text.rstrip()


def show_error(error: GenaiError) -> None:
    """Print an error: the message and its place, the reasons, and the next step; with -v, first the
    cause."""
    log_cause(error)
    note(f"error: {error}{_place(error)}", fg="red")
    for reason in getattr(error, "reasons", ()):
        if reason not in str(error):
            note(f"  - {reason}")
    hint = error.hint or _usual_hint(error)
    if hint:
        note(f"  {hint}")


def _place(error: GenaiError) -> str:
    """Model and provider of the error, unless the message names them."""
    names = [name for name in (error.model, error.provider) if name]
    if all(name in str(error) for name in names):
        return ""
    return f" ({'@'.join(names)})"


def _usual_hint(error: GenaiError) -> str:
    """The next step for an error without a hint."""
    after = getattr(error, "retry_after", None)
    wait = "wait a while" if after is None else f"wait {math.ceil(after)} s"
    if isinstance(error, AuthenticationFailed):
        return "check the key: genai-host doctor"
    if isinstance(error, (RateLimited, CircuitOpen)):
        return f"{wait}, then try again"
    if isinstance(error, ServiceUnavailable) and error.provider:
        return f"try again, or check its settings: genai-host config show {error.provider}"
    return ""


class JsonLines(logging.Handler):
    """Writes JSON lines, with tracebacks of exceptions if `traces`."""

    def __init__(self, *, traces: bool) -> None:
        super().__init__()
        self._traces = traces

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields: dict[str, Any] = {"message": record.getMessage()}
            if record.exc_info and record.exc_info[0] is not None:
                fields["exception"] = record.exc_info[0].__name__
                if self._traces:
                    fields["trace"] = "".join(traceback.format_exception(*record.exc_info))
            write_json(record.created, record.levelname, record.name, fields)
        except Exception:  # noqa: BLE001 - like all handlers of logging
            self.handleError(record)


def write_json(when: float, level: str, logger: str, fields: dict[str, Any]) -> None:
    time = datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds")
    head = {"time": time.replace("+00:00", "Z"), "level": level.lower(), "logger": logger}
    note(json.dumps({**head, **fields}))

"""The log on standard error, in words or as JSON lines.

In words, each warning is one line; `-v` adds what happens, and the cause of an error. As JSON,
each record is one line, for programs that collect logs:

    {"time": "2026-11-23T21:05:00.123Z", "level": "info", "logger": "genai_host", "message": "..."}

`time` is when the record was logged, in UTC (RFC 3339). A record of an exception has its class in
`exception`, and with `-v` the traceback in `trace`. A record of a request has `method`, `path`,
`status`, `seconds` and `user`. Characters beyond ASCII are escaped, so that no record can control
a terminal.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from genai_host.cli.terminal import note
from genai_host.errors import ProviderError
from genai_host.util.text import one_line

if TYPE_CHECKING:
    from genai_host.server.settings import AccessLogEntry


_log = logging.getLogger(__name__)


def show_log(verbose: int, *, as_json: bool = False) -> Callable[[], None]:
    """Show the host's log from now on, and give what ends that.

    verbose   0 for warnings alone, 1 for what happens, 2 or more for all
    as_json   in lines of JSON
    """
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
    """They drive no terminal: what is logged may be what a model or a plugin said."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


class _Warnings(logging.Handler):
    """Where it happened is for those who ask."""

    def emit(self, record: logging.LogRecord) -> None:
        note(f"warning: {one_line(record.getMessage())}", fg="yellow")


def log_error(error: BaseException) -> None:
    """Log where an error came from."""
    _log.info("where it failed", exc_info=error)


def log_cause(error: BaseException) -> None:
    """Log what caused an error, and where. On the way to a service it goes without what
    libraries say: they quote addresses and headers whole, and keys stand in those."""
    cause = error.__cause__
    if cause is None:
        return
    if isinstance(error, ProviderError):
        _log.info("what caused it\n%s", _without_messages(cause))
    else:
        _log.info("what caused it", exc_info=cause)


def _without_messages(error: BaseException) -> str:
    """A traceback, the deepest cause first, with no more of each than its class."""
    text = ""
    cause: BaseException | None = error
    while cause is not None:
        frames = "".join(traceback.format_tb(cause.__traceback__))
        text = f"Traceback (most recent call last):\n{frames}{type(cause).__name__}\n{text}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return text.rstrip()


_REQUESTS = "genai_host.requests"


class JsonLines(logging.Handler):
    """
    traces   whether exceptions are shown with where they came from
    """

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
            _write(record.created, record.levelname, record.name, fields)
        except Exception:  # noqa: BLE001 - as every handler of logging does it
            self.handleError(record)


def write_answered(answered: AccessLogEntry) -> None:
    """A line for a request that was answered."""
    now = datetime.now(UTC).timestamp()
    fields = {"message": str(answered), **attrs.asdict(answered)}
    _write(now, "INFO", _REQUESTS, {**fields, "seconds": round(answered.seconds, 6)})


def write_note(text: str) -> None:
    """A line for what a command says beside its output."""
    now = datetime.now(UTC).timestamp()
    _write(now, "WARNING", "genai_host.cli", {"message": text.removeprefix("warning: ")})


def _write(when: float, level: str, logger: str, fields: dict[str, Any]) -> None:
    time = datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds")
    head = {"time": time.replace("+00:00", "Z"), "level": level.lower(), "logger": logger}
    note(json.dumps({**head, **fields}))

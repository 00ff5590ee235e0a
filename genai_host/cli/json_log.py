"""The log as lines of JSON, one for each record, for programs that gather logs.

    {"time": "2026-11-23T21:05:00.123Z", "level": "info", "logger": "genai_host", "message": "..."}

`time` is when it was logged, in UTC (RFC 3339). A record has `exception` where that is asked for,
and a request `method`, `path`, `status`, `seconds` and `user`. Characters beyond ASCII are escaped,
so that nothing drives a terminal.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import attrs

from genai_host.cli.terminal import note

if TYPE_CHECKING:
    from genai_host.server.answered import Answered

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


def write_answered(answered: Answered) -> None:
    """A line for a request that was answered."""
    now = datetime.now(timezone.utc).timestamp()
    fields = {"message": str(answered), **attrs.asdict(answered)}
    _write(now, "INFO", _REQUESTS, {**fields, "seconds": round(answered.seconds, 6)})


def write_note(text: str) -> None:
    """A line for what a command says beside its output."""
    now = datetime.now(timezone.utc).timestamp()
    _write(now, "WARNING", "genai_host.cli", {"message": text.removeprefix("warning: ")})


def _write(when: float, level: str, logger: str, fields: dict[str, Any]) -> None:
    time = datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="milliseconds")
    head = {"time": time.replace("+00:00", "Z"), "level": level.lower(), "logger": logger}
    note(json.dumps({**head, **fields}))

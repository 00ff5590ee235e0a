"""What the commands print: tables, JSON, notes, and nothing that drives a terminal.

Names, answers and files are written by anybody: at a terminal their control characters are
shown, not obeyed. Where the output is piped it is exact.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import click

# C0 but tab and newline, DEL, C1, and what reorders text (Unicode TR9)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_WIDEST = 48  # characters of a cell at a terminal


def safe(text: str) -> str:
    """The text with a sign for each control character; newline and tab stay."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


def line_of(text: str) -> str:
    """The same on one line."""
    return " ".join(safe(text).split())


def is_seen() -> bool:
    """Whether somebody looks at standard error, for whom progress is told."""
    return sys.stderr is not None and sys.stderr.isatty()


def echo(text: str, *, end: str = "\n") -> None:
    """Print to standard output, at once."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    text = safe(text) if is_terminal else _encodable(text)
    click.echo(text + end, nl=False)


def note(text: str) -> None:
    """Print to standard error: what is said about the output, and no part of it."""
    click.echo(_encodable(safe(text)), err=True)


def progress(text: str) -> None:
    """Take the place of what was told before, where somebody looks."""
    if is_seen():
        click.echo(f"\r{line_of(text)}\033[K", err=True, nl=False)


def end_progress() -> None:
    if is_seen():
        click.echo("\r\033[K", err=True, nl=False)


def echo_json(value: Any) -> None:
    """Indented; in ASCII, so that it is safe anywhere."""
    click.echo(json.dumps(value, indent=2))


def echo_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people; where it is piped, lines with tabs between and without a head."""
    lines = [[line_of(cell) for cell in row] for row in rows]
    if sys.stdout is None or not sys.stdout.isatty():
        for line in lines:
            echo("\t".join(line))
        return
    lines = [[_short(cell) for cell in line] for line in [list(columns), *lines]]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for number, line in enumerate(lines):
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.secho("  ".join(padded).rstrip(), bold=True if not number else None)


def when(seconds: int) -> str:
    """A time of the API, as people have it where this runs."""
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
    except (OverflowError, OSError, ValueError):
        return str(seconds)
    return moment.strftime("%Y-%m-%d %H:%M")


def _short(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..."


def _encodable(text: str) -> str:
    """Half a surrogate pair has no form in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()

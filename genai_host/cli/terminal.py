"""What reaches the terminal: tables, colours, errors, and nothing that drives it.

Text of models and plugins is hostile: at a terminal its control characters are
shown, not obeyed. Where the output is piped it is exact.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from genai_host.errors import GenaiError

# C0 but tab and newline, DEL, C1, and what reorders text (Unicode TR9)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """The text with control characters as visible signs; newline and tab stay."""
    return _CONTROLS.sub(lambda found: _sign(found.group()), text.replace("\r\n", "\n"))


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<{code:04X}>"


def echo(text: str, *, end: str = "\n", raw: bool = False) -> None:
    """Print to standard output, at once.

    raw   exactly as it is, at a terminal too
    """
    exact = raw or not sys.stdout.isatty()
    text = (text if exact else safe(text)) + end
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:  # half a surrogate pair, or a terminal of few letters
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def note(text: str, **style: Any) -> None:
    """Print to standard error: what is said about the output, and no part of it."""
    click.secho(safe(text), err=True, **style)


def echo_json(value: Any) -> None:
    """Print JSON, indented; escaped to ASCII, so that it is safe anywhere."""
    echo(json.dumps(value, indent=2))


def echo_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people; where it is piped, tab-separated lines without a head."""
    lines = [[_cell(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for line in lines:
            echo("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in line))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        table.add_row(*(Text(safe(cell), style=_STYLES.get(cell, "")) for cell in line))
    Console(highlight=False).print(table)


_STYLES = {
    "loaded": "green",
    "ok": "green",
    "runs": "green",
    "broken": "red",
    "failed": "red",
    "blocked": "yellow",
    "warning": "yellow",
    "unchecked": "dim",
    "-": "dim",
}


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)


def show_error(error: GenaiError) -> None:
    """One line for what is wrong, then the reasons, then the next step."""
    note(f"error: {error}", fg="red")
    for reason in getattr(error, "reasons", ()):
        if reason not in str(error):
            note(f"  - {reason}")
    if error.hint:
        note(f"  {error.hint}")

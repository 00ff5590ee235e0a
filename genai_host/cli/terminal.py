"""Terminal output and piped input: text, notes, costs, times.

Text of models and plugins is untrusted: on a terminal its control characters are shown as visible
symbols, not interpreted. Piped output is exact. Any of the three standard streams may be closed; it
is None then.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

if TYPE_CHECKING:
    from genai_host.api import Cost


_NARROWEST = 40  # minimum width of a table, in columns
_FRACTION = 4  # decimal places of amounts from one cent


def cost_text(cost: Cost) -> str:
    """Format US dollars with few digits: `$0.0125`, or `at least $0.0125`."""
    text = f"${dollars_text(cost.dollars)}"
    return f"at least {text}" if cost.unknown else text


def dollars_text(dollars: float) -> str:
    """Format an amount without a sign, below one cent with three significant digits."""
    if dollars >= 0.01:
        return f"{dollars:.{_FRACTION}f}"
    digits, _, exponent = f"{dollars:.2e}".partition("e")
    decimals = len(digits.partition(".")[2]) - int(exponent)
    return f"{dollars:.{decimals}f}".rstrip("0").rstrip(".")


_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def local(moment: float) -> str:
    """Format a time (seconds since 1970) in the local time zone, to the minute."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def read_date(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Option callback for a date with an optional time (ISO 8601), in local time by default;
    returns seconds since 1970."""
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"invalid date {value!r}: expected YYYY-MM-DD", ctx, param
        ) from None


def read_age(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Option callback for an age, for example `30d`; returns the time in seconds since 1970."""
    if value is None:
        return None
    read = re.fullmatch(r"([0-9]{1,6})([mhdw])", value)
    if read is None:
        raise click.BadParameter(
            f"invalid age {value!r}: expected for example 30d, 12h or 4w", ctx, param
        )
    number, unit = read.groups()
    return time.time() - int(number) * _UNITS[unit]


# C0 except tab and newline, DEL, C1, and bidirectional controls (Unicode TR9)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")


_OUTPUT = "standard output"
MAX_PIPED = 20 * 1024 * 1024

P = TypeVar("P", str, bytes)


def safe(text: str) -> str:
    """Replace control characters except newline and tab by visible symbols."""
    return _CONTROLS.sub(lambda found: _sign(found.group()), text.replace("\r\n", "\n"))


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<{code:04X}>"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal."""
    return stream is not None and stream.isatty()


def can_ask() -> bool:
    """Whether a person can see a question and answer it."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def color() -> bool | None:
    """Value for `color` of click: None for colors on a terminal, False if the user disabled them
    (https://no-color.org) or the terminal has none."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if is_plain else None


def echo(text: str, *, end: str = "\n", raw: bool = False, **style: Any) -> None:
    """Print to standard output, and flush. On a terminal, control characters are escaped unless
    `raw`, and the text has the `style`, as in `click.style`.

    Raises:
        OSError: Writing failed; the error names standard output.
    """
    output: TextIO | None = sys.stdout
    if output is None:
        raise OSError(errno.EBADF, "it is closed", _OUTPUT)
    exact = raw or not output.isatty()
    text = text if exact else safe(text)
    is_styled = style and output.isatty() and color() is None
    text = (click.style(text, **style) if is_styled else text) + end
    try:
        try:
            output.write(text)
        except UnicodeEncodeError:  # the encoding of the terminal lacks characters
            if output.errors == "surrogateescape":  # bytes pass through, as in the C locale
                text = text.encode("utf-8", "backslashreplace").decode("ascii", "surrogateescape")
            else:
                text = text.encode(output.encoding, "backslashreplace").decode(output.encoding)
            output.write(text)
        output.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, _OUTPUT) from error


def note(text: str, **style: Any) -> None:
    """Print a message to standard error, separate from the output. Write errors are ignored."""
    try:
        click.secho(safe(text), err=True, color=color(), **style)
    except OSError:
        drop(sys.stderr)


class ProgressLine:
    """A line on standard error that is overwritten; nothing is shown if it is not a terminal.

        with ProgressLine() as line:
            line.show("1 of 3 MB")

    Args:
        quiet: Whether to show nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.is_shown = not quiet and is_terminal(sys.stderr)
        self._is_open = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self.is_shown:
            click.echo(f"\r{safe(text)}\033[K", nl=False, err=True)
            self._is_open = True

    def end(self) -> None:
        """End the line; the next text is on another one."""
        if self._is_open:
            click.echo(err=True)
        self._is_open = False


def drop(stream: TextIO | None) -> None:
    """Prevent the interpreter from flushing a broken stream at exit."""
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):  # for example, if it is captured
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def piped_text() -> str:
    """All piped input; empty on a terminal. Raises `ConfigurationError` if it is not text, or
    larger than 20 MiB."""
    source: TextIO | None = sys.stdin
    if source is None or source.isatty():
        return ""
    return _piped_as_text(_bounded(source.buffer.read(MAX_PIPED + 1)), source)


def piped_lines() -> Iterator[str]:
    """Lines of piped input. Raises `ConfigurationError` if the input is not text."""
    source: TextIO | None = sys.stdin
    if source is None:
        return
    from genai_host.util.text import encoding_of

    for line in source.buffer:
        # the first line ends within the several bytes of a line end
        encoding = encoding_of(line[: len(line) // 2 * 2])
        if encoding.startswith(("utf-16", "utf-32")):
            whole = _bounded(line + source.buffer.read(MAX_PIPED + 1))
            yield from _piped_as_text(whole, source).splitlines()
        else:
            yield _piped_as_text(line, source).rstrip("\n")


def _piped_as_text(data: bytes, source: TextIO) -> str:
    from genai_host.util.text import decode_text, is_text

    if not is_text(data):
        from genai_host.errors import ConfigurationError

        raise ConfigurationError(
            "standard input is not text", hint="attach it as a file: --attach FILE"
        )
    usual = codecs.lookup(source.encoding).name
    return decode_text(data, "utf-8" if usual == "ascii" else usual).replace("\r\n", "\n")


def piped_bytes() -> bytes:
    """All of standard input as bytes. Raises `ConfigurationError` if there is none, or more than 20
    MiB."""
    source: TextIO | None = sys.stdin
    if source is None:
        from genai_host.errors import ConfigurationError

        raise ConfigurationError("standard input is closed")
    return _bounded(source.buffer.read(MAX_PIPED + 1))


def _bounded(piped: P) -> P:
    """The piped input, with an error if it exceeds the limit."""
    if len(piped) > MAX_PIPED:
        from genai_host.errors import ConfigurationError

        raise ConfigurationError(f"standard input is larger than {MAX_PIPED >> 20} MiB")
    return piped


def echo_json(value: Any) -> None:
    """Print indented JSON, escaped to ASCII, so that it is safe on every terminal."""
    echo(json.dumps(value, indent=2))


def echo_json_line(value: Any) -> None:
    """Print JSON on one line, for programs that read lines."""
    echo(json.dumps(value))


def echo_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | Mapping[str, str], as_json: bool
) -> None:
    """Print rows as JSON, or some of their fields as a table; a mapping has the title of the column
    of each field."""
    if as_json:
        echo_json(rows)
        return
    titles = list(columns.values()) if isinstance(columns, Mapping) else columns
    echo_table(titles, [[row[field] for field in columns] for row in rows])


def echo_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; piped, tab-separated lines without a header."""
    lines = [[_cell(value) for value in row] for row in rows]
    if not is_terminal(sys.stdout):
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
    console = Console(highlight=False)
    console.width = max(console.width, _NARROWEST)  # narrower cells would be empty
    console.print(table)


_STYLES = {
    "loaded": "green",
    "ok": "green",
    "works": "green",
    "needs": "yellow",
    "unreachable": "red",
    "broken": "red",
    "failed": "red",
    "blocked": "yellow",
    "warning": "yellow",
    "unchecked": "dim",
    "paused": "yellow",
    "interrupted": "yellow",
    "damaged": "red",
    "running": "cyan",
    "-": "dim",
}


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)

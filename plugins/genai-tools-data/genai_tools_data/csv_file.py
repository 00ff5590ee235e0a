"""A CSV file as a table of an SQLite database in memory.

Nobody says how it is written, so that is found out: the letters (a byte order mark, else
UTF-8, else Windows' Latin letters), what stands between the fields, whether the first line
names the columns, and what is in them. It is read twice, line by line: once to learn all
that, of all lines, and once to fill the table.

A file that is too large is refused, and never cut: a sum over a part of it would be wrong.
"""

from __future__ import annotations

import contextlib
import csv
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path

from attrs import Factory, define, frozen

from genai_host.api import CancelToken
from genai_host.errors import ConfigurationError
from genai_tools_data.database import quoted

MOST_BYTES = 64 * 2**20
MOST_COLUMNS = 300
MOST_NAME = 100
"""Characters of a column's name."""

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 64 * 1024  # characters that the delimiter is found out by
_AT_ONCE = 1000  # rows, between looks at whether the call is over

_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")  # what SQLite has room for, for certain
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?|[+-]?\.[0-9]+")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_CODE = re.compile(r"0[0-9]+|\+[0-9]{6,}|[0-9]{19,}")  # of a place, a telephone, a thing

Row = Sequence[str]
Cell = str | int | float | None


@frozen
class Form:
    """How a file is written."""

    encoding: str
    delimiter: str


def load(connection: sqlite3.Connection, path: Path, table: str, limits: CancelToken) -> None:
    """Make a table of the file. Raises `ConfigurationError` for what is no CSV file, or too
    large, and what ended the call if it ended."""
    try:
        form = Form("", ",")
        for encoding in _encodings(path):
            try:
                form = Form(encoding, _delimiter(path, encoding))
                content = _looked_through(path, form, limits)
                break
            except UnicodeDecodeError:
                continue
        else:
            raise ConfigurationError(f"{path.name} is no text")
        try:
            _fill(connection, table, content, _rows(path, form, limits))
        except UnicodeDecodeError as error:  # it could be read a moment ago
            raise ConfigurationError(f"{path.name} has changed meanwhile: try again") from error
    except csv.Error as error:
        raise ConfigurationError(f"{path.name} is no CSV file: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path.name} cannot be read: {error.strerror}") from error


def _encodings(path: Path) -> tuple[str, ...]:
    with path.open("rb") as stream:
        head = stream.read(4)
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return (encoding,)
    return "utf-8", "cp1252", "latin-1"


def _delimiter(path: Path, encoding: str) -> str:
    """That which makes most lines of a length, and that of more than one field: what
    `csv.Sniffer` finds may be any letter."""
    with path.open(encoding=encoding, newline="") as stream:
        sample = stream.read(_SAMPLE)
    best, found = (0.0, 0), ","
    for delimiter in _DELIMITERS:
        lengths = Counter[int]()
        with contextlib.suppress(csv.Error):
            lengths.update(map(len, csv.reader(sample.splitlines(), delimiter=delimiter)))
        fields, lines = max(lengths.items(), key=lambda each: each[1], default=(1, 0))
        score = (lines / max(1, sum(lengths.values())), fields)
        if fields > 1 and score > best:
            best, found = score, delimiter
    return found


def _rows(path: Path, form: Form, limits: CancelToken) -> Iterator[Row]:
    """Each line that is not empty. What has two of a quotation mark's ends, or none, would
    take in what follows: it is an error."""
    with path.open(encoding=form.encoding, newline="") as stream:
        reader = csv.reader(_lines(stream, path), delimiter=form.delimiter, strict=True)
        try:
            for number, row in enumerate(reader):
                if number % _AT_ONCE == 0:
                    limits.check()
                if len(row) > MOST_COLUMNS:
                    raise csv.Error(f"it has more than {MOST_COLUMNS} fields")
                if row:
                    yield row
        except csv.Error as error:
            raise csv.Error(f"line {reader.line_num}: {error}") from error


def _lines(stream: Iterable[str], path: Path) -> Iterator[str]:
    """As many as there may be: a file may grow while it is read."""
    room = MOST_BYTES
    for line in stream:
        room -= len(line)
        if room < 0:
            raise too_large(path)
        if "\0" in line:
            raise csv.Error("it has NUL in it, as no text has")
        yield line


def too_large(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{path.name} is larger than {MOST_BYTES >> 20} MiB: it has to be made an SQLite database",
        hint=f"sqlite3 data.db '.import --csv {path.name} data'",
    )


@define
class _Column:
    """What is in a column: how many of each kind, and whether its numbers are codes."""

    kinds: Counter[str] = Factory(Counter)
    is_code: bool = False

    def see(self, cell: str, comma: bool) -> None:
        cell = cell.strip()
        self.kinds[_kind(cell, comma)] += 1
        self.is_code = self.is_code or bool(_CODE.fullmatch(cell))

    @property
    def type(self) -> str:
        """As SQLite calls it; empty if it holds numbers beside texts."""
        numbers = self.kinds["whole"] + self.kinds["decimal"]
        if self.is_code or not numbers:
            return "TEXT"
        if self.kinds["text"]:
            return ""
        return "REAL" if self.kinds["decimal"] else "INTEGER"


@frozen
class Content:
    """What is in a file.

    named   whether its first line names the columns
    comma   whether its numbers have a comma where others have a point
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    named: bool
    comma: bool


def _looked_through(path: Path, form: Form, limits: CancelToken) -> Content:
    comma = form.delimiter == ";"  # where a comma is in numbers, it is not between them
    rows = _rows(path, form, limits)
    first = next(rows, None)
    if first is None:
        raise ConfigurationError(f"{path.name} is empty")
    columns: list[_Column] = []
    for row in rows:
        for column, cell in zip_longest(columns[:], row):
            if column is None:
                columns.append(column := _Column())
            column.see(cell or "", comma)
    columns += [_Column() for _ in range(len(first) - len(columns))]
    named = not any(_kind(cell.strip(), comma) in ("whole", "decimal") for cell in first)
    if not named:
        for column, cell in zip(columns, first, strict=False):
            column.see(cell, comma)
    names = _names(first if named else (), len(columns))
    return Content(names, tuple(each.type for each in columns), named, comma)


def _names(first: Row, length: int) -> tuple[str, ...]:
    """A name for each column, none of them twice, in capitals or not, as SQL has it."""
    found: dict[str, str] = {}
    for number, cell in enumerate(islice([*first, *[""] * length], length), 1):
        plain = " ".join(cell.split())[:MOST_NAME] or f"column_{number}"
        own, twice = plain, 1
        while own.casefold() in found:
            twice += 1
            own = f"{plain}_{twice}"
        found[own.casefold()] = own
    return tuple(found.values())


def _fill(
    connection: sqlite3.Connection, table: str, content: Content, rows: Iterator[Row]
) -> None:
    columns = ", ".join(
        f"{quoted(name)} {kind}" for name, kind in zip(content.names, content.types, strict=True)
    )
    connection.execute(f"CREATE TABLE {quoted(table)} ({columns})")
    if content.named:
        next(rows, None)
    readers = [_READERS[kind] for kind in content.types]
    width = len(readers)
    connection.execute("BEGIN")
    connection.executemany(
        f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * width)})",  # noqa: S608 - quoted
        (
            [
                read(cell.strip(), content.comma)
                for read, cell in zip(readers, [*row, *[""] * (width - len(row))], strict=False)
            ]
            for row in rows
        ),
    )
    connection.execute("COMMIT")


def _kind(cell: str, comma: bool) -> str:
    if not cell:
        return "nothing"
    if _WHOLE.fullmatch(cell):
        return "whole"
    if _DECIMAL.fullmatch(cell) or (comma and _DECIMAL_COMMA.fullmatch(cell)):
        return "decimal"
    return "text"


def _as_text(cell: str, comma: bool) -> Cell:
    return cell or None


def _as_number(cell: str, comma: bool) -> Cell:
    kind = _kind(cell, comma)
    if kind == "whole":
        return int(cell)
    if kind == "decimal":
        return float(cell.replace(",", "."))
    return cell or None


_READERS: dict[str, Callable[[str, bool], Cell]] = {
    "TEXT": _as_text,
    "INTEGER": _as_number,
    "REAL": _as_number,
    "": _as_number,
}

"""Sources of data: SQLite databases and CSV files.

The user configures the data, never a model: one SQLite database, or CSV files. The type of a file
is detected from its first bytes, regardless of its name. CSV files become tables of an SQLite
database in memory, which stays loaded until a file changes.

The format of a CSV file is detected: the encoding (a byte order mark, else UTF-8, else
Windows-1252), the delimiter (unless a line `sep=;` names it), whether the first line has the column
names, and their types. The file is read twice, line by line: to detect this from all lines, and to
fill the table. A file that is too large is rejected, never truncated, because a sum over a part of
it would be wrong.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
import sqlite3
import stat
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from attrs import Factory, define, frozen

from genai_host.api import CancelToken, encoding_of
from genai_host.errors import ConfigurationError
from genai_tools_data.database import HEAD, DatabaseReader, distinct, opened_file, quoted

MAX_BYTES = 64 * 2**20
MAX_COLUMNS = 300
MAX_NAME = 100
"""Maximum number of characters of a column's name."""

_DELIMITERS = (",", ";", "\t", "|")
_HEAD = 4096  # bytes to detect the encoding from
_SAMPLE = 64 * 1024  # characters to detect the delimiter from
_AT_ONCE = 1000  # rows between checks of the limits

_SEPARATOR = re.compile(r'"?sep=([^"\r\n])"?\1*[\r\n]', re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")  # always fits into SQLite's integers
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?|[+-]?\.[0-9]+")
_DECIMAL_COMMA = re.compile(r"[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+),[0-9]+")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+")
_YEAR = re.compile("(19|20)[0-9]{2}")
_CODE = re.compile(r"0[0-9]+|\+[0-9]{6,}|[0-9]{19,}")  # postal codes, phone numbers

SourceRow = Sequence[str]
CellValue = str | int | float | None


@frozen
class CsvFormat:
    """Format of a CSV file.

    Attributes:
        names_delimiter: Whether its first line is only `sep=;`, which Excel writes and reads.
        is_grouped: Whether dots group the digits of numbers.
    """

    encoding: str
    delimiter: str
    names_delimiter: bool = False
    is_grouped: bool = False

    def plain(self, cell: str) -> str:
        """Return a cell with a number as Python writes it; other cells as they are."""
        # a number can have a comma only if the delimiter is another one
        if self.delimiter == ";" and (
            _DECIMAL_COMMA.fullmatch(cell) or (self.is_grouped and _GROUPED.fullmatch(cell))
        ):
            return cell.replace(".", "").replace(",", ".")
        return cell


def load(connection: sqlite3.Connection, path: Path, table: str, limits: CancelToken) -> None:
    """Load a CSV file into a table. Raises `ConfigurationError` if it is invalid or too large, and
    the error of `limits`.
    """
    # the limit is global, and 128 KiB by default
    csv.field_size_limit(max(MAX_BYTES, csv.field_size_limit()))
    try:
        form = CsvFormat("", ",")
        for encoding in _encodings(path):
            try:
                form = _form(path, encoding)
                content = _looked_through(path, form, limits)
                break
            except UnicodeDecodeError:
                continue
        else:
            raise ConfigurationError(f"{path.name} is not text")
        try:
            _fill(connection, table, content, _rows(path, form, limits), form)
        except UnicodeDecodeError as error:  # it was readable when the encoding was detected
            raise ConfigurationError(f"{path.name} changed while it was read: try again") from error
    except csv.Error as error:
        raise ConfigurationError(f"{path.name} is not a CSV file: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path.name} cannot be read: {error.strerror}") from error


def _encodings(path: Path) -> tuple[str, ...]:
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    marked = encoding_of(head, "")
    return (marked,) if marked else ("utf-8", "cp1252", "latin-1")


def _form(path: Path, encoding: str) -> CsvFormat:
    with path.open(encoding=encoding, newline="") as stream:
        sample = stream.read(_SAMPLE)
    named = _SEPARATOR.match(sample)
    delimiter = named[1] if named else _delimiter(sample)
    # dots are decimal points, unless there are decimal commas
    cells = sample.translate({ord('"'): " "}).replace("\n", delimiter).split(delimiter)
    is_grouped = any(_DECIMAL_COMMA.fullmatch(each.strip()) for each in cells)
    return CsvFormat(encoding, delimiter, bool(named), is_grouped)


def _delimiter(sample: str) -> str:
    """Return the delimiter with which most lines have the same number of fields, and more than one.
    `csv.Sniffer` can return any letter.
    """
    best, found = (0.0, 0), ","
    for delimiter in _DELIMITERS:
        lengths = Counter[int]()
        with contextlib.suppress(csv.Error):
            lengths.update(map(len, _reader(sample.splitlines(), delimiter)))
        fields, lines = max(lengths.items(), key=lambda each: each[1], default=(1, 0))
        score = (lines / max(1, sum(lengths.values())), fields)
        if fields > 1 and score > best:
            best, found = score, delimiter
    return found


def _rows(path: Path, form: CsvFormat, limits: CancelToken) -> Iterator[SourceRow]:
    """Yield each line that is not empty. An unbalanced quotation mark is an error, because it would
    include the following lines.
    """
    with path.open(encoding=form.encoding, newline="") as stream:
        reader = _reader(_lines(stream, path), form.delimiter, strict=True)
        try:
            if form.names_delimiter:
                next(reader, None)
            for number, row in enumerate(reader):
                if number % _AT_ONCE == 0:
                    limits.check()
                if len(row) > MAX_COLUMNS:
                    raise csv.Error(f"more than {MAX_COLUMNS} fields")
                if row:
                    yield row
        except csv.Error as error:
            raise csv.Error(f"line {reader.line_num}: {error}") from error


def _reader(lines: Iterable[str], delimiter: str, *, strict: bool = False) -> Any:
    """Return a reader that accepts spaces before quotation marks: `a, "b, c"` has two fields."""
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _lines(stream: Iterable[str], path: Path) -> Iterator[str]:
    """Yield the lines, up to the limit, because a file can grow while it is read."""
    room = MAX_BYTES
    for line in stream:
        room -= len(line)
        if room < 0:
            raise too_large(path)
        if "\0" in line:
            raise csv.Error("contains NUL")
        yield line


def too_large(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{path.name} is larger than {MAX_BYTES >> 20} MiB: convert it to a SQLite database",
        hint=f"sqlite3 data.db '.import --csv {path.name} data'",
    )


@define
class _Column:
    """Statistics of a column: number of values of each kind, and whether its numbers are codes."""

    kinds: Counter[str] = Factory(Counter)
    is_code: bool = False

    def see(self, cell: str) -> None:
        self.kinds[_kind(cell)] += 1
        self.kinds["year"] += bool(_YEAR.fullmatch(cell))
        self.is_code = self.is_code or bool(_CODE.fullmatch(cell))

    @property
    def has_years(self) -> bool:
        """Whether all its values are years."""
        return self.kinds["year"] == sum(self.kinds[each] for each in ("whole", "decimal", "text"))

    @property
    def type(self) -> str:
        """SQLite type; empty for a mix of numbers and texts."""
        numbers = self.kinds["whole"] + self.kinds["decimal"]
        if self.is_code or not numbers:
            return "TEXT"
        if self.kinds["text"]:
            return ""
        return "REAL" if self.kinds["decimal"] else "INTEGER"


@frozen
class Content:
    """Content of a CSV file. `named` is whether the first line has the column names."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    named: bool


def _looked_through(path: Path, form: CsvFormat, limits: CancelToken) -> Content:
    rows = _rows(path, form, limits)
    first = next(rows, None)
    if first is None:
        raise ConfigurationError(f"{path.name} is empty")
    columns: list[_Column] = []
    for row in rows:
        for column, cell in zip_longest(columns[:], row):
            if column is None:
                columns.append(column := _Column())
            column.see(form.plain((cell or "").strip()))
    columns += [_Column() for _ in range(len(first) - len(columns))]
    cells = [form.plain(cell.strip()) for cell in first]
    numbers = [
        (column, cell)
        for column, cell in zip(columns, cells, strict=False)
        if _kind(cell) in ("whole", "decimal")
    ]
    # a column for each of some years, or data
    named = len(numbers) != 1 and all(
        _YEAR.fullmatch(cell) and not column.has_years for column, cell in numbers
    )
    if not named:
        for column, cell in zip(columns, cells, strict=False):
            column.see(cell)
    names = _names(first if named else (), len(columns))
    return Content(names, tuple(each.type for each in columns), named)


def _names(first: SourceRow, length: int) -> tuple[str, ...]:
    """Return a name for each column, unique regardless of case, as in SQL."""
    cells = islice([*first, *[""] * length], length)
    return distinct(
        " ".join(cell.split())[:MAX_NAME] or f"column_{number}"
        for number, cell in enumerate(cells, 1)
    )


def _fill(
    connection: sqlite3.Connection,
    table: str,
    content: Content,
    rows: Iterator[SourceRow],
    form: CsvFormat,
) -> None:
    columns = ", ".join(
        f"{quoted(name)} {kind}" for name, kind in zip(content.names, content.types, strict=True)
    )
    connection.execute(f"CREATE TABLE {quoted(table)} ({columns})")
    if content.named:
        next(rows, None)
    readers = [_as_text if kind == "TEXT" else _as_number for kind in content.types]
    width = len(readers)
    connection.execute("BEGIN")
    connection.executemany(
        f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * width)})",  # noqa: S608 - quoted
        (
            [
                read(cell.strip(), form)
                for read, cell in zip(readers, [*row, *[""] * (width - len(row))], strict=False)
            ]
            for row in rows
        ),
    )
    connection.execute("COMMIT")


def _kind(cell: str) -> str:
    if not cell:
        return "nothing"
    if _WHOLE.fullmatch(cell):
        return "whole"
    return "decimal" if _DECIMAL.fullmatch(cell) else "text"


def _as_text(cell: str, form: CsvFormat) -> CellValue:
    return cell or None


def _as_number(cell: str, form: CsvFormat) -> CellValue:
    plain = form.plain(cell)
    kind = _kind(plain)
    if kind == "whole":
        return int(plain)
    return float(plain) if kind == "decimal" else cell or None


SETTING = "path"

MAX_FILES = 20

_PAUSE = 0.05  # seconds between checks of the limits while waiting for another call

Stamp = tuple[tuple[str, int, int, int], ...]


class DataSource:
    """The configured data. Thread-safe: calls that read CSV files run one at a time."""

    def __init__(self, named: Sequence[str]) -> None:
        self._named = named
        self._lock = threading.Lock()
        self._stamp: Stamp = ()
        self._loaded: DatabaseReader | None = None
        self._close: weakref.finalize[[], DataSource] | None = None

    def is_named(self) -> bool:
        """Whether data is configured."""
        return bool(self._named)

    @contextmanager
    def opened(self, limits: CancelToken) -> Iterator[DatabaseReader]:
        """Open the configured data in its current state. Raises `ConfigurationError`: it does not
        exist, or cannot be read."""
        paths = _paths(self._named)
        if [path for path in paths if _is_database(path)]:
            if len(paths) > 1:
                raise ConfigurationError(
                    "a SQLite database cannot be combined with other files", setting=SETTING
                )
            with opened_file(paths[0]) as reader:
                yield reader
            return
        while not self._lock.acquire(timeout=_PAUSE):
            limits.check()
        try:
            yield self._read(paths, limits)
        finally:
            self._lock.release()

    def _read(self, paths: Sequence[Path], limits: CancelToken) -> DatabaseReader:
        """Return the CSV files as a database, reloaded if one has changed."""
        stamp = tuple(map(_stamp, paths))
        if self._loaded is not None and stamp == self._stamp:
            return self._loaded
        self._forget()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            for path, table in zip(paths, _tables(paths), strict=True):
                load(connection, path, table, limits)
            self._loaded = DatabaseReader(connection)
        except BaseException:
            connection.close()
            raise
        self._stamp = stamp
        self._close = weakref.finalize(self, connection.close)
        return self._loaded

    def _forget(self) -> None:
        self._loaded = None
        if self._close is not None:
            self._close()


def _paths(names: Sequence[str]) -> list[Path]:
    if not names:
        hint = "set it: genai-host config set tools.data.path=FILE"
        raise ConfigurationError("tools.data.path is not set", hint=hint, setting=SETTING)
    if len(names) > MAX_FILES:
        raise ConfigurationError(
            f"tools.data.path has more than {MAX_FILES} files", setting=SETTING
        )
    return [Path(os.path.abspath(os.path.expanduser(name))) for name in names]


def _is_database(path: Path) -> bool:
    """Whether a file is a database; raises `ConfigurationError` if it is not a CSV file either."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError(f"{path.name} is not a file", setting=SETTING)
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{path.name} cannot be read: {why}", setting=SETTING) from error
    if head.startswith(HEAD):
        return True
    if b"\0" in head and not encoding_of(head, ""):
        raise ConfigurationError(
            f"{path.name} is neither a SQLite database nor a CSV file", setting=SETTING
        )
    if found.st_size > MAX_BYTES:
        raise too_large(path)
    return False


def _stamp(path: Path) -> tuple[str, int, int, int]:
    found = path.stat()
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


def _tables(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return a table name for each file, based on the file name and easy to write for a model."""
    plain = [re.sub(r"\W+", "_", path.stem).strip("_")[:60] or "data" for path in paths]
    names = [f"t_{each}" if each.lower().startswith("sqlite_") else each for each in plain]
    return distinct(names, key=str.lower)  # as `straße` and `strasse` are two tables

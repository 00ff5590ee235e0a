"""Read-only SQLite databases, and results of queries.

Statements come from a model, so four measures each prevent writes: the file is opened read-only,
`query_only` is on, no database can be attached, and an authorizer denies everything except reading
data. A statement ends with its call. Temporary data is limited where Python can set SQLite's limits
(3.11 and newer).

A statement of a model runs in a separate process. SQLite can be interrupted between two steps, and
limits the size of a value. Neither limits a single step: nested views that double their data can
take gigabytes before the first step, `instr` over long texts can take hours, and an endless sort
can fill the disk.

A `QueryResult` has rows of plain values. Its size is limited, and its text for a model has one line
per row, whatever the data contain.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import frozen

from genai_host.api import CancelToken, ChildLimits, can_run_in_child, run_in_child, well_formed
from genai_host.errors import ConfigurationError, ValidationError

Cell = str | int | float | None

MAX_ROWS = 500
"""Maximum number of rows of one query."""

MAX_COLUMNS = 100

MAX_CELL = 500
"""Maximum number of characters of a value; longer ones are truncated."""

MAX_BYTES = 400_000
"""Maximum number of characters of all rows as JSON; the host accepts 1 MiB from a tool."""

MAX_TEXT = 20_000
"""Maximum number of characters of the text for the model; further rows are omitted."""

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CUT = "…"


@frozen
class QueryResult:
    """Rows of a query, up to the size limits.

    Attributes:
        more: Whether rows were omitted.
        note: What the model should know about the rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: bool = False
    note: str = ""

    @property
    def text(self) -> str:
        """Return the text for a model: the names, one line per row, and the number of rows."""
        lines = [" | ".join(map(_on_line, self.columns))]
        room = MAX_TEXT - len(lines[0])
        for row in self.rows:
            line = " | ".join(map(_on_line, row))
            room -= len(line) + 1
            if room < 0:
                break
            lines.append(line)
        last = "; ".join(filter(None, [self._count(len(lines) - 1), self.note]))
        return "\n".join((*lines, f"({last})"))

    def _count(self, shown: int) -> str:
        rows = "1 row" if len(self.rows) == 1 else f"{len(self.rows)} rows"
        if shown < len(self.rows):
            return f"the first {shown} of {rows}: the text limit is reached; select fewer rows"
        if self.more:
            return f"the first {rows}; there are more"
        return rows


def kept(columns: Sequence[str], rows: Iterable[Sequence[object]], most: int) -> QueryResult:
    """Return a result with the rows that fit into the limits, at most `most`."""
    taken: list[tuple[Cell, ...]] = []
    room, more = MAX_BYTES, False
    for row in rows:
        cells = tuple(map(cell_of, row))
        room -= sum(len(json.dumps(cell)) + 2 for cell in cells)
        if more := len(taken) == most or room < 0:
            break
        taken.append(cells)
    names = (str(cell_of(each)) for each in columns)  # they become keys
    return QueryResult(distinct(names, "{} ({})", str), tuple(taken), more)


def cell_of(value: object) -> Cell:
    """Convert a value to a JSON value of limited length."""
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, str):
        text = well_formed(value)
        return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + _CUT
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (int, float)):
        return value
    return str(value)


def distinct(
    names: Iterable[str], form: str = "{}_{}", key: Callable[[str], str] = str.casefold
) -> tuple[str, ...]:
    """Make names unique by adding numbers, as in `form`; regardless of case by default."""
    found: dict[str, str] = {}
    for name in names:
        own, number = name, 1
        while key(own) in found:
            number += 1
            own = form.format(name, number)
        found[key(own)] = own
    return tuple(found.values())


def _on_line(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.15g}"
    return _BREAKS.sub(" ", str(cell)).replace("|", "¦")


SqlValue = str | int | float | bytes | None

HEAD = b"SQLite format 3\x00"
"""First bytes of every database file (sqlite.org/fileformat.html, 1.3)."""

MAX_SQL = 10_000
"""Maximum number of characters of a statement."""

MAX_VALUE = 2**20
"""Maximum number of bytes of any value, in a table or an intermediate result."""

MAX_TABLES = 200

_STEPS = 1000  # virtual machine instructions between checks of the limits

# (name of sqlite3's limit, value), for sqlite3_limit
_LIMITS = (
    ("SQLITE_LIMIT_LENGTH", MAX_VALUE),
    ("SQLITE_LIMIT_SQL_LENGTH", 10 * MAX_SQL),
    ("SQLITE_LIMIT_LIKE_PATTERN_LENGTH", 200),
    ("SQLITE_LIMIT_EXPR_DEPTH", 200),
    ("SQLITE_LIMIT_COMPOUND_SELECT", 100),
    ("SQLITE_LIMIT_ATTACHED", 0),
    ("SQLITE_LIMIT_WORKER_THREADS", 0),
)

_LOOKS = (
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ),
    *(sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE),
)
# they change nothing; the last one is used to copy a database
_PRAGMAS = frozenset({"table_info", "table_xinfo", "foreign_key_list", "page_count"})
# they access other data, if the SQLite build has them
CASEFOLD = "genai_casefold"
"""SQL function that returns the text of a value without differences of case."""

_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})


@frozen
class Column:
    """A column of a table. Its declared type may be empty."""

    name: str
    type: str = ""
    in_key: bool = False


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def opened_file(path: Path) -> Iterator[DatabaseReader]:
    """Open a database file. Raises `ConfigurationError` if that fails."""
    name = f"{path.absolute().as_uri()}?mode=ro"
    try:
        if _is_at_rest(path):
            name += "&immutable=1"  # otherwise SQLite creates the files of the write-ahead log
        connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)
    except (sqlite3.Error, OSError) as error:
        raise ConfigurationError(f"{path.name} cannot be opened: {error}") from error
    with closing(connection):
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.Error as error:  # SQLite opens the file on the first read
            raise ConfigurationError(f"{path.name} cannot be read: {error}") from error
        yield DatabaseReader(connection, name)


def _is_at_rest(path: Path) -> bool:
    """Whether a database in write-ahead mode has no pending log."""
    with path.open("rb") as stream:
        head = stream.read(20)
    if head[18:20] != b"\x02\x02":
        return False
    log = path.with_name(path.name + "-wal")
    return not log.exists() or not log.stat().st_size


class DatabaseReader:
    """Reads from a connection, which it makes read-only. `address` is that of the database for
    SQLite; empty for one in memory."""

    def __init__(self, connection: sqlite3.Connection, address: str = "") -> None:
        self.address = address
        self._connection = connection
        connection.text_factory = _text
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")  # views in the file are untrusted
        for name, value in _LIMITS:
            connection.setlimit(getattr(sqlite3, name), value)
        connection.create_function(CASEFOLD, 1, casefold, deterministic=True)
        connection.set_authorizer(_authorize)

    def tables(self, limits: CancelToken) -> dict[str, str]:
        """Return `table` or `view` by name."""
        found = self.run(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"
            r" AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name",
            limits,
            most=MAX_TABLES,
        )
        return {str(name): str(kind) for name, kind in found.rows}

    def columns(self, table: str, limits: CancelToken) -> tuple[Column, ...]:
        """Return the columns of an existing table."""
        # cid, name, type, notnull, default, place in the key, hidden
        found = self._about("table_xinfo", table, limits)
        return tuple(
            Column(str(name), str(kind or ""), bool(place))
            for _, name, kind, _, _, place, hidden in found.rows
            if hidden != 1  # hidden columns are not in `*` either
        )

    def keys(self, table: str, limits: CancelToken) -> list[tuple[str, str, str]]:
        """Return the foreign keys: column, table and its column, which is empty for the primary
        key.
        """
        found = self._about("foreign_key_list", table, limits)
        return [(str(row[3]), str(row[2]), str(row[4] or "")) for row in found.rows]

    def _about(self, pragma: str, table: str, limits: CancelToken) -> QueryResult:
        """Run a pragma. The equivalent SELECT would be authorized as a change of the schema."""
        return self.run(f"PRAGMA {pragma}({quoted(table)})", limits)

    def run(
        self,
        sql: str,
        limits: CancelToken,
        parameters: Sequence[SqlValue] = (),
        most: int = MAX_ROWS,
        seconds: float = math.inf,
    ) -> QueryResult:
        """Run a statement and return at most `most` rows.

        Raises:
            ValidationError: It is not a query, or takes more than these seconds.
            GenaiError: The call ended.
        """
        over = threading.Event()
        end = time.monotonic() + seconds
        self._connection.set_progress_handler(
            lambda: over.is_set() or time.monotonic() > end, _STEPS
        )
        try:
            with limits.on_cancel(over.set):
                return self.rows(sql, parameters, most)
        except ValidationError:
            limits.check()
            raise
        finally:
            self._connection.set_progress_handler(None, 0)

    def rows(self, sql: str, parameters: Sequence[SqlValue], most: int) -> QueryResult:
        """Run a statement without a time limit."""
        try:
            with closing(self._connection.execute(sql, parameters)) as cursor:
                return _of(cursor, most)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise ValidationError(_explained(error)) from error
        except MemoryError as error:
            raise ValidationError("the query exceeded its memory limit") from error

    def data(self) -> bytes:
        """Return a database in memory in the format of a file."""
        return self._connection.serialize()


def _of(cursor: sqlite3.Cursor, most: int) -> QueryResult:
    if cursor.description is None:
        raise ValidationError("not a query: write one SELECT")
    columns = [each[0] for each in cursor.description]
    if len(columns) > MAX_COLUMNS:
        raise ValidationError(
            f"the result has {len(columns)} columns: select at most {MAX_COLUMNS}"
        )
    return kept(columns, cursor, most)


def casefold(value: object) -> str | None:
    """The SQL function `CASEFOLD`."""
    return None if value is None else str(value).casefold()


def _authorize(
    action: int, first: str | None, second: str | None, database: str | None, inside: str | None
) -> int:
    """Allow or deny an action of a statement; SQLite calls it before execution."""
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
        return sqlite3.SQLITE_DENY
    if action in _LOOKS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _explained(error: Exception) -> str:
    message = str(error)
    if message in ("not authorized", "authorization denied"):
        return "only reading is allowed: write one SELECT"
    if message.startswith("You can only execute one statement"):
        return "write only one statement"
    if message == "string or blob too big":
        return f"a value is larger than {MAX_VALUE >> 10} KiB: omit its column"
    if "null character" in message:
        return "a statement cannot contain NUL"
    return f"the query failed: {message}"


MAX_MEMORY = 512 * 2**20
"""Bytes for temporary data of a statement, where the system supports limits."""

_SECONDS = 60  # of CPU time, in case no parent is left to kill the process


def can_run() -> bool:
    """Whether there is a Python interpreter to start, and SQLite can copy a database to it."""
    return hasattr(sqlite3.Connection, "serialize") and can_run_in_child()


def run_apart(reader: DatabaseReader, sql: str, limits: CancelToken, most: int) -> QueryResult:
    """Run a statement in another process.

    Returns:
        Its rows, at most `most` of them.

    Raises:
        ValidationError: The statement is not a query, or takes too much memory or time.
        GenaiError: The call ended.
    """
    data = b"" if reader.address else reader.data()
    memory = MAX_MEMORY + 2 * len(data)
    result: QueryResult = run_in_child(
        f"{__name__}:run",
        reader.address,
        sql,
        most,
        returns=QueryResult,
        cancel=limits,
        # SQLite can write to files beside the database
        limits=ChildLimits(memory=memory, cpu_seconds=_SECONDS, may_write=True),
        exceeded=ValidationError("the query exceeded its memory or time limit"),
        data=data,
    )
    return result


def run(address: str, sql: str, most: int, data: bytes) -> QueryResult:
    """Run a statement in this process.

    Args:
        address: SQLite address of the database; empty for one in memory.
        sql: The statement.
        most: Maximum number of rows.
        data: Content of a database in memory.
    """
    with closing(sqlite3.connect(address or ":memory:", uri=True, isolation_level=None)) as opened:
        if data:
            opened.deserialize(data)
        opened.execute("PRAGMA temp_store = MEMORY")  # memory is limited, unlike the disk
        return DatabaseReader(opened).rows(sql, (), most)

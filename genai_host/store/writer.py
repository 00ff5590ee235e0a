"""Adds entries to conversations. This path must be fast.

Each `add` is durable when it returns. Concurrent threads share a transaction: the first one writes
for all that wait. A write is one statement, executed by the driver on a persistent connection. The
names in it are those of `tables`, which is not imported to save time: see `engines`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from genai_host.errors import Conflict, GenaiError
from genai_host.store.database import Database, Liveness


class EntryRow(NamedTuple):
    """An entry as it is written; see `tables.entries`."""

    conversation: str
    number: int
    turn: int | None
    kind: str
    at: float
    body: str


_COLUMNS = (*EntryRow._fields, "writer")


class Addition:
    """Rows that are added atomically.

    Args:
        rows: Entries of one conversation.
        conversation: Properties of a new conversation, as in `tables.conversations`; None for an
            existing one.
        again: Whether the rows may already be stored, by an attempt with an unknown outcome.

    Attributes:
        done: Whether the outcome is known.
        error: Reason for a failure.
    """

    def __init__(
        self,
        rows: Sequence[EntryRow],
        conversation: Mapping[str, Any] | None = None,
        *,
        again: bool = False,
    ) -> None:
        self.rows = rows
        self.conversation = conversation
        self.again = again
        self.done = False
        self.error: GenaiError | None = None
        self._leads = False
        self._gate = threading.Lock()
        self._gate.acquire()

    @property
    def leads(self) -> bool:
        """Whether the thread that waits for this addition must write now."""
        return self._leads

    def lead(self) -> None:
        self._leads = True
        self._gate.release()

    def end(self, error: GenaiError | None = None) -> None:
        self.error = error
        self.done = True
        self._gate.release()

    def wait(self) -> None:
        """Wait until the addition is done or leads."""
        self._gate.acquire()


class EntryWriter:
    """Writer of entries. Thread-safe.

    Args:
        presence: Shows other processes that this writer is alive.
    """

    def __init__(self, database: Database, presence: Liveness) -> None:
        self._database = database
        self._presence = presence
        self._waiting: deque[Addition] = deque()
        self._led = False
        self._lock = threading.Lock()
        self._writing = threading.Lock()  # SQLite: do not close a connection during a write
        self._is_closed = False
        self._connection: Any = None
        self._statements: dict[tuple[str, tuple[str, ...], int], str] = {}

    def add(self, addition: Addition) -> None:
        """Add rows. Raises `Conflict` if an entry with the same number exists or the conversation
        was deleted, and `StoreError` if the rows cannot be written."""
        try:
            with self._lock:
                self._waiting.append(addition)
                if not self._led:
                    addition.lead()
                    self._led = True
            addition.wait()
            if not addition.done:
                self._write()
        finally:
            self._leave(addition)
        if addition.error is not None:
            raise addition.error

    def holds(self, rows: Sequence[EntryRow]) -> bool:
        """Whether these rows are in the store, written by this writer. Raises `StoreError`."""
        with self._writing:
            cursor = self._cursor()
            try:
                return self._holds(cursor, rows)
            except self._database.driver.Error as error:
                self._let_go()
                raise self._database.error(error) from error

    def close(self) -> None:
        """Close after the current write; later calls raise `StoreError`."""
        with self._writing:
            self._is_closed = True
            self._let_go()

    def _leave(self, addition: Addition) -> None:
        """Remove an addition from the queue. If it led, the next one in the queue leads."""
        with self._lock:
            if addition in self._waiting:  # an interrupt
                self._waiting.remove(addition)
            if not addition.leads:
                return
            if self._waiting:
                self._waiting[0].lead()
            else:
                self._led = False

    def _write(self) -> None:
        """Write all queued additions."""
        with self._lock:
            additions = list(self._waiting)
            self._waiting.clear()
        try:
            with self._writing:
                cursor = self._cursor()
                if len(additions) > 1 and self._write_together(cursor, additions):
                    return
                for addition in additions:
                    self._write_one(cursor, addition)
        except GenaiError as error:
            for addition in additions:
                if not addition.done:
                    addition.end(error)
        finally:  # left by an interrupt
            left = [each for each in additions if not each.done]
            if left:
                for each in left:
                    each.again = True
                with self._lock:
                    self._waiting.extendleft(reversed(left))

    def _write_together(self, cursor: Any, additions: Sequence[Addition]) -> bool:
        """Write all additions, or none if one of them fails; then return False."""
        try:
            self._insert(cursor, additions)
        except self._database.errors:
            return False
        for addition in additions:
            addition.end()
        return True

    def _write_one(self, cursor: Any, addition: Addition) -> None:
        driver = self._database.driver
        conflict: Conflict | None = None
        try:
            try:
                self._insert(cursor, [addition])
            except driver.IntegrityError:
                if not (addition.again and self._holds(cursor, addition.rows)):
                    conflict = Conflict(
                        "another process has continued or deleted this conversation",
                        hint="reopen the conversation",
                    )
        except self._database.errors as error:
            self._let_go()
            raise self._database.error(error) from error
        addition.end(conflict)

    def _holds(self, cursor: Any, rows: Sequence[EntryRow]) -> bool:
        mark = "?" if self._database.is_sqlite else "%s"
        # the names are constants, and the values are parameters
        query = (
            f"SELECT {', '.join(_COLUMNS)} FROM entries "  # noqa: S608
            f"WHERE conversation = {mark} AND number BETWEEN {mark} AND {mark} ORDER BY number"
        )
        cursor.execute(query, (rows[0].conversation, rows[0].number, rows[-1].number))
        found = [tuple(each) for each in cursor.fetchall()]
        return found == [(*row, self._presence.token) for row in rows]

    def _insert(self, cursor: Any, additions: Sequence[Addition]) -> None:
        """Insert in one transaction; a single statement is a transaction of its own."""
        token = self._presence.token
        rows = [(*row, token) for addition in additions for row in addition.rows]
        begun = [each.conversation for each in additions if each.conversation is not None]
        if not begun:
            values = [value for row in rows for value in row]
            # not `execute`, which also reads the row number and releases the GIL for that,
            # while other threads wait for it
            cursor.executemany(self._statement("entries", _COLUMNS, len(rows)), [values])
            return
        try:
            cursor.execute("BEGIN")  # the first statement writes: SQLite waits for the lock
            for conversation in begun:
                statement = self._statement("conversations", tuple(conversation))
                cursor.execute(statement, list(conversation.values()))
            cursor.executemany(self._statement("entries", _COLUMNS), rows)
            cursor.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(self._database.driver.Error):  # it may have ended already
                cursor.execute("ROLLBACK")
            raise

    def _statement(self, table: str, columns: tuple[str, ...], rows: int = 1) -> str:
        known = self._statements.get((table, columns, rows))
        if known is None:
            mark = "?" if self._database.is_sqlite else "%s"
            values = ", ".join([f"({', '.join([mark] * len(columns))})"] * rows)
            # the names are constants, and the values are parameters
            known = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"  # noqa: S608
            self._statements[table, columns, rows] = known
        return known

    def _cursor(self) -> Any:
        if self._is_closed:
            raise self._database.closed()
        if self._connection is None:
            with self._database.failing():
                connection = self._database.connect()
                try:
                    self._presence.begin(connection)
                except BaseException:
                    connection.close()
                    raise
            self._connection = connection
        return self._connection.cursor()

    def _let_go(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        with contextlib.suppress(self._database.driver.Error):  # it is no longer usable
            connection.close()

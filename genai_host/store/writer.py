"""Adds entries to conversations: the one path that must be quick.

Each `add` is durable when it returns. Threads that come at once share a transaction:
whoever is first writes for all who wait. The statement is made once, and given to the
driver itself, on a connection that is kept.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import insert

from genai_host.errors import Conflict, GenaiError
from genai_host.store.database import Database
from genai_host.store.presence import Presence
from genai_host.store.tables import entries


class Row(NamedTuple):
    """An entry as it is written; see `tables.entries`."""

    conversation: str
    number: int
    turn: int | None
    kind: str
    at: float
    body: str


class Addition:
    """A row on its way to the store.

    done    whether it is known how it ended
    error   why it was not written
    """

    def __init__(self, row: Row) -> None:
        self.row = row
        self.done = False
        self.error: GenaiError | None = None

    @property
    def written(self) -> bool:
        return self.done and self.error is None

    def end(self, error: GenaiError | None = None) -> None:
        self.error = error
        self.done = True


class Writer:
    """May be used from many threads.

    presence   tells others that who writes is there
    """

    def __init__(self, database: Database, presence: Presence) -> None:
        self._database = database
        self._presence = presence
        compiled = insert(entries).compile(dialect=database.engine.dialect)
        self._statement = str(compiled)
        self._names: Sequence[str] | None = compiled.positiontup
        self._waiting: deque[Addition] = deque()
        self._lock = threading.Lock()
        self._connection: Any = None

    def add(self, addition: Addition) -> None:
        """Raises `Conflict` if there is an entry with that number already, or the
        conversation is gone; `StoreError` if it cannot be written."""
        self._waiting.append(addition)
        try:
            with self._lock:
                if not addition.done:
                    self._write()
        except BaseException:  # an interrupt: nobody is to write it later
            with contextlib.suppress(ValueError):
                self._waiting.remove(addition)
            raise
        if addition.error is not None:
            raise addition.error

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _write(self) -> None:
        """Write all that waits."""
        additions: list[Addition] = []
        try:
            while self._waiting:
                additions.append(self._waiting.popleft())
            cursor = self._cursor()
            if len(additions) > 1 and self._write_together(cursor, additions):
                return
            for addition in additions:
                self._write_one(cursor, addition)
        except GenaiError as error:
            for addition in additions:
                if not addition.done:
                    addition.end(error)
        finally:  # what an interrupt has left is for the next thread
            self._waiting.extendleft(each for each in reversed(additions) if not each.done)

    def _write_together(self, cursor: Any, additions: Sequence[Addition]) -> bool:
        """All of them, or none if one of them fails."""
        try:
            cursor.execute("BEGIN IMMEDIATE" if self._database.is_sqlite else "BEGIN")
            try:
                cursor.executemany(
                    self._statement, [self._parameters(addition.row) for addition in additions]
                )
                cursor.execute("COMMIT")
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
        except self._database.driver.Error:
            return False
        for addition in additions:
            addition.end()
        return True

    def _write_one(self, cursor: Any, addition: Addition) -> None:
        try:
            cursor.execute(self._statement, self._parameters(addition.row))
        except self._database.driver.IntegrityError:
            addition.end(
                Conflict(
                    "another process has gone on with this conversation, or deleted it",
                    hint="reopen the conversation",
                )
            )
        except self._database.driver.Error as error:
            self._let_go()
            raise self._database.error(error) from error
        else:
            addition.end()

    def _parameters(self, row: Row) -> Any:
        values = {**row._asdict(), "writer": self._presence.token}
        return values if self._names is None else tuple(values[name] for name in self._names)

    def _cursor(self) -> Any:
        if self._connection is None:
            with self._database.failing():
                pooled = self._database.engine.raw_connection()
                connection: Any = pooled.driver_connection
                pooled.detach()
                if not self._database.is_sqlite:
                    connection.autocommit = True
                self._presence.begin(connection)
            self._connection = connection
        return self._connection.cursor()

    def _let_go(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        try:
            connection.close()
        except self._database.driver.Error:
            return  # it was of no use any more

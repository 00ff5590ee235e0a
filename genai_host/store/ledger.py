"""What was spent of budgets: read before a call, and added to after it.

Both are one statement, so that what several processes spend comes together. The names are
those of `tables`, which is not imported for it: see `engines`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.store.database import Database
from genai_host.usage.budgets import Account, Spent

_MOST = 10_000  # users that are told of


class SpendLedger:
    """That of `genai_host.usage.budgets`. May be used from many threads: each statement has a
    connection for itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._free: list[Any] = []
        self._is_closed = False

    def spent(self, accounts: Sequence[Account]) -> Mapping[Account, Spent]:
        """Of accounts on which nothing was spent, there is none. Raises `StoreError`."""
        wanted = " OR ".join(["(name = ? AND period = ?)"] * len(accounts))
        # what is put together are question marks
        query = f"SELECT name, period, dollars, tokens, unknown FROM spent WHERE {wanted}"  # noqa: S608
        values = [value for account in accounts for value in account]
        with self._cursor() as cursor:
            rows = cursor.execute(self._marked(query), values).fetchall()
        return {(name, period): Spent(*rest) for name, period, *rest in rows}

    def spend(self, accounts: Sequence[Account], spent: Spent) -> None:
        """Add it to each of them, all or none. Raises `StoreError`."""
        rows = ", ".join(["(?, ?, ?, ?, ?)"] * len(accounts))
        statement = (
            f"INSERT INTO spent (name, period, dollars, tokens, unknown) VALUES {rows} "  # noqa: S608
            "ON CONFLICT (name, period) DO UPDATE SET dollars = spent.dollars + excluded.dollars, "
            "tokens = spent.tokens + excluded.tokens, unknown = spent.unknown + excluded.unknown"
        )
        # in one order, so that of two who spend none waits for the other
        values = [value for account in sorted(accounts) for value in (*account, *spent)]
        with self._cursor() as cursor:
            cursor.execute(self._marked(statement), values)

    def users(self, periods: Sequence[str]) -> list[str]:
        """Who has spent something in one of these periods. Raises `StoreError`."""
        wanted = ", ".join("?" * len(periods))
        query = f"SELECT DISTINCT name FROM spent WHERE period IN ({wanted}) LIMIT {_MOST}"  # noqa: S608
        with self._cursor() as cursor:
            return [name for (name,) in cursor.execute(self._marked(query), periods).fetchall()]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for connection in free:
            with contextlib.suppress(self._database.driver.Error):
                connection.close()

    def _marked(self, statement: str) -> str:
        return statement if self._database.is_sqlite else statement.replace("?", "%s")

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        with self._lock:
            if self._is_closed:
                raise self._database.closed()
            connection = self._free.pop() if self._free else None
        with self._database.failing():
            connection = connection or self._database.connect()
            try:
                with contextlib.closing(connection.cursor()) as cursor:
                    yield cursor
            except BaseException:
                connection.close()
                raise
        self._put_back(connection)

    def _put_back(self, connection: Any) -> None:
        with self._lock:
            if not self._is_closed:
                self._free.append(connection)
                return
        connection.close()

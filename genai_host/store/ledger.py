"""Budget ledger: spending, read before a call and increased after it.

Each operation is one statement, so that processes can share a ledger. The names are those of
`tables`, which is not imported to save time: see `engines`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.api.messages import MAX_TOKENS
from genai_host.store.database import Database
from genai_host.usage.budgets import Account, Spent

_MAX = 10_000  # users returned
_ADDED = ", ".join(  # a sum ends at a limit that no call exceeds: the database refuses a larger one
    f"{each} = CASE WHEN spent.{each} > {MAX_TOKENS} THEN spent.{each} "
    f"ELSE spent.{each} + excluded.{each} END"
    for each in ("dollars", "tokens", "unknown")
)


class SpendLedger:
    """Ledger for `genai_host.usage.budgets`. Thread-safe: each statement has a separate
    connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._free: list[Any] = []
        self._is_closed = False

    def spent(self, accounts: Sequence[Account]) -> Mapping[Account, Spent]:
        """Amounts spent on accounts; accounts without spending are omitted. Raises `StoreError`."""
        wanted = " OR ".join(["(name = ? AND period = ?)"] * len(accounts))
        # only question marks are interpolated
        query = f"SELECT name, period, dollars, tokens, unknown FROM spent WHERE {wanted}"  # noqa: S608
        values = [value for account in accounts for value in account]
        with self._cursor() as cursor:
            rows = cursor.execute(self._marked(query), values).fetchall()
        return {(name, period): Spent(*rest) for name, period, *rest in rows}

    def spend(self, accounts: Sequence[Account], spent: Spent) -> None:
        """Add an amount to every account, atomically. Raises `StoreError`."""
        rows = ", ".join(["(?, ?, ?, ?, ?)"] * len(accounts))
        statement = (
            f"INSERT INTO spent (name, period, dollars, tokens, unknown) VALUES {rows} "  # noqa: S608
            f"ON CONFLICT (name, period) DO UPDATE SET {_ADDED}"
        )
        # in a fixed order, to prevent deadlocks
        values = [value for account in sorted(accounts) for value in (*account, *spent)]
        with self._cursor() as cursor:
            cursor.execute(self._marked(statement), values)

    def users(self, periods: Sequence[str]) -> list[str]:
        """Users with spending in one of these periods. Raises `StoreError`."""
        wanted = ", ".join("?" * len(periods))
        query = f"SELECT DISTINCT name FROM spent WHERE period IN ({wanted}) LIMIT {_MAX}"  # noqa: S608
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

"""Databases of one PostgreSQL server, and connections of processes that are killed.

The server is real, and only the processes that use it are simulated. Its locks of a killed process
are released before another process runs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from genai_host.store import Store
from simulation.faults import FULL, LOCKED, guarded

_numbers = itertools.count()
_OPTIONS = "-c lock_timeout=10000"  # a defect of the simulation: no task waits in a transaction


@contextmanager
def database(server: str) -> Iterator[str]:
    """Create a database with an empty store, and yield its address; delete it at the end."""
    name = f"simulation_{next(_numbers)}"
    with _connected(server.format(database="postgres")) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {_template(server)} STRATEGY FILE_COPY")
        address = server.format(database=name)
        try:
            yield address
        finally:
            connection(address).close()
            connection.cache_clear()
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@functools.cache
def _template(server: str) -> str:
    with _connected(server.format(database="postgres")) as admin:
        admin.execute("CREATE DATABASE simulation_template")
    with Store(server.format(database="simulation_template")) as store:
        store.usage()
    return "simulation_template"


def _connected(address: str) -> psycopg.Connection[Any]:
    return psycopg.connect(address, autocommit=True)


@functools.lru_cache(1)
def connection(address: str) -> psycopg.Connection[Any]:
    """Return the connection of the oracle."""
    return _connected(address)


def query(address: str, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Run SQL that was written for SQLite."""
    sql = sql.replace("?", "%s").replace("instr(", "strpos(")
    return connection(address).execute(sql, values).fetchall()


def await_end(address: str, pids: Sequence[int]) -> None:
    """Wait until the server has noticed the end of connections, and released their locks."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(?)"
    while query(address, sql, [list(pids)])[0][0]:
        pass


class Connection(psycopg.Connection[Any]):
    """A connection whose writes can fail, or be the last action of the process."""

    process: Any

    def commit(self) -> None:
        in_transaction = self.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        guarded(self.process, "COMMIT" if in_transaction else "", super().commit, _failed)

    def end(self) -> None:
        self.close()


class Cursor(psycopg.Cursor[Any]):
    """The cursor of such a connection."""

    def execute(self, query: Any, *args: Any, **named: Any) -> Any:
        connection: Any = self.connection
        run = super().execute
        sql = query if isinstance(query, str) else query.decode()
        return guarded(connection.process, sql, lambda: run(query, *args, **named), _failed)


def connect(process: Any, address: str) -> Connection:
    """Open a connection of a process."""
    connection = Connection.connect(address, cursor_factory=Cursor, options=_OPTIONS)
    connection.process = process
    return connection


def _failed(fault: str) -> Exception:
    kinds = {FULL: errors.DiskFull, LOCKED: errors.LockNotAvailable}
    return kinds[fault](fault)

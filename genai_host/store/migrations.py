"""Migrations of the schema.

A new store is created as `tables` defines it. An older store goes through the steps, one by one,
in one transaction, after a backup. One process does this at a time. A store of a newer version is
refused, and left unchanged.

From version 2 to 3, PostgreSQL has room for counts of tokens beyond 2^31 in single calls. Version 1
was never released, and is refused as well.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping

from sqlalchemy import Connection, insert, inspect, select, text, update

from genai_host.errors import StoreError
from genai_host.store import search
from genai_host.store.database import VERSION, Database, lock_beside, next_step
from genai_host.store.tables import meta, metadata


def _widen_counts(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # INTEGER has 64 bits in SQLite
        names = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
        types = ", ".join(f"ALTER COLUMN {name} TYPE BIGINT" for name in names)
        connection.execute(text(f"ALTER TABLE tries {types}"))


Migration = Callable[[Connection], None]

STEPS: Mapping[int, Migration] = {2: _widen_counts}
"""Steps from the version in the key to the next one. They stay unchanged when `tables` changes."""

_LOCK = 0x67656E6169  # "genai": number of a lock on PostgreSQL


def bring_up_to_date(
    database: Database, steps: Mapping[int, Migration] = STEPS, version: int = VERSION
) -> None:
    """Create the schema, or migrate it. Raises `StoreError` if the store has a newer version or
    version 1, the database is something else, or a step failed; nothing was changed then."""
    database.make_file()
    with database.reading() as connection:
        if _version(connection, database) == version:
            return
    with _alone(database):
        if database.is_sqlite:
            _begin_log(database)
        with database.writing() as connection:
            found = _version(connection, database)
            if found == version:
                return
            if found == 0:
                metadata.create_all(connection, checkfirst=False)
                search.create(connection)
                connection.execute(insert(meta), {"name": "schema", "value": str(version)})
                return
            if found not in range(min(steps), version):
                raise StoreError(
                    f"{database.location}: store version {found} is not supported; "
                    f"this host supports {version}",
                    file=database.location,
                    hint=next_step(found),
                )
            _back_up(database, found)
            for number in range(found, version):
                steps[number](connection)
            connection.execute(
                update(meta).where(meta.c.name == "schema").values(value=str(version))
            )


def _version(connection: Connection, database: Database) -> int:
    """Version of the schema; 0 for a new store."""
    tables = inspect(connection)
    # asked first: PostgreSQL shows each query what another process has created since the last one
    is_empty = not tables.get_table_names()
    if tables.has_table(meta.name):
        found = connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar()
        if found is not None and found.isdecimal():
            return int(found)
    elif is_empty:
        return 0
    raise database.no_store()


@contextlib.contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Exclude other processes that create or migrate the schema."""
    if not database.is_sqlite:
        with database.reading() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
            try:
                yield
            finally:
                connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
        return
    with lock_beside(database):
        yield


def _begin_log(database: Database) -> None:
    """Enable the write-ahead log of SQLite, so that readers are not blocked. The setting is
    persistent. SQLite does not wait for locks here, so one process does this."""
    with database.failing(), contextlib.closing(database.connect()) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _back_up(database: Database, version: int) -> None:
    """Back up an SQLite file before a change. Administrators back up a database on a server."""
    if not database.is_sqlite:
        return
    name = f"{database.file}.version-{version}.backup"
    with database.failing():
        os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        try:
            with (
                contextlib.closing(sqlite3.connect(database.file)) as source,
                contextlib.closing(sqlite3.connect(name)) as target,
            ):
                source.backup(target)
        except sqlite3.Error as error:
            raise database.error(error) from error

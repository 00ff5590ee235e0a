"""Migrations of the schema.

A new store is created as `tables` defines it. An older store goes through the steps, one by one,
in one transaction, after a backup. One process does this at a time. A store of a newer version is
left unchanged.

From version 1 to 2, the usage of calls and the amounts spent of budgets are added; from 2 to 3,
PostgreSQL has room for counts of tokens beyond 2^31 in single calls.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, insert, inspect, select, text, update

from genai_host.errors import StoreError
from genai_host.store import search
from genai_host.store.database import VERSION, Database, lock_beside
from genai_host.store.tables import meta, metadata

_TABLES = (
    (
        "CREATE TABLE usage (day TEXT NOT NULL, owner TEXT NOT NULL, feature TEXT NOT NULL, "
        "provider TEXT NOT NULL, model TEXT NOT NULL, code TEXT NOT NULL, bucket INTEGER NOT NULL, "
        "calls BIGINT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, "
        "cached_tokens BIGINT NOT NULL, reasoning_tokens BIGINT NOT NULL, "
        "dollars DOUBLE PRECISION NOT NULL, unknown BIGINT NOT NULL, "
        "seconds DOUBLE PRECISION NOT NULL, slowest DOUBLE PRECISION NOT NULL, "
        "PRIMARY KEY (day, owner, feature, provider, model, code, bucket))"
    ),
    (
        "CREATE TABLE spent (name TEXT NOT NULL, period TEXT NOT NULL, "
        "dollars DOUBLE PRECISION NOT NULL, tokens BIGINT NOT NULL, unknown BIGINT NOT NULL, "
        "PRIMARY KEY (name, period))"
    ),
    "ALTER TABLE conversations ADD COLUMN copied INTEGER DEFAULT 0 NOT NULL",
    # what was copied from another conversation is older than the copy
    (
        "UPDATE conversations SET copied = (SELECT count(*) FROM entries "
        "WHERE conversation = conversations.id AND at < created) "
        "WHERE EXISTS (SELECT 1 FROM entries WHERE conversation = conversations.id "
        "AND at < created AND number > 0)"
    ),
)
_TRIES = (
    "SELECT c.owner, c.feature, t.provider, t.model, t.code, t.started, t.seconds, "
    "t.input_tokens, t.output_tokens, t.cached_tokens, t.reasoning_tokens, t.cost "
    "FROM tries t JOIN conversations c ON c.id = t.conversation "
    "WHERE t.started + t.seconds >= c.created"
)
_ADD = (
    "INSERT INTO usage VALUES (:day, :owner, :feature, :provider, :model, :code, :bucket, "
    ":calls, :input_tokens, :output_tokens, :cached_tokens, :reasoning_tokens, :dollars, "
    ":unknown, :seconds, :slowest)"
)
_KEY = ("day", "owner", "feature", "provider", "model", "code", "bucket")
_COUNTED = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def _add_usage(connection: Connection) -> None:
    for statement in _TABLES:
        connection.execute(text(statement))
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    tries = connection.execute(text(_TRIES), execution_options={"yield_per": 1000})
    for row in tries:
        _add(sums, row)
    rows = [dict(zip(_KEY, key, strict=True)) | values for key, values in sums.items()]
    if rows:
        connection.execute(text(_ADD), rows)


def _widen_counts(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # an INTEGER of SQLite has 64 bits
        types = ", ".join(f"ALTER COLUMN {name} TYPE BIGINT" for name in _COUNTED)
        connection.execute(text(f"ALTER TABLE tries {types}"))


def _add(sums: dict[tuple[Any, ...], dict[str, Any]], row: Any) -> None:
    owner = row.owner.rpartition("/")[2]
    seconds = max(0.0, row.seconds)
    bucket = 0 if seconds <= 0.001 else math.ceil(4 * math.log2(seconds / 0.001))
    key = (_day(row.started), owner, row.feature, row.provider, row.model, row.code or "", bucket)
    names = ("calls", *_COUNTED, "dollars", "unknown", "seconds", "slowest")
    found = sums.setdefault(key, dict.fromkeys(names, 0))
    found["calls"] += 1
    for name in _COUNTED:
        found[name] += getattr(row, name) or 0
    found["dollars"] += row.cost or 0.0
    found["unknown"] += row.cost is None
    found["seconds"] += seconds
    found["slowest"] = max(found["slowest"], seconds)


def _day(moment: float) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(moment))
    except (OverflowError, ValueError, OSError):
        return "1970-01-01"


Step = Callable[[Connection], None]

STEPS: Mapping[int, Step] = {1: _add_usage, 2: _widen_counts}
"""From the version that is the key to the next one. What a step does stays as it was
written, whatever becomes of `tables`."""

_LOCK = 0x67656E6169  # "genai": the number of a lock on PostgreSQL


def bring_up_to_date(
    database: Database, steps: Mapping[int, Step] = STEPS, version: int = VERSION
) -> None:
    """Raises `StoreError` for a store of a newer version, for a database of something
    else, and for what goes wrong; then nothing was changed."""
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
            if found > version:
                raise StoreError(
                    f"{database.place} has version {found}, this host knows {version}",
                    file=database.place,
                    hint="upgrade genai-host: pip install --upgrade genai-host",
                )
            if found == 0:
                metadata.create_all(connection)
                search.create(connection)
                connection.execute(insert(meta), {"name": "schema", "value": str(version)})
                return
            _back_up(database, found)
            for number in range(found, version):
                steps[number](connection)
            connection.execute(
                update(meta).where(meta.c.name == "schema").values(value=str(version))
            )


def _version(connection: Connection, database: Database) -> int:
    """0 for a store that is still to be made."""
    tables = inspect(connection)
    if tables.has_table(meta.name):
        found = connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar()
        if found is not None and found.isdecimal():
            return int(found)
    elif not tables.get_table_names():
        return 0
    raise database.no_store()


@contextlib.contextmanager
def _alone(database: Database) -> Iterator[None]:
    """While it lasts, no other process makes or changes the schema."""
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
    """Have SQLite write ahead to a log, so that who reads waits for nobody. It stays so.
    Done by one process alone: it does not wait for its turn."""
    with database.failing(), contextlib.closing(database.connect()) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _back_up(database: Database, version: int) -> None:
    """A copy of a file of SQLite, as it is before it is changed. A database on a server
    is backed up by who runs that."""
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

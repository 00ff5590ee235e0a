"""Read-only health check of a store."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from genai_host.store.database import OLDEST, VERSION, Database, next_step
from genai_host.store.tables import metadata

Ask = Callable[[str], list[Any]]
"""Returns the first column of the result of a query."""

_FAULTS = 5  # maximum number of reported faults
_DAMAGED = "SELECT id FROM conversations WHERE status = 'damaged' ORDER BY id"
_TABLES_ON_POSTGRESQL = (
    "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = ANY (current_schemas(false))"
)


@frozen
class StoreHealth:
    """Health of a store.

    Attributes:
        size: Bytes, including attachments.
        version: Version of the schema.
        conversations: Number of conversations of all owners; None if they cannot be counted.
        faults: Descriptions of faults; on PostgreSQL, none that only the server can detect.
        fix: Next step.
    """

    size: int
    version: int
    conversations: int | None = None
    faults: tuple[str, ...] = ()
    fix: str = ""


def examine(database: Database) -> StoreHealth | None:
    """Check a store; None if there is none yet. Raises `StoreError` if it cannot be read, or is not
    a store."""
    if not database.is_sqlite:
        with database.reading() as connection:
            return _examine_on_postgresql(
                database, lambda query: list(connection.exec_driver_sql(query).scalars())
            )
    if not os.path.exists(database.file):
        return None
    with _for_reading(database) as ask:
        return _examine_file(database, ask)


@contextlib.contextmanager
def _for_reading(database: Database) -> Iterator[Ask]:
    """Open an SQLite file without creating or changing any file."""
    with database.failing():
        address = f"{Path(database.file).as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            yield lambda query: [row[0] for row in connection.execute(query)]


def _examine_file(database: Database, ask: Ask) -> StoreHealth | None:
    tables = ask("SELECT name FROM sqlite_master WHERE type = 'table'")
    version = _version(database, tables, ask)
    if not version:
        return None
    folder = f"{database.file}.blobs"
    size = sum(
        os.path.getsize(file)
        for file in (database.file, f"{database.file}-wal", *_files(folder))
        if os.path.exists(file)
    )
    if not OLDEST <= version <= VERSION:
        return _unusable(size, version)
    wrong = [each for each in ask(f"PRAGMA quick_check({_FAULTS})") if each != "ok"]
    if wrong:
        return StoreHealth(
            size,
            version,
            faults=tuple(" ".join(str(each).split()) for each in wrong),
            fix=f"keep a copy of {database.file}, and restore a backup, or save what can be "
            f'read: sqlite3 {database.file} .recover | sqlite3 "the new file"',
        )
    count = ask("SELECT count(*) FROM conversations")[0]
    faults, fixes = _damaged(ask)
    lost = [
        each
        for each in ask("SELECT digest FROM blobs ORDER BY digest")
        if not os.path.exists(os.path.join(folder, each[:2], each))
    ]
    if lost:
        faults.append(f"{len(lost)} files in {folder} are missing")
        fixes.append(
            f"restore {folder} from a backup, or attach the same files again: "
            + ", ".join(lost[:_FAULTS])
        )
    return StoreHealth(size, version, count, tuple(faults), "; ".join(fixes))


def _examine_on_postgresql(database: Database, ask: Ask) -> StoreHealth | None:
    tables = ask(_TABLES_ON_POSTGRESQL)
    version = _version(database, tables, ask)
    if not version:
        return None
    names = [name for name in metadata.tables if name in tables]
    sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in names)
    size = int(ask(f"SELECT {sizes}")[0])
    if not OLDEST <= version <= VERSION:
        return _unusable(size, version)
    count = ask("SELECT count(*) FROM conversations")[0]
    faults, fixes = _damaged(ask)
    return StoreHealth(size, version, count, tuple(faults), "; ".join(fixes))


def _damaged(ask: Ask) -> tuple[list[str], list[str]]:
    """Faults and fixes for conversations that could not be indexed."""
    damaged = ask(_DAMAGED)
    if not damaged:
        return [], []
    some = ", ".join(damaged[:_FAULTS])
    fix = "run genai-host doctor --repair, or export or delete them, for example: "
    return (
        [f"conversations that cannot be indexed: {len(damaged)} ({some})"],
        [f"{fix}genai-host conversations delete {damaged[0]}"],
    )


def _version(database: Database, tables: list[Any], ask: Ask) -> int:
    """Version of the schema; 0 if there is no store yet."""
    if not tables:
        return 0
    found = ask("SELECT value FROM meta WHERE name = 'schema'") if "meta" in tables else []
    if found and str(found[0]).isdecimal():
        return int(found[0])
    raise database.no_store()


def _unusable(size: int, version: int) -> StoreHealth:
    return StoreHealth(
        size,
        version,
        faults=(f"store version {version} is not supported; this host supports {VERSION}",),
        fix=next_step(version),
    )


def _files(folder: str) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        yield from (os.path.join(where, name) for name in names)

"""Read-only health check of a store, and repair of conversations that could not be indexed.

A repair derives the index again. Invalid entries, for example those of a duplicate turn, are moved
to a file with one line of JSON each. Nothing is deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.engine import Row

from genai_host.api.json_text import read_json
from genai_host.conversations.replay import MAX_TURNS
from genai_host.store.database import OLDEST, VERSION, Database, next_step
from genai_host.store.indexer import DAMAGED, Indexer
from genai_host.store.tables import conversations, entries, messages, metadata, tries

_ONCE = ("turn_started", "step_started", "step_ended", "turn_ended")
"""Kinds of entries that a turn, or one of its steps, has only once."""


@frozen
class Repair:
    """Result of a repair.

    Attributes:
        conversation: Id of the conversation.
        moved: Number of entries moved to the file.
        is_damaged: Whether the conversation still cannot be indexed.
    """

    conversation: str
    moved: int
    is_damaged: bool


def repair(database: Database, file: str) -> list[Repair]:
    """Repair all damaged conversations of all owners, and append the moved entries to `file`."""
    Indexer(database).catch_up()
    damaged = select(conversations.c.id).where(conversations.c.status == DAMAGED)
    with database.reading() as connection:
        found = connection.execute(damaged.order_by(conversations.c.id)).scalars().all()
    return [_repair(database, id, file) for id in found]


def _repair(database: Database, id: str, file: str) -> Repair:
    mine, chosen = entries.c.conversation == id, conversations.c.id == id
    with database.writing() as connection:
        connection.execute(select(conversations.c.id).where(chosen).with_for_update())
        rows = connection.execute(select(entries).where(mine).order_by(entries.c.number)).all()
        moved = list(_impossible(rows))
        if moved:
            with database.failing():
                _append(moved, file)
            this = entries.c.number == bindparam("this")
            gone = {row.number for row in moved}
            connection.execute(
                delete(entries).where(mine, this), [{"this": number} for number in gone]
            )
            rows = [row for row in rows if row.number not in gone]
        known = select(tries.c.turn, tries.c.path).where(tries.c.conversation == id)
        counted = {(turn, path) for turn, path in connection.execute(known)}
        copied = [row.number + 1 for row in rows if (row.turn, _path(row)) in counted]
        before = connection.execute(select(conversations.c.copied).where(chosen)).scalar() or 0
        for table in (messages, tries):
            connection.execute(delete(table).where(table.c.conversation == id))
        fresh = {"entries": 0, "title": "", "turns": 0, "status": "idle", "models": "{}"}
        # usage that is already aggregated is not counted again
        fresh["copied"] = max([before, *copied])
        connection.execute(update(conversations).where(chosen).values(**fresh))
        Indexer(database).derive_all(id, connection)
        connection.execute(update(conversations).where(chosen).values(copied=before))
        status = connection.execute(select(conversations.c.status).where(chosen)).scalar()
    return Repair(id, len(moved), status == DAMAGED)


def _impossible(rows: Iterable[Row[Any]]) -> Iterator[Row[Any]]:
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        if row.kind not in _ONCE:
            continue
        key = (row.kind, row.turn, _path(row))
        if key in seen or row.turn is None or not 0 <= row.turn <= MAX_TURNS:
            yield row
        seen.add(key)


def _path(row: Row[Any]) -> str:
    """Path of the step, in the form of `tries`; empty for other entries."""
    try:
        return ".".join(map(str, read_json(row.body).get("path", ())))
    except (AttributeError, TypeError, ValueError):
        return ""


def _append(rows: Iterable[Row[Any]], file: str) -> None:
    """Append rows to the file, readable only by this user, and sync it to disk."""
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(handle, "w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(dict(row._mapping)) + "\n")
        lines.flush()
        os.fsync(handle)


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

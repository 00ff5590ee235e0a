"""Repair of conversations that could not be indexed.

The index is derived again. Invalid entries, for example those of a duplicate turn, are moved to a
file with one line of JSON each. Nothing is deleted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.engine import Row

from genai_host.api.json_text import read_json
from genai_host.conversations.replay import MOST_TURNS
from genai_host.store.database import Database
from genai_host.store.indexer import DAMAGED, Indexer
from genai_host.store.tables import conversations, entries, messages, tries

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
            gone = [{"this": row.number} for row in moved]
            connection.execute(delete(entries).where(mine, this), gone)
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
        if key in seen or row.turn is None or not 0 <= row.turn <= MOST_TURNS:
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

"""Queries on stored conversations, and changes other than appending entries."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import define
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.engine import Row

from genai_host.api import Codec, Cost
from genai_host.api.json_text import json_as_text, read_json
from genai_host.conversations.record import Entry, InMemoryRecord, new_tag
from genai_host.conversations.replay import check, replay
from genai_host.conversations.transcript import as_markdown
from genai_host.errors import NotFound, ReplayError, ValidationError
from genai_host.store.blobs import Blobs
from genai_host.store.database import Database, Liveness, storable, time_of
from genai_host.store.documents import Documents
from genai_host.store.indexer import Indexer
from genai_host.store.records import (
    Attached,
    SearchMatch,
    Status,
    StoredTry,
    Summary,
    Written,
    exported,
    imported,
    new_id,
    read,
)
from genai_host.store.search import matching
from genai_host.store.tables import conversations, entries, messages, tries
from genai_host.store.usage import UsageRow, add_usage, read_usage
from genai_host.usage.metering import UsageAggregate
from genai_host.util.text import short_repr

_STEPS = ("step_started", "step_ended")
_DAY = 86400.0  # seconds
_FORMER_STATUS: Mapping[str, Status] = {"waiting": "paused"}  # indexed by earlier versions
_MINE = tries.c.conversation == conversations.c.id
_SUCCEEDED = tries.c.code.is_(None)
_COSTS = tuple(
    select(total).where(_MINE, chosen).correlate(conversations).scalar_subquery().label(name)
    for name, total, chosen in (
        ("dollars", func.sum(tries.c.cost), tries.c.cost.is_not(None)),
        ("known", func.count(), or_(tries.c.cost > 0, and_(tries.c.cost == 0, _SUCCEEDED))),
        ("unknown", func.count(), tries.c.cost.is_(None)),
    )
)
"""Cost of the calls of a conversation; see `Cost`."""
# made once: to make a statement takes longer than to execute it
_THIS = conversations.c.id == bindparam("of_id")
_OWNED = conversations.c.owner == bindparam("of_owner")
_FOUND = (
    select(conversations.c.id)
    .where(_OWNED, conversations.c.id.startswith(bindparam("beginning")))
    .order_by("id")
    .limit(6)
)
_SUMMARIES = select(conversations, *_COSTS)
_SUMMARY = _SUMMARIES.where(_THIS)
_OF_THIS = entries.c.conversation == bindparam("of_id")
_LAST_TURN = select(func.max(entries.c.turn)).where(_OF_THIS).scalar_subquery()
# read in the same statement as the entries; otherwise an entry that another process adds in between
# would be counted but not indexed
_LAST_NUMBER = select(func.max(entries.c.number)).where(_OF_THIS).scalar_subquery()
_RECORD = (
    select(entries.c.body, _LAST_NUMBER)
    .where(_OF_THIS, or_(entries.c.kind.not_in(_STEPS), entries.c.turn == _LAST_TURN))
    .order_by(entries.c.number)
)
_ENTRIES = select(entries.c.body).where(_OF_THIS).order_by(entries.c.number)
_ROWS = (
    select(*(entries.c[name] for name in Written._fields))
    .where(_OF_THIS)
    .order_by(entries.c.number)
)
_NAME = select(conversations.c.name).where(_THIS)

Create = Callable[[Sequence[Written], Mapping[str, Any]], str]


@define(eq=False, repr=False, slots=False)
class ConversationQueries:
    """Implementation of the methods of `Store` with the same names, which are documented there.

    Args:
        create: Makes a conversation from entries and known properties; returns its id.
        now: Seconds since 1970.
    """

    _database: Database
    _presence: Liveness
    _owner: str
    _create: Create
    _now: Callable[[], float]

    def __attrs_post_init__(self) -> None:
        self._indexer = Indexer(self._database)

    def record(self, id: str, codec: Codec) -> tuple[str, int, tuple[Entry, ...]]:
        id = self.find(id)
        with self._database.reading() as connection:
            rows = connection.execute(_RECORD, {"of_id": id}).all()
        bodies = [body for body, _ in rows]
        attached = self._attached()
        read_bodies = read(bodies, codec, attached, attached.find)
        return id, rows[-1][1] + 1 if rows else 0, read_bodies

    def entries(self, id: str, codec: Codec) -> tuple[Entry, ...]:
        id = self.find(id)
        with self._database.reading() as connection:
            bodies = list(connection.execute(_ENTRIES, {"of_id": id}).scalars())
        attached = self._attached()
        return read(bodies, codec, attached, attached.find_or_none)

    def times(self, id: str) -> dict[int, float]:
        id = self.find(id)
        begun = select(entries.c.turn, entries.c.at).where(
            entries.c.conversation == id, entries.c.kind == "turn_started"
        )
        with self._database.reading() as connection:
            return {row.turn: time_of(row.at) for row in connection.execute(begun)}

    def find(self, id: str) -> str:
        if not re.fullmatch("[0-9a-z]{1,18}", id):
            raise _unknown(short_repr(id))
        wanted = {"of_owner": self._owner, "beginning": id}
        with self._database.reading() as connection:
            found = connection.execute(_FOUND, wanted).scalars().all()
        if id in found:
            return id
        if not found:
            raise _unknown(repr(id))
        if len(found) > 1:
            raise NotFound(
                f"several conversations begin with {id}",
                hint=f"use a longer prefix: {', '.join(found[:5])}{', ...' * (len(found) > 5)}",
            )
        return str(found[0])

    def conversations(self, *, limit: int | None, after: str | None) -> list[Summary]:
        self._indexer.catch_up_if_possible(of_owner=self._owner)
        columns, chosen = conversations.c, _SUMMARIES.where(self._mine())
        if after is not None:
            cursor = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)-([0-9a-z]{1,18})", after)
            if cursor is None:
                last = select(columns.updated, columns.id).where(columns.id == self.find(after))
                place: Any = select(last.subquery()).scalar_subquery()
            else:
                place = tuple_(float(cursor[1]), cursor[2])
            chosen = chosen.where(tuple_(columns.updated, columns.id) < place)
        chosen = chosen.order_by(columns.updated.desc(), columns.id.desc()).limit(limit)
        return self._summaries(chosen)

    def summary(self, id: str) -> Summary:
        id = self.find(id)
        self._indexer.catch_up_if_possible(of_id=id)
        found = self._summaries(_SUMMARY, of_id=id)
        if not found:
            raise _unknown(repr(id))
        return found[0]

    def is_running_elsewhere(self, id: str) -> bool:
        id = self.find(id)
        self._indexer.catch_up(of_id=id)
        columns = conversations.c
        chosen = select(columns.status, columns.writer).where(columns.id == id)
        with self._database.reading() as connection:
            row = connection.execute(chosen).one_or_none()
        if row is None or row.status != "open" or row.writer == self._presence.token:
            return False
        return row.writer in self._presence.there()

    def attempts(self, id: str) -> list[StoredTry]:
        id = self.find(id)
        self._indexer.catch_up_if_possible(of_id=id)
        wanted = [column for column in tries.c if column is not tries.c.conversation]
        chosen = select(*wanted).where(tries.c.conversation == id)
        with self._database.reading() as connection:
            rows = connection.execute(chosen.order_by(tries.c.started, tries.c.number))
            return [StoredTry(**row._mapping) for row in rows]

    def search(self, words: str, *, limit: int) -> list[SearchMatch]:
        self._indexer.catch_up_if_possible(of_owner=self._owner)
        columns = (messages.c.conversation, messages.c.turn, messages.c.role, messages.c.text)
        chosen = (
            select(*columns, conversations.c.name, conversations.c.title)
            .join(conversations)
            .where(self._mine(), matching(words, self._database.engine.dialect.name))
            .order_by(messages.c.id.desc())
            .limit(limit)
        )
        with self._database.reading() as connection:
            return [
                SearchMatch(row.conversation, row.name or row.title, row.turn, row.role, row.text)
                for row in connection.execute(chosen)
            ]

    def usage(
        self, by: Sequence[str], since: str, until: str, user: str | None, most: int
    ) -> list[UsageRow]:
        self._indexer.catch_up_if_possible()
        with self._database.reading() as connection:
            return read_usage(connection, by, since, until, user, most)

    def add_usage(self, tally: UsageAggregate) -> None:
        with self._database.writing() as connection:
            add_usage(connection, tally)

    def rename(self, id: str, name: str) -> None:
        id = self.find(id)
        with self._database.writing() as connection:
            connection.execute(
                update(conversations)
                .where(conversations.c.id == id)
                .values(name=storable(name) or None)
            )

    def delete(self, id: str) -> None:
        id = self.find(id)
        with self._database.writing() as connection:
            self._indexer.derive_all(id, connection)  # the usage of its calls remains
            connection.execute(delete(conversations).where(conversations.c.id == id))
            self.blobs().forget(id, connection, lost=new_id(max(0.0, self._now() - _DAY)))

    def delete_expired(self, *, days: float | None, number: int | None) -> int:
        oldest = None if days is None else self._now() - days * _DAY
        # otherwise conversations in use would look expired
        self._indexer.catch_up(of_owner=self._owner)
        deleted = 0
        for place, each in enumerate(self.conversations(limit=None, after=None)):
            old = oldest is not None and each.updated < oldest
            if each.status != "running" and (old or (number is not None and place >= number)):
                self.delete(each.id)
                deleted += 1
        return deleted

    def fork(self, id: str, *, turn: int | None) -> str:
        id = self.find(id)
        rows = self._rows(id)
        begun = {row.turn: n for n, row in enumerate(rows) if row.kind == "turn_started"}
        ended = {row.turn: n for n, row in enumerate(rows) if row.kind == "turn_ended"}
        if turn is not None and turn not in begun:
            raise NotFound(f"{id} has no turn {turn}")
        last = max(begun, key=begun.__getitem__, default=None) if turn is None else turn
        if last in begun and last not in ended:
            rows = rows[: begun[last]]
        elif turn is not None:
            rows = rows[: ended[turn] + 1]
        rows[0] = _with_another_tag(rows[0])
        known = {"forked_from": id, "name": self._name(id), "copied": len(rows)}
        return self._create(rows, known)

    def export(self, id: str) -> dict[str, Any]:
        id = self.find(id)
        return exported(id, self._name(id), self._rows(id), self._attached())

    def import_conversation(self, data: Mapping[str, Any], codec: Codec) -> str:
        name, rows = imported(data)
        loaded = InMemoryRecord.from_json((read_json(row.body) for row in rows), codec).entries
        try:
            check(loaded, codec)
        except ReplayError as error:
            raise ValidationError(f"not a valid conversation: {error}") from error
        return self._create(rows, {"name": name, "copied": len(rows)})

    def markdown(self, id: str, codec: Codec) -> str:
        summary = self.summary(id)
        title = " ".join(summary.title.split()) or summary.id
        replayed, times = replay(self.entries(summary.id, codec)), self.times(summary.id)
        message_times = {mark.history: _minute(times[mark.started.turn]) for mark in replayed.marks}
        return f"# {title}\n\n{as_markdown(replayed.history, message_times)}".rstrip() + "\n"

    def documents(self, collection: str, *, conversation: str | None = None) -> Documents:
        owned = None if conversation is None else self.find(conversation)
        return Documents(self._database, self._owner, collection, owned)

    def blobs(self) -> Blobs:
        return Blobs(self._database, self._owner, self._now)

    def _rows(self, id: str) -> list[Written]:
        with self._database.reading() as connection:
            return [Written(*row) for row in connection.execute(_ROWS, {"of_id": id})]

    def _name(self, id: str) -> str | None:
        with self._database.reading() as connection:
            return connection.execute(_NAME, {"of_id": id}).scalar()

    def _attached(self) -> Attached:
        return Attached(self.blobs, self._database.location)

    def _mine(self) -> ColumnElement[bool]:
        return conversations.c.owner == self._owner

    def _summaries(self, chosen: Select[Any], **values: str) -> list[Summary]:
        with self._database.reading() as connection:
            rows = connection.execute(chosen, values).all()
        there = self._presence.there() if any(row.status == "open" for row in rows) else set()
        return [_summary(row, there) for row in rows]


def _minute(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment))


def _unknown(id: str) -> NotFound:
    return NotFound(f"unknown conversation {id}")


def _summary(row: Row[Any], there: Collection[int]) -> Summary:
    status: Status = _FORMER_STATUS.get(row.status, row.status)
    if row.status == "open":
        status = "running" if row.writer in there else "interrupted"
    return Summary(
        id=row.id,
        title=row.name or row.title,
        feature=row.feature,
        created=row.created,
        updated=row.updated,
        status=status,
        turns=row.turns,
        entries=row.entries,
        models=json.loads(row.models),
        forked_from=row.forked_from or "",
        cost=Cost(row.dollars or 0.0, row.known, row.unknown),
    )


def _with_another_tag(opened: Written) -> Written:
    """Replace the tag of the turn, so that data stored by tag is separate for each conversation;
    see `Turn`."""
    form = read_json(opened.body)
    if "tag" not in form:
        return opened
    return opened._replace(body=json_as_text({**form, "tag": new_tag()}))

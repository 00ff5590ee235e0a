"""The durable store of conversations.

with Store() as store, Host(store=store) as host:
    conversation = host.open("chat")
    ...
    host.conversation(conversation.id)      # another day, in another process
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, delete, func, insert, or_, select, tuple_, update
from sqlalchemy.engine import Row

from genai_host import paths
from genai_host.api import Codec
from genai_host.api.json_text import read_json
from genai_host.errors import InvalidData, NotFound, ReplayError
from genai_host.once import once
from genai_host.record import Entry, Opened, Record, retell
from genai_host.store.attached import Attached, kept, may_hold_bytes, may_refer
from genai_host.store.blobs import Blobs
from genai_host.store.database import Database
from genai_host.store.documents import Documents
from genai_host.store.exporting import exported, imported
from genai_host.store.indexer import Indexer
from genai_host.store.migrations import bring_up_to_date
from genai_host.store.presence import Presence
from genai_host.store.search import having
from genai_host.store.stored_record import StoredRecord, Written, read, written
from genai_host.store.summary import Found, Status, StoredTry, Summary
from genai_host.store.tables import conversations, entries, messages, tries
from genai_host.store.writer import Writer
from genai_host.telling import shown
from genai_host.transcript import as_markdown

if TYPE_CHECKING:
    from genai_host.store.health import Health

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none looks like another
_STEPS = ("step_started", "step_ended")
_DAY = 86400.0  # seconds


class Store:
    """Where conversations are kept. May be used from many threads, and by many processes
    at once.

    where      a file, `postgresql://user:password@host/database`, or None for the usual
               file, `conversations.db` in the host's folder of data
    owner      whose conversations these are: others are not seen
    patience   seconds to wait for another process that writes
    now        seconds since 1970

    Nothing is opened before it is needed. Raises `StoreError` where it cannot be read or
    written, or is of a newer version. A file that is no store is never changed.
    """

    def __init__(
        self,
        where: str | os.PathLike[str] | None = None,
        *,
        owner: str = "",
        patience: float = 5.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._lock = threading.RLock()
        self._opened = Database(url_of(where), patience)
        self._presence = Presence(self._opened)
        self._owner = owner
        self._now = now

    @property
    def place(self) -> str:
        """Its file, or its address without the password."""
        return self._opened.place

    @once
    def _database(self) -> Database:
        """With its schema as it should be."""
        bring_up_to_date(self._opened)
        return self._opened

    @once
    def _indexer(self) -> Indexer:
        return Indexer(self._database)

    @once
    def _writer(self) -> Writer:
        return Writer(self._database, self._presence)

    def health(self) -> Health | None:
        """How the store is; None if there is none yet. Nothing is made or changed. Raises
        `StoreError` if it cannot be read, or holds something else."""
        from genai_host.store.health import examine

        return examine(self._opened)

    def create(self, opened: Opened, codec: Codec) -> StoredRecord:
        """The record of a new conversation, with its first entry."""
        id = self._create([written(opened, codec, self._now())], {"feature": opened.feature})
        return self._record(id, 1, codec)

    def record(self, id: str, codec: Codec) -> tuple[StoredRecord, tuple[Entry, ...]]:
        """The record of a conversation, to go on with, and of its entries those that it
        takes to go on: steps of turns that have ended are left out.

        id   or the beginning of it, if no other begins so

        Raises `NotFound`.
        """
        id = self.find(id)
        mine = entries.c.conversation == id
        last = select(func.max(entries.c.turn)).where(mine).scalar_subquery()
        with self._database.reading() as connection:
            rows = connection.execute(
                select(entries.c.body)
                .where(mine, or_(entries.c.kind.not_in(_STEPS), entries.c.turn == last))
                .order_by(entries.c.number)
            )
            bodies = list(rows.scalars())
            number = connection.execute(select(func.max(entries.c.number)).where(mine)).scalar()
        record = self._record(id, 0 if number is None else number + 1, codec)
        return record, read(bodies, codec, self.place, self._attached())

    def entries(self, id: str, codec: Codec) -> tuple[Entry, ...]:
        """All entries of a conversation. Raises `NotFound`."""
        id = self.find(id)
        with self._database.reading() as connection:
            rows = connection.execute(
                select(entries.c.body)
                .where(entries.c.conversation == id)
                .order_by(entries.c.number)
            )
            bodies = list(rows.scalars())
        return read(bodies, codec, self.place, self._attached())

    def times(self, id: str) -> dict[int, float]:
        """When each turn was begun, in seconds since 1970. Raises `NotFound`."""
        id = self.find(id)
        begun = select(entries.c.turn, entries.c.at).where(
            entries.c.conversation == id, entries.c.kind == "turn_started"
        )
        with self._database.reading() as connection:
            return {row.turn: row.at for row in connection.execute(begun)}

    def find(self, id: str) -> str:
        """The whole id of the conversation whose id begins so. Raises `NotFound` if there
        is none, or more than one."""
        if not re.fullmatch("[0-9a-z]{1,18}", id):
            raise NotFound(f"there is no conversation {shown(id)}")
        begins = conversations.c.id.startswith(id)
        with self._database.reading() as connection:
            found = (
                connection.execute(
                    select(conversations.c.id).where(self._mine(), begins).order_by("id").limit(6)
                )
                .scalars()
                .all()
            )
        if id in found:
            return id
        if not found:
            raise NotFound(f"there is no conversation {id}")
        if len(found) > 1:
            raise NotFound(
                f"several conversations begin with {id}",
                hint=f"give more of it: {', '.join(found[:5])}{', ...' * (len(found) > 5)}",
            )
        return str(found[0])

    def conversations(self, *, limit: int | None = 20, after: str | None = None) -> list[Summary]:
        """What there is, the last that was gone on with first.

        after   the id of a conversation: those that come after it in this list
        """
        self._indexer.catch_up()
        chosen = select(conversations).where(self._mine())
        if after is not None:
            chosen = chosen.where(_comes_after(self.find(after)))
        columns = conversations.c
        chosen = chosen.order_by(columns.updated.desc(), columns.id.desc()).limit(limit)
        return self._summaries(chosen)

    def summary(self, id: str) -> Summary:
        """Raises `NotFound`."""
        id = self.find(id)
        self._indexer.catch_up()
        found = self._summaries(select(conversations).where(conversations.c.id == id))
        if not found:
            raise NotFound(f"there is no conversation {id}")
        return found[0]

    def tries(self, id: str) -> list[StoredTry]:
        """All calls of models for a conversation, failed ones as well. Raises `NotFound`."""
        id = self.find(id)
        self._indexer.catch_up()
        wanted = [column for column in tries.c if column is not tries.c.conversation]
        chosen = select(*wanted).where(tries.c.conversation == id)
        with self._database.reading() as connection:
            rows = connection.execute(chosen.order_by(tries.c.started, tries.c.number))
            return [StoredTry(**row._mapping) for row in rows]

    def search(self, words: str, *, limit: int = 20) -> list[Found]:
        """The messages that have all these words, latest first, but for turns that were
        taken back. `wor*` stands for words that begin so; what is in a script without
        spaces, as in Chinese, Japanese or Thai, is found by any part."""
        self._indexer.catch_up()
        columns = (messages.c.conversation, messages.c.turn, messages.c.role, messages.c.text)
        chosen = (
            select(*columns, conversations.c.name, conversations.c.title)
            .join(conversations)
            .where(self._mine(), having(words, self._database.engine.dialect.name))
            .order_by(messages.c.id.desc())
            .limit(limit)
        )
        with self._database.reading() as connection:
            return [
                Found(row.conversation, row.name or row.title, row.turn, row.role, row.text)
                for row in connection.execute(chosen)
            ]

    def rename(self, id: str, name: str) -> None:
        """Give a conversation a name; an empty one takes it away. Raises `NotFound`."""
        id = self.find(id)
        with self._database.writing() as connection:
            connection.execute(
                update(conversations).where(conversations.c.id == id).values(name=name or None)
            )

    def delete(self, id: str) -> None:
        """Remove a conversation, with all that belongs to it. A process that is at it
        gets `Conflict`. Raises `NotFound`."""
        id = self.find(id)
        with self._database.writing() as connection:
            connection.execute(delete(conversations).where(conversations.c.id == id))
            self.blobs().forget(id, connection, lost=_new_id(max(0.0, self._now() - _DAY)))

    def purge(self, *, days: float | None = None, number: int | None = None) -> int:
        """Delete conversations that nobody has gone on with for some days, and all but the
        latest; those that a process is at stay. Returns how many were deleted."""
        oldest = None if days is None else self._now() - days * _DAY
        deleted = 0
        for place, each in enumerate(self.conversations(limit=None)):
            old = oldest is not None and each.updated < oldest
            if each.status != "running" and (old or (number is not None and place >= number)):
                self.delete(each.id)
                deleted += 1
        return deleted

    def fork(self, id: str, *, turn: int | None = None) -> str:
        """Copy a conversation, to go on otherwise, and give the id of the copy. A turn that
        has not ended is left out. Raises `NotFound`.

        turn   after which it is to be as it was then, from 0; None for as it is now
        """
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
        return self._create(rows, {"forked_from": id, "name": self._name(id)})

    def export(self, id: str) -> dict[str, Any]:
        """A conversation as JSON, with all that is attached, for `load` here or elsewhere.
        Raises `NotFound`."""
        id = self.find(id)
        return exported(id, self._name(id), self._rows(id), self._attached())

    def load(self, data: Mapping[str, Any], codec: Codec) -> str:
        """Take in what was exported, as a new conversation, and give its id. Raises
        `InvalidData` for what is none."""
        name, rows = imported(data)
        try:
            retell(Record.from_json((read_json(row.body) for row in rows), codec).entries)
        except ReplayError as error:
            raise InvalidData(f"this makes no conversation: {error}") from error
        return self._create(rows, {"name": name})

    def markdown(self, id: str, codec: Codec) -> str:
        """A conversation to be read: the history that holds now, and when each turn was
        begun. Raises `NotFound`."""
        summary = self.summary(id)
        title = " ".join(summary.title.split()) or summary.id
        retold, times = retell(self.entries(summary.id, codec)), self.times(summary.id)
        said = {mark.history: _minute(times[mark.started.turn]) for mark in retold.marks}
        return f"# {title}\n\n{as_markdown(retold.history, said)}".rstrip() + "\n"

    def documents(self, collection: str, *, conversation: str | None = None) -> Documents:
        """Records of a plugin's own; those of a conversation are deleted with it."""
        owned = None if conversation is None else self.find(conversation)
        return Documents(self._database, self._owner, collection, owned)

    def blobs(self) -> Blobs:
        """Bytes by their digest, as of files that are attached."""
        return Blobs(self._database, self._owner, self._now)

    def without_bytes(self, entry: Written, conversation: str) -> Written:
        """An entry as it is to be stored for a conversation: the bytes of its images and
        files are in blobs when this returns."""
        return entry._replace(body=kept(entry.body, self.blobs(), conversation))

    def close(self) -> None:
        with self._lock:
            if "_writer" in vars(self):
                self._writer.close()
            self._presence.end()
            self._opened.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _create(self, rows: Sequence[Written], values: Mapping[str, Any]) -> str:
        """A new conversation with these entries, and its id."""
        now = self._now()
        id = _new_id(now)
        rows = [
            self.without_bytes(row, id) if may_hold_bytes(row.body) or may_refer(row.body) else row
            for row in rows
        ]
        with self._database.writing() as connection:
            connection.execute(
                insert(conversations).values(
                    id=id, owner=self._owner, created=now, updated=now, **values
                )
            )
            connection.execute(
                insert(entries),
                [
                    {
                        "conversation": id,
                        "number": number,
                        "writer": self._presence.token,
                        **each._asdict(),
                    }
                    for number, each in enumerate(rows)
                ],
            )
        return id

    def _rows(self, id: str) -> list[Written]:
        columns = (entries.c[name] for name in Written._fields)
        chosen = select(*columns).where(entries.c.conversation == id).order_by(entries.c.number)
        with self._database.reading() as connection:
            return [Written(*row) for row in connection.execute(chosen)]

    def _name(self, id: str) -> str | None:
        chosen = select(conversations.c.name).where(conversations.c.id == id)
        with self._database.reading() as connection:
            return connection.execute(chosen).scalar()

    def _attached(self) -> Attached:
        return Attached(self.blobs, self.place)

    def _record(self, id: str, number: int, codec: Codec) -> StoredRecord:
        return StoredRecord(self, self._writer, id, number, codec, self._now)

    def _mine(self) -> ColumnElement[bool]:
        return conversations.c.owner == self._owner

    def _summaries(self, chosen: Select[Any]) -> list[Summary]:
        with self._database.reading() as connection:
            rows = connection.execute(chosen).all()
        there = self._presence.there() if any(row.status == "open" for row in rows) else set()
        return [_summary(row, there) for row in rows]


def url_of(where: str | os.PathLike[str] | None) -> str:
    """The address of a database that is named as `Store` takes it."""
    named = os.fspath(where) if where is not None else ""
    if "://" in named:
        return named
    file = os.path.abspath(named or os.path.join(paths.data_dir("store"), "conversations.db"))
    return f"sqlite:///{file}"


def _new_id(now: float) -> str:
    """Ids sort by time: milliseconds in nine digits, and as many by chance."""
    return _digits(int(now * 1000), 9) + _digits(secrets.randbits(45), 9)


def _minute(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment))


def _digits(number: int, length: int) -> str:
    found = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        found.append(_DIGITS[digit])
    return "".join(reversed(found))


def _comes_after(id: str) -> ColumnElement[bool]:
    """In the order of `Store.conversations`."""
    columns = conversations.c
    this = select(columns.updated, columns.id).where(columns.id == id).subquery()
    return tuple_(columns.updated, columns.id) < select(this).scalar_subquery()


def _summary(row: Row[Any], there: Collection[int]) -> Summary:
    status: Status = row.status
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
    )

"""The durable store of conversations.

with Store() as store, Host(store=store) as host:
    conversation = host.open("chat")
    ...
    host.conversation(conversation.id)      # another day, in another process
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genai_host.api import Codec
from genai_host.conversations.record import (
    Entry,
    Opened,
    StepEnded,
    TurnStarted,
)
from genai_host.errors import Conflict
from genai_host.store.database import Database, Liveness
from genai_host.store.records import Written, kept, may_hold_bytes, may_refer, new_id, written
from genai_host.store.writer import Addition, Row, Writer
from genai_host.util import paths
from genai_host.util.lazy_property import lazy_property

if TYPE_CHECKING:
    import sqlite3

    from genai_host.store.blobs import Blobs
    from genai_host.store.documents import Documents
    from genai_host.store.health import Health
    from genai_host.store.ledger import SpendLedger
    from genai_host.store.library import ConversationQueries
    from genai_host.store.records import Found, StoredTry, Summary
    from genai_host.store.repair import Repair
    from genai_host.store.usage import UsageRow
    from genai_host.usage.metering import UsageAggregate


class Store:
    """Where conversations are kept. May be used from many threads, and by many processes
    at once.

    where      a file, `postgresql://user:password@host/database`, or None for the usual
               file, `conversations.db` in the host's folder of data
    owner      whose conversations these are: others are not seen
    patience   seconds to wait for another process that writes
    now        seconds since 1970
    connect    opens a file of SQLite, with the arguments of `sqlite3.connect`; None for that

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
        connect: Callable[..., sqlite3.Connection] | None = None,
    ) -> None:
        self._lock = threading.RLock()
        self._counting = threading.Lock()  # in the background: it is not to be closed amid that
        self._opened = Database(_place_of(where), patience, connect)
        self._presence = Liveness(self._opened)
        self._owner = owner
        self._others: dict[str, Store] = {}
        self._now = now

    def for_owner(self, owner: str) -> Store:
        """The same store, as another owner of conversations sees it. It is closed with
        this one."""
        if owner == self._owner:
            return self
        with self._lock:
            if owner not in self._others:
                database, writer = self._database, self._writer  # one for all of them
                theirs = copy.copy(self)
                vars(theirs).update(
                    _owner=owner, _database=database, _writer=writer, ledger=self.ledger
                )
                vars(theirs).pop("_library", None)
                self._others[owner] = theirs
            return self._others[owner]

    @property
    def location(self) -> str:
        """Its file, or its address without the password."""
        return self._opened.location

    @lazy_property
    def _database(self) -> Database:
        """With its schema as it should be."""
        if not self._opened.is_current():
            from genai_host.store.migrations import bring_up_to_date

            bring_up_to_date(self._opened)
        return self._opened

    @lazy_property
    def _writer(self) -> Writer:
        return Writer(self._database, self._presence)

    @lazy_property
    def ledger(self) -> SpendLedger:
        """What was spent of budgets, by all who use this store."""
        from genai_host.store.ledger import SpendLedger

        return SpendLedger(self._database)

    @lazy_property
    def _library(self) -> ConversationQueries:
        from genai_host.store.library import ConversationQueries

        return ConversationQueries(
            self._database, self._presence, self._owner, self._create, self._now
        )

    def health(self) -> Health | None:
        """How the store is; None if there is none yet. Nothing is made or changed. Raises
        `StoreError` if it cannot be read, or holds something else."""
        from genai_host.store.health import examine

        return examine(self._opened)

    def repair(self) -> list[Repair]:
        """Derive anew what is damaged, of all owners; nothing is deleted: entries that no
        conversation can have are moved to the file `set_aside`."""
        from genai_host.store.repair import repair

        return repair(self._database, self.set_aside)

    @property
    def set_aside(self) -> str:
        """The file to which `repair` moves entries."""
        usual = os.path.join(paths.data_dir("store"), "conversations")
        return f"{self._opened.file or usual}.set-aside.jsonl"

    def check(self) -> None:
        """A short look, for who looks often: nothing is made. Raises `StoreError` if it cannot be
        read, or made where there is none yet."""
        if self._opened.is_sqlite:
            if not self._opened.is_current():
                self._opened.check_place(was_there="_database" in vars(self))
        else:
            with self._opened.reading() as connection:
                connection.exec_driver_sql("SELECT 1")

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
        id, number, entries = self._library.record(id, codec)
        return self._record(id, number, codec), entries

    def entries(self, id: str, codec: Codec) -> tuple[Entry, ...]:
        """All entries of a conversation. Raises `NotFound`."""
        return self._library.entries(id, codec)

    def times(self, id: str) -> dict[int, float]:
        """When each turn was begun, in seconds since 1970. Raises `NotFound`."""
        return self._library.times(id)

    def find(self, id: str) -> str:
        """The whole id of the conversation whose id begins so. Raises `NotFound` if there
        is none, or more than one."""
        return self._library.find(id)

    def conversations(self, *, limit: int | None = 20, after: str | None = None) -> list[Summary]:
        """What there is, the last that was gone on with first.

        after   the id of a conversation: those that come after it in this list
        """
        return self._library.conversations(limit=limit, after=after)

    def summary(self, id: str) -> Summary:
        """Raises `NotFound`."""
        return self._library.summary(id)

    def is_running_elsewhere(self, id: str) -> bool:
        """Whether another store, as that of another process, is at a turn of it."""
        return self._library.is_running_elsewhere(id)

    def attempts(self, id: str) -> list[StoredTry]:
        """All calls of models for a conversation, failed ones as well. Raises `NotFound`."""
        return self._library.attempts(id)

    def search(self, words: str, *, limit: int = 20) -> list[Found]:
        """The messages that have all these words, latest first, but for turns that were
        taken back. `wor*` stands for words that begin so; what is in a script without
        spaces, as in Chinese, Japanese or Thai, is found by any part."""
        return self._library.search(words, limit=limit)

    def usage(
        self,
        *,
        by: Sequence[str] = (),
        since: str = "",
        until: str = "",
        user: str | None = None,
        most: int = 1000,
    ) -> list[UsageRow]:
        """What calls of models come to, of all owners, in the order of what they are told
        apart by. What belongs to conversations that were deleted is in it; what is said
        of a fork is not twice.

        by             any of `day`, `feature`, `model`, `provider` and `user`, in any order;
                       nothing for one row in all
        since, until   the first day and the last, in UTC, as `2030-01-31`; empty for any
        user           whose calls; None for everybody's
        most           rows

        Raises `ValidationError` for what nothing can be told by.
        """
        return self._library.usage(by, since, until, user, most)

    def add_usage(self, tally: UsageAggregate) -> None:
        """Have calls counted that are on no record."""
        with self._counting:
            self._library.add_usage(tally)

    def rename(self, id: str, name: str) -> None:
        """Give a conversation a name; an empty one takes it away. Raises `NotFound`."""
        self._library.rename(id, name)

    def delete(self, id: str) -> None:
        """Remove a conversation, with all that belongs to it. A process that is at it
        gets `Conflict`. Raises `NotFound`."""
        self._library.delete(id)

    def delete_expired(self, *, days: float | None = None, number: int | None = None) -> int:
        """Delete conversations that nobody has gone on with for some days, and all but the
        latest; those that a process is at stay. Returns how many were deleted."""
        return self._library.delete_expired(days=days, number=number)

    def fork(self, id: str, *, turn: int | None = None) -> str:
        """Copy a conversation, to go on otherwise, and give the id of the copy. A turn that
        has not ended is left out. Raises `NotFound`.

        turn   after which it is to be as it was then, from 0; None for as it is now
        """
        return self._library.fork(id, turn=turn)

    def export(self, id: str) -> dict[str, Any]:
        """A conversation as JSON, with all that is attached, for `load` here or elsewhere.
        Raises `NotFound`."""
        return self._library.export(id)

    def import_conversation(self, data: Mapping[str, Any], codec: Codec) -> str:
        """Take in what was exported, as a new conversation, and give its id. Raises
        `ValidationError` for what is none."""
        return self._library.import_conversation(data, codec)

    def markdown(self, id: str, codec: Codec) -> str:
        """A conversation to be read: the history that holds now, and when each turn was
        begun. Raises `NotFound`."""
        return self._library.markdown(id, codec)

    def documents(self, collection: str, *, conversation: str | None = None) -> Documents:
        """Records of a plugin's own; those of a conversation are deleted with it."""
        return self._library.documents(collection, conversation=conversation)

    def blobs(self) -> Blobs:
        """Bytes by their digest, as of files that are attached."""
        return self._library.blobs()

    def strip_blobs(self, entry: Written, conversation: str) -> Written:
        """An entry as it is to be stored for a conversation: the bytes of its images and
        files are in blobs when this returns."""
        return entry._replace(body=kept(entry.body, self.blobs(), conversation))

    def close(self) -> None:
        with self._counting, self._lock:
            if "_writer" in vars(self):
                self._writer.close()
            if "ledger" in vars(self):
                self.ledger.close()
            self._presence.end()
            self._opened.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _create(self, entries: Sequence[Written], known: Mapping[str, Any]) -> str:
        """A new conversation with these entries, and its id.

        known   what is known of it already, as `tables.conversations` has it
        """
        now = self._now()
        id = new_id(now)
        rows = [
            Row(id, number, *(self.strip_blobs(each, id) if _has_bytes(each) else each))
            for number, each in enumerate(entries)
        ]
        values = {"id": id, "owner": self._owner, "created": now, "updated": now, **known}
        self._writer.add(Addition(rows, values))
        return id

    def _record(self, id: str, number: int, codec: Codec) -> StoredRecord:
        return StoredRecord(self, self._writer, id, number, codec, self._now)


def _has_bytes(entry: Written) -> bool:
    return may_hold_bytes(entry.body) or may_refer(entry.body)


def _place_of(where: str | os.PathLike[str] | None) -> str:
    """A file, with its folders, or an address."""
    named = os.fspath(where) if where is not None else ""
    if "://" in named:
        return named
    return os.path.abspath(named or os.path.join(paths.data_dir("store"), "conversations.db"))


class StoredRecord:
    """A `Recorder`: an entry is on disk when `append` returns.

    id       of the conversation
    number   how many entries there are: the number of the next one

    Made by `Store.create` and `Store.record`. Whoever else appends to the same
    conversation meanwhile wins: `append` raises `Conflict` from then on.
    """

    def __init__(
        self,
        store: Store,
        writer: Writer,
        id: str,
        number: int,
        codec: Codec,
        now: Callable[[], float],
    ) -> None:
        self.id = id
        self._store = store
        self._writer = writer
        self._number = number
        self._codec = codec
        self._now = now
        self._held: tuple[Written, ...] = ()
        self._unsure: tuple[Entry, list[Row]] | None = None
        self._lock = threading.Lock()

    @property
    def number(self) -> int:
        return self._number

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that is on record, read now."""
        return self._store.entries(self.id, self._codec)

    def append(self, entry: Entry) -> None:
        """Raises `Conflict`: then nothing was added. Raises `StoreError`: then nothing was, or it
        is not known, as where a commit failed or was interrupted. To append the same entry again
        is to try again: it is not added twice.

        That a turn has started is written together with the first step of it, or by
        `flush`: until then, nothing has been done that could be told of.
        """
        form = written(entry, self._codec, self._now())
        if may_hold_bytes(form.body):
            form = self._store.strip_blobs(form, self.id)
        with self._lock:
            if self._unsure is not None:
                before, rows = self._unsure
                if before == entry:
                    self._add(rows, again=True)
                    return
                self._settle(before, rows, entry)
            if isinstance(entry, TurnStarted):
                self._held = (form,)
                return
            forms, self._held = (*self._held, form), ()
            rows = self._rows(forms)
            self._unsure = entry, rows
            self._add(rows)

    def flush(self) -> None:
        """Write that a turn has started, if that is not written yet. Raises what `append`
        does."""
        with self._lock:
            if self._held:
                self._add(self._rows(self._held))
                self._held = ()

    def _rows(self, forms: Sequence[Written]) -> list[Row]:
        return [Row(self.id, self._number + n, *each) for n, each in enumerate(forms)]

    def _settle(self, before: Entry, rows: Sequence[Row], entry: Entry) -> None:
        """Find out whether an entry was added, since another one comes after it."""
        if self._writer.holds(rows):
            self._number = rows[-1].number + 1
            self._unsure = None
            if isinstance(before, StepEnded) and isinstance(entry, StepEnded):
                raise Conflict(
                    "another result is on record already", hint="reopen the conversation"
                )
        else:
            self._held = tuple(Written(*row[2:]) for row in rows[:-1])
            self._unsure = None

    def _add(self, rows: Sequence[Row], *, again: bool = False) -> None:
        self._writer.add(Addition(rows, again=again))
        self._number = rows[-1].number + 1
        self._unsure = None

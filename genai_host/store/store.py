"""The durable store of conversations.

    with Store() as store, Host(store=store) as host:
        conversation = host.open("chat")
        ...
        host.conversation(conversation.id)      # another day, in another process

The database is opened on first use.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from genai_host.api import Codec
from genai_host.conversations.record import Entry, Opened, StepEnded, TurnStarted
from genai_host.errors import Conflict
from genai_host.store.database import Database, Liveness, check_owner, location_of
from genai_host.store.records import Written, kept, may_hold_bytes, may_refer, new_id, written
from genai_host.store.writer import Addition, EntryRow, EntryWriter
from genai_host.util import paths
from genai_host.util.lazy_property import lazy_property

if TYPE_CHECKING:
    import sqlite3

    from genai_host.store.blobs import Blobs
    from genai_host.store.documents import Documents
    from genai_host.store.health import Repair, StoreHealth
    from genai_host.store.ledger import SpendLedger
    from genai_host.store.library import ConversationQueries
    from genai_host.store.records import SearchMatch, StoredTry, Summary
    from genai_host.store.usage import UsageRow
    from genai_host.usage.metering import UsageAggregate


class Store:
    """Durable store of conversations. Thread-safe, and shared by processes.

    The database is opened on first use. `StoreError` is raised if it cannot be read or written, or
    has a newer version. A file that is not a store is never changed.

    Args:
        where: A file, `postgresql://user:password@host/database`, or None for `conversations.db` in
            the host's data directory.
        owner: Owner of the conversations; those of other owners are not visible.
        patience: Timeout for another process that writes, in seconds.
        now: Seconds since 1970.
        connect: Opens an SQLite file, with the arguments of `sqlite3.connect`, the default.

    Raises:
        ValidationError: The owner is longer than 250 characters, or has NUL or half of a surrogate
            pair.
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
        self._counting = threading.Lock()  # counting runs in the background; `close` waits for it
        self._opened = Database(location_of(where), patience, connect)
        self._presence = Liveness(self._opened)
        check_owner(owner)
        self._owner = owner
        self._others: dict[str, Store] = {}
        self._now = now

    def for_owner(self, owner: str) -> Store:
        """The same store for another owner of conversations. It is closed with this one. Raises
        `ValidationError` for an invalid owner."""
        if owner == self._owner:
            return self
        with self._lock:
            if owner not in self._others:
                check_owner(owner)
                database, writer = self._database, self._writer  # shared by all owners
                theirs = copy.copy(self)
                vars(theirs).update(
                    _owner=owner, _database=database, _writer=writer, ledger=self.ledger
                )
                vars(theirs).pop("_library", None)
                self._others[owner] = theirs
            return self._others[owner]

    @property
    def location(self) -> str:
        """File, or URL without the password."""
        return self._opened.location

    @lazy_property
    def _database(self) -> Database:
        """The database, with the current schema."""
        if not self._opened.is_current():
            from genai_host.store.migrations import bring_up_to_date

            bring_up_to_date(self._opened)
        return self._opened

    @lazy_property
    def _writer(self) -> EntryWriter:
        return EntryWriter(self._database, self._presence)

    @lazy_property
    def ledger(self) -> SpendLedger:
        """Spending of budgets by all users of this store."""
        from genai_host.store.ledger import SpendLedger

        return SpendLedger(self._database)

    @lazy_property
    def _library(self) -> ConversationQueries:
        from genai_host.store.library import ConversationQueries

        return ConversationQueries(
            self._database, self._presence, self._owner, self._create, self._now
        )

    def health(self) -> StoreHealth | None:
        """Check the store without creating or changing anything; None if there is none yet. Raises
        `StoreError` if it cannot be read, or the database is not a store."""
        from genai_host.store.health import examine

        return examine(self._opened)

    def repair(self) -> list[Repair]:
        """Rebuild the index of damaged conversations of all owners. Nothing is deleted: invalid
        entries are moved to the file `set_aside`."""
        from genai_host.store.health import repair

        return repair(self._database, self.set_aside)

    @property
    def set_aside(self) -> str:
        """File to which `repair` moves entries."""
        usual = os.path.join(paths.data_dir("store"), "conversations")
        return f"{self._opened.file or usual}.set-aside.jsonl"

    def check(self) -> None:
        """Check quickly, without creating anything. Raises `StoreError` if the store cannot be
        read, or cannot be created where there is none yet."""
        if self._opened.is_sqlite:
            if not self._opened.is_current():
                self._opened.check_place(was_there="_database" in vars(self))
        else:
            with self._opened.reading() as connection:
                connection.exec_driver_sql("SELECT 1")

    def new_id(self) -> str:
        """Make an id for a conversation that is created later, by `Host.open`."""
        return new_id(self._now())

    def create(self, opened: Opened, codec: Codec, id: str = "") -> StoredRecord:
        """Create a conversation with its first entry, and return its record.

        Args:
            opened: The first entry.
            codec: Codec of the entries.
            id: Id from `new_id`; empty for a new one.

        Raises:
            Conflict: The id is used.
        """
        entries = [written(opened, codec, self._now())]
        id = self._create(entries, {"feature": opened.feature}, id)
        return self._record(id, 1, codec)

    def record(self, id: str, codec: Codec) -> tuple[StoredRecord, tuple[Entry, ...]]:
        """Open the record of a conversation to continue it.

        Returns:
            The record, and the entries that are needed to continue, without steps of ended turns.

        Raises:
            NotFound: No conversation has this id.
        """
        id, number, entries = self._library.record(id, codec)
        return self._record(id, number, codec), entries

    def entries(self, id: str, codec: Codec) -> tuple[Entry, ...]:
        """All entries of a conversation, for display. A missing image or file is replaced by a
        note. Raises `NotFound`."""
        return self._library.entries(id, codec)

    def times(self, id: str) -> dict[int, float]:
        """Start of each turn, in seconds since 1970. Raises `NotFound`."""
        return self._library.times(id)

    def find(self, id: str) -> str:
        """Complete the prefix of an id. Raises `NotFound` if it matches no conversation, or
        several."""
        return self._library.find(id)

    def conversations(self, *, limit: int | None = 20, after: str | None = None) -> list[Summary]:
        """List conversations, last used first, at most `limit`; after the one with the id or
        `Summary.cursor` `after`."""
        return self._library.conversations(limit=limit, after=after)

    def summary(self, id: str) -> Summary:
        """Summary of a conversation. Raises `NotFound`."""
        return self._library.summary(id)

    def is_running_elsewhere(self, id: str) -> bool:
        """Whether another store, for example in another process, is running a turn of a
        conversation."""
        return self._library.is_running_elsewhere(id)

    def attempts(self, id: str) -> list[StoredTry]:
        """All attempts of model calls of a conversation, including failed ones. Raises
        `NotFound`."""
        return self._library.attempts(id)

    def search(self, words: str, *, limit: int = 20) -> list[SearchMatch]:
        """Find messages with all these words, latest first, except those of removed turns.

        `wor*` matches words that begin with `wor`. Text in scripts without spaces, such as Chinese,
        Japanese or Thai, is found by any part.
        """
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
        """Usage of model calls of all owners, sorted by group.

        It includes deleted conversations, and counts the calls of a fork once.

        Args:
            by: Any of `day`, `feature`, `model`, `provider` and `user`, in any order; empty for a
                single row.
            since: First day in UTC, for example `2030-01-31`; empty for no limit.
            until: Last day in UTC; empty for no limit.
            user: User of the calls; None for all users.
            most: Maximum number of rows.

        Raises:
            ValidationError: A grouping or a day is invalid.
        """
        return self._library.usage(by, since, until, user, most)

    def add_usage(self, tally: UsageAggregate) -> None:
        """Count calls that are not recorded."""
        with self._counting:
            self._library.add_usage(tally)

    def rename(self, id: str, name: str) -> None:
        """Rename a conversation; an empty name removes the name. Raises `NotFound`."""
        self._library.rename(id, name)

    def delete(self, id: str) -> None:
        """Delete a conversation with all its data. Raises `NotFound`. A process that is using it
        gets `Conflict`."""
        self._library.delete(id)

    def delete_expired(self, *, days: float | None = None, number: int | None = None) -> int:
        """Delete conversations that have not been used for `days` days, and all but the `number`
        most recently used ones. Conversations with a running turn are not deleted. Returns the
        number deleted."""
        return self._library.delete_expired(days=days, number=number)

    def fork(self, id: str, *, turn: int | None = None) -> str:
        """Copy a conversation up to and including `turn`, from 0 (None for all turns), and return
        the id of the copy. A turn that has not ended is omitted. Raises `NotFound`."""
        return self._library.fork(id, turn=turn)

    def export(self, id: str) -> dict[str, Any]:
        """Export a conversation as JSON, for `import_conversation`. `attachments` has its images
        and files by id, and None for those that are missing. Raises `NotFound`."""
        return self._library.export(id)

    def import_conversation(self, data: Mapping[str, Any], codec: Codec) -> str:
        """Import an exported conversation as a new one, and return its id. Raises `ValidationError`
        if the export is invalid."""
        return self._library.import_conversation(data, codec)

    def markdown(self, id: str, codec: Codec) -> str:
        """Render the current history of a conversation as Markdown, with the start of each turn.
        Raises `NotFound`."""
        return self._library.markdown(id, codec)

    def documents(self, collection: str, *, conversation: str | None = None) -> Documents:
        """Documents of a plugin; those of a conversation are deleted with it."""
        return self._library.documents(collection, conversation=conversation)

    def blobs(self) -> Blobs:
        """Bytes by their digest, for example those of attached files."""
        return self._library.blobs()

    def strip_blobs(self, entry: Written, conversation: str) -> Written:
        """Move the bytes of an entry's images and files to blobs, and return its stored form."""
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

    def _create(self, entries: Sequence[Written], known: Mapping[str, Any], id: str = "") -> str:
        """Create a conversation with these entries and known columns of `tables.conversations`, and
        return its id."""
        now = self._now()
        id = id or new_id(now)
        rows = [
            EntryRow(id, number, *(self.strip_blobs(each, id) if _has_bytes(each) else each))
            for number, each in enumerate(entries)
        ]
        values = {"id": id, "owner": self._owner, "created": now, "updated": now, **known}
        self._writer.add(Addition(rows, values))
        return id

    def _record(self, id: str, number: int, codec: Codec) -> StoredRecord:
        return StoredRecord(self, self._writer, id, number, codec, self._now)


def _has_bytes(entry: Written) -> bool:
    return may_hold_bytes(entry.body) or may_refer(entry.body)


@define(eq=False, repr=False, slots=False)
class StoredRecord:
    """A `Recorder` whose `append` returns when the entry is on disk.

    Made by `Store.create` and `Store.record`. If another writer appends to the same conversation,
    `append` raises `Conflict` from then on.

    Args:
        number: Number of the next entry.
    """

    _store: Store
    _writer: EntryWriter
    id: str
    _number: int
    _codec: Codec
    _now: Callable[[], float]
    _held: tuple[Written, ...] = field(default=(), init=False)
    _unsure: tuple[Entry, list[EntryRow]] | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def number(self) -> int:
        return self._number

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self._store.entries(self.id, self._codec)

    def append(self, entry: Entry) -> None:
        """Append an entry.

        To retry, append the same entry again: it is not added twice. The start of a turn is written
        together with its first step, or by `flush`; nothing that needs a record was done until
        then.

        Raises:
            Conflict: Nothing was added.
            StoreError: Nothing was added, or the outcome is unknown, for example because the commit
                was interrupted.
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
        """Write the start of a turn if it is not written yet. Raises the errors of `append`."""
        with self._lock:
            if self._held:
                self._add(self._rows(self._held))
                self._held = ()

    def _rows(self, forms: Sequence[Written]) -> list[EntryRow]:
        return [EntryRow(self.id, self._number + n, *each) for n, each in enumerate(forms)]

    def _settle(self, before: Entry, rows: Sequence[EntryRow], entry: Entry) -> None:
        """Find out whether an entry was added, before another one follows it."""
        if self._writer.holds(rows):
            self._number = rows[-1].number + 1
            self._unsure = None
            if isinstance(before, StepEnded) and isinstance(entry, StepEnded):
                raise Conflict(
                    "another result has already been recorded", hint="reopen the conversation"
                )
        else:
            self._held = tuple(Written(*row[2:]) for row in rows[:-1])
            self._unsure = None

    def _add(self, rows: Sequence[EntryRow], *, again: bool = False) -> None:
        self._writer.add(Addition(rows, again=again))
        self._number = rows[-1].number + 1
        self._unsure = None

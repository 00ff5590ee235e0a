"""Conversations in a store: made, reopened, listed, found, renamed, deleted."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import sqlalchemy
from stored import append, run_concurrently, turn

from genai_host import Message
from genai_host.api import Cost
from genai_host.conversations.record import Entry, Rewound, StepEnded, StepStarted
from genai_host.conversations.replay import replay
from genai_host.errors import Conflict, NotFound, StoreError
from genai_host.store import Store
from genai_host.store.database import Database, Liveness, lock_beside
from genai_host.store.engines import failing, read_url
from genai_host.store.records import new_id
from genai_host.store.store import StoredRecord
from genai_host.store.writer import Addition, EntryRow, EntryWriter
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, MakeStore, begin
from genai_host_testing.suites.base import in_background


class TestRecord:
    def test_it_reads_what_was_appended(self, store: Store, make_store: MakeStore) -> None:
        record = begin(store, models={"main": "mock"}, history=(Message("user", "ä\0😀"),))
        entries = turn(0, "q\ud800")
        append(record, *entries)
        assert record.number == 5
        assert list(record.entries[1:]) == entries
        assert make_store().entries(record.id, CODEC) == record.entries

    def test_another_process_goes_on(self, store: Store, make_store: MakeStore) -> None:
        record = begin(store)
        append(record, *turn(0))
        again, _ = make_store().record(record.id, CODEC)
        append(again, *turn(1), *turn(2)[:3])
        assert again.number == 12
        _, entries = store.record(record.id, CODEC)
        kinds = "Opened TurnStarted TurnEnded TurnStarted TurnEnded"  # steps of the last turn alone
        assert [type(entry).__name__ for entry in entries[:-3]] == kinds.split()
        state = replay(entries)
        assert (len(state.history), len(state.pending)) == (4, 3)

    def test_a_write_amid_a_read_is_a_conflict(self, store: Store, make_store: MakeStore) -> None:
        """The reader has not seen the write and must not continue from it."""
        record = begin(store)
        theirs, _ = make_store().record(record.id, CODEC)
        reader = make_store()
        adds = [theirs]

        def add(*args: Any) -> None:
            if " entries" in args[2] and adds:
                append(adds.pop(), *turn(0))

        sqlalchemy.event.listen(reader._database.engine, "after_cursor_execute", add)
        mine, entries = reader.record(record.id, CODEC)
        assert not adds
        assert len(entries) == 1
        with pytest.raises(Conflict):
            append(mine, *turn(0))

    def test_whether_another_store_is_at_a_turn(self, store: Store, make_store: MakeStore) -> None:
        record, other = begin(store), make_store()
        assert not other.is_running_elsewhere(record.id)
        append(record, *turn(0)[:2])
        assert other.is_running_elsewhere(record.id)
        assert not store.is_running_elsewhere(record.id)
        append(record, *turn(0)[2:])
        assert not other.is_running_elsewhere(record.id)
        append(record, *turn(1)[:2])
        store.close()
        assert not other.is_running_elsewhere(record.id)

    def test_the_loser_of_two_writes_nothing(self, store: Store, make_store: MakeStore) -> None:
        record = begin(store)
        other, _ = make_store().record(record.id, CODEC)
        append(other, *turn(0, "theirs")[:2])
        for _ in range(2):
            with pytest.raises(Conflict) as caught:
                append(record, *turn(0, "ours")[:2])
        assert caught.value.hint == "reopen the conversation"
        assert record.entries[1:] == (*turn(0, "theirs")[:2],)

    @pytest.fixture
    def lost(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[StoredRecord, Entry, bool], None]:
        """Appends an entry and loses the connection, after it was written or before."""
        add = EntryWriter.add

        def lose(record: StoredRecord, entry: Entry, is_written: bool) -> None:
            def fail(self: EntryWriter, addition: Addition) -> None:
                if is_written:
                    add(self, addition)
                raise StoreError("the connection was closed")

            with monkeypatch.context() as patch, pytest.raises(StoreError, match="was closed"):
                patch.setattr(EntryWriter, "add", fail)
                record.append(entry)

        return lose

    @pytest.mark.parametrize("is_written", [True, False])
    def test_an_unknown_outcome(self, store: Store, lost: Any, is_written: bool) -> None:
        record = begin(store)
        started, step, ended = turn(0)[:3]
        append(record, started)
        lost(record, step, is_written)
        append(record, ended)  # the start of the turn is written with it if it was not
        assert list(record.entries[1:]) == [started, *[step] * is_written, ended]
        assert record.number == 3 + is_written

    def test_another_result_of_a_step_is_a_conflict(self, store: Store, lost: Any) -> None:
        record = begin(store)
        append(record, *turn(0)[:2])
        result = StepEnded(0, (0,), "one")
        lost(record, result, True)
        with pytest.raises(Conflict, match="another result"):
            append(record, StepEnded(0, (0,), "two"))
        assert record.entries[-1] == result

    def test_the_same_entry_of_another_record_is_a_conflict(self, make_store: MakeStore) -> None:
        """Also if it is written by the same store at the same moment."""
        store = make_store(now=lambda: 100.0)
        record = begin(store)
        other, _ = store.record(record.id, CODEC)
        append(record, *turn(0)[:2])
        with pytest.raises(Conflict):
            append(other, *turn(0)[:2])

    def test_a_connection_that_failed_is_replaced(self, store: Store) -> None:
        record = begin(store)
        append(record, *turn(0)[:2])
        rows = [EntryRow(record.id, 0, None, "opened", 0.0, "")]
        error = store._database.driver.OperationalError("disk I/O error")
        for act in (lambda: append(record, turn(0)[2]), lambda: store._writer.holds(rows)):
            act()
            store._writer._connection.close()
            failing = store._writer._connection = mock.Mock()
            failing.cursor().execute.side_effect = failing.cursor().executemany.side_effect = error
            with pytest.raises(StoreError, match="disk I/O error"):
                act()
            assert failing.close.called
            assert store._writer._connection is None
        append(record, *turn(0)[3:])
        assert store._writer.holds(rows) is False
        assert len(record.entries) == 5

    def test_a_conversation_that_was_deleted_is_not_gone_on_with(self, store: Store) -> None:
        record = begin(store)
        store.delete(record.id)
        with pytest.raises(Conflict):
            append(record, *turn(0)[:2])
        with pytest.raises(NotFound):
            store.entries(record.id, CODEC)

    def test_many_threads_write_at_once(self, store: Store) -> None:
        def write(record: StoredRecord) -> None:
            for number in range(10):
                append(record, *turn(number))

        records = [begin(store) for _ in range(8)]
        run_concurrently(write, records)
        for record in records:
            assert replay(record.entries).turns == 10

    def test_of_many_threads_that_write_the_same_entry_one_wins(self, store: Store) -> None:
        first = begin(store)
        others = [store.record(first.id, CODEC)[0] for _ in range(8)]
        outcomes = []

        def write(record: StoredRecord) -> None:
            try:
                append(record, *turn(0)[:2])
                outcomes.append("written")
            except Conflict:
                outcomes.append("conflict")

        run_concurrently(write, others)
        assert sorted(outcomes) == ["conflict"] * 7 + ["written"]
        assert len(first.entries) == 3


def test_an_id_has_its_time_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_host.store.records.secrets.randbits", lambda bits: 31)
    assert new_id(1.5) == "0000001ew00000000z"  # 1500 is 1 * 32**2 + 14 * 32 + 28


class TestFinding:
    def test_the_beginning_of_an_id_is_enough(self, make_store: MakeStore) -> None:
        times = iter(range(100, 200))
        store = make_store(now=lambda: float(next(times)))
        ids = [begin(store).id for _ in range(3)]
        assert ids == sorted(ids)
        for id in ids:
            assert store.find(id[:-1]) == id
        with pytest.raises(NotFound, match="several") as caught:
            store.find(ids[0][:4])
        assert ids[0] in caught.value.hint

    @pytest.mark.parametrize("number", [2, 5, 6, 7])
    def test_at_most_five_ids_are_suggested(self, make_store: MakeStore, number: int) -> None:
        store = make_store(now=lambda: 100.0)
        ids = sorted(begin(store).id for _ in range(number))
        with pytest.raises(NotFound) as caught:
            store.find(ids[0][:9])
        more = ", ..." if number > 5 else ""
        assert caught.value.hint == f"use a longer prefix: {', '.join(ids[:5])}{more}"

    @pytest.mark.parametrize("id", ["", "x", "%", "_", "\0", "1' OR '1'='1", "ü" * 300, "\ud800"])
    def test_what_is_no_id_is_not_found(self, store: Store, id: str) -> None:
        begin(store)
        begin(store)
        with pytest.raises(NotFound):
            store.find(id)


class TestList:
    def test_it_says_what_each_conversation_is(self, make_store: MakeStore) -> None:
        times = iter(range(100, 200))
        store = make_store(now=lambda: float(next(times)))
        record = begin(store, models={"main": "mock@m"})
        append(record, *turn(0, "What  is\nthis? " + "x" * 200))
        (row,) = store.conversations()
        assert (row.id, row.feature, row.models) == (record.id, "chat", {"main": "mock@m"})
        assert row.title == ("What is this? " + "x" * 200)[:80]
        assert (row.turns, row.entries, row.status) == (1, 5, "idle")
        assert 100 <= row.created < row.updated < 110
        assert store.summary(record.id) == row
        assert (row.cost, row.forked_from) == (Cost(), "")

    def test_the_last_that_was_gone_on_with_comes_first(self, make_store: MakeStore) -> None:
        times = iter(range(100, 200))
        store = make_store(now=lambda: float(next(times)))
        records = [begin(store) for _ in range(4)]
        append(records[1], *turn(0)[:2])
        ids = [records[n].id for n in (1, 3, 2, 0)]
        assert [each.id for each in store.conversations()] == ids
        assert [each.id for each in store.conversations(limit=2)] == ids[:2]
        assert [each.id for each in store.conversations(after=ids[1])] == ids[2:]
        cursor = store.summary(ids[1]).cursor
        assert [each.id for each in store.conversations(after=cursor)] == ids[2:]
        store.delete(ids[1])
        assert [each.id for each in store.conversations(after=cursor)] == ids[2:]

    def test_lists_have_twenty_items_unless_asked(self, store: Store) -> None:
        for number in range(21):
            append(begin(store), *turn(0, "word")[:2])
            store.documents("notes").put(str(number), {})
        results = store.conversations(), store.search("word"), store.documents("notes").list()
        assert [len(each) for each in results] == [20, 20, 20]
        assert [len(store.conversations(limit=each)) for each in (21, None)] == [21, 21]

    def test_a_name_stands_for_the_title(self, store: Store) -> None:
        record = begin(store)
        append(record, *turn(0)[:2])
        assert [match.title for match in store.search("q")] == ["q"]
        store.rename(record.id, "mine")
        assert store.summary(record.id).title == "mine"
        assert [match.title for match in store.search("q")] == ["mine"]
        store.rename(record.id, "a\0b \udcfc")  # as of an argument that is not UTF-8
        assert store.summary(record.id).title == "a b \ufffd"
        store.rename(record.id, "")
        assert store.summary(record.id).title == "q"

    @pytest.mark.parametrize(("entries", "status"), [
        ([], "idle"),
        (turn(0), "idle"),
        (turn(0)[:2], "running"),
        (turn(0)[:3], "running"),
        ([*turn(0)[:3], StepStarted(0, (1,), "wait", "d", {"kind": "x"})], "paused"),
        (turn(0, answer=None), "failed"),
        ([*turn(0, answer=None), Rewound(0, 0)], "idle"),
    ])  # fmt: skip
    def test_statuses(self, store: Store, entries: list[Entry], status: str) -> None:
        record = begin(store)
        for entry in entries:
            record.append(entry)
            store.conversations()  # in pieces, or at once, it comes to the same
        assert store.summary(record.id).status == status

    def test_turns_of_processes_that_are_gone(self, store: Store, make_store: MakeStore) -> None:
        record = begin(store)
        append(record, *turn(0)[:2])
        other = make_store()
        assert other.summary(record.id).status == "running"
        store.close()
        assert other.summary(record.id).status == "interrupted"


def test_a_closed_store_stays_closed(make_store: MakeStore, make_host: MakeHost) -> None:
    store = make_store()
    record = begin(store)
    conversation = make_host(store=store).open("chat", "mock")
    store.close()
    conversation.use(temperature=0.5)
    assert isinstance(conversation.record_error, StoreError)
    assert "closed" in str(conversation.record_error)
    for late in (
        lambda: append(record, *turn(0)),
        lambda: begin(store),
        lambda: store.conversations(),
        lambda: store.rename(record.id, "name"),
    ):
        with pytest.raises(StoreError, match="the store is closed"):
            late()
    store.close()
    assert make_store().summary(record.id).turns == 0
    database = Database(store.location, 1.0)
    database.close()
    with pytest.raises(StoreError, match="the store is closed"):
        database.connect()
    with Store("postgresql://127.0.0.1:1/db") as unused:
        pass
    with pytest.raises(StoreError, match="the store is closed"):
        unused.conversations()


def test_each_connection_has_the_settings(tmp_path: Path) -> None:
    with closing(Database(str(tmp_path / "x.db"), 1.0).connect()) as connection:
        statuses = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("foreign_keys", "synchronous", "wal_autocheckpoint")
        }
    assert statuses == {"foreign_keys": 1, "synchronous": 1, "wal_autocheckpoint": 10_000}


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    with Store(tmp_path / "none" / "x.db"):
        pass
    assert not (tmp_path / "none").exists()


def test_it_is_in_the_folder_of_data_unless_said(home: Path) -> None:
    with Store() as store:
        begin(store)
        assert Path(store.location).is_relative_to(home / "data")


@pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")
def test_its_files_are_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Store(tmp_path / "kept" / "x.db") as store:
            append(begin(store), *turn(0)[:2])
            store.conversations()
            store.blobs().put([b"x"])
            files = [tmp_path / "kept", *(tmp_path / "kept").rglob("*")]
            assert len(files) > 4
            for file in files:
                mode = 0o700 if file.is_dir() else 0o600
                assert stat.S_IMODE(file.stat().st_mode) == mode, file
    finally:
        os.umask(before)


def test_item_5_who_makes_a_file_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_host.store.database._SECONDS", 0.0)
    first, second = (Database(str(tmp_path / "x.db"), 1.0) for _ in range(2))
    with lock_beside(first), pytest.raises(StoreError, match="another process is opening"):
        lock_beside(second).__enter__()
    with lock_beside(second):
        pass


@pytest.mark.parametrize("bits", [lambda size: 0, lambda size: 2**size - 1])
def test_the_number_of_a_writer_has_63_bits(monkeypatch: pytest.MonkeyPatch, bits: Any) -> None:
    monkeypatch.setattr("genai_host.store.database.secrets.randbits", bits)
    assert 0 < Liveness(Database("x.db", 1.0)).token < 2**63


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_writes_wait_for_the_lock_when_they_begin(tmp_path: Path, prefix: str) -> None:
    """SQLite does not wait if a transaction that has read starts to write."""
    statements: list[str] = []
    timeouts: set[float] = set()

    def connect(*args: Any, **more: Any) -> sqlite3.Connection:
        timeouts.add(more["timeout"])
        connection: sqlite3.Connection = sqlite3.connect(*args, **more)
        connection.set_trace_callback(statements.append)
        return connection

    with Store(f"{prefix}{tmp_path}/x.db", connect=connect) as store:
        store.conversations()
        statements.clear()
        store.documents("notes").delete("x")
        store.documents("notes").count()
    assert [each for each in statements if each.startswith("BEGIN")] == ["BEGIN IMMEDIATE", "BEGIN"]
    assert timeouts == {5.0}


def test_waiting_threads_share_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, wait = threading.Semaphore(0), Addition.wait

    def note(addition: Addition) -> None:
        waiting.release()
        wait(addition)

    with Store(tmp_path / "x.db") as store:
        records = [begin(store) for _ in range(4)]
        monkeypatch.setattr(Addition, "wait", note)
        statements, added = list[str](), list[Future[None]]()
        writer = store._writer
        writer._connection.set_trace_callback(statements.append)
        with writer._writing:
            for each in records:
                added.append(in_background(append, each, *turn(0)[:2]))
                assert waiting.acquire(timeout=30)
        for future in added:
            future.result(30)
        assert len([each for each in statements if "INSERT INTO entries" in each]) <= 3
        assert [len(record.entries) for record in records] == [3] * 4


@pytest.mark.parametrize(("error", "message", "hint"), [
    (OSError(28, "No space left"), "No space left", "set GENAI_HOST_HOME"),
    (sqlite3.OperationalError("database is locked"), "database is locked", "another program"),
    (sqlite3.DatabaseError("File is  not\na database"), "File is not a database", "move it"),
    (sqlite3.OperationalError("no such table: x"), "no such table: x", ""),
    (OverflowError(), "OverflowError", ""),
])  # fmt: skip
def test_an_error_of_the_database_has_a_hint(error: Exception, message: str, hint: str) -> None:
    result = Database("/x.db", 1.0).error(error)
    assert (result.message, result.file) == (f"/x.db: {message}", "/x.db")
    assert hint in result.hint
    assert bool(hint) == bool(result.hint)


class _LimitExceeded(Exception):
    sqlstate = "54000"  # of PostgreSQL, for example for a key that is too long


@pytest.mark.parametrize(("error", "refuses"), [
    (OverflowError(), True),
    (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), True),
    (sqlite3.IntegrityError(), True),
    (sqlite3.DataError(), True),
    (sqlite3.InterfaceError(), True),
    (sqlite3.ProgrammingError(), True),
    (sqlite3.OperationalError(), False),
    (OSError(), False),
    (_LimitExceeded(), True),
], ids=repr)  # fmt: skip
def test_whether_data_or_the_database_is_at_fault(error: Exception, refuses: bool) -> None:
    database = Database("/x.db", 1.0)
    assert database.refuses_data(error) is refuses
    assert database.refuses_data(sqlalchemy.exc.DBAPIError("INSERT", {}, error)) is refuses


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **more: Any) -> None:
        raise ImportError("no module", name="psycopg")

    monkeypatch.setattr("genai_host.store.engines.create_engine", fail)
    with (
        Store("postgresql://ann:secret@host/db") as store,
        pytest.raises(StoreError, match=r"ann:.*@host/db requires psycopg") as caught,
    ):
        store.conversations()
    assert caught.value.hint == "pip install 'genai-host[postgresql]'"
    assert "secret" not in str(caught.value)


def test_where_repaired_entries_are_moved(home: Path) -> None:
    assert Store("/x/y.db").set_aside == "/x/y.db.set-aside.jsonl"
    on_server = Path(Store("postgresql://host/db").set_aside)
    assert on_server.name == "conversations.set-aside.jsonl"
    assert on_server.is_relative_to(home / "data")


def test_a_failure_is_told_in_the_words_of_the_database_alone() -> None:
    """SQLAlchemy's have the statement, and what was to be written."""
    cause = ValueError("disk I/O error")
    with pytest.raises(StoreError) as caught, failing(lambda error: StoreError(str(error))):
        raise sqlalchemy.exc.DBAPIError("INSERT", {"text": "a secret"}, cause)
    assert caught.value.message == "disk I/O error"


def test_what_dead_writers_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "x.db.writers"
    living, looking = (Liveness(Database(str(tmp_path / "x.db"), 1.0)) for _ in range(2))
    assert looking.there() == set()
    living.begin(None)
    (folder / "1f").touch()
    assert looking.there() == {living.token}
    assert [each.name for each in folder.iterdir()] == [f"{living.token:x}"]
    assert living.there() == {living.token}
    monkeypatch.setattr(os, "listdir", lambda _: [f"{living.token:x}", "1f"])
    (folder / "1f").touch()
    assert living.there() == {living.token}
    assert not (folder / "1f").exists()
    monkeypatch.undo()
    living.end()
    assert list(folder.iterdir()) == []
    assert looking.there() == set()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("address", "driver"), [
    ("postgresql://ann:secret@host/db", "postgresql+psycopg"),
    ("postgres://ann:secret@host/db", "postgresql+psycopg"),
    ("postgresql+psycopg://ann:secret@host/db", "postgresql+psycopg"),
    ("sqlite:////x/y.db", "sqlite"),
])  # fmt: skip
def test_an_address_may_omit_the_driver(address: str, driver: str) -> None:
    url = read_url(address)
    assert (url.drivername, url.database) == (driver, "/x/y.db" if driver == "sqlite" else "db")
    with Store(address) as store:
        location = "/x/y.db" if driver == "sqlite" else "postgresql+psycopg://ann:***@host/db"
        assert store.location == location


@pytest.mark.parametrize("address", [
    *("mysql://x/y", "postgresql://host", "nonsense://x", "://"),
    *("sqlite+nonsense:////x", "postgresql+nonsense://host/db"),
])  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(StoreError) as caught:
        Store(address)
    assert "postgresql://" in caught.value.hint


def test_an_unreadable_entry_has_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Store(tmp_path / "x.db") as store:
        record = begin(store)
        with sqlite3.connect(tmp_path / "x.db") as connection:
            connection.execute("UPDATE entries SET body = ?", (json.dumps({"entry": "new"}),))
        connection.close()
        with pytest.raises(StoreError, match=r"x\.db contains an entry") as caught:
            store.entries(record.id, CODEC)
        assert caught.value.file == str(tmp_path / "x.db")
        assert [each.id for each in store.conversations()] == [record.id]
    assert f"cannot read entry 0 of {record.id}: " in caplog.text


@pytest.mark.smoke
@pytest.mark.process
def test_it_is_imported_only_where_something_is_stored() -> None:
    code = """
import sys
import genai_feature_chat, genai_vendor_mock
import genai_host.dialects, genai_host_testing
from genai_host import Config, StaticPlugins, Host
plugins = {"d": genai_host.dialects, "m": genai_vendor_mock, "c": genai_feature_chat}
with Host(config=Config(), discovery=StaticPlugins(plugins)) as host:
    host.open("chat", "mock", record=False).say("hi")
    host.open("chat", "mock").say("hi")
print([name for name in sys.modules if name.startswith(("sqlalchemy", "genai_host.store"))])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"

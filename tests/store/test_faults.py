"""A store whose disk is full, that others hold, that is broken, older or newer; its schema."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from sqlalchemy import Connection, event, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from stored import append, turn

from genai_host import Message
from genai_host.api import Answer, Feature, Prompt, Secret, about
from genai_host.errors import AuthenticationFailed, StoreError
from genai_host.store import Store
from genai_host.store.database import VERSION, Database
from genai_host.store.migrations import bring_up_to_date
from genai_host.store.tables import metadata
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, MakeStore, begin

CANARY = "sk-canary-0123456789"


def test_on_a_full_disk_the_answer_still_reaches_the_user(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path / "x.db") as store:
        before = make_host(store=store).open("chat", "mock")
        before.say("before")
        with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connect = store._database.connect

        def connect_to_full_disk() -> Any:
            connection = connect()
            connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            return connection

        monkeypatch.setattr(store._database, "connect", connect_to_full_disk)
        store._writer._let_go()
        words = "much " * 10_000
        assert before.say(words).text == words
        assert before.record_error is not None
        assert "full" in str(before.record_error)
        assert before.record_error.hint == "free disk space"
        assert before.record_error.file == str(tmp_path / "x.db")
        assert before.say("and").text == "and"
    with Store(tmp_path / "x.db") as store:
        again = make_host(store=store).conversation(before.id)
        assert [message.text for message in again.history] == ["before", "before"]


@pytest.mark.skipif(os.name == "nt", reason="makes links")
@pytest.mark.parametrize("is_link", [False, True])  # SQLite refuses to open links
def test_where_nothing_can_be_written_what_is_there_can_be_read(
    make_host: MakeHost, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_link: bool
) -> None:
    file = tmp_path / "x.db"
    with Store(file) as store:
        derived = make_host(store=store).open("chat", "mock")
        derived.say("the first")
        store.conversations()
        late = make_host(store=store).open("chat", "mock")
        late.say("the second")
    beside = tmp_path / "x.db-shm"
    # SQLite cannot make its files, as on a full disk, or in a folder of others
    if is_link:
        beside.symlink_to("nowhere")
    else:
        beside.mkdir()
    with Store(file) as store:
        assert {each.id for each in store.conversations()} == {derived.id, late.id}
        assert [each.turn for each in store.search("first")] == [0, 0]
        assert store.usage() is not None
        assert store.summary(late.id).id == late.id
        assert "lists may lack the latest entries" in caplog.text
        assert make_host(store=store).conversation(late.id).history[0].text == "the second"
        with pytest.raises(StoreError):
            store.delete(late.id)
        with pytest.raises(StoreError):
            store.delete_expired(days=100.0)
        if is_link:
            beside.unlink()
        else:
            beside.rmdir()
        assert [each.turn for each in store.search("second")] == [0, 0]
        store.delete(late.id)


@pytest.mark.skipif(os.name == "nt", reason="makes links")
def test_a_store_with_a_log_is_not_read_without_it(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    with Store(file) as store:
        begin(store)
        store.conversations()
        copied = tmp_path / "copy.db"
        for end in ("", "-wal"):  # as of a process that was killed
            Path(f"{copied}{end}").write_bytes(Path(f"{file}{end}").read_bytes())
    (tmp_path / "copy.db-shm").symlink_to("nowhere")
    with Store(copied) as store, pytest.raises(StoreError, match="unable to open") as caught:
        store.find("0")
    assert "readable and writable" in caught.value.hint


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="limits are POSIX's")
def test_where_no_file_may_grow_the_answer_still_reaches_the_user(tmp_path: Path) -> None:
    """A disk that is full, for all files of the process."""
    code = f"""
import logging, resource, signal
import genai_feature_chat, genai_host.dialects, genai_vendor_mock
from genai_host import Config, Host, StaticPlugins
from genai_host.store import Store
plugins = StaticPlugins(
    {{"dialects": genai_host.dialects, "mock": genai_vendor_mock, "chat": genai_feature_chat}}
)
logging.disable()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with (
    Store({str(tmp_path / "x.db")!r}) as store,
    Host(config=Config(), discovery=plugins, store=store) as host,
):
    conversation = host.open("chat", "mock")
    assert conversation.say("before").text == "before"
    assert conversation.record_error is None
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    assert conversation.say("after").text == "after"
    print(conversation.record_error.code)
    other = host.open("chat", "mock")
    assert other.say("new").text == "new"
    print(other.record_error.code)
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["store", "store"], ended.stderr


def test_with_the_lock_elsewhere_users_are_answered(make_host: MakeHost, tmp_path: Path) -> None:
    with Store(tmp_path / "x.db", patience=0.0) as store:
        host = make_host(store=store)
        conversation = host.open("chat", "mock")
        conversation.say("before")
        with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            assert conversation.say("after").text == "after"
            assert conversation.record_error is not None
            assert conversation.record_error.message.endswith("database is locked")
            assert "another program has locked it" in conversation.record_error.hint
            assert host.open("chat", "mock").say("new").text == "new"
            other.execute("ROLLBACK")
        fresh = host.conversation(conversation.id)
        assert fresh.say("again").text == "again"
        assert fresh.record_error is None


SCRIPTS = {"other": "CREATE TABLE mine (x)", "unversioned": "CREATE TABLE meta (name, value TEXT)"}
SCRIPTS["versioned"] = f"{SCRIPTS['unversioned']}; INSERT INTO meta VALUES ('schema', '1.0')"


@pytest.mark.parametrize("kind", ["text", "cut", *SCRIPTS])
def test_a_file_that_is_no_store_is_never_changed(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "x.db"
    if kind == "text":
        file.write_bytes(b"Dear friend, " * 1000)
    elif kind == "cut":
        with Store(file) as opened:
            begin(opened)
        file.write_bytes(file.read_bytes()[:5000])
    else:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.executescript(SCRIPTS[kind])
    before = file.read_bytes()
    with Store(file) as store:
        for act in (lambda: begin(store), store.conversations):
            with pytest.raises(StoreError) as caught:
                act()
            assert caught.value.file == str(file)
            assert "not changed" in caught.value.hint
    assert file.read_bytes() == before


def add_colour(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE conversations ADD COLUMN colour TEXT"))


class TestMigrations:
    def test_an_older_store_is_migrated(self, store: Store, place: str) -> None:
        id = begin(store).id
        store.close()
        with closing(Database(place, 5.0)) as database:
            bring_up_to_date(database, {VERSION: add_colour}, VERSION + 1)
            with database.reading() as connection:
                rows = connection.execute(text("SELECT id, colour FROM conversations")).all()
                meta = connection.execute(text("SELECT * FROM meta")).all()
        assert ([*map(tuple, rows)], meta) == ([(id, None)], [("schema", str(VERSION + 1))])

    def test_before_that_a_file_is_backed_up(self, tmp_path: Path) -> None:
        with Store(tmp_path / "x.db") as store:
            id = begin(store).id
        with closing(Database(str(tmp_path / "x.db"), 5.0)) as database:
            bring_up_to_date(database, {VERSION: add_colour}, VERSION + 1)
        backup = tmp_path / f"x.db.version-{VERSION}.backup"
        assert backup.stat().st_mode & 0o777 == 0o600 or os.name == "nt"
        with Store(backup) as store:
            assert store.find(id) == id

    @pytest.mark.parametrize("place", ["postgresql"], indirect=True)  # SQLite reads a snapshot
    @pytest.mark.parametrize("query", [1, 2])  # they ask which tables there are
    def test_another_process_may_create_it_meanwhile(self, place: str, query: int) -> None:
        queries: list[str] = []

        def create(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            queries.append(statement)
            if len(queries) == query:
                with Store(place) as another:
                    begin(another)

        with closing(Database(place, 5.0)) as database:
            event.listen(database.engine, "after_cursor_execute", create)
            bring_up_to_date(database)
        assert len(queries) >= query
        with Store(place) as store:
            assert len(store.conversations()) == 1

    def test_a_step_that_fails_changes_nothing(self, store: Store, place: str) -> None:
        id = begin(store).id
        store.close()

        def fail(connection: Connection) -> None:
            add_colour(connection)
            connection.execute(text("SELECT nonsense"))

        with closing(Database(place, 5.0)) as database, pytest.raises(StoreError):
            bring_up_to_date(database, {VERSION: fail}, VERSION + 1)
        with Store(place) as again:
            assert again.find(id) == id

    @pytest.mark.parametrize(
        ("version", "hint"),
        [(999, "pip install --upgrade genai-host"), (1, "genai-host conversations import FILE")],
    )
    def test_a_newer_store_and_version_1_are_refused(
        self, store: Store, make_store: MakeStore, version: int, hint: str
    ) -> None:
        begin(store)
        with store._database.writing() as connection:
            connection.execute(text(f"UPDATE meta SET value = '{version}' WHERE name = 'schema'"))
        another = make_store()
        with pytest.raises(StoreError, match=f"store version {version} is not supported") as caught:
            another.conversations()
        assert hint in caught.value.hint


def test_the_key_is_nowhere_in_the_files(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @frozen
    class Settings:
        token: Secret | None = field(default=None, metadata=about("a token", env="CANARY_TOKEN"))

    def respond(turn: Any) -> Any:
        assert turn.settings.token.reveal() == CANARY
        completion = yield from Prompt([turn.message])
        return Answer(completion.text)

    monkeypatch.setenv("CANARY_TOKEN", CANARY)
    secretive = InlinePlugin(features=[Feature("secretive", Settings, respond)])
    with Store(tmp_path / "kept" / "x.db") as store:
        host = make_host(store=store, secretive=secretive)
        host.open("secretive", "mock").say("hi")
        conversation = host.open("secretive", "mock", settings={"token": Secret(CANARY)})
        conversation.configure(token=Secret(CANARY))
        conversation.say("hi")
        assert conversation.record_error is None
        assert host.conversation(conversation.id).say("there").text == "there"
        host.instances.add("script", "mock", {"replies": [{"status": 401}]})
        with pytest.raises(AuthenticationFailed):
            host.open("secretive", provider="script").say("hi")
        assert len(store.conversations()) == 3
        files = [file.read_bytes() for file in (tmp_path / "kept").rglob("*") if file.is_file()]
    assert any(b"secretive" in each for each in files)
    assert not any(CANARY.encode() in each for each in files)


def test_ten_thousand_messages_are_opened_by_one_query(make_host: MakeHost, tmp_path: Path) -> None:
    roles: tuple[Any, Any] = ("user", "assistant")
    history = [Message(roles[number % 2], f"message {number}") for number in range(10_000)]
    with Store(tmp_path / "x.db") as store:
        host = make_host(store=store)
        id = host.open("chat", "mock", history=history, settings={"keep_history": False}).id
        queries: list[str] = []
        event.listen(
            store._database.engine, "before_cursor_execute", lambda *args: queries.append(args[2])
        )
        conversation = host.conversation(id)
        assert len(conversation.history) == 10_000
        opening = [each for each in queries if "entries" in each and each.startswith("SELECT")]
        assert len(opening) <= 2
        queries.clear()
        sizes = []
        for _ in range(5):
            conversation.say("more")
            with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
                sizes.append(
                    connection.execute("SELECT sum(length(body)) FROM entries").fetchone()[0]
                )
        assert queries == []
        assert max({after - earlier for earlier, after in pairwise(sizes)}) < 3000


def test_a_store_that_others_write_to_is_read_meanwhile(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db", patience=0.0) as store:
        record = begin(store)
        store.conversations()
        with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert store.entries(record.id, CODEC)
            assert store.find(record.id) == record.id
            with pytest.raises(StoreError, match="locked"):
                append(record, *turn(0)[:2])


def test_an_unusable_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.db").write_bytes(b"this is no database, whoever looks at it" * 99)
    opened: list[sqlite3.Connection] = []

    def connect(*args: Any, **more: Any) -> sqlite3.Connection:
        opened.append(sqlite3.Connection(*args, **more))
        return opened[-1]

    monkeypatch.setattr("genai_host.store.database.sqlite3.connect", connect)
    with Store(tmp_path / "x.db") as store, pytest.raises(StoreError):
        store.conversations()
    assert opened
    for each in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")


EXPECTED = Path(__file__).parents[1] / "data" / "schema.sql"
HEADER = f"""\
-- Version {VERSION} of the schema, on PostgreSQL.
-- A change requires a new version and a step in genai_host/store/migrations.py.
"""


def test_the_schema_is_that_of_its_version() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # so in SQLAlchemy
    statements = []
    for _, table in sorted(metadata.tables.items()):
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            statements.append(str(CreateIndex(index).compile(dialect=dialect)))
    lines = "".join(f"\n{each.strip()};" for each in statements).expandtabs(4).splitlines()
    schema = "\n".join(line.rstrip() for line in lines) + "\n"
    assert HEADER + schema == EXPECTED.read_text("utf-8")

"""How a store is, as `genai-host doctor` says it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from stored import append, turn
from support import Terminal

from genai_host import Message
from genai_host.api import Answer, Image
from genai_host.conversations.record import StepEnded, StepStarted, TurnEnded, TurnStarted
from genai_host.conversations.replay import MAX_TURNS
from genai_host.errors import StoreError
from genai_host.store import Store
from genai_host.store.database import OLDEST, VERSION, Database
from genai_host.store.health import Repair, StoreHealth, _examine_on_postgresql, _impossible
from genai_host_testing.internal.stores import CODEC, MakeStore, begin

NO_DATABASE = b"no database, but dear to somebody" * 100
RESULT = {"route": {"model": "m", "provider": "p", "dialect": "d"}}


def write_much(store: Store) -> None:
    for number in range(50):
        begin(store, history=(Message("user", f"{number} " * 500),))
    store.conversations()


def damage(file: str) -> None:
    """All pages but the first few, with what was in the log moved to them before."""
    data = bytearray(Path(file).read_bytes())
    middle = len(data) // 2
    data[middle:] = b"\xff" * (len(data) - middle)
    Path(file).write_bytes(data)


def checked(terminal: Terminal) -> dict[str, Any]:
    checks = json.loads(terminal("doctor", "--json")[1])
    [store_check] = [check for check in checks if check["what"] == "store"]
    assert isinstance(store_check, dict)
    return store_check


def health_of(store: Store) -> StoreHealth:
    health = store.health()
    assert health is not None
    return health


def test_what_is_there_is_counted(store: Store, make_store: MakeStore) -> None:
    begin(store, history=(Message("user", Image(data=b"x" * 100_000, media_type="image/png")),))
    begin(make_store(owner="ada"))
    health = health_of(make_store())
    assert (health.version, health.conversations, health.faults) == (VERSION, 2, ())
    assert health.size > 10_000


def test_none_is_made(place: str) -> None:
    with Store(place) as store:
        for _ in range(2):
            assert store.health() is None
    assert not Path(store.location).parent.exists()


@pytest.mark.parametrize(
    ("version", "conversations", "fix"),
    [(OLDEST, 1, ""), (999, None, "upgrade"), (1, None, "export its conversations")],
)
def test_one_that_is_newer_or_of_version_1_is_left_alone(
    store: Store, make_store: MakeStore, version: int, conversations: int | None, fix: str
) -> None:
    begin(store)
    with store._database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE meta SET value = '{version}' WHERE name = 'schema'")
    health = health_of(make_store())
    assert (health.version, health.conversations) == (version, conversations)
    assert [f"version {version}" in each for each in health.faults] == [True] * bool(fix)
    assert fix in health.fix


@pytest.mark.parametrize(("answers", "health"), [
    ({"SELECT tablename": []}, None),
    ({}, StoreHealth(7, VERSION, 2)),
    ({"SELECT value": [str(OLDEST)]}, StoreHealth(7, OLDEST, 2)),
    (
        {"SELECT value": ["999"]},
        StoreHealth(
            7,
            999,
            fix="upgrade genai-host: pip install --upgrade genai-host",
            faults=(f"store version 999 is not supported; this host supports {VERSION}",),
        ),
    ),
    (
        {"SELECT id FROM": ["x", "y"]},
        StoreHealth(
            7,
            VERSION,
            2,
            ("conversations that cannot be indexed: 2 (x, y)",),
            "run genai-host doctor --repair, or export or delete them, for example: "
            "genai-host conversations delete x",
        ),
    ),
], ids=["none", "healthy", "oldest", "newer", "damaged"])  # fmt: skip
def test_postgresql_is_asked(answers: dict[str, list[Any]], health: StoreHealth | None) -> None:
    by_query: dict[str, list[Any]] = {
        "SELECT tablename": ["meta", "conversations", "other"], "SELECT value": [str(VERSION)],
        "SELECT pg_total_relation_size('meta') + pg_total_relation_size('conversations')": [7],
        "SELECT count": [2], "SELECT id FROM": [], **answers,
    }  # fmt: skip

    def ask(query: str) -> list[Any]:
        [result] = [answer for start, answer in by_query.items() if query.startswith(start)]
        return result

    assert _examine_on_postgresql(Database("postgresql://host/db", 1.0), ask) == health


def test_at_most_five_faults_are_listed(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        for number in range(6):
            begin(store, history=(Message("user", Image(bytes([number]) * 9000, "image/png")),))
        store.conversations()
        with store._database.writing() as connection:
            connection.exec_driver_sql("UPDATE conversations SET status = 'damaged'")
            ids = connection.exec_driver_sql("SELECT id FROM conversations ORDER BY id").scalars()
            first = ", ".join(list(ids)[:5])
        lost = sorted(Path(f"{store.location}.blobs").glob("*/*"))
        for file in lost:
            file.unlink()
        health = health_of(store)
    assert health.faults == (
        f"conversations that cannot be indexed: 6 ({first})",
        f"6 files in {store.location}.blobs are missing",
    )
    assert "backup" in health.fix
    assert health.fix.endswith(": " + ", ".join(file.name for file in lost[:5]))
    assert health.size >= Path(store.location).stat().st_size


def test_attachments_and_the_log_count_as_its_size(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        begin(store, history=(Message("user", Image(b"x" * 9000, "image/png")),))
        store.conversations()
        files = [tmp_path / "x.db", tmp_path / "x.db-wal", *tmp_path.glob("x.db.blobs/*/*")]
        assert health_of(store).size == sum(file.stat().st_size for file in files)


class TestRepair:
    @pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")
    def test_it_is_as_before(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        call = {**RESULT, "seconds": 1.0, "cost": 0.5}
        with Store(tmp_path / "x.db") as store:
            copied = begin(store, models={"main": "m"}, history=(Message("user", "before"),))
            append(copied, *turn(0, "word", "word", result=call))
            record, _ = store.record(store.fork(copied.id), CODEC)
            append(record, *turn(1, "word", result=call)[:3])

            def state() -> tuple[Any, ...]:
                summary = evolve(store.summary(record.id), entries=0, updated=0.0, status="idle")
                hits = [*store.search("word"), *store.search("before")]
                return summary, store.attempts(record.id), sorted(hits, key=repr), store.usage()

            before = state()
            record.append(StepEnded(1, (0,), {**call, "cost": 7.0}))
            for _ in range(2):
                assert store.summary(record.id).status == "damaged"
            assert caplog.text.count("marked as damaged") == 1
            sizes = []
            monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
            assert store.repair() == [Repair(record.id, 1, is_damaged=False)]
            assert store.repair() == []
            assert state() == before
            assert store.summary(record.id).status == "running"
            record.append(TurnEnded(1, Answer("done")))
            assert [each.status for each in store.conversations()] == ["idle", "idle"]
            file = Path(store.set_aside)
            [line] = file.read_text("utf-8").splitlines()
            moved = json.loads(line)
            assert (moved["conversation"], moved["number"]) == (record.id, 8)
            assert '"cost":7.0' in moved["body"]
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert sizes == [file.stat().st_size]  # it was written before it was synced

    def test_each_call_is_counted_once(self, tmp_path: Path) -> None:
        call = {**RESULT, "seconds": 1.0, "cost": 0.5}
        with Store(tmp_path / "x.db") as store:
            record = begin(store)
            append(record, TurnStarted(0, Message("user", "hi"), "1", 0))
            append(record, *(StepStarted(0, path, "prompt", "d") for path in ((0, 0), (0, 1))))
            append(record, StepEnded(0, (0, 0), call))
            assert store.usage()[0].calls == 1
            append(record, StepEnded(0, (0, 1), call))
            append(record, StepEnded(0, (0, 0), call))  # which cannot be
            assert store.usage()[0].calls == 1
            assert store.repair() == [Repair(record.id, 1, is_damaged=False)]
            assert store.usage()[0].calls == 2
            assert len(store.attempts(record.id)) == 2

    @pytest.mark.parametrize(("kinds", "moved"), [
        ([("opened", None), ("turn_started", 0), ("turn_ended", 0)], []),
        ([("turn_started", 0), ("turn_started", 0)], [1]),
        ([("turn_started", 0), ("turn_started", 1), ("turn_ended", 0)], []),
        ([("opened", None), ("opened", None), ("rewound", None)], []),
        ([("turn_started", None), ("turn_started", -1)], [0, 1]),
        ([("turn_started", MAX_TURNS), ("turn_started", MAX_TURNS + 1)], [1]),
    ], ids=str)  # fmt: skip
    def test_invalid_entries_are_moved(self, kinds: list[Any], moved: list[int]) -> None:
        rows: list[Any] = [
            SimpleNamespace(kind=kind, turn=turn, body="{}", number=number)
            for number, (kind, turn) in enumerate(kinds)
        ]
        assert [row.number for row in _impossible(rows)] == moved

    def test_steps_are_told_apart_by_their_path(self) -> None:
        bodies = ['{"path": [0]}', '{"path": [0, 1]}', '{"path": [0]}', "[]", "{", '{"path": 1}']
        rows: list[Any] = [
            SimpleNamespace(kind="step_ended", turn=0, body=body, number=number)
            for number, body in enumerate(bodies)
        ]
        assert [row.number for row in _impossible(rows)] == [2, 4, 5]


def test_what_is_no_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(NO_DATABASE)
    with closing(sqlite3.connect(tmp_path / "y.db")) as other:
        other.execute("CREATE TABLE mine (x)")
    for name, message in (("x.db", "not a database"), ("y.db", "is not a genai-host store")):
        with Store(tmp_path / name) as store, pytest.raises(StoreError, match=message):
            store.health()


def test_a_short_look_makes_nothing_and_raises_for_what_is_no_store(tmp_path: Path) -> None:
    with Store(tmp_path / "folder" / "x.db") as store:
        store.check()
        assert list(tmp_path.iterdir()) == []
        begin(store)
        store.check()
        (tmp_path / "folder" / "x.db").unlink()
        with pytest.raises(StoreError, match="the file no longer exists"):
            store.check()
    (tmp_path / "file").touch(0o700)
    with (
        Store(tmp_path / "file" / "folder" / "x.db") as store,
        pytest.raises(StoreError, match="cannot create the file"),
    ):
        store.check()
    file = tmp_path / "x.db"
    file.write_bytes(NO_DATABASE)
    with Store(file) as store, pytest.raises(StoreError, match="not a database"):
        store.check()


def test_a_damaged_one_is_told_with_what_can_be_done(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        write_much(store)
    damage(store.location)
    with Store(tmp_path / "x.db") as store:
        health = health_of(store)
    assert health.faults
    assert health.conversations is None
    assert ".recover" in health.fix


@pytest.mark.part
class TestDoctor:
    def test_where_there_is_none_none_is_made(self, terminal: Terminal) -> None:
        with Store() as usual:
            place = usual.location
        checks = checked(terminal)
        assert checks == {
            "what": "store", "status": "ok", "found": f"{place}: none yet", "fix": "",
            "place": place, "bytes": None, "version": None, "conversations": None,
        }  # fmt: skip
        assert not Path(place).parent.exists()

    def test_a_damaged_conversation_is_repaired(self, terminal: Terminal) -> None:
        with Store() as usual:
            record = begin(usual)
            append(record, *turn(0, result=RESULT)[:3])
            usual.conversations()
            record.append(StepEnded(0, (0,), RESULT))
            assert usual.conversations()[0].status == "damaged"
        assert checked(terminal)["status"] == "failed"
        assert "doctor --repair" in checked(terminal)["fix"]
        first, *_ = json.loads(terminal("doctor", "--repair", "--json")[1])
        moved = f"{record.id}: repaired, 1 entries moved to {usual.set_aside}"
        assert first == {"what": "repair", "status": "ok", "found": moved, "fix": ""}
        assert checked(terminal)["status"] == "ok"
        assert json.loads(terminal("doctor", "--repair", "--json")[1])[0]["found"] == (
            "nothing to repair"
        )

    def test_one_that_is_not_in_order_has_a_fix(self, terminal: Terminal) -> None:
        with Store() as usual:
            write_much(usual)
        checks = checked(terminal)
        assert (checks["status"], checks["conversations"], checks["version"]) == ("ok", 50, VERSION)
        assert checks["bytes"] > 1000
        assert f"version {VERSION}, in order" in terminal("doctor")[1]
        damage(usual.location)
        checks = checked(terminal)
        assert checks["status"] == "failed"
        assert ".recover" in checks["fix"]
        assert terminal("doctor")[0] == 1
        Path(usual.location).write_bytes(NO_DATABASE)
        assert checked(terminal)["status"] == "failed"

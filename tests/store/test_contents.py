"""What belongs to conversations, and what can be done with them: search, copies, exports,
documents, blobs, and how long they are kept."""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import event, select
from sqlalchemy.dialects import postgresql
from stored import append, converse, run_concurrently, turn

from genai_host import Message
from genai_host.api import Answer, Document
from genai_host.conversations.record import Opened, Rewound, StepStarted, TurnEnded, TurnStarted
from genai_host.conversations.replay import replay
from genai_host.errors import Conflict, NotFound, StoreError, ValidationError
from genai_host.store import Store
from genai_host.store.database import LATEST, Database
from genai_host.store.documents import Documents, _document
from genai_host.store.tables import conversations
from genai_host_testing.internal.stores import CODEC, MakeStore, begin

OPENED = {"at": 1, "entry": "opened", "feature": "chat", "version": "1", "models": {}}
REWOUND = {"at": 5, "entry": "rewound", "history": 0, "turns": 0}
_STEP = {"turn": 0, "path": [0]}
_ROUTE = {"model": "m", "provider": "p", "dialect": "d"}
EXPORTED = {
    "form": 1,
    "name": None,
    "entries": [
        OPENED,
        {
            "at": 2, "entry": "turn_started", "turn": 0, "version": "1", "history": 0,
            "message": {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        },
        {"at": 3, "entry": "step_started", **_STEP, "step": "prompt", "digest": "d"},
        {"at": 4, "entry": "step_ended", **_STEP, "result": {"route": _ROUTE, "cost": 0.1}},
        {"at": 5, "entry": "turn_ended", "turn": 0, "answer": {"summary": "hi"}},
    ],
}  # fmt: skip
"""A conversation of one turn."""
DEEP: Any = {}
for _ in range(10_000):
    DEEP = {"a": DEEP}


def texts(store: Store, id: str) -> list[str]:
    return [message.text for message in replay(store.entries(id, CODEC)).history]


def found(store: Store) -> set[str]:
    words = ("before", "zero", "one", "two", "three", "four", "five")
    return {hit.text for word in words for hit in store.search(word)}


class TestSearch:
    @pytest.mark.parametrize(("words", "expected"), [
        *((each, ["What of Norway?", "Oslo, in NORWAY"]) for each in ("Norway", "nor*")),
        ("norway oslo", ["Oslo, in NORWAY"]),
        *((each, ["said earlier"]) for each in ("earlier", "EARLIER Said")),
        *((each, []) for each in ("nor", "'; DROP TABLE messages; --", '" OR *', "")),
        *((each, []) for each in ("NEAR(oslo norway)", "oslo AND", "* ' \\ & | ! <-> :*")),
    ])  # fmt: skip
    def test_messages_with_all_words(self, store: Store, words: str, expected: list[str]) -> None:
        id = converse(
            store,
            ("What of Norway?", "Oslo, in NORWAY"),
            ("nothing", "else"),
            history=(Message("user", "said earlier"),),
        )
        hits = store.search(words)
        assert sorted(hit.text for hit in hits) == sorted(expected)
        assert all((hit.conversation, hit.title) == (id, "What of Norway?") for hit in hits)

    @pytest.mark.parametrize(("words", "expected"), [
        *((each, ["日本語の本"]) for each in ("日本", "日", "本語", "日本 の本")),
        ("京都", ["東京都", "東京と京都"]),
        ("東京都", ["東京都"]),
        *((each, ["Pythonと入門"]) for each in ("python", "入門", "pyth*", "入*")),
        *((each, ["ภาษาไทย"]) for each in ("ไทย", "ภาษา")),
        ("हिन्दी", ["हिन्दी भाषा"]),
        ("ecole CAFÉ", ["École, cafe\u0301"]),
        ("a_b", ["a_b"]),
        ("배우다", ["한국어를 배우다"]),
        *((each, []) for each in ("日本本", "pyth", "%", "หนังสือ", "हिन्द", "a")),
    ])  # fmt: skip
    def test_words_of_other_scripts(self, store: Store, words: str, expected: list[str]) -> None:
        converse(
            store,
            ("日本語の本", "東京都"),
            ("東京と京都", "Pythonと入門"),
            ("ภาษาไทย", "हिन्दी भाषा"),
            ("École, cafe\u0301", "한국어를 배우다"),
            ("a_b", "x"),
        )
        assert sorted(hit.text for hit in store.search(words)) == sorted(expected)

    def test_a_message_of_any_length_is_found_by_how_it_begins(self, store: Store) -> None:
        text = "first " + " ".join(f"word{n}" for n in range(120_000)) + "語" * 400_000
        converse(store, (text, "x" * 5000))
        assert len(store.search("first word77")) == 1
        assert len(store.search("x" * 5000)) == 1

    def test_however_much_is_asked_for_it_is_looked_for(self, store: Store) -> None:
        text = " ".join(f"word{n}" for n in range(3000)) + "".join(map(chr, range(0x4E00, 0x6000)))
        converse(store, (text, "x"))
        assert len(store.search(text)) == 1
        assert store.search(f"{text} y") == []
        assert store.search(text.replace("\u5000", "\u6000")) == []

    def test_undone_turns_are_not_found(self, store: Store) -> None:
        id = converse(
            store,
            ("zero", "said"),
            ("one", None),
            ("two", "said"),
            ("three", "said"),
            history=(Message("user", "before"),),
        )
        assert found(store) == {"before", "zero", "one", "two", "three"}
        record, _ = store.record(id, CODEC)
        append(record, Rewound(5, 2))
        assert found(store) == {"before", "zero", "one", "two"}
        append(record, TurnStarted(4, Message("user", "four"), "1", 3, again=True))
        append(record, StepStarted(4, (0,), "prompt", "d"))
        assert found(store) == {"before", "zero", "one", "two", "four"}
        append(record, TurnEnded(4, Answer("said")))
        assert found(store) == {"before", "zero", "one", "four"}
        append(record, *turn(5, "five", None, history=3), Rewound(5, 2))
        assert found(store) == {"before", "zero", "one", "four"}
        append(record, Rewound(0, 0))
        assert found(store) == set()
        assert store.search("said") == []

    def test_what_was_said_again_is_not_found_by_who_looks_at_the_end(self, store: Store) -> None:
        record, _ = store.record(converse(store, ("zero", "said"), ("one", "said")), CODEC)
        for number, word in ((2, "two"), (3, "three")):
            append(record, TurnStarted(number, Message("user", word), "1", 2, again=True))
            append(record, TurnEnded(number, Answer("said")))
        assert found(store) == {"zero", "three"}

    @pytest.mark.parametrize("amid", [False, True])
    def test_who_looks_has_no_turn_read_again(self, store: Store, amid: bool) -> None:
        """Else a list that is shown while a conversation grows costs its square."""
        queries: list[str] = []
        event.listen(
            store._database.engine, "before_cursor_execute", lambda *args: queries.append(args[2])
        )
        record = begin(store)
        for number in range(3):
            started, step, *rest = turn(number, f"word{number}")
            append(record, started, step)
            if amid:
                store.conversations()
            append(record, *rest)
            if amid:
                assert len(store.search(f"word{number}")) == 1
        assert len(store.search("word*")) == 3
        assert not [each for each in queries if "entries.kind IN" in each]

    def test_later_found_deleted_not_found(self, store: Store, make_store: MakeStore) -> None:
        converse(store, ("one", "two"))
        assert store.search("three") == []
        id = converse(store, ("three", "four"))
        [hit] = store.search("three")
        assert (hit.role, hit.turn, hit.text) == ("user", 0, "three")
        assert make_store(owner="ada").search("three") == []
        store.delete(id)
        assert store.search("three") == []


class TestFork:
    def test_a_copy_goes_on_by_itself(self, store: Store) -> None:
        id = converse(store, ("one", "a"), ("two", "b"), ("three", "c"))
        copy = store.fork(id, turn=1)
        assert texts(store, copy) == ["one", "a", "two", "b"]
        assert store.summary(copy).forked_from == id
        assert store.summary(copy).turns == 2
        assert store.entries(store.fork(id), CODEC) == store.entries(id, CODEC)
        tagged = begin(store, tag="0a0a0a0a").id
        [opened], [forked] = (store.entries(each, CODEC) for each in (tagged, store.fork(tagged)))
        assert isinstance(opened, Opened)
        assert isinstance(forked, Opened)
        assert opened.tag == "0a0a0a0a" != forked.tag
        assert evolve(forked, tag=opened.tag) == opened
        store.delete(id)
        assert store.summary(copy).title == "one"

    def test_what_was_taken_back_later_holds_again(self, store: Store) -> None:
        id = converse(store, ("one", "a"), ("two", "b"))
        record, _ = store.record(id, CODEC)
        record.append(Rewound(0, 0))
        by_turn = {number: texts(store, store.fork(id, turn=number)) for number in (0, 1, None)}
        assert by_turn == {0: ["one", "a"], 1: ["one", "a", "two", "b"], None: []}
        with pytest.raises(NotFound, match="no turn 2"):
            store.fork(id, turn=2)

    def test_a_turn_that_has_not_ended_is_left_out(self, store: Store) -> None:
        id = converse(store, ("one", "a"))
        record, _ = store.record(id, CODEC)
        append(record, *turn(1, "two", history=2)[:2])
        copy = store.summary(store.fork(id))
        assert (copy.status, copy.turns) == ("idle", 1)


class TestExport:
    def test_what_was_exported_can_be_loaded(self, store: Store, tmp_path: Path) -> None:
        id = converse(store, ("one", "ä\0😀"), ("two\ud800", None))
        store.rename(id, "mine")
        data = json.loads(json.dumps(store.export(id)))
        with Store(tmp_path / "other.db") as other:
            loaded = other.import_conversation(data, CODEC)
            assert loaded != id
            assert other.entries(loaded, CODEC) == store.entries(id, CODEC)
            assert other.summary(loaded).title == "mine"
            assert other.export(loaded)["entries"] == data["entries"]

    @pytest.mark.parametrize(("change", "message"), [
        (lambda entries: entries.extend(entries[1:5]), "number of a turn is less than 1"),
        (lambda entries: entries.insert(2, entries[1]), "a turn begins within another"),
        (lambda entries: entries.append(entries[4]), "entry 5: it is of no turn"),
        (lambda entries: entries.pop(1), "it is of no turn"),
        (lambda entries: entries.insert(3, entries[2]), "a step begins twice"),
        (lambda entries: entries.insert(3, entries[3]), "a step ends twice"),
        (lambda entries: entries.pop(2), "a step ends that has not begun"),
        (lambda entries: entries.insert(4, REWOUND), "are undone within a turn"),
        (lambda entries: entries.append({**REWOUND, "history": 3}),
         "more turns are undone than recorded"),
        (lambda entries: entries.append({**REWOUND, "turns": -1}),
         "more turns are undone than recorded"),
        (lambda entries: entries[2].update(turn=1), "it is of another turn"),
        *[
            (lambda entries, n=number: [each.update(turn=n) for each in entries[1:]], "turn")
            for number in (-1, 10**9 + 1, 2**31, 2**63 - 1, 2**70, 10**400, "0", None, [0], 0.5)
        ],
        *[
            (lambda entries, at=at: entries[1].update(at=at), "with its time in")
            for at in (float("nan"), float("inf"), -1, 1e18, 10**400, True, "1", None)
        ],
        *[
            (lambda entries, to=to: entries[3]["result"]["route"].update(model=to), "entry 3")
            for to in (["m"], 1, None)
        ],
        (lambda entries: entries[3]["result"].update(route={}), "entry 3"),
        (lambda entries: entries[1].update(message=DEEP), "JSON"),
        (lambda entries: entries[0].update(settings={"x": float("nan")}), "JSON"),
    ])  # fmt: skip
    def test_what_is_no_conversation_is_refused(
        self, tmp_path: Path, change: Any, message: str
    ) -> None:
        data = copy.deepcopy(EXPORTED)
        change(data["entries"])
        with Store(tmp_path / "x.db") as store:
            with pytest.raises(ValidationError, match=message):
                store.import_conversation(data, CODEC)
            loaded = store.import_conversation(EXPORTED, CODEC)
            assert [(each.id, each.status) for each in store.conversations()] == [(loaded, "idle")]

    def test_the_largest_numbers_are_loaded(self, tmp_path: Path) -> None:
        data: Any = copy.deepcopy(EXPORTED)
        data["entries"][0]["at"], data["entries"][-1]["at"] = 0, LATEST
        for entry in data["entries"][1:]:
            entry["turn"] = 10**9
        with Store(tmp_path / "x.db") as store:
            loaded = store.import_conversation(data, CODEC)
            assert store.summary(loaded).turns == 10**9 + 1
            assert store.summary(loaded).updated == LATEST
            assert store.export(loaded)["entries"] == data["entries"]

    def test_a_name_that_no_database_takes_is_loaded_as_text(self, store: Store) -> None:
        id = store.import_conversation({**EXPORTED, "name": "a\ud83c\0b"}, CODEC)
        assert store.summary(id).title == "a\ufffd b"
        store.rename(id, "c\udfff")
        assert store.summary(id).title == "c\ufffd"

    @pytest.mark.parametrize("data", [
        *(None, [], {}, {"form": 2, "entries": []}, {"form": 1}, {"form": 1, "entries": []}),
        {"form": 1, "entries": [1]},
        {"form": 1, "entries": [{"at": "now", "entry": "opened"}]},
        {"form": 1, "entries": [{"at": 1, "entry": "nonsense"}]},
        {"form": 1, "name": 5, "entries": []},
        {"form": 1, "entries": [{"at": 1, "entry": "turn_ended", "turn": 0}]},
        {"form": 1, "entries": [OPENED, {"at": 1, "entry": "turn_ended", "turn": 0}]},
        {"form": 1, "entries": [OPENED, OPENED]},
    ], ids=repr)  # fmt: skip
    def test_what_was_not_exported_is_refused(self, tmp_path: Path, data: Any) -> None:
        with Store(tmp_path / "x.db") as store, pytest.raises(ValidationError):
            store.import_conversation(data, CODEC)

    def test_as_markdown_it_can_be_read(self, make_store: MakeStore) -> None:
        store = make_store(now=lambda: 1_700_000_000.25)
        id = converse(store, ("one", "**a**"), ("two", None), ("three", "c"))
        record, _ = store.record(id, CODEC)
        record.append(Rewound(2, 1))
        assert store.markdown(id, CODEC) == (
            "# one\n\n## user, 2023-11-14 22:13 UTC\n\none\n\n## assistant\n\n**a**\n"
        )


class TestRetention:
    def test_old_ones_and_all_but_the_latest_are_deleted(self, make_store: MakeStore) -> None:
        now = [0.0]
        store = make_store(now=lambda: now[0])
        ids = []
        for day in range(6):
            now[0] = day * 86400.0
            ids.append(converse(store, ("q", "a")))
        assert store.delete_expired() == 0
        assert store.delete_expired(days=3.0) == 2
        assert [each.id for each in store.conversations()] == ids[:1:-1]
        assert store.delete_expired(number=1) == 3
        assert [each.id for each in store.conversations()] == ids[-1:]

    def test_one_that_runs_stays(self, store: Store) -> None:
        record = begin(store)
        append(record, *turn(0)[:2])
        assert store.delete_expired(number=0) == 0
        append(record, *turn(0)[2:])
        assert store.delete_expired(number=0) == 1

    def test_what_belongs_to_a_conversation_goes_with_it(self, store: Store) -> None:
        id, other = converse(store, ("q", "a")), converse(store, ("q", "a"))
        store.documents("notes", conversation=id).put("x", {})
        alone = store.blobs().put([b"alone"], conversation=id)
        shared = store.blobs().put([b"shared"], conversation=id)
        store.blobs().put([b"shared"], conversation=other)
        store.summary(id)
        store.delete(id)
        with store._database.reading() as connection:
            for table in ("entries", "messages", "tries", "documents"):
                rows = connection.exec_driver_sql(
                    f"SELECT count(*) FROM {table} WHERE conversation = '{id}'"
                )
                assert rows.scalar() == 0, table
        with pytest.raises(NotFound):
            store.blobs().get(alone)
        assert b"".join(store.blobs().get(shared)) == b"shared"


class TestDocuments:
    def test_they_are_changed_by_compare_and_set(self, store: Store) -> None:
        documents = store.documents("notes")
        assert documents.put("x", {"a": 1, "b": [None, "ä\0"]}, expect=0) == 1
        assert documents.put("x", {"a": 2}, expect=1) == 2
        for wrong in (0, 1, 3):
            with pytest.raises(Conflict):
                documents.put("x", {}, expect=wrong)
        assert documents.put("x", {"a": 3}) == 3
        document = documents.get("x")
        assert (document.id, document.version, document.value) == ("x", 3, {"a": 3})
        with pytest.raises(Conflict):
            documents.delete("x", expect=2)
        assert documents.delete("x", expect=3)
        assert not documents.delete("x")
        assert not documents.delete("x", expect=3)
        with pytest.raises(NotFound):
            documents.get("x")

    def test_several_are_written_or_none(self, store: Store) -> None:
        documents = store.documents("notes")
        documents.put_all({"b": {"n": 1}, "a": {"n": 2}}, expect={"b": 0})
        documents.put_all({"b": {"n": 3}, "c": {"n": 4}}, expect={"b": 1, "c": 0})
        before = documents.list(newest_first=False)
        assert [(each.id, each.version) for each in before] == [("b", 2), ("a", 1), ("c", 1)]
        for expect in ({"a": 3}, {"d": 1}, {"c": 0}):
            with pytest.raises(Conflict):
                documents.put_all({"b": {}, "d": {}, "a": {}, "c": {}}, expect=expect)
        with pytest.raises(ValueError, match="is not an id"):
            documents.put_all({"b": {}, "\0": {}}, expect={})
        assert documents.list(newest_first=False) == before

    def test_of_many_that_change_one_at_once_each_is_counted(self, store: Store) -> None:
        documents = store.documents("notes")
        documents.put("x", {"count": 0})

        def count(_: int) -> None:
            for _ in range(5):
                documents.change("x", lambda document: ({"count": document["count"] + 1}, None))

        run_concurrently(count, range(4))
        assert documents.get("x").value == {"count": 20}

    def test_one_is_changed_again_if_another_was_faster(self, store: Store) -> None:
        documents = store.documents("notes")
        with pytest.raises(NotFound):
            documents.change("x", lambda document: ({}, None))
        documents.put("x", {"a": 1})
        seen = []

        def make(document: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
            seen.append(document["a"])
            if len(seen) < 3:
                documents.put("x", {"a": document["a"] + 1})
            return {"b": document["a"]}, "result"

        assert documents.change("x", make) == "result"
        assert (seen, documents.get("x").value) == ([1, 2, 3], {"b": 3})

        def leave(document: Mapping[str, Any]) -> tuple[None, str]:
            seen.append(document["b"])
            return None, "result"

        assert documents.change("x", leave) == "result"
        assert seen == [1, 2, 3, 3]
        assert documents.get("x").version == 4
        with pytest.raises(Conflict):
            documents.change("x", lambda document: ({}, documents.put("x", {})))

    def test_they_are_listed_in_pages(self, store: Store) -> None:
        documents = store.documents("notes")
        for number in range(5):
            documents.put(f"n{number}", {"odd": bool(number % 2), "number": number})
        assert [each.id for each in documents.list(limit=2)] == ["n4", "n3"]
        assert [each.id for each in documents.list(after="n3")] == ["n2", "n1", "n0"]
        assert [each.id for each in documents.list(newest_first=False, after="n3")] == ["n4"]
        odd: Any = {"odd": True}
        assert [each.id for each in documents.list(where=odd)] == ["n3", "n1"]
        assert [each.id for each in documents.list(where=odd, limit=1)] == ["n3"]
        assert [each.id for each in documents.list(where=odd, limit=1, after="n3")] == ["n1"]
        with pytest.raises(NotFound):
            documents.list(after="x")
        number = documents.get("n3").number
        documents.delete("n3")
        assert [each.id for each in documents.list(after=number)] == ["n2", "n1", "n0"]
        assert [each.id for each in documents.list(newest_first=False, after=number)] == ["n4"]

    @pytest.mark.parametrize("id", ["\0", "a\ud800"], ids=ascii)
    def test_an_id_that_no_database_stores_is_not_found(self, store: Store, id: str) -> None:
        documents = store.documents("notes")
        with pytest.raises(ValueError, match="is not an id"):
            documents.put(id, {})
        for act in (documents.get, lambda id: documents.list(after=id)):
            with pytest.raises(NotFound):
                act(id)
        assert not documents.delete(id)

    @pytest.mark.parametrize(("where", "expected"), [
        *(({"a": each}, ["int", "float", "both"]) for each in (1, 1.0)),
        ({"a": None}, ["null", "none", "list"]),
        *(({"a": True}, ["true"]), ({"a": "1"}, ["text"]), ({"a": 0.1}, ["tenth"])),
        *(({"a": [1, {"b": 2}]}, ["items"]), ({"a": {"b": [1]}}, ["object"])),
        *(({"a": "x\0y"}, ["nul"]), ({"a": "x"}, ["odd"]), ({"a": "ä\ud800"}, ["half"])),
        *(({"a": "ä"}, ["umlaut"]), ({"a": 2**70}, ["large"]), ({"a": 2**53 + 1}, ["exact"])),
        *((each, ["both"]) for each in ({"a": 1, "b.c": "x"}, {"b.c": "x"})),
        *(({each: 1}, ["list"]) for each in ("ä", '"', "")),
        *((each, []) for each in ({"a": False}, {"'; --": 1}, {"a": "' OR 1=1 --"})),
        ({"half": 1}, ["half"]),
    ], ids=repr)  # fmt: skip
    def test_those_that_have_a_value_are_found_in_either_database(
        self, store: Store, where: dict[str, Any], expected: list[str]
    ) -> None:
        documents = store.documents("notes")
        values: dict[str, dict[str, Any]] = {
            "int": {"a": 1}, "float": {"a": 1.0}, "both": {"a": 1, "b.c": "x"}, "true": {"a": True},
            "null": {"a": None}, "none": {"b": {"c": "x"}}, "text": {"a": "1"}, "tenth": {"a": 0.1},
            "items": {"a": [1, {"b": 2}]}, "object": {"a": {"b": [1]}}, "nul": {"a": "x\0y"},
            "odd": {"a": "x", "more": "\0\x1f\ud800"}, "half": {"a": "ä\ud800", "half": 1},
            "umlaut": {"a": "ä"}, "large": {"a": 2**70}, "exact": {"a": 2**53 + 1},
            "list": {"ä": 1, '"': 1, "": 1},
        }  # fmt: skip
        for id, value in values.items():
            documents.put(id, value)
        assert [each.id for each in documents.list(where=where, newest_first=False)] == expected

    def test_the_database_filters(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        documents = store.documents("notes")
        for number in range(50):
            documents.put(f"n{number}", {"number": number})
        read: list[Any] = []

        def counted(row: Any) -> Document:
            read.append(row.id)
            return _document(row)

        options: list[Any] = []
        event.listen(
            store._database.engine,
            "before_cursor_execute",
            lambda *args: options.append(args[4].execution_options.get("stream_results")),
        )
        monkeypatch.setattr("genai_host.store.documents._document", counted)
        assert [each.id for each in documents.list(where={"number": 7})] == ["n7"]
        assert read == ["n7"]
        assert options[-1] is True  # a server sends no more rows than are read
        documents.put("large", {"number": 2**53})
        read.clear()
        assert [each.id for each in documents.list(where={"number": 2**53})] == ["large"]
        assert read == ["large"]
        assert documents.list(where={"number": 2**53 + 1}) == []
        assert len(read) == 52  # the database may take them for equal

    def test_owners_and_collections_are_apart(self, store: Store, make_store: MakeStore) -> None:
        notes, others = store.documents("notes"), store.documents("others")
        theirs = make_store(owner="ada").documents("notes")
        for documents in (notes, others, theirs):
            assert documents.list() == []
            with pytest.raises(NotFound):
                documents.get("x")
            assert not documents.delete("x")
            assert documents.put("x", {"theirs": documents is theirs}, expect=0) == 1
        assert notes.put("y", {}) == 1
        assert notes.clear() == 2
        assert [each.count() for each in (notes, others, theirs)] == [0, 1, 1]
        assert theirs.get("x").value == {"theirs": True}

    def test_those_of_conversations_are_apart(self, store: Store) -> None:
        one, other = (store.documents("notes", conversation=begin(store).id) for _ in range(2))
        one.put("x", {})
        assert other.list() == []
        with pytest.raises(NotFound):
            other.get("x")
        assert one.count() == 1
        assert store.documents("notes").get("x").version == 1

    def test_postgresql_filters_values_as_json(self) -> None:
        documents = Documents(Database("postgresql://host/db", 1.0), "ann", "notes", None)
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # so in SQLAlchemy
        condition = documents._coarse_filter("a", [1]).compile(dialect=dialect)
        assert str(condition) == "true"
        condition = documents._coarse_filter("a", "x").compile(dialect=dialect)
        assert list(condition.params.values()) == ["\\u", 0, "a", '"x"']
        pattern = r"strpos\(.*\) > .* THEN true ELSE \(CAST\(.* AS JSONB\).* = CAST\("
        assert re.search(pattern, str(condition))


class TestBlobs:
    def test_bytes_come_back_as_they_were(self, store: Store) -> None:
        data = [bytes([n % 256]) * 100_000 for n in range(12)]
        id = store.blobs().put(iter(data))
        assert id == hashlib.sha256(b"".join(data)).hexdigest()
        assert b"".join(store.blobs().get(id)) == b"".join(data)
        assert store.blobs().put([b"".join(data)]) == id
        assert b"".join(store.blobs().get(store.blobs().put([]))) == b""

    def test_without_a_directory_they_are_rows(self, store: Store) -> None:
        blobs, data = store.blobs(), bytes(range(256)) * 3000
        blobs._folder = None  # as on PostgreSQL
        id, other = blobs.put([data]), blobs.put([b"x"])
        assert [len(piece) for piece in blobs.get(id)] == [1 << 18, 1 << 18, 768_000 - (1 << 19)]
        assert b"".join(blobs.get(id)) == data
        assert blobs.use(id, "c")
        assert blobs.put([data]) == id
        blobs.remove(other)
        with pytest.raises(NotFound):
            blobs.get(other)
        assert b"".join(blobs.get(id)) == data
        with store._database.reading() as connection:
            rows = connection.exec_driver_sql("SELECT DISTINCT digest FROM blob_pieces")
            assert rows.scalars().all() == [id]
        assert not Path(f"{store.location}.blobs").exists()

    def test_what_nobody_uses_is_removed(self, store: Store) -> None:
        blobs = store.blobs()
        id = blobs.put([b"x"])
        blobs.remove(id)
        with pytest.raises(NotFound):
            blobs.get(id)
        assert blobs.put([b"x"]) == id
        assert list(blobs.get(id)) == [b"x"]

    def test_each_holder_keeps_the_bytes(self, store: Store) -> None:
        blobs = store.blobs()
        id = blobs.put([b"x"], holder="file-1")
        blobs.put([b"x"], holder="file-2")
        blobs.put([b"x"])
        blobs.remove(id)
        blobs.remove(id, holder="file-1")
        store.delete(converse(store, ("q", "a")))  # also removes uses by lost conversations
        assert list(blobs.get(id)) == [b"x"]
        blobs.remove(id, holder="file-2")
        with pytest.raises(NotFound):
            blobs.get(id)

    @pytest.mark.parametrize("id", ["", "..", "../../etc/passwd", "0" * 64, "0" * 63 + "/", "\0"])
    def test_what_is_no_blob_is_not_found(self, store: Store, id: str) -> None:
        with pytest.raises(NotFound):
            store.blobs().get(id)

    def test_owners_are_apart(self, store: Store, make_store: MakeStore) -> None:
        id = store.blobs().put([b"x"])
        theirs = make_store(owner="ada").blobs()
        with pytest.raises(NotFound):
            theirs.get(id)
        theirs.remove(id)
        assert list(store.blobs().get(id)) == [b"x"]

    @pytest.mark.skipif(os.name == "nt", reason="folders are written out as POSIX does")
    @pytest.mark.parametrize(
        ("fault", "is_told"), [(0, False), (errno.EINVAL, False), (errno.EIO, True)], ids=str
    )
    def test_the_folders_of_a_new_one_are_written_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, is_told: bool
    ) -> None:
        """Else it may be gone after power loss. Some file systems cannot."""
        written, descriptors, sizes = [], set(), []

        def fsync(descriptor: int) -> None:
            state = os.fstat(descriptor)
            if not stat.S_ISDIR(state.st_mode):
                sizes.append(state.st_size)
            else:
                written.append(state.st_ino)
                descriptors.add(descriptor)
                if fault:
                    raise OSError(fault, "no")

        with Store(tmp_path / "x.db") as store:
            begin(store)
            monkeypatch.setattr(os, "fsync", fsync)
            with pytest.raises(StoreError) if is_told else contextlib.nullcontext():
                id = store.blobs().put([b"x"])
                folder = tmp_path / "x.db.blobs"
                folders = (folder / id[:2], folder, tmp_path)
                assert written == [each.stat().st_ino for each in folders]
        assert written
        assert len(descriptors) == 1  # each was closed before the next was opened
        assert sizes == [1]

    def test_one_that_breaks_off_leaves_nothing(self, tmp_path: Path) -> None:
        def broken() -> Any:
            yield b"x"
            raise RuntimeError

        with Store(tmp_path / "x.db") as store:
            with pytest.raises(RuntimeError):
                store.blobs().put(broken())
            assert list((tmp_path / "x.db.blobs").iterdir()) == []


def test_to_look_at_one_conversation_is_to_look_at_no_other(store: Store) -> None:
    """What is derived of all of them takes longer the more there are."""
    one, other = begin(store), begin(store)
    for each in (one, other):
        append(each, *turn(0))

    def known() -> dict[str, int]:
        chosen = select(conversations.c.id, conversations.c.turns)
        with store._database.reading() as connection:
            return {row.id: row.turns for row in connection.execute(chosen)}

    assert store.summary(one.id).turns == 1
    assert store.attempts(one.id) == []
    assert not store.is_running_elsewhere(one.id)
    assert known() == {one.id: 1, other.id: 0}
    assert len(store.conversations()) == 2
    assert known() == {one.id: 1, other.id: 1}

"""What belongs to conversations, and what can be done with them: search, copies, exports,
documents, blobs, and how long they are kept."""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import itertools
import json
import os
import re
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import event, select
from sqlalchemy.dialects import postgresql

from genai_host import Message
from genai_host.api import Answer, Document
from genai_host.conversations.record import (
    Opened,
    Rewound,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from genai_host.conversations.replay import replay
from genai_host.errors import Cancelled, Conflict, NotFound, StoreError, ValidationError
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
            "at": 2,
            "entry": "turn_started",
            "turn": 0,
            "version": "1",
            "history": 0,
            "message": {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        },
        {"at": 3, "entry": "step_started", **_STEP, "step": "prompt", "digest": "d"},
        {"at": 4, "entry": "step_ended", **_STEP, "result": {"route": _ROUTE, "cost": 0.1}},
        {"at": 5, "entry": "turn_ended", "turn": 0, "answer": {"summary": "hi"}},
    ],
}
"""A conversation of one turn."""
DEEP: Any = {}
for _ in range(10_000):
    DEEP = {"a": DEEP}


def converse(store: Store, *turns: tuple[str, str | None], **given: Any) -> str:
    """A conversation of these messages and answers; None for a turn that failed."""
    record = begin(store, **given)
    for number, (says, answer) in enumerate(turns):
        record.append(TurnStarted(number, Message("user", says), "1", 2 * number))
        record.append(StepStarted(number, (0,), "prompt", "d"))
        record.append(StepEnded(number, (0,), None))
        ended = TurnEnded(number, Answer(answer)) if answer else None
        record.append(ended or TurnEnded(number, error=Cancelled("cancelled")))
    return record.id


def found(store: Store) -> set[str]:
    words = ("before", "zero", "one", "two", "three", "four", "five")
    return {hit.text for word in words for hit in store.search(word)}


class TestSearch:
    @pytest.mark.parametrize(
        ("words", "found"),
        [
            ("Norway", ["What of Norway?", "Oslo, in NORWAY"]),
            ("norway oslo", ["Oslo, in NORWAY"]),
            ("nor*", ["What of Norway?", "Oslo, in NORWAY"]),
            ("nor", []),
            ("earlier", ["said earlier"]),
            ("'; DROP TABLE messages; --", []),
            ('" OR *', []),
            ("NEAR(oslo norway)", []),
            ("oslo AND", []),
            ("", []),
            ("* ' \\ & | ! <-> :*", []),
            ("EARLIER Said", ["said earlier"]),
        ],
    )
    def test_it_finds_messages_that_have_all_the_words(
        self, store: Store, words: str, found: list[str]
    ) -> None:
        id = converse(
            store,
            ("What of Norway?", "Oslo, in NORWAY"),
            ("nothing", "else"),
            history=(Message("user", "said earlier"),),
        )
        hits = store.search(words)
        assert sorted(hit.text for hit in hits) == sorted(found)
        assert all((hit.conversation, hit.title) == (id, "What of Norway?") for hit in hits)

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            ("日本", ["日本語の本"]),
            ("日", ["日本語の本"]),
            ("本語", ["日本語の本"]),
            ("日本本", []),
            ("日本 の本", ["日本語の本"]),
            ("京都", ["東京都", "東京と京都"]),
            ("東京都", ["東京都"]),
            ("python", ["Pythonと入門"]),
            ("入門", ["Pythonと入門"]),
            ("pyth*", ["Pythonと入門"]),
            ("pyth", []),
            ("入*", ["Pythonと入門"]),
            ("ไทย", ["ภาษาไทย"]),
            ("ภาษา", ["ภาษาไทย"]),
            ("%", []),
            ("หนังสือ", []),
            ("हिन्दी", ["हिन्दी भाषा"]),
            ("हिन्द", []),
            ("ecole CAFÉ", ["École, cafe\u0301"]),
            ("a_b", ["a_b"]),
            ("a", []),
            ("배우다", ["한국어를 배우다"]),
        ],
    )
    def test_words_are_what_they_are_in_their_script(
        self, store: Store, words: str, found: list[str]
    ) -> None:
        converse(
            store,
            ("日本語の本", "東京都"),
            ("東京と京都", "Pythonと入門"),
            ("ภาษาไทย", "हिन्दी भाषा"),
            ("École, cafe\u0301", "한국어를 배우다"),
            ("a_b", "x"),
        )
        assert sorted(hit.text for hit in store.search(words)) == sorted(found)

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

    def test_what_was_taken_back_is_not_found(self, store: Store) -> None:
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
        record.append(Rewound(5, 2))
        assert found(store) == {"before", "zero", "one", "two"}
        record.append(TurnStarted(4, Message("user", "four"), "1", 3, again=True))
        record.append(StepStarted(4, (0,), "prompt", "d"))
        assert found(store) == {"before", "zero", "one", "two", "four"}
        record.append(TurnEnded(4, Answer("said")))
        assert found(store) == {"before", "zero", "one", "four"}
        record.append(TurnStarted(5, Message("user", "five"), "1", 3))
        record.append(TurnEnded(5, error=Cancelled("dropped")))
        record.append(Rewound(5, 2))
        assert found(store) == {"before", "zero", "one", "four"}
        record.append(Rewound(0, 0))
        assert found(store) == set()
        assert {hit.text for hit in store.search("said")} == set()

    def test_what_was_said_again_is_not_found_by_who_looks_at_the_end(self, store: Store) -> None:
        record, _ = store.record(converse(store, ("zero", "said"), ("one", "said")), CODEC)
        for number, word in ((2, "two"), (3, "three")):
            record.append(TurnStarted(number, Message("user", word), "1", 2, again=True))
            record.append(TurnEnded(number, Answer("said")))
        assert found(store) == {"zero", "three"}

    def test_who_looks_at_the_end_has_no_turn_read_again(self, store: Store) -> None:
        asked: list[str] = []
        event.listen(
            store._database.engine, "before_cursor_execute", lambda *given: asked.append(given[2])
        )
        converse(store, ("zero", "said"), ("one", "said"))
        assert found(store) == {"zero", "one"}
        assert not [each for each in asked if "entries.kind IN" in each]

    def test_who_looks_amid_each_turn_has_no_turn_read_again(self, store: Store) -> None:
        """Else a list that is shown while a conversation grows costs its square."""
        record = begin(store)
        asked: list[str] = []
        event.listen(
            store._database.engine, "before_cursor_execute", lambda *given: asked.append(given[2])
        )
        for number in range(3):
            record.append(TurnStarted(number, Message("user", f"word{number}"), "1", 0))
            record.append(StepStarted(number, (0,), "prompt", "d"))
            store.conversations()
            record.append(TurnEnded(number, Answer("said")))
            assert len(store.search(f"word{number}")) == 1
        assert not [each for each in asked if "entries.kind IN" in each]

    def test_what_comes_later_is_found_later(self, store: Store) -> None:
        converse(store, ("one", "two"))
        assert store.search("three") == []
        converse(store, ("three", "four"))
        assert [(hit.role, hit.turn, hit.text) for hit in store.search("three")] == [
            ("user", 0, "three")
        ]

    def test_what_was_deleted_or_is_another_owners_is_not_found(
        self, store: Store, make_store: MakeStore
    ) -> None:
        id = converse(store, ("secret", "words"))
        assert store.search("secret")
        assert make_store(owner="ada").search("secret") == []
        store.delete(id)
        assert store.search("secret") == []


class TestFork:
    def test_a_copy_goes_on_by_itself(self, store: Store) -> None:
        id = converse(store, ("one", "a"), ("two", "b"), ("three", "c"))
        copy = store.fork(id, turn=1)
        texts = [message.text for message in replay(store.entries(copy, CODEC)).history]
        assert texts == ["one", "a", "two", "b"]
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
        copies = {turn: store.fork(id, turn=turn) for turn in (0, 1, None)}
        texts = {
            turn: [message.text for message in replay(store.entries(copy, CODEC)).history]
            for turn, copy in copies.items()
        }
        assert texts == {0: ["one", "a"], 1: ["one", "a", "two", "b"], None: []}

    def test_a_turn_that_is_not_there_cannot_be_the_last(self, store: Store) -> None:
        id = converse(store, ("one", "a"))
        with pytest.raises(NotFound, match="no turn 1"):
            store.fork(id, turn=1)

    def test_a_turn_that_has_not_ended_is_left_out(self, store: Store) -> None:
        id = converse(store, ("one", "a"))
        record, _ = store.record(id, CODEC)
        record.append(TurnStarted(1, Message("user", "two"), "1", 2))
        record.append(StepStarted(1, (0,), "prompt", "d"))
        assert store.summary(store.fork(id)).status == "idle"
        assert store.summary(store.fork(id)).turns == 1


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

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (lambda entries: entries.extend(entries[1:5]), "number of a turn is less than 1"),
            (lambda entries: entries.insert(2, entries[1]), "a turn begins within another"),
            (lambda entries: entries.append(entries[4]), "entry 5: it is of no turn"),
            (lambda entries: entries.pop(1), "it is of no turn"),
            (lambda entries: entries.insert(3, entries[2]), "a step begins twice"),
            (lambda entries: entries.insert(3, entries[3]), "a step ends twice"),
            (lambda entries: entries.pop(2), "a step ends that has not begun"),
            (lambda entries: entries.insert(4, REWOUND), "are undone within a turn"),
            (lambda entries: entries.append({**REWOUND, "history": 3}), "more turns than there"),
            (lambda entries: entries.append({**REWOUND, "turns": -1}), "more turns than there"),
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
        ],
    )
    def test_what_no_conversation_is_like_is_refused(
        self, tmp_path: Path, change: Any, told: str
    ) -> None:
        data = copy.deepcopy(EXPORTED)
        change(data["entries"])
        with Store(tmp_path / "x.db") as store:
            with pytest.raises(ValidationError, match=told):
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

    @pytest.mark.parametrize(
        "data",
        [
            None,
            [],
            {},
            {"form": 2, "entries": []},
            {"form": 1},
            {"form": 1, "entries": []},
            {"form": 1, "entries": [1]},
            {"form": 1, "entries": [{"at": "now", "entry": "opened"}]},
            {"form": 1, "entries": [{"at": 1, "entry": "nonsense"}]},
            {"form": 1, "name": 5, "entries": []},
            {"form": 1, "entries": [{"at": 1, "entry": "turn_ended", "turn": 0}]},
            {"form": 1, "entries": [OPENED, {"at": 1, "entry": "turn_ended", "turn": 0}]},
            {"form": 1, "entries": [OPENED, OPENED]},
        ],
        ids=repr,
    )
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
        days = itertools.count()
        now = [0.0]
        store = make_store(now=lambda: now[0])
        ids = []
        for day in itertools.islice(days, 6):
            now[0] = day * 86400.0
            ids.append(converse(store, ("q", "a")))
        assert store.delete_expired() == 0
        assert store.delete_expired(days=3.0) == 2
        assert [each.id for each in store.conversations()] == ids[:1:-1]
        assert store.delete_expired(number=1) == 3
        assert [each.id for each in store.conversations()] == ids[-1:]

    def test_one_that_runs_stays(self, store: Store) -> None:
        record = begin(store)
        record.append(TurnStarted(0, Message("user", "q"), "1", 0))
        record.append(StepStarted(0, (0,), "prompt", "d"))
        assert store.delete_expired(number=0) == 0
        record.append(TurnEnded(0, Answer("a")))
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
                found = connection.exec_driver_sql(
                    f"SELECT count(*) FROM {table} WHERE conversation = '{id}'"
                )
                assert found.scalar() == 0, table
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
        found = documents.get("x")
        assert (found.id, found.version, found.value) == ("x", 3, {"a": 3})
        assert documents.delete("x")
        assert not documents.delete("x")
        with pytest.raises(NotFound):
            documents.get("x")

    def test_of_many_that_change_one_at_once_each_is_counted(self, store: Store) -> None:
        documents = store.documents("notes")
        documents.put("x", {"count": 0})

        def count() -> None:
            for _ in range(5):
                documents.change("x", lambda found: ({"count": found["count"] + 1}, None))

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert documents.get("x").value == {"count": 20}

    def test_one_is_changed_again_if_another_was_faster(self, store: Store) -> None:
        documents = store.documents("notes")
        with pytest.raises(NotFound):
            documents.change("x", lambda found: ({}, None))
        documents.put("x", {"a": 1})
        seen = []

        def make(found: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
            seen.append(found["a"])
            if len(seen) < 3:
                documents.put("x", {"a": found["a"] + 1})
            return {"b": found["a"]}, "result"

        assert documents.change("x", make) == "result"
        assert (seen, documents.get("x").value) == ([1, 2, 3], {"b": 3})

        def leave(found: Mapping[str, Any]) -> tuple[None, str]:
            seen.append(found["b"])
            return None, "result"

        assert documents.change("x", leave) == "result"
        assert seen == [1, 2, 3, 3]
        assert documents.get("x").version == 4
        with pytest.raises(Conflict):
            documents.change("x", lambda found: ({}, documents.put("x", {})))

    def test_they_are_listed_in_pages(self, store: Store) -> None:
        documents = store.documents("notes")
        for number in range(5):
            documents.put(f"n{number}", {"odd": bool(number % 2), "number": number})
        assert [each.id for each in documents.list(limit=2)] == ["n4", "n3"]
        assert [each.id for each in documents.list(after="n3")] == ["n2", "n1", "n0"]
        assert [each.id for each in documents.list(newest_first=False, after="n3")] == ["n4"]
        assert [each.id for each in documents.list(where={"odd": True})] == ["n3", "n1"]
        with pytest.raises(NotFound):
            documents.list(after="x")

    @pytest.mark.parametrize("id", ["\0", "a\ud800"], ids=ascii)
    def test_an_id_that_no_database_stores_is_not_found(self, store: Store, id: str) -> None:
        documents = store.documents("notes")
        with pytest.raises(ValueError, match="is not an id"):
            documents.put(id, {})
        for act in (documents.get, lambda id: documents.list(after=id)):
            with pytest.raises(NotFound):
                act(id)
        assert not documents.delete(id)

    @pytest.mark.parametrize(
        ("where", "found"),
        [
            ({"a": 1}, ["int", "float", "both"]),
            ({"a": 1.0}, ["int", "float", "both"]),
            ({"a": True}, ["true"]),
            ({"a": False}, []),
            ({"a": None}, ["null", "none", "list"]),
            ({"a": "1"}, ["text"]),
            ({"a": 0.1}, ["tenth"]),
            ({"a": [1, {"b": 2}]}, ["items"]),
            ({"a": {"b": [1]}}, ["object"]),
            ({"a": "x\0y"}, ["nul"]),
            ({"a": "x"}, ["odd"]),
            ({"a": "ä\ud800"}, ["half"]),
            ({"a": "ä"}, ["umlaut"]),
            ({"a": 2**70}, ["large"]),
            ({"a": 2**53 + 1}, ["exact"]),
            ({"a": 1, "b.c": "x"}, ["both"]),
            ({"b.c": "x"}, ["both"]),
            ({"ä": 1}, ["list"]),
            ({'"': 1}, ["list"]),
            ({"": 1}, ["list"]),
            ({"'; --": 1}, []),
            ({"a": "' OR 1=1 --"}, []),
            ({"half": 1}, ["half"]),
        ],
        ids=repr,
    )
    def test_those_that_have_a_value_are_found_in_either_database(
        self, store: Store, where: dict[str, Any], found: list[str]
    ) -> None:
        documents = store.documents("notes")
        values: dict[str, dict[str, Any]] = {
            "int": {"a": 1},
            "float": {"a": 1.0},
            "both": {"a": 1, "b.c": "x"},
            "true": {"a": True},
            "null": {"a": None},
            "none": {"b": {"c": "x"}},
            "text": {"a": "1"},
            "tenth": {"a": 0.1},
            "items": {"a": [1, {"b": 2}]},
            "object": {"a": {"b": [1]}},
            "nul": {"a": "x\0y"},
            "odd": {"a": "x", "more": "\0\x1f\ud800"},
            "half": {"a": "ä\ud800", "half": 1},
            "umlaut": {"a": "ä"},
            "large": {"a": 2**70},
            "exact": {"a": 2**53 + 1},
            "list": {"ä": 1, '"': 1, "": 1},
        }
        for id, value in values.items():
            documents.put(id, value)
        listed = documents.list(where=where, newest_first=False)
        assert [each.id for each in listed] == found

    def test_of_those_that_have_a_value_there_are_pages(self, store: Store) -> None:
        documents = store.documents("notes")
        for number in range(50):
            documents.put(f"n{number}", {"odd": bool(number % 2)})
        pages = [documents.list(where={"odd": True}, limit=10)]
        while len(pages[-1]) == 10:
            pages.append(documents.list(where={"odd": True}, limit=10, after=pages[-1][-1].id))
        assert [each.id for page in pages for each in page] == [f"n{n}" for n in range(49, 0, -2)]

    def test_it_is_the_database_that_leaves_the_others_out(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
            lambda *given: options.append(given[4].execution_options.get("stream_results")),
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
        store.documents("notes").put("x", {})
        assert store.documents("others").list() == []
        theirs = make_store(owner="ada").documents("notes")
        with pytest.raises(NotFound):
            theirs.get("x")
        assert theirs.put("x", {"theirs": True}, expect=0) == 1
        assert not make_store(owner="bob").documents("notes").delete("x")

    def test_those_of_conversations_are_apart(self, store: Store) -> None:
        one, other = begin(store).id, begin(store).id
        store.documents("notes", conversation=one).put("x", {})
        assert store.documents("notes", conversation=other).list() == []
        with pytest.raises(NotFound):
            store.documents("notes", conversation=other).get("x")
        assert store.documents("notes", conversation=one).count() == 1
        assert store.documents("notes").get("x").version == 1

    def test_postgresql_filters_values_as_json(self) -> None:
        documents = Documents(Database("postgresql://host/db", 1.0), "ann", "notes", None)
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # so in SQLAlchemy
        condition = documents._may_have("a", [1]).compile(dialect=dialect)
        assert str(condition) == "true"
        condition = documents._may_have("a", "x").compile(dialect=dialect)
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
            found = connection.exec_driver_sql("SELECT DISTINCT digest FROM blob_pieces")
            assert found.scalars().all() == [id]
        assert not Path(f"{store.location}.blobs").exists()

    def test_what_nobody_uses_is_removed(self, store: Store) -> None:
        blobs = store.blobs()
        id = blobs.put([b"x"])
        blobs.remove(id)
        with pytest.raises(NotFound):
            blobs.get(id)
        assert blobs.put([b"x"]) == id
        assert list(blobs.get(id)) == [b"x"]

    @pytest.mark.parametrize("id", ["", "..", "../../etc/passwd", "0" * 64, "0" * 63 + "/", "\0"])
    def test_what_is_no_blob_is_not_found(self, store: Store, id: str) -> None:
        with pytest.raises(NotFound):
            store.blobs().get(id)

    def test_those_of_another_owner_are_not_found(
        self, store: Store, make_store: MakeStore
    ) -> None:
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


def test_documents_of_a_collection_are_cleared_at_once(make_store: MakeStore) -> None:
    with make_store() as store:
        for name in ("a", "b"):
            store.documents("notes").put(name, {})
        store.documents("others").put("a", {})
        store.for_owner("ann").documents("notes").put("a", {})
        assert store.documents("notes").clear() == 2
        assert store.documents("notes").list() == []
        assert store.documents("others").get("a").version == 1
        assert store.for_owner("ann").documents("notes").get("a").version == 1


def test_to_look_at_one_conversation_is_to_look_at_no_other(store: Store) -> None:
    """What is derived of all of them takes longer the more there are."""
    one, other = begin(store), begin(store)
    for each in (one, other):
        each.append(TurnStarted(0, Message("user", "hi"), "1", 0))
        each.append(TurnEnded(0, Answer("hello")))

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

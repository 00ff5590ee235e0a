"""Images and files of conversations: kept once in blobs, and there again when an entry is
read."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from stored import append, run_concurrently

from genai_host import InMemoryRecord, Message
from genai_host.api import Answer, File, Image, Text, ToolCall, ToolResult, VendorPart
from genai_host.conversations.record import Entry, StepEnded, StepStarted, TurnEnded, TurnStarted
from genai_host.errors import NotFound, StoreError, ValidationError
from genai_host.store import Store
from genai_host.store.records import kept
from genai_host_testing.internal.stores import CODEC, MakeStore, begin

PICTURE = Image(data=bytes(range(256)) * 40, media_type="image/png")
PAPER = File(data=b"%PDF" * 5000, media_type="application/pdf", name="paper.pdf")
SMALL = Image(data=b"small", media_type="image/png")


def turn(number: int, *content: Any) -> list[Entry]:
    message = Message("user", content)
    result = CODEC.to_json(ToolResult("1", content=(Text("seen"), PICTURE)))
    reply = Message("assistant", [Text("a"), SMALL])
    return [
        TurnStarted(number, message, "1", 0),
        StepStarted(number, (0,), "tool", "d"),
        StepEnded(number, (0,), result),
        TurnEnded(number, Answer("a", new_messages=(message, reply), data={"of": "a"})),
    ]


def converse(store: Store, *content: Any, **options: Any) -> str:
    record = begin(store, **options)
    append(record, *turn(0, *(content or ("look", PICTURE, PAPER))))
    return record.id


def bodies(store: Store, id: str = "") -> str:
    """What is in the table of entries."""
    with store._database.reading() as connection:
        rows = connection.exec_driver_sql("SELECT body, conversation FROM entries").all()
    return "\n".join(body for body, owner in rows if owner.startswith(id))


def blobs(store: Store) -> list[int]:
    """The sizes of those that there are, in bytes."""
    with store._database.reading() as connection:
        return sorted(connection.exec_driver_sql("SELECT size FROM blobs").scalars())


def lose_blobs(store: Store) -> None:
    for file in Path(f"{store.location}.blobs").glob("*/*"):
        file.unlink()
    if store._opened.is_sqlite:
        return
    with store._database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM blob_pieces")


def test_entries_come_back_as_they_were(store: Store, make_store: MakeStore) -> None:
    history = (Message("user", ["earlier", PAPER]),)
    record = begin(store, history=history)
    entries = turn(0, "look", PICTURE, SMALL)
    append(record, *entries)
    assert record.entries[0].history == history  # type: ignore[union-attr]  # it is `Opened`
    assert list(make_store().entries(record.id, CODEC)[1:]) == entries
    _, reopened = make_store().record(record.id, CODEC)
    assert list(reopened[1:]) == entries
    assert len(bodies(store)) < 4000


def test_a_picture_is_stored_once(store: Store, make_store: MakeStore) -> None:
    theirs = make_store(owner="ada")
    others = converse(theirs)
    first, second = converse(store), converse(store)
    assert blobs(store) == sorted([len(PICTURE.data), len(PAPER.data)])
    store.delete(first)
    assert store.entries(second, CODEC)[1:] == tuple(turn(0, "look", PICTURE, PAPER))
    store.delete(second)
    with pytest.raises(NotFound):
        store.entries(others, CODEC)
    assert theirs.entries(others, CODEC)
    theirs.delete(others)
    assert blobs(store) == []
    assert not list(Path(f"{store.location}.blobs").glob("*/*"))


def test_only_base64_of_4096_characters_or_more_is_a_blob(store: Store) -> None:
    for size in (3072, 3071, 3070, 3069):
        converse(store, Image(data=b"x" * size, media_type="image/png"))
    assert blobs(store)[:4] == [3070, 3071, 3072, len(PICTURE.data)]
    record = begin(store)
    append(record, TurnStarted(0, Message("user", [SMALL]), "1", 0), turn(0)[1])
    assert "attached" not in bodies(store, record.id)


def test_text_alone_is_not_looked_into(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "blobs", None)
    record = begin(store, history=(Message("user", "x" * 100_000),))
    append(record, TurnStarted(0, Message("user", '{"type":"image"}' * 9999), "1", 0), turn(0)[1])
    assert len(record.entries) == 3


def test_a_copy_keeps_what_it_uses(store: Store) -> None:
    id = converse(store)
    full, before = store.fork(id), store.fork(id, turn=0)
    store.delete(id)
    for copy in (full, before):
        assert store.entries(copy, CODEC)[1:] == tuple(turn(0, "look", PICTURE, PAPER))
    store.delete(full)
    store.delete(before)
    assert blobs(store) == []


def test_an_export_is_whole_and_can_be_loaded(store: Store, tmp_path: Path) -> None:
    id = converse(store, history=(Message("user", [PAPER]),))
    data = json.loads(json.dumps(store.export(id)))
    assert data["form"] == 2
    assert len(data["attachments"]) == 2
    with Store(tmp_path / "other.db") as other:
        loaded = other.import_conversation(data, CODEC)
        assert other.entries(loaded, CODEC) == store.entries(id, CODEC)
        assert blobs(other) == blobs(store)
        assert other.export(loaded) == {**data, "id": loaded}


def test_an_export_has_each_attachment_once(store: Store) -> None:
    text = json.dumps(store.export(converse(store)))
    for each in (PICTURE, PAPER):
        assert text.count(base64.b64encode(each.data).decode()) == 1


def test_an_export_of_an_earlier_version_is_loaded(store: Store) -> None:
    """Each entry has its attachments in place."""
    id = converse(store)
    entries = InMemoryRecord(store.entries(id, CODEC)).to_json(CODEC)
    data = {"form": 1, "id": id, "name": None, "entries": [{"at": 1, **each} for each in entries]}
    assert store.entries(store.import_conversation(data, CODEC), CODEC) == store.entries(id, CODEC)


def texts_of(content: Any) -> list[str]:
    return [part.text if isinstance(part, Text) else part.type for part in content]


MISSING = [
    "look", f"[missing image: blob {hashlib.sha256(PICTURE.data).hexdigest()}]",
    f"[missing file paper.pdf: blob {hashlib.sha256(PAPER.data).hexdigest()}]",
]  # fmt: skip


def test_what_is_missing_is_noted_where_it_was(store: Store) -> None:
    id = converse(store)
    made = Answer("b", new_messages=(Message("assistant", ["b", PICTURE]),), images=[PICTURE])
    record, _ = store.record(id, CODEC)
    append(record, TurnStarted(1, Message("user", "draw"), "1", 2), TurnEnded(1, made))
    lose_blobs(store)
    entries: Any = store.entries(id, CODEC)
    _, started, _, _, ended, _, drawn = entries
    assert texts_of(started.message.content) == MISSING
    asked, reply = ended.answer.new_messages
    assert texts_of(asked.content) == MISSING
    assert texts_of(reply.content) == ["a", "image"]  # a small one is in the entry
    assert drawn.answer.images == ()
    [shown] = drawn.answer.new_messages
    assert texts_of(shown.content) == ["b", MISSING[1]]
    markdown = store.markdown(id, CODEC)
    assert MISSING[1] in markdown
    assert MISSING[2] in markdown
    exported = store.export(id)
    assert list(exported["attachments"].values()) == [None, None]
    loaded = store.import_conversation(exported, CODEC)
    assert store.entries(loaded, CODEC)[1:] == store.entries(id, CODEC)[1:]


@pytest.mark.skipif(os.name == "nt", reason="other errors there")
def test_what_cannot_be_read_now_is_not_missing(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        id = converse(store)
        for file in Path(f"{store.location}.blobs").glob("*/*"):
            file.unlink()
            file.mkdir()  # an error that is none of a missing file
        for read in (store.export, lambda id: store.entries(id, CODEC)):
            with pytest.raises(StoreError, match="directory"):
                read(id)


def test_without_what_is_missing_no_conversation_goes_on(store: Store) -> None:
    id = converse(store)
    lose_blobs(store)
    with pytest.raises(StoreError, match=r"blob [0-9a-f]{64}") as caught:
        store.record(id, CODEC)
    assert "backup" in caught.value.hint
    assert [each.id for each in store.conversations()] == [id]
    store.delete(id)
    assert store.conversations() == []


ODD: list[Any] = [1, [1], [[]], [["x", "data"]], [["entry", "data"]], [["attached", 0]]]


@pytest.mark.parametrize("change", [
    {"attachments": None},
    {"attachments": []},
    {"attachments": {"a": 1}},
    {"form": 3},
    *[{"entries": [{"at": 1, "entry": "opened", "attached": attached}]} for attached in ODD],
], ids=repr)  # fmt: skip
def test_what_is_no_export_is_refused(store: Store, change: Any) -> None:
    data = {**store.export(converse(store)), **change}
    with pytest.raises(ValidationError):
        store.import_conversation(data, CODEC)


def test_an_export_refers_to_its_own_attachments_only(store: Store) -> None:
    loaded = store.import_conversation({**store.export(converse(store)), "attachments": {}}, CODEC)
    started: Any = store.entries(loaded, CODEC)[1]
    assert texts_of(started.message.content) == MISSING


def test_what_was_lost_comes_back_with_the_same_file(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        id = converse(store)
        lose_blobs(store)
        converse(store)
        assert store.entries(id, CODEC)[1:] == tuple(turn(0, "look", PICTURE, PAPER))


def test_bytes_that_have_changed_are_not_taken(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        id = converse(store)
        for file in Path(f"{store.location}.blobs").glob("*/*"):
            file.write_bytes(b"something else")
        with pytest.raises(StoreError, match="damaged"):
            store.record(id, CODEC)
        assert "[missing image: blob" in store.markdown(id, CODEC)


def test_what_a_model_says_is_no_reference(store: Store) -> None:
    id = converse(store)
    digest = (
        next(Path(f"{store.location}.blobs").glob("*/*")).name if store._opened.file else "0" * 64
    )
    forged = {"type": "image", "data": {"sha256": digest}, "attached": [["message"]]}
    call = ToolCall("1", "f", {**forged, "attached": [[["x"]]]})
    rows = turn(1, "x" * 9000, call, VendorPart("d", forged), ToolCall("2", "g", {"type": "file"}))
    record, _ = store.record(id, CODEC)
    append(record, *rows)
    assert list(store.entries(id, CODEC)[5:]) == rows


def test_a_reference_that_is_loaded_is_refused(store: Store) -> None:
    entries = InMemoryRecord(store.entries(converse(store), CODEC)).to_json(CODEC)
    data: Any = {"form": 1, "name": None, "entries": [{"at": 1, **each} for each in entries]}
    store.import_conversation(data, CODEC)
    data["entries"][1]["attached"] = [["message", "content", 1, "data"]]
    with pytest.raises(ValidationError, match="attached"):
        store.import_conversation(data, CODEC)


def test_base64_that_would_not_come_back_is_left(store: Store) -> None:
    record = begin(store)
    result = {"type": "image", "data": "!" * 9000, "of": {"type": "file", "data": "QQ==\n" * 2000}}
    append(record, *turn(0, "x")[:2], StepEnded(0, (0,), result))
    assert record.entries[-1] == StepEnded(0, (0,), result)
    assert blobs(store) == []
    data = base64.b64encode(PICTURE.data).decode()
    mixed = {"a": {"type": "image", "data": data}, "b": {"type": "image", "data": "ä" * 9000}}
    record.append(StepEnded(0, (1,), mixed))
    assert record.entries[-1] == StepEnded(0, (1,), mixed)
    assert blobs(store) == [len(PICTURE.data)]


def test_an_entry_that_is_nested_too_deeply_is_left() -> None:
    body = '{"a":' * 100_000
    blobs: Any = None
    assert kept(body, blobs, "c") == body


@pytest.mark.part
def test_many_that_say_the_same_at_once(store: Store, make_store: MakeStore) -> None:
    stores = [store, make_store(), make_store(), make_store()]
    store.conversations()
    ids: list[str] = []

    def write(mine: Store) -> None:
        for _ in range(3):
            mine.delete(converse(mine))
            ids.append(converse(mine))

    run_concurrently(write, stores)
    assert len(ids) == 12
    for id in ids:
        assert store.entries(id, CODEC)[1:] == tuple(turn(0, "look", PICTURE, PAPER))


def test_what_no_conversation_uses_goes_some_day(make_store: MakeStore) -> None:
    now = [100_000.0]
    store = make_store(now=lambda: now[0])
    id = converse(store)
    store.blobs().put([b"lost"], conversation=f"{id[:9]}000000000")
    store.delete(converse(store))
    assert len(blobs(store)) == 3
    now[0] += 100_000
    store.delete(converse(store))
    assert len(blobs(store)) == 2
    assert store.entries(id, CODEC)[1:] == tuple(turn(0, "look", PICTURE, PAPER))

"""Whatever is on record, no conversation spoils the lists, sums and searches of others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from genai_host import Message
from genai_host.api import Completion, Usage
from genai_host.errors import GenaiError, ProviderTimeout
from genai_host.store import Store
from genai_host.store.tables import conversations, entries
from genai_host_testing import FakeModel
from genai_host_testing.internal.faults import readable, variants
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, MakeStore
from genai_host_testing.purity import places_in


def recorded(make_host: MakeHost, store: Store) -> str:
    """A conversation with all that is derived from: tries that failed, usage, a taken back turn."""

    def answer(prompt: Any) -> Completion:
        if prompt.text == "fail":
            raise ProviderTimeout("too late")
        return Completion(Message("assistant", "found"), usage=Usage(3, 2, 1, 1))

    conversation = make_host(store=store, fake=FakeModel(answer)).open("chat", "fake")
    conversation.say("first")
    with pytest.raises(GenaiError):
        conversation.say("fail")
    conversation.say("second")
    conversation.undo()
    conversation.say("third")
    return str(conversation.id)


def forget_derived(connection: Connection) -> None:
    connection.execute(update(conversations).values(entries=0, title="", turns=0))
    for table in ("messages", "tries"):
        connection.exec_driver_sql(f"DELETE FROM {table}")


def rows_of(connection: Connection, id: str) -> list[dict[str, Any]]:
    chosen = select(entries).where(entries.c.conversation == id).order_by(entries.c.number)
    return [dict(row._mapping) for row in connection.execute(chosen)]


def spoil(store: Store, id: str) -> int:
    """Add conversations as this one, each with one value that is hostile. How many."""
    with store._database.writing() as connection:
        first = dict(
            connection.execute(select(conversations).where(conversations.c.id == id)).one()._mapping
        )
        rows = rows_of(connection, id)
        fresh = {"entries": 0, "title": "", "turns": 0, "status": "idle", "models": "{}"}
        count = 0
        seen: set[tuple[str, Any]] = set()
        for row in rows:
            body = json.loads(row["body"])
            form = (row["kind"], tuple(places_in(body)))
            if form in seen:  # what is derived from it was derived from an entry like it
                continue
            seen.add(form)
            for changed in readable(variants(body, 1)):
                if not isinstance(changed, dict):  # an entry is an object, as it is written
                    continue
                count += 1
                name, text = f"{count:018d}", json.dumps(changed)
                mine = [
                    {**each, "conversation": name, **({"body": text} if each is row else {})}
                    for each in rows
                ]
                connection.execute(insert(conversations), {**first, **fresh, "id": name})
                connection.execute(insert(entries), mine)
    return count


def test_item_a_no_value_of_an_entry_spoils(make_host: MakeHost, make_store: MakeStore) -> None:
    store = make_store()
    good = recorded(make_host, store)
    before = store.summary(good)
    spoiled = spoil(store, good)
    for opened in (store, make_store()):  # as after a restart
        listed = opened.conversations(limit=None)
        assert len(listed) == spoiled + 1
        assert [each for each in listed if each.id == good] == [before]
        assert good in {each.conversation for each in opened.search("first", limit=10**6)}
        [total] = opened.usage()
        assert total.calls >= 4
        assert opened.health() is not None
    for summary in listed:
        json.dumps(store.export(summary.id))
        if summary.id != good:
            store.delete(summary.id)
    assert [each.id for each in store.conversations(limit=None)] == [good]
    assert len(store.entries(good, CODEC)) > 5


def test_item_a_what_nobody_has_foreseen_is_set_aside(
    make_host: MakeHost, make_store: MakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Here, two results of one step."""
    store = make_store()
    good, twice = recorded(make_host, store), recorded(make_host, store)
    assert {each.status for each in store.conversations()} == {"idle"}
    with store._database.writing() as connection:
        rows = rows_of(connection, twice)
        ended = [row for row in rows if row["kind"] == "step_ended"]
        connection.execute(insert(entries), {**ended[-1], "number": rows[-1]["number"] + 1})
    status = {each.id: each.status for each in store.conversations()}
    assert status == {good: "idle", twice: "damaged"}
    assert "cannot index" in caplog.text
    health = make_store().health()
    assert health is not None
    assert health.faults == (f"conversations that cannot be indexed: 1 ({twice})",)
    assert store.export(twice)["id"] == twice
    store.delete(twice)
    assert [each.id for each in store.conversations()] == [good]


def test_a_damaged_conversation_is_repaired_and_nothing_is_deleted(
    make_host: MakeHost, make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its turns are there twice, as an earlier version loaded them."""
    monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path))
    store = make_store()
    good, twice = recorded(make_host, store), recorded(make_host, store)
    before, usage = store.summary(twice), store.usage()
    with store._database.writing() as connection:
        rows = rows_of(connection, twice)
        copies = [{**row, "number": row["number"] + len(rows)} for row in rows[1:] if row["turn"]]
        connection.execute(insert(entries), copies)
    assert store.summary(twice).status == "damaged"
    assert [(each.conversation, each.is_damaged) for each in store.repair()] == [(twice, False)]
    lines = [json.loads(line) for line in Path(store.set_aside).read_text().splitlines()]
    assert sorted(lines, key=lambda row: row["number"]) == copies
    assert store.summary(twice) == before
    assert {each.id: each.status for each in store.conversations()} == {good: "idle", twice: "idle"}
    assert store.usage() == usage
    assert len(store.entries(twice, CODEC)) == len(rows)
    assert store.repair() == []


def test_item_a_a_spoiled_store_opens_again(make_host: MakeHost, make_store: MakeStore) -> None:
    """By a text that an earlier version could not index."""
    store = make_store()
    id = recorded(make_host, store)
    with store._database.writing() as connection:
        started = (entries.c.conversation == id, entries.c.kind == "turn_started")
        row = connection.execute(select(entries).where(*started)).first()
        assert row is not None
        body = row.body.replace("first", "stra\\udce4e")
        connection.execute(
            update(entries).where(*started, entries.c.number == row.number).values(body=body)
        )
        forget_derived(connection)
    assert make_store().summary(id).title == "stra\ufffde"


@pytest.mark.parametrize("at", [-1e18, 1e18, float("inf")])
def test_times_are_dates(make_host: MakeHost, make_store: MakeStore, at: float) -> None:
    """An earlier version loaded any number."""
    store = make_store()
    id = recorded(make_host, store)
    with store._database.writing() as connection:
        connection.execute(update(entries).values(at=at))
        forget_derived(connection)
    [summary] = store.conversations()
    for moment in (summary.updated, *store.times(id).values()):
        datetime.fromtimestamp(moment, UTC)
    assert store.markdown(id, CODEC)
    assert store.usage(by=["day"])
    store.delete(id)


def test_an_end_without_a_beginning_is_read(make_host: MakeHost, make_store: MakeStore) -> None:
    """As an interrupted write left it in an earlier version."""

    def answer(prompt: Any) -> str:
        if prompt.text == "lost":
            raise ProviderTimeout("too late")
        return str(prompt.text)

    store = make_store()
    conversation = make_host(store=store, fake=FakeModel(answer)).open("chat", "fake")
    conversation.say("hi")
    with pytest.raises(ProviderTimeout):
        conversation.say("lost")
    with store._database.writing() as connection:
        mine = (entries.c.conversation == conversation.id, entries.c.turn == 1)
        connection.execute(delete(entries).where(*mine, entries.c.kind != "turn_ended"))
    again = make_host(store=make_store(), fake=FakeModel(answer)).conversation(conversation.id)
    assert [each.text for each in again.history] == ["hi", "hi"]
    again.say("there")
    assert [each.text for each in again.history[::2]] == ["hi", "there"]
    assert "lost" not in store.markdown(conversation.id, CODEC)

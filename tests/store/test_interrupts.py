"""Ctrl-C at any write: the turn ends as interrupted, the conversation goes on, and the record is
as if the write had come, or not."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from genai_host.conversations.record import TurnEnded, TurnStarted
from genai_host.errors import Cancelled
from genai_host.store import Store
from genai_host.store.writer import Addition, EntryRow
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, MakeStore, begin


@contextmanager
def interrupted_write(store: Store, number: int, written: bool) -> Iterator[None]:
    """The first writes work, the next is interrupted: before it, or where the driver returns."""
    writer: Any = store._writer
    insert = writer._insert
    left = iter(range(number))

    def interrupt(cursor: Any, additions: Any) -> None:
        if next(left, None) is not None:
            insert(cursor, additions)
            return
        writer._insert = insert
        if written:
            insert(cursor, additions)
        raise KeyboardInterrupt

    writer._insert = interrupt
    try:
        yield
    finally:
        del writer._insert


ACTS: dict[str, tuple[int, Callable[[Any], object]]] = {
    "say": (4, lambda conversation: conversation.say("and now?")),
    "again": (4, lambda conversation: conversation.say(regenerate=True)),
    "undo": (1, lambda conversation: conversation.undo()),
    "reset": (1, lambda conversation: conversation.reset()),
    "use": (1, lambda conversation: conversation.use(temperature=0.5)),
}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize(
    ("act", "number"), [(act, each) for act, (writes, _) in ACTS.items() for each in range(writes)]
)
def test_a_conversation_goes_on_after_an_interrupted_write(
    make_host: MakeHost, make_store: MakeStore, act: str, number: int, written: bool
) -> None:
    store = make_store()
    conversation = make_host(store=store).open("chat", "mock")
    conversation.say("hi")
    with interrupted_write(store, number, written):
        try:
            ACTS[act][1](conversation)
        except KeyboardInterrupt:
            pass
        else:
            assert number >= 3  # a turn of one step has three writes
    assert conversation.status == "idle"
    conversation.say("still there?")
    assert conversation.record_error is None
    again = make_host(store=make_store()).conversation(conversation.id)
    assert again.status == "idle"
    assert again.history == conversation.history
    assert again.turns == conversation.turns
    assert again._log.agents.parameters == conversation._log.agents.parameters


def test_an_interrupt_that_came_before_the_turn_was_written_ends_it(
    make_host: MakeHost, make_store: MakeStore
) -> None:
    store = make_store()
    conversation = make_host(store=store).open("chat", "mock")
    with interrupted_write(store, 0, False), pytest.raises(KeyboardInterrupt):
        conversation.say("hi")
    store.close()
    _, started, *_, ended = make_store().entries(conversation.id, CODEC)
    assert isinstance(started, TurnStarted)
    assert isinstance(ended, TurnEnded)
    assert isinstance(ended.error, Cancelled)


def test_the_writes_of_others_are_not_lost_with_an_interrupted_one(make_store: MakeStore) -> None:
    """Two entries are written together, and who writes them is interrupted then."""
    store = make_store()
    writer: Any = store._writer
    ids = [begin(store).id, begin(store).id]
    additions = [Addition([EntryRow(id, 1, 0, "now", 0.0, "{}")]) for id in ids]
    writer._waiting.extend(additions)
    with interrupted_write(store, 0, True), pytest.raises(KeyboardInterrupt):
        writer._write()
    writer._write()
    assert [(each.done, each.error) for each in additions] == [(True, None)] * 2


def test_an_interrupt_of_who_waits_for_another_writer_comes_through(make_store: MakeStore) -> None:
    store = make_store()
    writer: Any = store._writer
    addition: Any = Addition([EntryRow(begin(store).id, 1, 0, "now", 0.0, "{}")])

    def wait() -> None:
        writer._waiting.clear()  # another thread writes it
        raise KeyboardInterrupt

    addition.wait = wait
    with pytest.raises(KeyboardInterrupt):
        writer.add(addition)


@pytest.mark.parametrize("statement", ["SELECT entries", "UPDATE conversations"])
def test_an_interrupt_while_a_list_is_derived_leaves_no_lock(
    make_store: MakeStore, statement: str
) -> None:
    """Also while the error is kept, as interactive Python keeps the last one."""
    store, other = make_store(), make_store(patience=0.0)
    id = begin(store).id
    asked: list[str] = []

    def interrupt(*given: Any) -> None:
        if given[2].startswith(statement) and statement not in asked:
            asked.append(statement)
            raise KeyboardInterrupt

    event.listen(store._database.engine, "after_cursor_execute", interrupt)
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt) as kept:
            store.conversations()
        other.rename(id, "a name")
        assert kept.value is not None
    finally:
        gc.enable()
    assert [each.title for each in store.conversations()] == ["a name"]

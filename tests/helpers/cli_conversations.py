"""Conversations of the command line in the default store, and changes by other processes."""

from __future__ import annotations

from genai_host import Host, InMemoryRecord, Message
from genai_host.conversations.record import Entry, StepStarted, TurnStarted
from genai_host.store import Store
from genai_host.store.records import Summary
from genai_host_testing.internal.stores import CODEC


def summaries() -> list[Summary]:
    """Return all conversations, the most recently used one first."""
    with Store() as store:
        return store.conversations(limit=None)


def texts(id: str = "") -> list[str]:
    """Return the texts of a conversation's history; by default of the most recently used one."""
    with Store() as store, Host(store=store) as host:
        conversation = host.conversation(id or store.conversations(limit=1)[0].id)
        return [message.text for message in conversation.history]


def append(*entries: Entry) -> None:
    """Append entries to the last conversation, as another process does before it ends."""
    with Store() as store:
        record, _ = store.record(store.conversations(limit=1)[0].id, CODEC)
        for entry in entries:
            record.append(entry)


def interrupt(text: str = "cut short") -> None:
    """Start a turn in the last conversation, as a process that ends during the first step."""
    append(*beginning(text))


def beginning(text: str) -> list[Entry]:
    """Return the entries of a turn of the last conversation, up to the start of its first step."""
    with Store() as store, Host(store=store) as host:
        copy = host.conversation(store.conversations(limit=1)[0].id, record=False)
        assert isinstance(copy.record, InMemoryRecord)
        before = len(copy.record.entries)
        copy.say(text)
        started, step = copy.record.entries[before : before + 2]
    assert isinstance(started, TurnStarted)
    assert isinstance(step, StepStarted)
    return [started, step]


def waiting(turn: int, text: str = "cut short", payload: object = None) -> list[Entry]:
    """Return the entries of a turn that waits for an approval."""
    asks = {"kind": "approval", "payload": payload}
    return [
        TurnStarted(turn, Message("user", text), "1", 2 * turn),
        StepStarted(turn, (0,), "wait", "digest", asks),
    ]

"""Conversations in a store, written entry by entry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from genai_host import Message
from genai_host.api import Answer
from genai_host.conversations.record import Entry, StepEnded, StepStarted, TurnEnded, TurnStarted
from genai_host.errors import Cancelled
from genai_host.store import Store
from genai_host.store.store import StoredRecord
from genai_host_testing.internal.stores import begin


def turn(
    number: int, says: str = "q", answer: str | None = "a", *, history: int = 0, result: Any = None
) -> list[Entry]:
    """Return the entries of a turn of one step; it fails without an answer."""
    return [
        TurnStarted(number, Message("user", says), "1", history),
        StepStarted(number, (0,), "prompt", "d"),
        StepEnded(number, (0,), result),
        TurnEnded(number, Answer(answer)) if answer else TurnEnded(number, error=Cancelled("x")),
    ]


def append(record: StoredRecord, *entries: Entry) -> None:
    for entry in entries:
        record.append(entry)


def converse(store: Store, *turns: tuple[str, str | None], **fields: Any) -> str:
    """Write a conversation of these messages and answers, None for a turn that failed."""
    record = begin(store, **fields)
    for number, (says, answer) in enumerate(turns):
        append(record, *turn(number, says, answer, history=2 * number))
    return record.id


def run_concurrently(act: Callable[..., object], each: Sequence[Any]) -> None:
    """Call a function for each of these, all in threads that begin together."""
    barrier = threading.Barrier(len(each))

    def run(argument: Any) -> None:
        barrier.wait(30)
        act(argument)

    threads = [threading.Thread(target=run, args=(argument,)) for argument in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

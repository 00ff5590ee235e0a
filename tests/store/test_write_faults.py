"""A payment with an approval, where any write fails, is interrupted, or is the last before a kill.

A seed decides what is done and which write is hit; the rows of the file say what has to hold.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import genai_feature_agent
import pytest

from genai_host import Conversation, Message
from genai_host.api import Completion, Tool, ToolCall
from genai_host.errors import GenaiError
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost


class Killed(BaseException):
    """The process is gone: nothing is written after it."""


FAULTS: dict[str, Callable[[Any], BaseException]] = {
    "locked": lambda store: store._database.driver.OperationalError("database is locked"),
    "interrupted": lambda store: KeyboardInterrupt(),
    "killed": lambda store: Killed(),
}


class Run:
    """What becomes of one conversation under one seed."""

    def __init__(self, make_host: MakeHost, file: Path, seed: int) -> None:
        self.make_host, self.file = make_host, file
        self.chance = random.Random(seed)
        self.paid: Counter[str] = Counter()
        self.approved: Counter[str] = Counter()
        self.numbers = count()
        self.store, self.conversation = self.opened(None)
        self.id = self.conversation.id

    def opened(self, id: str | None) -> tuple[Store, Conversation]:
        store = Store(self.file)
        tools = InlinePlugin(
            tools=[Tool("pay", "pays", self.pay, {"type": "object"}, approval="ask")]
        )
        fake = FakeModel(self.answer)
        host = self.make_host(store=store, fake=fake, tools=tools, agent=genai_feature_agent)
        return store, host.open("agent", "fake") if id is None else host.conversation(id)

    def answer(self, prompt: Any) -> str | Completion:
        if prompt.messages[-1].role == "tool":
            return "done"
        call = ToolCall(f"c{next(self.numbers)}", "pay", {"number": next(self.numbers)})
        return Completion(Message("assistant", [call]), "tool_calls")

    def pay(self, arguments: Any, run: Any) -> str:
        self.paid[str(arguments["number"])] += 1
        return "paid"

    def step(self) -> None:
        """Do one thing, in which one write may be hit."""
        conversation, chance = self.conversation, self.chance
        if conversation.status == "paused":
            assert conversation.current_pause is not None
            yes = chance.random() < 0.7
            calls = conversation.current_pause.payload["calls"]
            if yes:
                self.approved.update(str(each["arguments"]["number"]) for each in calls)
            decision = {each["id"]: yes for each in calls}
            conversation.resume(decision) if chance.random() < 0.9 else conversation.undo()
        elif conversation.status == "pending":
            conversation.resume() if chance.random() < 0.8 else conversation.abandon()
        else:
            again = conversation.last_message is not None and chance.random() < 0.3
            conversation.say(None if again else "pay", regenerate=again)

    @contextlib.contextmanager
    def fault(self) -> Iterator[None]:
        writer: Any = self.store._writer
        insert, kind = writer._insert, self.chance.choice([*FAULTS])
        first, written = self.chance.randrange(12), self.chance.random() < 0.5
        last = first + (1 if kind == "interrupted" else self.chance.randrange(1, 4))
        number = count()
        is_dead = False

        def hit(cursor: Any, additions: Any) -> None:
            nonlocal is_dead
            now = next(number)
            if is_dead or first <= now < last:
                if written and now == first and kind != "locked":
                    insert(cursor, additions)
                is_dead = kind == "killed"
                raise FAULTS[kind](self.store)
            insert(cursor, additions)

        writer._insert = hit
        try:
            yield
        finally:
            writer._insert = insert

    def reopen(self) -> None:
        self.store.close()
        self.store, self.conversation = self.opened(self.id)

    def check(self) -> None:
        assert all(times == 1 for times in self.paid.values()), self.paid
        assert self.paid.keys() <= self.approved.keys()
        with closing(sqlite3.connect(self.file)) as connection:
            bodies = connection.execute(
                "SELECT body FROM entries WHERE conversation = ? ORDER BY number", [self.id]
            )
            rows = [json.loads(body) for (body,) in bodies]
        under_way: int | None = None
        steps: dict[str, int] = {}
        for row in rows[1:]:
            if row["entry"] == "turn_started":
                assert under_way is None
                under_way, steps = row["turn"], {}
            elif row["entry"] == "rewound":
                assert under_way is None
            else:
                assert row["turn"] == under_way
                place, is_prefix = str(row.get("path")), row["entry"] == "step_started"
                if row["entry"] == "turn_ended":
                    under_way = None
                else:
                    assert steps.get(place) == (None if is_prefix else 1), (place, row)
                    steps[place] = 1 if is_prefix else 2


@pytest.mark.parametrize("seed", [*range(10), 47])  # 47 changed a decision on record
def test_nothing_is_paid_twice_or_unasked(make_host: MakeHost, tmp_path: Path, seed: int) -> None:
    run = Run(make_host, tmp_path / "x.db", seed)
    for _ in range(12):
        try:
            with run.fault():
                run.step()
        except (GenaiError, KeyboardInterrupt):
            if run.chance.random() < 0.5:
                run.reopen()
        except Killed:
            run.reopen()
        run.check()
    run.reopen()
    run.check()
    if run.conversation.status in ("pending", "paused"):
        run.conversation.abandon()
    with contextlib.suppress(GenaiError):  # it waits for the approval
        run.conversation.say("pay")
    assert run.conversation.status == "paused"
    assert run.store.conversations()[0].status == "paused"
    run.store.close()

"""A conversation of 10,000 messages opens and continues with no quadratic cost.

What it costs is counted, not timed: calls of functions, steps of SQLite, and messages that
are encoded anew.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from sqlalchemy import event

import genai_host.conversations.record
import genai_host.dialects
from genai_host import Config, Host, StaticPlugins
from genai_host.api import Answer, Feature, FeatureSteps, NoSettings, Now, Prompt, Turn
from genai_host.conversations.replay import ConversationState
from genai_host.dialects.plain import Plain
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin

SHORT, LONGER, LONG = 10, 500, 5_000
"""Turns; each adds two messages."""


def note(turn: Turn[NoSettings]) -> FeatureSteps:
    """Answers at once, with one step on record; or asks a model that is shown everything."""
    if turn.context.get("ask"):
        completion = yield from Prompt([*turn.history, turn.message])
        return Answer(completion.text)
    at = yield from Now()
    return Answer(f"noted at {at}")


class Costs:
    """
    calls    of functions, in this thread
    by       the same, by the function's code
    steps    of SQLite's virtual machine
    """

    def __init__(self) -> None:
        self.calls = 0
        self.by: Counter[CodeType] = Counter()
        self.steps = 0

    def count(self, frame: FrameType, kind: str, argument: object) -> None:
        if kind in ("call", "c_call"):
            self.calls += 1
        if kind == "call":
            self.by[frame.f_code] += 1

    def step(self) -> int:
        self.steps += 1
        return 0  # it goes on


class Kept:
    """Stored conversations by how many turns they have, and what it costs to use them."""

    def __init__(self, file: Path) -> None:
        self.store = Store(file)
        plugins = {
            "dialects": genai_host.dialects,
            "fake": FakeModel(lambda prompt: "heard"),
            "note": InlinePlugin(features=[Feature("note", NoSettings, note)]),
        }
        self.host = Host(config=Config(), discovery=StaticPlugins(plugins), store=self.store)
        self._connections: list[Any] = []
        event.listen(
            self.store._opened.engine,
            "connect",
            lambda connection, record: self._connections.append(connection),
        )
        self.ids = {turns: self._converse(turns) for turns in (SHORT, LONGER, LONG)}

    def close(self) -> None:
        self.host.close()
        self.store.close()

    @contextmanager
    def counted(self) -> Iterator[Costs]:
        before = sys.getprofile()
        costs = Costs()
        for each in self._connections:
            each.set_progress_handler(costs.step, 1)
        gc.disable()  # what is called when garbage is collected is nobody's cost
        sys.setprofile(costs.count)
        try:
            yield costs
        finally:
            sys.setprofile(before)
            gc.enable()
            for each in self._connections:
                each.set_progress_handler(None, 1)

    def copy(self, turns: int) -> str:
        return self.store.fork(self.ids[turns])

    def _converse(self, turns: int) -> str:
        with self.host.open("note", "fake") as conversation:
            for number in range(turns):
                conversation.say(f"message {number:5}")
            assert conversation.record_error is None
            return conversation.id


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    made = Kept(tmp_path_factory.mktemp("long") / "x.db")
    yield made
    made.close()


@pytest.mark.slow
def test_opening_has_no_quadratic_cost(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    put_together: list[int] = []
    history = vars(ConversationState)["history"]

    def counted(retold: ConversationState) -> Any:
        put_together.append(retold.turns)
        return history.fget(retold)

    monkeypatch.setattr(ConversationState, "history", property(counted))
    costs = {}
    for turns in (SHORT, LONGER, LONG):  # the short one for whatever is done once
        with kept.counted() as costs[turns]:
            conversation = kept.host.conversation(kept.ids[turns])
        assert len(conversation.history) == 2 * turns
    # the whole history, put together once that all turns are read, and not turn by turn
    assert set(put_together) == {SHORT, LONGER, LONG}
    for measured in ("calls", "steps"):
        longer, long = (getattr(costs[turns], measured) for turns in (LONGER, LONG))
        assert longer > LONGER, "nothing was counted"
        assert long / longer <= LONG / LONGER, measured


def test_continuing_has_no_quadratic_cost(kept: Kept) -> None:
    """One more turn costs what it costs in a short one."""
    costs = {}
    for turns in (SHORT, LONG):
        conversation = kept.host.conversation(kept.copy(turns))
        conversation.say("whatever is done once")
        with kept.counted() as costs[turns]:
            conversation.say("one more")
        assert conversation.record_error is None
    assert costs[SHORT].calls > 100, "nothing was counted"
    assert costs[LONG].by == costs[SHORT].by
    assert costs[LONG].calls == costs[SHORT].calls
    assert costs[LONG].steps <= costs[SHORT].steps * 1.5  # its tables are a level deeper


def test_a_history_that_a_model_is_shown_is_encoded_once(kept: Kept) -> None:
    """Each further turn encodes what is new, as in a short one."""
    digested, written = genai_host.conversations.digests._of_message, Plain._write
    for turns in (SHORT, LONGER):
        conversation = kept.host.conversation(kept.copy(turns))
        with kept.counted() as first:
            conversation.say("one more", context={"ask": True})
        with kept.counted() as second:
            conversation.say("and one more", context={"ask": True})
        for encodes in (digested, written):
            assert first.by[encodes.__code__] == 2 * turns + 1
            assert second.by[encodes.__code__] == 2  # the answer, and what is said now

"""Where a store cannot be written: what may not run twice does not begin, and what was decided is
not used, unless that is on record. After Ctrl-C at any write the turn ends as interrupted, the
conversation goes on, and the record is as if the write had come, or not."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import genai_feature_agent
import pytest
from conversing import paused
from sqlalchemy import event

from genai_host import Conversation, Host, Message
from genai_host.api import (
    AllSettled,
    Answer,
    CallFunction,
    Completion,
    Feature,
    FeatureSteps,
    NoSettings,
    Now,
    Tool,
    ToolCall,
    Turn,
)
from genai_host.conversations.record import StepEnded, StepStarted, TurnEnded, TurnStarted
from genai_host.errors import Cancelled, Conflict, GenaiError, NotRecorded
from genai_host.store import Store
from genai_host.store.writer import Addition, EntryRow
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, MakeStore, begin


@contextmanager
def failing_writes(
    store: Store, after: int = 0, *, written: bool = False, interrupts: bool = False
) -> Iterator[None]:
    """Only so many entries can be written, as when the disk is full or another program holds the
    lock: where the driver returns if it is `written`, else before. An interrupt comes once."""
    writer: Any = store._writer
    insert = writer._insert
    left = iter(range(after))

    def fail(cursor: Any, additions: Any) -> None:
        works = next(left, None) is not None
        if works or written:
            insert(cursor, additions)
        if works:
            return
        if interrupts:
            writer._insert = insert
            raise KeyboardInterrupt
        raise store._database.driver.OperationalError("database is locked")

    writer._insert = fail
    try:
        yield
    finally:
        del writer._insert


paid: list[str] = []


def pay() -> str:
    paid.append("paid")
    return "paid"


@pytest.fixture(autouse=True)
def unpaid() -> None:
    paid.clear()


def paying_host(
    make_host: MakeHost, store: Store, run: Callable[[], str] = pay, **options: Any
) -> Host:
    """Its model wants a bill to be paid by a tool."""

    def answer(prompt: Any) -> str | Completion:
        if prompt.messages[-1].role == "tool":
            return "paid" if "paid" in str(prompt.messages[-1].content) else "not paid"
        return Completion(Message("assistant", [ToolCall("1", "pay", {})]), "tool_calls")

    tool = Tool("pay", "pays", lambda arguments, _: run(), {"type": "object"}, **options)
    tools = InlinePlugin(tools=[tool])
    return make_host(store=store, fake=FakeModel(answer), tools=tools, agent=genai_feature_agent)


@pytest.mark.parametrize("written", range(3))
def test_a_tool_begins_on_record(make_host: MakeHost, make_store: MakeStore, written: int) -> None:
    store = make_store()
    conversation = paying_host(make_host, store).open("agent", "fake")
    with failing_writes(store, after=written):
        for _ in range(2):
            with pytest.raises(NotRecorded, match=r"call_tool .*database is locked") as caught:
                conversation.resume() if conversation.status == "pending" else conversation.say("!")
            assert "resume" in caught.value.hint
            assert paid == []
            assert conversation.status == "pending"
            assert conversation.record_error is not None
    assert conversation.resume().text == "paid"
    assert paid == ["paid"]
    assert conversation.record_error is None
    other = paying_host(make_host, make_store()).conversation(conversation.id)
    assert (other.status, other.history) == ("idle", conversation.history)


def test_a_tool_that_began_does_not_run_again(make_host: MakeHost, make_store: MakeStore) -> None:
    """Its end is not on record, nor is what came after."""
    store, failing = make_store(), ExitStack()

    def fail_and_pay() -> str:
        failing.enter_context(failing_writes(store))
        return pay()

    conversation = paying_host(make_host, store, fail_and_pay).open("agent", "fake")
    with failing:
        assert conversation.say("pay").text == "paid"
        last = store.entries(conversation.id, CODEC)[-1]
        assert isinstance(last, StepStarted)
        assert last.step == "call_tool"
    other = paying_host(make_host, make_store()).conversation(conversation.id)
    assert other.resume().text == "not paid"
    assert paid == ["paid"]


def test_an_idempotent_tool_runs_unrecorded(make_host: MakeHost, make_store: MakeStore) -> None:
    store = make_store()
    conversation = paying_host(make_host, store, idempotent=True).open("agent", "fake")
    with failing_writes(store, after=1):
        assert conversation.say("pay").text == "paid"
        assert conversation.record_error is not None


@pytest.mark.parametrize("decision", [True, False])
@pytest.mark.parametrize("written", [0, 1])
def test_a_decision_counts_only_once_it_is_on_record(
    make_host: MakeHost, make_store: MakeStore, decision: bool, written: int
) -> None:
    store = make_store()
    conversation = paused(paying_host(make_host, store, approval="ask").open("agent", "fake"))
    with failing_writes(store, after=written):
        with pytest.raises(NotRecorded) if decision or not written else nullcontext():
            conversation.resume({"1": decision})
        assert paid == []
    if written:  # who resumes it elsewhere is not asked again
        other = paying_host(make_host, make_store(), approval="ask").conversation(conversation.id)
        assert other.status == "pending"
        other.resume()
    else:
        assert conversation.status == "paused"
        assert conversation.current_pause is not None
        assert conversation.current_pause.kind == "approval"
        conversation.resume({"1": decision})
    assert paid == ["paid"] * decision
    reopened = paying_host(make_host, make_store()).conversation(conversation.id)
    assert reopened.status == "idle"
    assert reopened.history[-1].text == ("paid" if decision else "not paid")


@pytest.mark.parametrize("first", [True, False])
def test_decisions_can_be_changed(make_host: MakeHost, make_store: MakeStore, first: bool) -> None:
    store = make_store()
    conversation = paused(paying_host(make_host, store, approval="ask").open("agent", "fake"))
    with failing_writes(store), pytest.raises(NotRecorded):
        conversation.resume({"1": first})
    conversation.resume({"1": not first})
    assert paid == ["paid"] * (not first)
    results = [
        each.result
        for each in store.entries(conversation.id, CODEC)
        if isinstance(each, StepEnded) and each.result in ({"1": True}, {"1": False})
    ]
    assert results == [{"1": not first}]


def test_not_if_they_are_on_record_after_all(make_host: MakeHost, make_store: MakeStore) -> None:
    """The commit was reported as failed, as where the connection to the server is lost."""
    store = make_store()
    conversation = paused(paying_host(make_host, store, approval="ask").open("agent", "fake"))
    with failing_writes(store, written=True), pytest.raises(NotRecorded):
        conversation.resume({"1": False})
    with pytest.raises(Conflict):
        conversation.resume({"1": True})
    assert paid == []
    other = paying_host(make_host, make_store(), approval="ask").conversation(conversation.id)
    assert other.resume().text == "not paid"
    assert paid == []


class TestFunctions:
    """Those of features: they run twice only where the feature says so."""

    @staticmethod
    def conversation(make_host: MakeHost, store: Store, step: Any) -> Conversation:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Now()
            try:
                result = yield from step
            except GenaiError as error:
                result = f"handled {error}"
            return Answer(str(result))

        feature = Feature("mine", NoSettings, respond, roles={})
        return make_host(store=store, mine=InlinePlugin(features=[feature])).open("mine")

    @pytest.mark.parametrize("within", [False, True])
    def test_a_feature_does_not_get_to_handle_that(
        self, make_host: MakeHost, make_store: MakeStore, within: bool
    ) -> None:
        store = make_store()
        step: Any = CallFunction(pay)
        step = AllSettled([step, Now()]) if within else step
        conversation = self.conversation(make_host, store, step)
        with failing_writes(store, after=1):
            with pytest.raises(NotRecorded, match="call_function"):
                conversation.say("hi")
            assert paid == []
        assert "paid" in conversation.resume().text
        assert paid == ["paid"]

    def test_an_idempotent_one_runs(self, make_host: MakeHost, make_store: MakeStore) -> None:
        store = make_store()
        conversation = self.conversation(make_host, store, CallFunction(pay, idempotent=True))
        with failing_writes(store):
            assert conversation.say("hi").text == "paid"


class TestLater:
    def test_what_could_not_be_written_is_written_with_the_end_of_the_turn(
        self, make_host: MakeHost, make_store: MakeStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = make_store()
        conversation = make_host(store=store).open("chat", "mock")
        with failing_writes(store):
            conversation.say("one")
        conversation.say("two")
        assert conversation.record_error is None
        assert len([each for each in caplog.records if "unrecorded" in each.message]) == 1
        entries = store.entries(conversation.id, CODEC)
        assert [each.path for each in entries if isinstance(each, StepEnded)] == [(0,), (0,)]
        again = make_host(store=make_store()).conversation(conversation.id)
        assert [each.text for each in again.history[::2]] == ["one", "two"]

    def test_it_can_be_taken_back(self, make_host: MakeHost, make_store: MakeStore) -> None:
        store = make_store()
        conversation = paying_host(make_host, store).open("agent", "fake")
        with failing_writes(store), pytest.raises(NotRecorded):
            conversation.say("pay")
        conversation.undo()
        assert conversation.status == "idle"
        assert paid == []
        other = paying_host(make_host, make_store()).conversation(conversation.id)
        assert (other.status, other.history) == ("idle", ())

    def test_concurrent_continuation_wins(self, make_host: MakeHost, make_store: MakeStore) -> None:
        store = make_store()
        conversation = paying_host(make_host, store).open("agent", "fake")
        with failing_writes(store, after=1), pytest.raises(NotRecorded):
            conversation.say("pay")
        other = paying_host(make_host, make_store()).conversation(conversation.id)
        assert other.resume().text == "paid"
        with pytest.raises(Conflict):
            conversation.resume()
        assert paid == ["paid"]


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
    with failing_writes(store, number, written=written, interrupts=True):
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


def test_an_interrupt_before_the_first_write(make_host: MakeHost, make_store: MakeStore) -> None:
    store = make_store()
    conversation = make_host(store=store).open("chat", "mock")
    with failing_writes(store, interrupts=True), pytest.raises(KeyboardInterrupt):
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
    with failing_writes(store, written=True, interrupts=True), pytest.raises(KeyboardInterrupt):
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
def test_an_interrupted_list_leaves_no_lock(make_store: MakeStore, statement: str) -> None:
    """Also while the error is kept, as interactive Python keeps the last one."""
    store, other = make_store(), make_store(patience=0.0)
    id = begin(store).id
    statements: list[str] = []

    def interrupt(*args: Any) -> None:
        if args[2].startswith(statement) and statement not in statements:
            statements.append(statement)
            raise KeyboardInterrupt

    event.listen(store._database.engine, "after_cursor_execute", interrupt)
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            store.conversations()
        other.rename(id, "a name")
        assert caught.value is not None
    finally:
        gc.enable()
    assert [each.title for each in store.conversations()] == ["a name"]

"""Where a store cannot be written: what may not run twice does not begin, and what was decided is
not used, unless that is on record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import genai_feature_agent
import pytest

from genai_host import Host, Message
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
from genai_host.conversations.record import StepEnded, StepStarted
from genai_host.errors import Conflict, GenaiError, NotRecorded, TurnPaused
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, MakeStore


@contextmanager
def failing_writes(store: Store, after: int = 0) -> Iterator[None]:
    """Only so many entries can be written, as when the disk is full or another program holds the
    lock."""
    writer: Any = store._writer
    insert = writer._insert
    left = iter(range(after))

    def fail(cursor: Any, additions: Any) -> None:
        if next(left, None) is None:
            raise store._database.driver.OperationalError("database is locked")
        insert(cursor, additions)

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
    make_host: MakeHost, store: Store, run: Callable[[], str] = pay, **given: Any
) -> Host:
    """Its model wants a bill to be paid by a tool."""

    def answer(heard: Any) -> str | Completion:
        if heard.messages[-1].role == "tool":
            return "paid" if "paid" in str(heard.messages[-1].content) else "not paid"
        return Completion(Message("assistant", [ToolCall("1", "pay", {})]), "tool_calls")

    tool = Tool("pay", "pays", lambda arguments, _: run(), {"type": "object"}, **given)
    tools = InlinePlugin(tools=[tool])
    return make_host(store=store, fake=FakeModel(answer), tools=tools, agent=genai_feature_agent)


@pytest.mark.parametrize("written", range(3))
def test_a_tool_begins_only_once_that_is_on_record(
    make_host: MakeHost, make_store: MakeStore, written: int
) -> None:
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


def test_another_process_resumes_a_turn_whose_tool_did_not_begin(
    make_host: MakeHost, make_store: MakeStore
) -> None:
    store = make_store()
    conversation = paying_host(make_host, store).open("agent", "fake")
    with failing_writes(store, after=1), pytest.raises(NotRecorded):
        conversation.say("pay")
    store.close()
    other = paying_host(make_host, make_store()).conversation(conversation.id)
    assert other.status == "pending"
    assert other.resume().text == "paid"
    assert paid == ["paid"]


def test_a_tool_that_began_on_record_does_not_run_again(
    make_host: MakeHost, make_store: MakeStore
) -> None:
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


def test_a_tool_that_may_run_twice_runs_unrecorded(
    make_host: MakeHost, make_store: MakeStore
) -> None:
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
    conversation = paying_host(make_host, store, approval="ask").open("agent", "fake")
    with pytest.raises(TurnPaused):
        conversation.say("pay")
    with failing_writes(store, after=written):
        with pytest.raises(NotRecorded) if decision or not written else nothing():
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
def test_a_decision_that_was_not_recorded_can_be_changed(
    make_host: MakeHost, make_store: MakeStore, first: bool
) -> None:
    store = make_store()
    conversation = paying_host(make_host, store, approval="ask").open("agent", "fake")
    with pytest.raises(TurnPaused):
        conversation.say("pay")
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


def test_a_decision_that_is_on_record_after_all_cannot_be_changed(
    make_host: MakeHost, make_store: MakeStore
) -> None:
    """The commit was reported as failed, as where the connection to the server is lost."""
    store = make_store()
    conversation = paying_host(make_host, store, approval="ask").open("agent", "fake")
    with pytest.raises(TurnPaused):
        conversation.say("pay")
    writer: Any = store._writer
    insert = writer._insert

    def write_and_fail(cursor: Any, additions: Any) -> None:
        insert(cursor, additions)
        raise store._database.driver.OperationalError("the connection is lost")

    writer._insert = write_and_fail
    with pytest.raises(NotRecorded):
        conversation.resume({"1": False})
    del writer._insert
    with pytest.raises(Conflict):
        conversation.resume({"1": True})
    assert paid == []
    other = paying_host(make_host, make_store(), approval="ask").conversation(conversation.id)
    assert other.resume().text == "not paid"
    assert paid == []


@contextmanager
def nothing() -> Iterator[None]:
    yield


def feature_of(steps: Callable[[], FeatureSteps]) -> InlinePlugin:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        return (yield from steps())

    return InlinePlugin(features=[Feature("mine", NoSettings, respond, roles={})])


class TestFunctions:
    """Those of features: they run twice only where the feature says so."""

    @staticmethod
    def steps_of(step: Any) -> Callable[[], FeatureSteps]:
        def steps() -> FeatureSteps:
            yield from Now()
            try:
                said = yield from step
            except GenaiError as error:
                said = f"handled {error}"
            return Answer(str(said))

        return steps

    @pytest.mark.parametrize("within", [False, True])
    def test_a_feature_does_not_get_to_handle_that(
        self, make_host: MakeHost, make_store: MakeStore, within: bool
    ) -> None:
        store = make_store()
        step: Any = CallFunction(pay)
        steps = self.steps_of(AllSettled([step, Now()]) if within else step)
        conversation = make_host(store=store, mine=feature_of(steps)).open("mine")
        with failing_writes(store, after=1):
            with pytest.raises(NotRecorded, match="call_function"):
                conversation.say("hi")
            assert paid == []
        assert "paid" in conversation.resume().text
        assert paid == ["paid"]

    def test_one_that_may_run_twice_keeps_nobody_from_an_answer(
        self, make_host: MakeHost, make_store: MakeStore
    ) -> None:
        store = make_store()
        steps = self.steps_of(CallFunction(pay, idempotent=True))
        conversation = make_host(store=store, mine=feature_of(steps)).open("mine")
        with failing_writes(store):
            assert conversation.say("hi").text == "paid"


class TestLater:
    def test_what_could_not_be_written_is_written_with_the_end_of_the_turn(
        self, make_host: MakeHost, make_store: MakeStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = make_store()
        host = make_host(store=store)
        conversation = host.open("chat", "mock")
        with failing_writes(store):
            conversation.say("one")
        conversation.say("two")
        assert conversation.record_error is None
        assert len([each for each in caplog.records if "unrecorded" in each.message]) == 1
        entries = store.entries(conversation.id, CODEC)
        ends = [each.path for each in entries if isinstance(each, StepEnded)]
        assert ends == [(0,), (0,)]
        again = make_host(store=make_store()).conversation(conversation.id)
        assert [each.text for each in again.history[::2]] == ["one", "two"]

    def test_a_turn_that_could_not_be_recorded_can_be_taken_back(
        self, make_host: MakeHost, make_store: MakeStore
    ) -> None:
        store = make_store()
        conversation = paying_host(make_host, store).open("agent", "fake")
        with failing_writes(store), pytest.raises(NotRecorded):
            conversation.say("pay")
        conversation.undo()
        assert conversation.status == "idle"
        assert paid == []
        other = paying_host(make_host, make_store()).conversation(conversation.id)
        assert (other.status, other.history) == ("idle", ())

    def test_another_process_that_went_on_meanwhile_wins(
        self, make_host: MakeHost, make_store: MakeStore
    ) -> None:
        store = make_store()
        conversation = paying_host(make_host, store).open("agent", "fake")
        with failing_writes(store, after=1), pytest.raises(NotRecorded):
            conversation.say("pay")
        other = paying_host(make_host, make_store()).conversation(conversation.id)
        assert other.resume().text == "paid"
        with pytest.raises(Conflict):
            conversation.resume()
        assert paid == ["paid"]

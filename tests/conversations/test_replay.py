"""Conversations made again from their records, after every entry."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from conversing import host_of, mock_of, paused, recorded, reopened, says, scripted, texts

from genai_host import Conversation, Host, InMemoryRecord, Message
from genai_host.api import (
    All,
    AllSettled,
    Answer,
    CallFunction,
    FeatureSteps,
    NewId,
    NoSettings,
    Now,
    Pause,
    Progress,
    Prompt,
    Step,
    Turn,
)
from genai_host.conversations.record import Entry, StepEnded, StepStarted, TurnEnded, TurnStarted
from genai_host.errors import (
    Cancelled,
    ConversationBusy,
    GenaiError,
    RateLimited,
    ReplayError,
    StepChanged,
    StepInterrupted,
    TurnPaused,
    ValidationError,
)
from genai_host_testing import ManualClock, replay_from_every_entry
from genai_host_testing.internal.fixtures import MakeHost


def add(a: int, b: int) -> int:
    return a + b


def fail() -> None:
    raise ValueError("always")


def everything(turn: Turn[NoSettings]) -> FeatureSteps:
    """A turn that does all there is to do."""
    now = yield from Now()
    yield from Progress("begun")
    id = yield from NewId()
    completion = yield from Prompt([*turn.history, turn.message])
    sums = yield from All([CallFunction(add, {"a": n, "b": n}, idempotent=True) for n in range(3)])
    settled = yield from AllSettled(
        [says("x"), CallFunction(fail, idempotent=True), All([says("y"), says("z")])]
    )
    approved = yield from Pause("approval", {"id": id})
    try:
        yield from CallFunction(fail, idempotent=True)
    except GenaiError as error:
        failure = str(error)
    last = yield from says(f"{now} {id} {failure}")
    data = {
        "sums": list(sums),
        "settled": [type(outcome).__name__ for outcome in settled],
        "approved": approved,
    }
    return Answer(f"{completion.text} {last.text}", data=data, state=(turn.state or 0) + 1)


def answered(conversation: Conversation, message: str) -> Answer:
    try:
        return conversation.say(message)
    except TurnPaused:
        return conversation.resume("yes")


def test_the_answer_is_the_same_again(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda length: "0" * length)
    host = host_of(make_host, everything, clock=ManualClock())
    conversation = host.open("f", "mock")
    for message in ("one", "two"):
        answered(conversation, message)
    assert replay_from_every_entry(host, recorded(conversation), give=lambda kind: "yes") > 40


def test_an_id_on_record_stays_the_same(make_host: MakeHost) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        id = yield from NewId()
        yield from Now()
        return Answer(id)

    host = host_of(make_host, respond, roles={})
    conversation = host.open("f")
    expected = conversation.say("x").text
    entries = recorded(conversation).entries
    for kept, is_same in ((4, True), (2, False)):
        answer = host.reopen(InMemoryRecord(entries[:kept])).resume()
        assert (answer.text == expected) == is_same


class TestGoingOn:
    def cut(self, conversation: Conversation, last: type[Entry], step: str) -> InMemoryRecord:
        """The record up to the first such entry of such a step."""
        kept: list[Entry] = []
        for entry in recorded(conversation).entries:
            kept.append(entry)
            if isinstance(entry, last) and getattr(entry, "step", step) == step:
                return InMemoryRecord(kept)
        raise AssertionError("there is no such entry")

    def test_what_is_on_record_is_not_done_again(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            first = yield from says("a")
            second = yield from says("b")
            return Answer(f"{first.text} {second.text}")

        host = host_of(make_host, respond)
        conversation = scripted(host, "1", "2", "again", feature="f")
        conversation.say("x")
        again = host.reopen(self.cut(conversation, StepEnded, "prompt"))
        assert again.status == "pending"
        assert again.resume().text == "1 again"
        assert mock_of(host).script.index == 3

    def test_a_prompt_that_was_under_way_is_made_again(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            return Answer((yield from says("a")).text)

        host = host_of(make_host, respond)
        conversation = host.open("f", "mock")
        conversation.say("x")
        again = host.reopen(self.cut(conversation, StepStarted, "prompt"))
        kinds = [event.kind for event in again.resume_stream()]
        assert kinds == ["reset", "delta", "step", "answer"]
        assert len(again.history) == 2

    def test_a_function_that_was_under_way_is_not_called_twice(self, make_host: MakeHost) -> None:
        calls: list[int] = []

        def pay(amount: int) -> int:
            calls.append(amount)
            return amount

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                paid = yield from CallFunction(pay, {"amount": 5})
            except StepInterrupted:
                return Answer("unknown whether it was paid")
            return Answer(f"paid {paid}")

        host = host_of(make_host, respond, roles={})
        conversation = host.open("f")
        assert conversation.say("x").text == "paid 5"
        record = self.cut(conversation, StepStarted, "call_function")
        assert host.reopen(record).resume().text == "unknown whether it was paid"
        assert calls == [5]
        kept = [each for each in record.entries if isinstance(each, StepEnded)]
        assert [type(each.error) for each in kept] == [StepInterrupted]

    def test_a_cancel_amid_replay_ends_the_step_once(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from AllSettled([Now(), NewId()])
            yield from Now()
            return Answer("done")

        host = host_of(make_host, respond, roles={})
        conversation = host.open("f")
        conversation.say("x")
        entries = recorded(conversation).entries
        [ended] = [
            number
            for number, each in enumerate(entries)
            if isinstance(each, StepEnded) and each.path == (0,)
        ]
        record = InMemoryRecord(entries[: ended + 1])
        resumed = host.reopen(record)

        def cancel(step: Step[Any]) -> bool:
            resumed.cancel()
            return True

        with pytest.MonkeyPatch.context() as patch:
            # asked for each step, also for one on record
            patch.setattr(Now, "is_idempotent", cancel)
            with pytest.raises(Cancelled):
                resumed.resume()
        ends = [each.path for each in record.entries if isinstance(each, StepEnded)]
        assert len(ends) == len(set(ends))

    def test_of_two_ends_of_a_step_the_first_counts(self, make_host: MakeHost) -> None:
        """As an earlier version wrote them where a resumed turn was cancelled."""

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from All([Now(), NewId()])
            yield from CallFunction(add, {"a": 1, "b": 2}, idempotent=True)
            return Answer("done")

        host = host_of(make_host, respond, roles={})
        conversation = host.open("f")
        conversation.say("x")
        record = self.cut(conversation, StepStarted, "call_function")
        record.append(StepEnded(0, (0,), error=Cancelled("cancelled")))
        assert host.reopen(record).resume().text == "done"

    def test_a_failure_is_thrown_in_again_as_it_was(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from says("a")
            except RateLimited as error:
                yield from Now()
                return Answer(f"{error} {error.provider} {error.status}")
            raise AssertionError

        host = host_of(make_host, respond)
        conversation = scripted(host, {"status": 429}, feature="f")
        expected = conversation.say("x").text
        assert reopened(host, self.cut(conversation, StepStarted, "now")).resume().text == expected

    def test_an_approval_may_come_in_another_process(self, make_host: MakeHost) -> None:
        host = host_of(make_host, everything)
        conversation = paused(host.open("f", "mock"))
        elsewhere = reopened(host, recorded(conversation))
        assert elsewhere.status == "paused"
        assert elsewhere.current_pause == conversation.current_pause
        with pytest.raises(ConversationBusy):
            elsewhere.say("y")
        assert elsewhere.resume("yes").data["approved"] == "yes"
        assert [len(each.history) for each in (elsewhere, conversation)] == [2, 0]

    def test_what_nobody_waits_for_is_refused_there_too(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Now()
            return Answer(str((yield from Pause("approval", returns=bool))))

        host = host_of(make_host, respond, roles={})
        entries = recorded(paused(host.open("f"))).entries
        elsewhere = host.reopen(InMemoryRecord(entries))
        with pytest.raises(ValidationError, match="expected a boolean"):
            elsewhere.resume("garbage")
        assert elsewhere.status == "paused"
        assert elsewhere.resume(True).text == "True"
        pending = host.reopen(InMemoryRecord(entries[:4]))
        assert pending.status == "pending"
        with pytest.raises(ValidationError, match="does not wait for a result"):
            pending.resume(True)
        with pytest.raises(TurnPaused):
            pending.resume()
        assert pending.resume(False).text == "False"

    def test_each_wait_takes_one_resume(self, make_host: MakeHost) -> None:
        values: list[str] = []

        def give(kind: str) -> str:
            values.append(kind)
            return "yes"

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            first = yield from Pause("one")
            second = yield from Pause("two")
            return Answer(f"{first} {second}")

        host = host_of(make_host, respond, roles={})
        conversation = paused(host.open("f"))
        with pytest.raises(TurnPaused):
            conversation.resume("yes")
        conversation.resume("yes")
        assert replay_from_every_entry(host, recorded(conversation), give=give) == 5
        assert values == ["one", "two", "one", "two", "two", "two"]
        with pytest.raises(TurnPaused):
            replay_from_every_entry(host, recorded(conversation))

    def test_turns_after_a_reopening_go_on_as_usual(self, host: Host) -> None:
        conversation = host.open("chat", "mock")
        conversation.say("one")
        conversation.say("two")
        again = reopened(host, recorded(conversation))
        assert again.history == conversation.history
        assert again.undo() == Message("user", "two")
        assert again.say("three").text == "three"
        assert texts(again) == ["one", "one", "three", "three"]


class TestChangedFeatures:
    def reopened(
        self, make_host: MakeHost, before: Any, after: Any, has_result: bool = True, **fields: Any
    ) -> Conversation:
        """A turn that was interrupted after its step, of a feature that takes another one now."""
        steps = iter([before, after])

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            return Answer((yield from next(steps)))

        conversation = host_of(make_host, respond, roles={}).open("f")
        conversation.say("x")
        left_out = TurnEnded if has_result else (TurnEnded, StepEnded)
        kept = [each for each in recorded(conversation).entries if not isinstance(each, left_out)]
        host = host_of(make_host, respond, roles={}, **fields)
        return host.reopen(InMemoryRecord(kept))

    @pytest.mark.parametrize("has_result", [True, False])
    @pytest.mark.parametrize(("before", "after", "message"), [
        (Now(), NewId(), "step 0 was now and is now new_id"),
        (NewId(), NewId("x-"), "another new_id"),
    ], ids=["kind", "argument"])  # fmt: skip
    def test_another_step_at_a_point_on_record_stops_it(
        self, make_host: MakeHost, before: Any, after: Any, message: str, has_result: bool
    ) -> None:
        with pytest.raises(StepChanged, match=message):
            self.reopened(make_host, before, after, has_result).resume()

    def test_another_version_of_the_feature_is_refused(self, make_host: MakeHost) -> None:
        conversation = self.reopened(make_host, Now(), Now(), version="2")
        with pytest.raises(ReplayError, match="began with version 1 of f, this is version 2"):
            conversation.resume()
        assert conversation.undo() == Message("user", "x")
        assert conversation.say("x").text

    def test_a_changed_message_is_another_prompt(self, host: Host) -> None:
        conversation = host.open("chat", "mock")
        conversation.say("one")
        entries = list(recorded(conversation).entries[:-1])
        started = entries[1]
        assert isinstance(started, TurnStarted)
        entries[1] = evolve(started, message=Message("user", "other"))
        with pytest.raises(StepChanged, match="another prompt"):
            host.reopen(InMemoryRecord(entries)).resume()

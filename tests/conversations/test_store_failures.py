"""Conversations that are kept in a store: reopened, overtaken, and where the store fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conversing import host_of, mock_of, scripted, texts

from genai_host import Conversation, Host, Message, RetryPolicy
from genai_host.api import Answer, FeatureSteps, NoSettings, Now, Turn
from genai_host.conversations.record import (
    Entry,
    InMemoryRecord,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from genai_host.conversations.recorder import FailsafeRecorder
from genai_host.errors import (
    Cancelled,
    ConfigurationError,
    Conflict,
    GenaiError,
    IncompleteReply,
    NotFound,
    NotRecorded,
    RateLimited,
    StepChanged,
    StoreError,
)
from genai_host.store import Store
from genai_host.store.store import StoredRecord
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part  # stores


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "conversations.db") as store:
        yield store


@pytest.fixture
def keeping(make_host: MakeHost, kept: Store) -> Host:
    """A host that keeps its conversations."""
    return make_host(store=kept)


class Failing(InMemoryRecord):
    """A record that fails at the entries of a kind."""

    def __init__(self, kind: type[Any], error: GenaiError) -> None:
        super().__init__()
        self._kind = kind
        self._error = error

    def append(self, entry: Entry) -> None:
        if isinstance(entry, self._kind):
            raise self._error
        super().append(entry)


def test_a_conversation_is_reopened(keeping: Host, kept: Store, make_host: MakeHost) -> None:
    conversation = keeping.open("chat", "mock", parameters={"temperature": 0})
    conversation.say("one")
    conversation.say("two")
    assert [each.id for each in keeping.conversations()] == [conversation.id]
    with pytest.raises(NotFound):
        keeping.conversation("0123")
    with Store(kept.location) as store:
        again = make_host(store=store).conversation(conversation.id[:-2])
        assert (again.history, again.models) == (conversation.history, conversation.models)
        again.say("three")
        assert texts(again)[::2] == ["one", "two", "three"]


def test_a_turn_that_has_not_ended_is_gone_on_with(keeping: Host, kept: Store) -> None:
    conversation = keeping.open("chat", "mock")
    record, _ = kept.record(conversation.id, keeping.codec)
    record.append(TurnStarted(0, Message("user", "hi"), conversation.feature.version, 0))
    record.append(StepStarted(0, (0,), "now", "another"))
    again = keeping.conversation(conversation.id)
    assert again.status == "pending"
    with pytest.raises(StepChanged):
        again.resume()
    again.undo()
    assert again.say("there").text == "there"


def test_a_host_without_a_store_says_so(host: Host) -> None:
    for act in (host.conversations, lambda: host.conversation("x")):
        with pytest.raises(ConfigurationError, match="the host has no store"):
            act()
    assert host.open("chat", "mock").id == ""


class TestConflict:
    def test_the_turn_of_the_loser_does_not_start(self, keeping: Host) -> None:
        winner = keeping.open("chat", "mock")
        winner.say("one")
        loser = keeping.conversation(winner.id)
        winner.say("two")
        calls = len(mock_of(keeping, "mock").requests)
        for _ in range(2):
            with pytest.raises(Conflict) as caught:
                loser.say("three")
            assert caught.value.hint == "reopen the conversation"
            assert len(loser.history) == 2
            assert loser.status == "idle"
        assert len(mock_of(keeping, "mock").requests) == calls
        again = keeping.conversation(winner.id)
        again.say("three")
        assert len(again.history) == 6

    @pytest.mark.parametrize("kind", [StepStarted, TurnEnded])
    def test_an_overtaken_turn_ends_and_does_not_ask(self, host: Host, kind: type[Any]) -> None:
        record = Failing(kind, Conflict("overtaken", hint="reopen the conversation"))
        conversation = host.open("chat", "mock", record=record)
        for _ in range(2):
            with pytest.raises(Conflict):
                conversation.say("hi")
        assert conversation.history == ()
        assert conversation.status == "idle"
        assert not any(isinstance(entry, TurnEnded) for entry in record.entries)

    def test_a_feature_that_handles_errors_is_not_asked_either(self, make_host: MakeHost) -> None:
        handled = []

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from Now()
            except GenaiError as error:
                handled.append(error)
            return Answer("it went on")

        record = Failing(StepStarted, Conflict("overtaken"))
        conversation = host_of(make_host, respond, roles={}).open("f", record=record)
        with pytest.raises(Conflict, match="overtaken"):
            conversation.say("hi")
        assert handled == []
        assert conversation.history == ()


class TestFailure:
    @pytest.mark.parametrize("kind", [TurnStarted, StepStarted, TurnEnded])
    def test_the_answer_still_reaches_the_user(
        self, host: Host, kind: type[Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        error = StoreError("disk full", file="/x")
        conversation = host.open("chat", "mock", record=Failing(kind, error))
        assert conversation.record_error is None
        with caplog.at_level(logging.WARNING):
            assert conversation.say("hi").text == "hi"
            assert conversation.say("there").text == "there"
        assert conversation.record_error == error
        assert len(conversation.history) == 4
        assert [each.message for each in caplog.records] == [
            "the conversation continues unrecorded: disk full"
        ]

    def test_steps_at_once_do_not_try_a_failing_store_one_after_the_other(self) -> None:
        """Each would wait until another program no longer holds the lock."""
        started = StepStarted(0, (0,), "call_tool", "x")
        ended: list[GenaiError] = []
        recorder = FailsafeRecorder(InMemoryRecord(), ended.append)

        class Lock:
            def __enter__(self) -> None:
                recorder.failed = StoreError("locked")  # as another thread found meanwhile

            def __exit__(self, *exc: object) -> None:
                pass

        recorder._lock = Lock()  # type: ignore[assignment]
        with pytest.raises(NotRecorded, match="locked"):
            recorder.append(started, required=True)
        assert [type(each) for each in ended] == [NotRecorded]

    def test_a_store_that_cannot_be_opened_keeps_nobody_from_an_answer(
        self, make_host: MakeHost, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "x.db"
        file.write_bytes(b"no database at all, but a letter to a friend" * 100)
        with Store(file) as store:
            host = make_host(store=store)
            conversation = host.open("chat", "mock")
            assert conversation.say("hi").text == "hi"
            assert conversation.record_error is not None
            assert conversation.record_error.file == str(file)
            assert "not changed" in conversation.record_error.hint
            with pytest.raises(StoreError, match="not a database"):
                host.conversations()
        assert len(caplog.records) == 1
        assert file.read_bytes().startswith(b"no database at all")
        assert sorted(each.name for each in tmp_path.iterdir()) == ["x.db"]


class TestTries:
    @pytest.fixture
    def patient(self, make_host: MakeHost, kept: Store) -> Host:
        patience = RetryPolicy(max_attempts=3, max_total_attempts=6, jitter=lambda _: 0.0)
        return make_host(store=kept, patience=patience)

    def test_every_try_is_on_record(self, patient: Host, kept: Store) -> None:
        conversation = scripted(patient, {"status": 503}, {"status": 500}, "fine")
        conversation.say("hi")
        ended = last_step(conversation)
        failures = [("unavailable", 503), ("unavailable", 500)]
        assert [(each.code, each.status) for each in ended.tries] == failures
        attempts = kept.attempts(conversation.id)
        assert [(each.code, each.http_status) for each in attempts] == [*failures, (None, None)]
        assert [
            (each.number, each.turn, each.path, each.model, each.provider) for each in attempts
        ] == [(number, 0, "0", "mock", "script") for number in range(3)]
        assert attempts[2].output_tokens == ended.result["usage"]["output_tokens"]
        assert attempts[0].started <= attempts[1].started <= attempts[2].started

    def test_the_tries_of_a_failed_step_are_too(self, patient: Host, kept: Store) -> None:
        conversation = scripted(patient, *[{"status": 429}] * 3)
        with pytest.raises(RateLimited):
            conversation.say("hi")
        assert [each.http_status for each in kept.attempts(conversation.id)] == [429] * 3
        assert kept.summary(conversation.id).status == "failed"


class TestPartialText:
    @pytest.mark.parametrize("end", ["cancel", "leave"])
    def test_what_was_shown_stays_on_record(self, keeping: Host, end: str) -> None:
        conversation = keeping.open("chat", "mock")
        stream = conversation.stream("one two three four five six")
        shown = next(stream).text
        if end == "leave":
            stream.close()
        else:
            conversation.cancel()
            with pytest.raises(Cancelled):
                for event in stream:
                    shown += event.text
        ended = last_step(conversation)
        assert ended.text == shown != ""
        assert isinstance(ended.error, Cancelled)

    def test_what_an_error_has_is_not_repeated(self, keeping: Host) -> None:
        conversation = scripted(keeping, {"text": "one two three", "fault": "cut", "pieces": 2})
        with pytest.raises(IncompleteReply):
            list(conversation.stream("hi"))
        ended = last_step(conversation)
        assert isinstance(ended.error, IncompleteReply)
        assert (ended.error.text, ended.text) == ("one two", "")


def last_step(conversation: Conversation) -> StepEnded:
    assert isinstance(conversation.record, StoredRecord)
    [ended] = [each for each in conversation.record.entries if isinstance(each, StepEnded)]
    return ended


class TestBegin:
    """Turns that are put on record, and taken later."""

    def test_it_is_taken_by_who_resumes_it(self, keeping: Host, kept: Store) -> None:
        with keeping.open("chat", "mock") as conversation:
            conversation.say("one")
            assert conversation.begin("two") == 1
            assert conversation.status == "pending"
        assert kept.summary(conversation.id).status == "running"
        with keeping.conversation(conversation.id) as later:
            assert (later.status, later.last_message) == ("pending", Message("user", "two"))
            assert later.resume().text == "two"
            assert texts(later) == ["one", "one", "two", "two"]
            later.begin("three")  # the same conversation takes it too
            assert later.resume().text == "three"

    def test_no_store_is_needed(self, make_host: MakeHost) -> None:
        with make_host().open("chat", "mock") as conversation:
            conversation.begin("hi")
            assert conversation.resume().text == "hi"

    def test_it_can_be_dropped_for_a_reason(self, keeping: Host, kept: Store) -> None:
        reason = StoreError("it cannot be done")
        with keeping.open("chat", "mock") as conversation:
            conversation.begin("hi")
            conversation.abandon(reason)
            assert kept.entries(conversation.id, keeping.codec)[-1] == TurnEnded(0, error=reason)
            assert conversation.say("more").text == "more"

    def test_of_two_that_begin_one_is_in_conflict(self, keeping: Host) -> None:
        with keeping.open("chat", "mock") as one:
            with keeping.conversation(one.id) as other:
                one.begin("first")
                with pytest.raises(Conflict):
                    other.begin("second")
            with keeping.conversation(one.id) as later:
                assert later.resume().text == "first"

    @pytest.mark.parametrize("is_unrecorded", [False, True])
    def test_what_cannot_be_put_on_record_is_told(
        self, keeping: Host, monkeypatch: pytest.MonkeyPatch, is_unrecorded: bool
    ) -> None:
        def fail(*args: Any, **more: Any) -> None:
            raise StoreError("the disk is full")

        with keeping.open("chat", "mock") as conversation:
            monkeypatch.setattr(StoredRecord, "_add", fail)
            if is_unrecorded:
                conversation.say("hi")
            with pytest.raises(StoreError, match="disk is full"):
                conversation.begin("more")

"""Saying the last message again, or another in its place, without losing what was said."""

from __future__ import annotations

import pytest
from conversing import answering, host_of, mock_of, paused, recorded, reopened, scripted, texts

from genai_host import Conversation, Host, Image, InMemoryRecord, Message
from genai_host.api import Answer, FeatureSteps, NoSettings, Pause, Prompt, Turn
from genai_host.conversations.record import Entry, StepStarted, TurnEnded, TurnStarted
from genai_host.errors import (
    Cancelled,
    ConversationBusy,
    GenaiError,
    RateLimited,
    TurnPaused,
    ValidationError,
)
from genai_host_testing import replay_from_every_entry
from genai_host_testing.internal.fixtures import MakeHost

LIMITED = {"status": 429}


def sent(host: Host) -> list[str]:
    """What the model was sent last, but for the system prompt."""
    messages = mock_of(host).requests[-1]["messages"]
    return [each["content"][0]["text"] for each in messages if each["role"] != "system"]


@pytest.fixture
def said(host: Host) -> Conversation:
    """`one` and `two` were said and answered; further replies follow."""
    conversation = scripted(host, "a", "b", LIMITED, LIMITED, "c", "d", "e f g")
    conversation.say("one")
    conversation.say("two")
    return conversation


def test_the_new_answer_takes_the_place_of_the_last(host: Host, said: Conversation) -> None:
    for _ in range(2):
        with pytest.raises(RateLimited):
            said.say(regenerate=True)
        assert texts(said) == ["one", "a", "two", "b"]
        assert texts(reopened(host, recorded(said))) == ["one", "a", "two", "b"]
    assert said.say(regenerate=True).text == "c"
    assert texts(said) == ["one", "a", "two", "c"]
    assert sent(host) == ["one", "a", "two"]
    events = list(said.stream("deux", regenerate=True))
    assert events[-1].answer is not None
    assert texts(said) == ["one", "a", "deux", "d"]
    assert said.last_message == Message("user", "deux")
    stream = said.stream(regenerate=True)
    next(stream)
    stream.close()  # what is abandoned takes no place
    assert texts(said) == ["one", "a", "deux", "d"]


@pytest.mark.parametrize(
    ("then", "again", "history"),
    [("two", False, ["one", "a", "two", "b"]), (None, True, ["un", "b"])],
)
def test_after_a_failed_replacement_another_turn_or_the_same_follows(
    host: Host, then: str | None, again: bool, history: list[str]
) -> None:
    conversation = scripted(host, "a", LIMITED, "b")
    conversation.say("one")
    with pytest.raises(RateLimited):
        conversation.say("un", regenerate=True)
    assert conversation.last_message == Message("user", "un")
    conversation.say(then, regenerate=again)
    assert texts(conversation) == history


def test_a_failed_turn_can_be_said_again_and_takes_nothing_back(host: Host) -> None:
    conversation = scripted(host, "a", LIMITED, LIMITED, "b")
    conversation.say("one")
    for again in (False, True):
        with pytest.raises(RateLimited):
            conversation.say(None if again else "two", regenerate=again)
        assert conversation.last_message == Message("user", "two")
    elsewhere = reopened(host, recorded(conversation))
    assert elsewhere.last_message == Message("user", "two")
    elsewhere.say(regenerate=True)
    assert texts(elsewhere) == ["one", "a", "two", "b"]


@pytest.mark.parametrize("keep_history", [True, False])
def test_it_is_said_as_it_was_with_all_its_parts(host: Host, keep_history: bool) -> None:
    conversation = scripted(host, *"abc", settings={"keep_history": keep_history})
    message = Message("user", ["what is this?", Image(b"\x89PNG", "image/png")])
    conversation.say(message)
    for again in (conversation, reopened(host, recorded(conversation))):
        assert again.last_message == message
        again.say(regenerate=True)
        assert again.last_message == message
        assert len(again.history) == (2 if keep_history else 0)
        first, *_, second = mock_of(host).requests
        assert first["messages"] == second["messages"]


def test_its_context_is_the_same_unless_another_is_given(make_host: MakeHost) -> None:
    respond = answering(lambda turn: Answer(str(turn.context.get("page"))))
    conversation = host_of(make_host, respond, roles={}).open("f")
    conversation.say("x", context={"page": 7})
    assert conversation.say(regenerate=True).text == "7"
    assert conversation.say(regenerate=True, context={"page": 8}).text == "8"
    assert conversation.say("y", regenerate=True).text == "None"


def test_the_feature_sees_what_was_there_before_the_last_turn(make_host: MakeHost) -> None:
    def count(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from ()
        number = (turn.state or 0) + 1
        if turn.message.text == "fail":
            raise GenaiError("failed")
        return Answer(f"{number} after {len(turn.history)}", state=number)

    conversation = host_of(make_host, count, roles={}).open("f")
    conversation.say("a")
    assert conversation.say("b").text == "2 after 2"
    assert conversation.say(regenerate=True).text == "2 after 2"
    with pytest.raises(GenaiError, match="failed"):
        conversation.say("fail", regenerate=True)
    assert conversation.say("c").text == "3 after 4"


def test_nothing_can_be_said_again_before_anything_was_said(host: Host) -> None:
    conversation = scripted(host, history=[Message("user", "q"), Message("assistant", "a")])
    assert conversation.last_message is None
    for message in (None, "x"):
        with pytest.raises(ValidationError, match="no turn to send again"):
            conversation.say(message, regenerate=True)
    with pytest.raises(ValidationError, match="no message"):
        conversation.say()
    assert len(recorded(conversation).entries) == 1


def test_what_was_taken_back_is_not_said_again(host: Host, said: Conversation) -> None:
    with pytest.raises(RateLimited):
        said.say("three")
    assert said.undo() == Message("user", "two")
    for each in (said, reopened(host, recorded(said))):
        assert each.last_message == Message("user", "one")
    said.reset()
    assert said.last_message is None


def test_a_replacement_is_taken_back_as_one_turn(host: Host) -> None:
    conversation = scripted(host, *"abc")
    conversation.say("one")
    conversation.say("two")
    conversation.say("deux", regenerate=True)
    for each in (conversation, reopened(host, recorded(conversation))):
        assert each.undo() == Message("user", "deux")
        assert texts(each) == ["one", "a"]
        assert each.undo() == Message("user", "one")
        assert each.undo() is None


class TestReplaying:
    def converse(self, host: Host) -> Conversation:
        conversation = scripted(host, *"abc", LIMITED, "d")
        conversation.say("one")
        conversation.say("two")
        conversation.say(regenerate=True)
        with pytest.raises(RateLimited):
            conversation.say("trois", regenerate=True)
        conversation.say("drei", regenerate=True)
        return conversation

    def test_a_reopened_conversation_has_the_same_history(self, host: Host) -> None:
        conversation = self.converse(host)
        assert texts(conversation) == ["one", "a", "drei", "d"]
        elsewhere = reopened(host, recorded(conversation))
        assert elsewhere.history == conversation.history
        assert elsewhere.last_message == conversation.last_message
        started = [each for each in recorded(conversation).entries if isinstance(each, TurnStarted)]
        assert [each.history for each in started] == [0, 2, 2, 2, 2]
        assert [each.again for each in started] == [False, False, True, True, True]

    def test_it_can_be_replayed_from_any_point(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            first = yield from Prompt([*turn.history, turn.message])
            second = yield from Prompt([*turn.history, turn.message, first.message])
            return Answer(f"{first.text} {second.text} {turn.state}", state=(turn.state or 0) + 1)

        host = host_of(make_host, respond)
        conversation = host.open("f", "mock")
        conversation.say("one")
        conversation.say("two")
        conversation.say(regenerate=True)
        conversation.say("three", regenerate=True)
        assert replay_from_every_entry(host, recorded(conversation)) >= 12

    def cut(self, host: Host, conversation: Conversation) -> InMemoryRecord:
        """Up to where the last turn has begun its first step."""
        entries = list[Entry](recorded(conversation).entries)
        while not isinstance(entries[-1], StepStarted):
            entries.pop()
        return InMemoryRecord(entries)

    def test_a_replacement_that_was_interrupted_can_be_gone_on_with(self, host: Host) -> None:
        conversation = self.converse(host)
        elsewhere = reopened(host, self.cut(host, conversation))
        assert elsewhere.status == "pending"
        assert texts(elsewhere) == ["one", "a", "two", "c"]
        mock_of(host).script.index = 4
        elsewhere.resume()
        assert elsewhere.history == conversation.history
        assert sent(host) == ["one", "a", "drei"]

    def test_a_replacement_that_was_interrupted_can_be_dropped(self, host: Host) -> None:
        elsewhere = reopened(host, self.cut(host, self.converse(host)))
        assert elsewhere.undo() == Message("user", "drei")
        for each in (elsewhere, reopened(host, recorded(elsewhere))):
            assert texts(each) == ["one", "a", "two", "c"]
            assert each.last_message == Message("user", "two")


def approving(turn: Turn[NoSettings]) -> FeatureSteps:
    approved = yield from Pause("approval")
    return Answer(f"{turn.message.text} {approved} {len(turn.history)}")


def test_a_replacement_may_wait(make_host: MakeHost) -> None:
    host = host_of(make_host, approving, roles={})
    conversation = paused(host.open("f"), "one")
    conversation.resume(1)
    with pytest.raises(TurnPaused):
        conversation.say("two", regenerate=True)
    with pytest.raises(ConversationBusy):
        conversation.say(regenerate=True)
    assert texts(conversation) == ["one", "one 1 0"]
    elsewhere = reopened(host, recorded(conversation))
    assert elsewhere.resume(2).text == "two 2 0"
    assert texts(elsewhere) == ["two", "two 2 0"]
    assert conversation.undo() == Message("user", "two")
    assert texts(conversation) == ["one", "one 1 0"]
    dropped = [each for each in recorded(conversation).entries if isinstance(each, TurnEnded)]
    assert dropped[-1].error == Cancelled("dropped")


def test_a_turn_that_has_not_ended_can_be_dropped_and_said_again(make_host: MakeHost) -> None:
    host = host_of(make_host, approving, roles={})
    conversation = host.open("f")
    conversation.abandon()
    for words, again in (("one", False), ("two", True)):
        with pytest.raises(TurnPaused):
            conversation.say(words, regenerate=again)
        assert conversation.last_message == Message("user", words)
        elsewhere = reopened(host, recorded(conversation))
        elsewhere.abandon()
        assert elsewhere.status == "idle"
        with pytest.raises(TurnPaused):
            elsewhere.say(regenerate=True)
        assert elsewhere.resume(7).text == f"{words} 7 0"
        assert texts(elsewhere) == [words, f"{words} 7 0"]
        conversation.resume(1)

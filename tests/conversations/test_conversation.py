"""Turns, history, what can be changed between turns, and what a failure leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

import pytest
from attrs import field, frozen
from conversing import answering, host_of, mock_of, recorded, reopened, scripted, texts

from genai_host import Detail, Host, Image, Message, Text
from genai_host.api import Answer, FeatureSteps, Pause, Prompt, Turn, Usage, about
from genai_host.conversations.replay import replay
from genai_host.errors import (
    ConfigurationError,
    ConversationBusy,
    ConversationClosed,
    GenaiError,
    IncompleteReply,
    InvalidParameter,
    NoRoute,
    OutputValidationError,
    PluginError,
    ReplayError,
    TurnPaused,
    ValidationError,
)
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.suites.base import in_background

_FAULTS: dict[str, dict[str, Any]] = {
    "refused": {"fault": "refused"}, "cut": {"text": "one two three", "fault": "cut", "pieces": 2},
    "garbage": {"fault": "garbage"}, "crash": {"fault": "crash"}, "limited": {"status": 429},
    "filtered": {"text": "no", "fault": "filtered"},
}  # fmt: skip


def requests(host: Host) -> list[Any]:
    """What the model was sent."""
    return list(mock_of(host).requests)


class TestHistory:
    @pytest.mark.parametrize("fault", _FAULTS.values(), ids=_FAULTS)
    def test_a_failed_turn_leaves_it_as_it_was(self, host: Host, fault: dict[str, Any]) -> None:
        conversation = scripted(host, "first", fault, "third")
        conversation.say("one")
        before = conversation.history
        assert before == (Message("user", "one"), Message("assistant", "first"))
        with pytest.raises(GenaiError):
            conversation.say("two")
        assert conversation.history == before
        conversation.say("three")
        assert texts(conversation) == ["one", "first", "three", "third"]
        assert "two" not in str(requests(host)[-1])

    def test_what_had_come_of_a_cut_answer_is_in_the_error(self, host: Host) -> None:
        with pytest.raises(IncompleteReply) as caught:
            list(scripted(host, _FAULTS["cut"]).stream("hi"))
        assert caught.value.text == "one two"

    def test_an_abandoned_turn_leaves_it_as_it_was(self, host: Host) -> None:
        conversation = scripted(host, "a b c", "d")
        stream = conversation.stream("hi")
        assert next(stream).text == "a"
        stream.close()
        assert conversation.history == ()
        assert conversation.say("again").text == "d"

    def test_it_may_begin_with_messages(self, host: Host) -> None:
        history = [Message("user", "I am Ada"), Message("assistant", "Hello Ada")]
        conversation = scripted(host, "Ada", history=history)
        conversation.say("Who am I?")
        assert len(conversation.history) == 4
        assert "I am Ada" in str(requests(host)[0])

    def test_it_can_be_forgotten(self, host: Host) -> None:
        conversation = scripted(host, "a", "b")
        conversation.say("one")
        conversation.reset()
        assert conversation.undo() is None
        assert conversation.history == ()
        conversation.say("two")
        assert "one" not in str(requests(host)[-1])

    def test_turns_can_be_taken_back_one_by_one(self, host: Host) -> None:
        conversation = scripted(host, *"abc")
        for text in ("one", "two", "three"):
            conversation.say(text)
        taken = [conversation.undo(), conversation.undo()]
        assert texts(conversation) == ["one", "a"]
        taken += [conversation.undo(), conversation.undo()]
        assert taken == [*(Message("user", each) for each in ("three", "two", "one")), None]

    def test_turns_that_added_nothing_are_taken_back_alike(self, host: Host) -> None:
        conversation = scripted(host, *"abcdef", settings={"keep_history": False})
        for text in ("one", "two", "three"):
            conversation.say(text)
        assert conversation.undo() == Message("user", "three")
        conversation.configure(keep_history=True)
        conversation.say("four")
        assert conversation.undo() == Message("user", "four")
        for each in (reopened(host, recorded(conversation)), conversation):
            assert each.history == ()
            assert each.undo() == Message("user", "two")
            assert each.undo() == Message("user", "one")
            assert each.undo() is None

    def test_a_feature_decides_what_enters_it(self, make_host: MakeHost) -> None:
        """Also from a generator."""

        def respond(turn: Turn[None]) -> FeatureSteps:
            yield from Prompt([turn.message])
            return Answer("shown", new_messages=(Message("user", each) for each in "ab"))

        conversation = host_of(make_host, respond).open("f", "mock")
        assert conversation.say("hi").text == "shown"
        assert conversation.history == (Message("user", "a"), Message("user", "b"))
        assert replay(recorded(conversation).entries).history == conversation.history

    def test_a_feature_has_a_state_of_its_own(self, make_host: MakeHost) -> None:
        def count(turn: Turn[None]) -> FeatureSteps:
            yield from ()
            number = (turn.state or 0) + 1
            if turn.message.text == "fail":
                raise GenaiError("failed")
            return Answer(str(number), state=number)

        conversation = host_of(make_host, count, roles={}).open("f", state=10)
        assert conversation.say("a").text == "11"
        with pytest.raises(GenaiError):
            conversation.say("fail")
        assert conversation.say("b").text == "12"
        conversation.undo()
        assert conversation.say("c").text == "12"


class Untold:
    """Has no JSON form."""


class TestBadAnswers:
    """What a feature answers is looked at before anything of it is kept."""

    @pytest.mark.parametrize(("answer", "why"), [
        (lambda: Answer(123), "Answer: summary must be a string, not 123"),  # type: ignore[arg-type]
        (lambda: Answer(None), "Answer: summary must be a string, not None"),  # type: ignore[arg-type]
        (lambda: Answer("", new_messages=["hi"]), "Answer: new_messages must be messages"),  # type: ignore[list-item]
        (lambda: Answer("", new_messages="hi"), "Answer: new_messages must be messages"),  # type: ignore[arg-type]
        (lambda: Answer("", new_messages=Message("user", "x")), "not iterable"),  # type: ignore[arg-type]
        (lambda: Answer("", details=[{}]), "Answer: details must be details"),  # type: ignore[list-item]
        (lambda: Answer("", details=[Detail("a", 1)]), "Detail: title must be a string"),  # type: ignore[arg-type]
        (lambda: Answer("", details=[Detail("a", "b", [1])]), "Detail: data must be a mapping"),  # type: ignore[arg-type]
        (lambda: Answer("", state=Untold()), "Untold has no JSON form"),
        (lambda: Answer("", state={"deep": [Untold()]}), "Untold has no JSON form"),
        (lambda: Answer("", state=float("nan")), "NaN"),
        (lambda: Answer("", data=Untold()), "Untold has no JSON form"),
        (lambda: Answer("", details=[Detail("a", "b", {"c": Untold()})]), "no JSON form"),
    ])  # fmt: skip
    def test_they_are_a_bug_of_the_feature_and_leave_all_as_it_was(
        self, make_host: MakeHost, answer: Callable[[], Answer], why: str
    ) -> None:
        def respond(turn: Turn[None]) -> FeatureSteps:
            yield from ()
            return answer() if turn.message.text == "bad" else Answer("fine", state=1)

        host = host_of(make_host, respond, roles={})
        conversation = host.open("f")
        conversation.say("good")
        before = conversation.history
        with pytest.raises(PluginError, match="the feature f ") as caught:
            conversation.say("bad")
        assert why in str(caught.value)
        assert (conversation.history, conversation.status) == (before, "idle")
        assert reopened(host, recorded(conversation)).say("good").text == "fine"

    def test_a_state_is_the_same_live_and_reopened(self, make_host: MakeHost) -> None:
        respond = answering(lambda turn: Answer(repr(turn.state), state={1: ("a", Text("b"))}))
        host = host_of(make_host, respond, roles={})
        conversation = host.open("f")
        conversation.say("x")
        expected = "{'1': ['a', {'type': 'text', 'text': 'b'}]}"
        for each in (reopened(host, recorded(conversation)), conversation):
            assert each.say("y").text == expected


class TestSaying:
    def test_a_context_without_a_json_form_is_refused(self, host: Host) -> None:
        conversation = scripted(host, "a")
        with pytest.raises(ValidationError, match="the context"):
            conversation.say("x", context={"page": Untold()})
        assert conversation.status == "idle"
        assert conversation.last_message is None

    def test_parts_and_messages_can_be_said(self, host: Host) -> None:
        conversation = scripted(host, *"abc")
        image = Image(b"\x89PNG", "image/png")
        conversation.say(["what is this?", image])
        conversation.say(Text("and"))
        conversation.say(Message("user", "that"))
        assert conversation.history[0] == Message("user", [Text("what is this?"), image])
        assert conversation.history[4] == Message("user", "that")

    def test_the_answer_has_usage_and_details(self, host: Host) -> None:
        used = {"input_tokens": 7, "output_tokens": 3}
        answer = scripted(host, {"text": "hello", "usage": used}).say("hi")
        assert (answer.usage, answer.usage.total) == (Usage(7, 3), 10)
        [detail] = answer.details
        assert detail.kind == "prompt"
        assert detail.data["usage"] == used
        assert (detail.data["model"], detail.data["provider"]) == ("mock", "script")
        assert detail.data["seconds"] >= 0
        assert detail.data["added"][-1]["content"][0]["text"] == "hi"

    def test_details_grow_with_what_is_said_and_not_with_its_square(self, host: Host) -> None:
        conversation = scripted(host, *["same"] * 30)
        sizes = [len(str(conversation.say("same").details)) for _ in range(30)]
        assert max(sizes[1:]) - min(sizes[1:]) < 20

    def test_events_come_as_the_answer_is_written(self, host: Host) -> None:
        events = list(scripted(host, "one two three").stream("hi"))
        assert [event.text for event in events if event.text] == ["one", " two", " three"]
        assert [event.kind for event in events[-2:]] == ["step", "answer"]
        assert events[-1].answer is not None
        assert events[-1].answer.text == "one two three"


@frozen
class City:
    name: str
    country: str = "?"


@dataclass
class Town:
    name: str


class TestReturns:
    @pytest.mark.parametrize(("form", "expected"), [
        (City, City("Oslo", "Norway")),
        ({"type": "object", "required": ["name"]}, {"name": "Oslo", "country": "Norway"}),
        (dict[str, str], {"name": "Oslo", "country": "Norway"}),
    ])  # fmt: skip
    def test_data_is_of_the_class(self, host: Host, form: Any, expected: object) -> None:
        conversation = scripted(host, '{"name": "Oslo", "country": "Norway"}')
        assert conversation.say("a city", output_type=form).data == expected
        assert requests(host)[0]["schema"]["type"] == "object"
        assert len(conversation.history) == 2

    @pytest.mark.parametrize(
        "reply", ["Oslo", '{"name": 3}', "{}", '{"name": "Oslo", "extra": 1}', "[]", ""]
    )
    def test_what_does_not_fit_leaves_the_history(self, host: Host, reply: str) -> None:
        conversation = scripted(host, reply)
        with pytest.raises(OutputValidationError) as caught:
            conversation.say("a town", output_type=Town if "extra" not in reply else City)
        assert caught.value.detail == reply
        assert conversation.history == ()

    def test_a_feature_that_gives_no_data_is_an_error(self, make_host: MakeHost) -> None:
        host = host_of(make_host, answering(lambda turn: Answer("only text")), roles={})
        with pytest.raises(OutputValidationError, match="the answer of f does not match"):
            host.open("f").say("hi", output_type=City)

    @pytest.mark.parametrize(("of_conversation", "of_turn", "expected"), [
        (City, None, City("Oslo", "Norway")),
        (None, City, {"name": "Oslo", "country": "Norway"}),
        (Town, City, {"name": "Oslo", "country": "Norway"}),
    ])  # fmt: skip
    def test_a_resumed_turn_has_the_class_of_its_conversation_if_the_schema_is_the_same(
        self, make_host: MakeHost, of_conversation: Any, of_turn: Any, expected: object
    ) -> None:
        def respond(turn: Turn[None]) -> FeatureSteps:
            country = yield from Pause("country")
            return Answer("found", data={"name": "Oslo", "country": country})

        conversation = host_of(make_host, respond, roles={}).open("f", output_type=of_conversation)
        with pytest.raises(TurnPaused):
            conversation.say("hi", output_type=of_turn)
        assert conversation.resume("Norway").data == expected

    def test_a_class_without_a_schema_is_refused_before_the_call(self, host: Host) -> None:
        conversation = scripted(host, "x")
        with pytest.raises(GenaiError, match="no JSON Schema"):
            conversation.say("hi", output_type=object)
        assert not requests(host)
        assert conversation.status == "idle"


@frozen
class Tone:
    tone: str = field(default="plain", metadata=about("how it sounds"))


class TestChanging:
    def test_another_model_goes_on_with_the_same_history(self, host: Host) -> None:
        conversation = scripted(host, "first")
        conversation.say("one")
        host.instances.add("other", "mock", {"replies": ["second"]})
        conversation.use("mock@other")
        assert conversation.models["main"] == "mock@other"
        assert conversation.say("two").text == "second"
        assert len(conversation.history) == 4

    def test_a_change_that_is_wrong_changes_nothing(self, host: Host) -> None:
        conversation = scripted(host, "a")
        before = (conversation.models, conversation.status)
        with pytest.raises(NoRoute):
            conversation.use("nonexistent")
        with pytest.raises(InvalidParameter):
            conversation.use(temperature="hot")
        with pytest.raises(ConfigurationError):
            conversation.configure(sytem_prompt="x")
        assert (conversation.models, conversation.status) == before
        assert conversation.say("x").text == "a"

    def test_parameters_and_settings_can_be_changed_which_is_on_record(self, host: Host) -> None:
        conversation = scripted(host, *"abc", parameters={"temperature": 0.5, "top_p": 0.1})
        conversation.say("x")
        conversation.use(temperature=1, top_p=None)
        conversation.configure(system_prompt="Be brief.")
        conversation.say("y")
        host.reopen(recorded(conversation)).say("y")
        assert [
            (each["parameters"], each["messages"][0]["content"][0]["text"])
            for each in requests(host)
        ] == [
            ({"temperature": 0.5, "top_p": 0.1}, "You are a helpful assistant."),
            *[({"temperature": 1}, "Be brief.")] * 2,
        ]

    @pytest.mark.parametrize(("settings", "hint"), [
        ({"tonne": "x"}, "did you mean tone?"), ({"tone": 3}, "how it sounds"),
    ])  # fmt: skip
    def test_wrong_settings(self, make_host: MakeHost, settings: dict[str, Any], hint: str) -> None:
        host = host_of(make_host, answering(lambda turn: Answer("")), settings=Tone, roles={})
        with pytest.raises(ConfigurationError, match="feature f") as caught:
            host.open("f", settings=settings)
        assert hint in caught.value.hint


class TestOneAtATime:
    def test_a_turn_under_way_keeps_others_out(self, host: Host) -> None:
        conversation = scripted(host, "a b", "c")
        stream = conversation.stream("one")
        next(stream)
        assert conversation.status == "running"
        for attempt in (
            lambda: conversation.say("two"),
            conversation.undo,
            conversation.reset,
            conversation.resume,
            lambda: conversation.use(temperature=1),
            lambda: conversation.configure(system_prompt=""),
        ):
            with pytest.raises(ConversationBusy):
                attempt()
        list(stream)
        assert conversation.say("two").text == "c"

    def test_there_is_nothing_to_resume(self, host: Host) -> None:
        with pytest.raises(ReplayError, match="no turn to resume"):
            scripted(host).resume()

    def test_a_closed_conversation_takes_no_turns(self, host: Host) -> None:
        with scripted(host, "a") as conversation:
            conversation.say("x")
        assert conversation.status == "closed"
        conversation.close()
        assert conversation.status == "closed"
        for attempt in (lambda: conversation.say("x"), conversation.reset, conversation.undo):
            with pytest.raises(ConversationClosed):
                attempt()

    def test_closing_ends_the_turn_under_way(self, host: Host) -> None:
        conversation = scripted(host, {"fault": "hang"})
        saying = in_background(conversation.say, "x")
        while not saying.done():
            conversation.close()
            wait([saying], 0.05)
        assert isinstance(saying.exception(), GenaiError)

"""What a run says and asks for, without a server: the feature `assistant`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import genai_feature_assistants
import pytest

from genai_host import Config, Conversation
from genai_host.api import Message
from genai_host.errors import ContextOverflow, TurnPaused, UnexpectedFinish
from genai_host_testing import FakeModel, RecordedPrompt, replay_from_every_entry
from genai_host_testing.internal.assistants_api import calls, outputs_in, says
from genai_host_testing.internal.fixtures import MakeHost

TOOL = {"name": "look", "description": "", "parameters": {"type": "object"}}
Open = Callable[..., tuple[Conversation, FakeModel]]


@pytest.fixture
def open_with(make_host: MakeHost) -> Open:
    def opened(answer: Any, **given: Any) -> tuple[Conversation, FakeModel]:
        fake = FakeModel(answer)
        host = make_host(
            fake=fake, assistants=genai_feature_assistants, config=Config(models={"chat": "fake"})
        )
        return host.open("assistant", "fake", **given), fake

    return opened


def looks(heard: RecordedPrompt) -> Any:
    given = outputs_in(heard)
    return says(f"it is {given[0]}") if given else calls(("c1", "look", {"at": "é"}), text="Hm.")


def test_it_waits_for_tools_and_goes_on_with_their_outputs(open_with: Open) -> None:
    conversation, _ = open_with(looks)
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    waiting = conversation.current_pause
    assert waiting is not None
    assert waiting.kind == "tools"
    assert waiting.payload == {
        "round": 0,
        "text": "Hm.",
        "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
        "calls": [{"id": "c1", "name": "look", "arguments": '{"at":"é"}'}],
    }
    answer = conversation.resume({"c1": "blue"})
    assert answer.text == "it is blue"
    assert answer.state["round"] == 1
    assert conversation.state == answer.state


def test_it_is_the_same_on_replay(make_host: MakeHost) -> None:
    host = make_host(
        fake=FakeModel(looks),
        assistants=genai_feature_assistants,
        config=Config(models={"chat": "fake"}),
    )
    conversation = host.open("assistant", "fake")
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    conversation.resume({"c1": "blue"})
    assert conversation.record is not None
    assert replay_from_every_entry(host, conversation.record, give=lambda kind: {"c1": "blue"}) > 3  # type: ignore[arg-type]


def test_what_is_too_much_for_the_model_is_left_out_from_the_oldest_on(open_with: Open) -> None:
    history = [Message("system", "Be brief."), *(Message("user", f"{n}") for n in range(7))]
    conversation, fake = open_with(lambda heard: says("ok"), history=history)
    fake.faults = {0: ContextOverflow("too long"), 1: ContextOverflow("too long")}
    assert conversation.say("last").text == "ok"
    [heard] = fake.prompts
    assert [message.text for message in heard.messages] == ["Be brief.", "6", "last"]


def test_of_what_tools_gave_half_is_left_out_where_it_is_too_much(open_with: Open) -> None:
    conversation, fake = open_with(looks, history=[Message("user", "a")])
    fake.faults = {1: ContextOverflow("too long"), 2: ContextOverflow("too long")}
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    answer = conversation.resume({"c1": "blue" * 1000})
    assert answer.text == f"it is {'blue' * 500} [...]"
    assert [message.text for message in fake.prompts[-1].messages[:1]] == ["look"]


def test_what_cannot_be_made_less_is_too_much(open_with: Open) -> None:
    conversation, fake = open_with(looks)
    fake.faults = {1: ContextOverflow("too long")}
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    with pytest.raises(ContextOverflow):
        conversation.resume({"c1": "blue"})


def test_a_run_that_must_see_all_fails_where_it_is_too_much(open_with: Open) -> None:
    conversation, fake = open_with(looks, history=[Message("user", "a")])
    fake.faults = {0: ContextOverflow("too long")}
    with pytest.raises(ContextOverflow):
        conversation.say("last", context={"drops": False})


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({"most_completion": 10}, "max_completion_tokens"),
        ({"most_prompt": 20}, "max_prompt_tokens"),
    ],
)
def test_no_tool_is_called_once_a_bound_is_reached(
    open_with: Open, bounds: Any, reason: str
) -> None:
    conversation, _ = open_with(looks)
    answer = conversation.say("look", context={"tools": [TOOL], **bounds})
    assert (answer.text, answer.state["incomplete"]) == ("Hm.", reason)


def test_one_call_at_a_time_where_that_is_wanted(open_with: Open) -> None:
    conversation, _ = open_with(
        lambda heard: calls(("c1", "look", {"n": 1}), ("c2", "look", {"n": 2}))
    )
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL], "parallel": False})
    assert conversation.current_pause is not None
    assert [call["id"] for call in conversation.current_pause.payload["calls"]] == ["c1"]


def test_an_answer_that_was_filtered_is_an_error(open_with: Open) -> None:
    conversation, _ = open_with(lambda heard: says("", finish="content_filter"))
    with pytest.raises(UnexpectedFinish, match="content_filter"):
        conversation.say("hi")

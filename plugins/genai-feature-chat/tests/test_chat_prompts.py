"""What the chat sends, what it makes of an answer, and what it tells of both."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from genai_feature_chat import Settings
from genai_vendor_mock import MockProvider, ScriptedReply

from genai_host import Host, Message, Usage
from genai_host.api import FinishReason, ToolCall
from genai_host.errors import ConfigurationError, UnexpectedFinish
from genai_host_testing.internal.fixtures import MakeHost

MODELS = ["mock", "whole"]
"""Streamed, and in one piece."""


def sent(host: Host) -> list[list[tuple[str, str]]]:
    """For each request, who said what in it."""
    provider = host.instances["mock"].provider
    assert isinstance(provider, MockProvider)
    return [[_said(each) for each in request["messages"]] for request in provider.requests]


def _said(message: dict[str, Any]) -> tuple[str, str]:
    return message["role"], "".join(part.get("text", "") for part in message["content"])


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({}, [("system", Settings().system_prompt)]),
        ({"system_prompt": "Be brief."}, [("system", "Be brief.")]),
        ({"system_prompt": ""}, []),
    ],
)
def test_the_system_prompt_comes_before_all_else_and_is_no_part_of_the_history(
    host: Host, settings: Any, first: list[tuple[str, str]]
) -> None:
    assert Settings().system_prompt
    conversation = host.open("chat", "mock", settings=settings)
    conversation.say("one")
    conversation.say("two")
    said = [("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two")]
    assert sent(host) == [[*first, *said[:1]], [*first, *said[:3]]]
    assert [(message.role, message.text) for message in conversation.history] == said


def test_a_changed_system_prompt_holds_from_the_next_turn_on(host: Host) -> None:
    conversation = host.open("chat", "mock", settings={"system_prompt": "Be brief."})
    conversation.say("one")
    conversation.configure(system_prompt="Be polite.")
    conversation.say("two")
    conversation.configure(system_prompt="")
    conversation.say("three")
    first, second, third = sent(host)
    assert first[0] == ("system", "Be brief.")
    assert second[0] == ("system", "Be polite.")
    assert [each for each in second + third if each == ("system", "Be brief.")] == []
    assert [role for role, _ in third] == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"system_prompt": 3}, "feature chat: system_prompt: expected a string, not an integer"),
        ({"system_promt": "x"}, "feature chat: unknown setting 'system_promt'"),
        ({"history_turns": -1}, "feature chat: "),
        ({"history_turns": "2"}, "feature chat: history_turns: "),
        ({"keep_history": "no"}, "feature chat: keep_history: expected a boolean, not a string"),
    ],
)
def test_wrong_settings_change_nothing(host: Host, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        host.open("chat", "mock", settings=settings)
    assert caught.value.message.startswith(message)
    conversation = host.open("chat", "mock", settings={"system_prompt": "Be brief."})
    with pytest.raises(ConfigurationError):
        conversation.configure(**settings)
    conversation.say("hi")
    assert sent(host) == [[("system", "Be brief."), ("user", "hi")]]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ScriptedReply("half an answ", fault="filtered"), "content_filter"),
        (ScriptedReply("half an answ", tool_calls=[ToolCall("1", "search", {})]), "tool_calls"),
        (ScriptedReply("", tool_calls=[ToolCall("1", "search", {})]), "tool_calls"),
    ],
)
def test_an_unexpected_finish_is_an_error_that_says_why(
    scripted: MakeHost, model: str, reply: ScriptedReply, reason: str
) -> None:
    conversation = scripted("fine", reply, "fine again").open("chat", model)
    conversation.say("one")
    before = conversation.history
    with pytest.raises(UnexpectedFinish) as caught:
        conversation.say("two")
    assert caught.value == UnexpectedFinish(
        f"the model stopped because of {reason}",
        reason=reason,
        detail=reply.text,
        provider="mock",
        model=model,
    )
    assert conversation.history == before
    assert conversation.status == "idle"
    assert conversation.say("three").text == "fine again"


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        *(("stop", True), ("length", True)),
        *(("content_filter", False), ("tool_calls", False), ("other", False)),
    ],
)
def test_every_finish_but_two_is_unexpected(
    scripted: MakeHost, finish: FinishReason, expected: bool
) -> None:
    conversation = scripted(ScriptedReply("half an answ", finish=finish)).open("chat", "mock")
    with nullcontext() if expected else pytest.raises(UnexpectedFinish):
        assert conversation.say("hi").text == "half an answ"
    said = (Message("user", "hi"), Message("assistant", "half an answ"))
    assert conversation.history == (said if expected else ())


def test_the_details_tell_of_the_prompt(scripted: MakeHost) -> None:
    host = scripted("first", ScriptedReply("second", usage=Usage(7, 5)))
    conversation = host.open("chat", "mock", settings={"system_prompt": "Be brief."})
    conversation.say("one")
    answer = conversation.say("two")
    (detail,) = answer.details
    assert (detail.kind, detail.title) == ("prompt", "prompt of main to mock@mock")
    data = dict(detail.data)
    assert data.pop("seconds") >= 0
    assert data == {
        "role": "main",
        "messages": 4,
        "added": [  # the history is told already
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "text", "text": "two"}]},
        ],
        "model": "mock",
        "provider": "mock",
        "dialect": "plain",
        "answer": {"role": "assistant", "content": [{"type": "text", "text": "second"}]},
        "finish": "stop",
        "usage": {"input_tokens": 7, "output_tokens": 5},
    }
    assert answer.usage == Usage(7, 5)
    assert answer.data is None


def test_the_events_are_the_pieces_the_detail_and_the_answer(scripted: MakeHost) -> None:
    events = list(scripted("one two").open("chat", "mock").stream("hi"))
    assert [event.kind for event in events] == ["delta", "delta", "step", "answer"]
    answer = events[-1].answer
    assert answer is not None
    assert answer.details == (events[-2].data,)
    assert "".join(event.text for event in events) == answer.text == "one two"


def test_a_message_of_several_parts_is_sent_as_it_is(host: Host) -> None:
    conversation = host.open("chat", "mock", settings={"system_prompt": ""})
    conversation.say(["one ", "two"])
    provider = host.instances["mock"].provider
    assert isinstance(provider, MockProvider)
    (request,) = provider.requests
    texts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert request["messages"] == [{"role": "user", "content": texts}]


def test_parameters_of_the_conversation_are_those_of_the_prompt(host: Host) -> None:
    conversation = host.open("chat", "mock", parameters={"temperature": 0.5})
    conversation.say("hi")
    conversation.use(temperature=None, seed=3)
    conversation.say("hi")
    provider = host.instances["mock"].provider
    assert isinstance(provider, MockProvider)
    assert [each["parameters"] for each in provider.requests] == [{"temperature": 0.5}, {"seed": 3}]

"""Counts of tokens: as a step of a feature, from Python, and what they are asked with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from genai_wire_anthropic.dialect.messages import AnthropicCount
from genai_wire_openai.dialect.responses import OpenAICount

from genai_host import Host, InMemoryRecord, Message
from genai_host.api import (
    Answer,
    ChatCall,
    CountTokens,
    Feature,
    FeatureSteps,
    NoSettings,
    Prompt,
    ProviderReply,
    TokenCount,
    ToolSchema,
    Turn,
)
from genai_host.dialects.plain import PlainCount
from genai_host.errors import ConversationClosed, GenaiError, InvalidParameter, MalformedReply
from genai_host_testing import FakeModel, InlinePlugin, replay_from_every_entry
from genai_host_testing.fake_service import HANG
from genai_host_testing.suites.base import in_background


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    """Leaves out what is too long."""
    messages = [*turn.history, turn.message]
    try:
        count = yield from CountTokens(Prompt(messages))
    except GenaiError as error:
        return Answer(f"nobody counts: {error.code}")
    if count.tokens > 3:
        messages = messages[-1:]
    completion = yield from Prompt(messages)
    return Answer(f"{completion.text} of {count.tokens}")


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel(lambda prompt: f"{len(prompt.messages)} heard")


@pytest.fixture
def host(make_host: Callable[..., Host], fake: FakeModel) -> Host:
    feature = Feature("counting", NoSettings, respond)
    return make_host(fake=fake, plugin=InlinePlugin(features=[feature]))


def test_a_feature_asks_for_it_and_it_is_replayed(host: Host) -> None:
    conversation = host.open("counting", "fake")
    first = conversation.say("one two")
    assert first.text == "1 heard of 2"
    assert conversation.say("three").text == "1 heard of 7"
    (detail, _) = first.details
    assert detail.title == "count of tokens by fake@fake"
    assert (detail.data["tokens"], detail.data["messages"]) == (2, 1)
    assert (first.cost.known, first.cost.dollars) == (1, 0)  # the answer has no price
    assert isinstance(conversation.record, InMemoryRecord)
    assert replay_from_every_entry(host, conversation.record) > 2


def test_a_failure_reaches_the_feature(host: Host, fake: FakeModel) -> None:
    fake.faults[0] = MalformedReply("nonsense")
    assert host.open("counting", "fake").say("hi").text == "nobody counts: malformed_reply"


def test_a_program_asks_for_it(host: Host, fake: FakeModel) -> None:
    count = host.count_tokens("one two three", model="fake")
    assert count.tokens == 3
    assert count.route is not None
    assert count.route.dialect == "plain-count"
    messages = [Message("system", "be brief"), Message("user", "one")]
    assert host.count_tokens(messages, model="fake", parameters={"temperature": 1}).tokens == 3
    assert not fake.prompts  # nobody answered


def test_parameters_are_checked_as_those_of_a_call_are(host: Host) -> None:
    with pytest.raises(InvalidParameter, match="temprature"):
        host.count_tokens("one", model="fake", parameters={"temprature": 1})


def test_it_ends_with_the_host(host: Host, fake: FakeModel) -> None:
    fake.faults[0] = HANG
    counting = in_background(lambda: host.count_tokens("one", model="fake"))
    assert fake.hanging.wait(30)
    host.close()
    assert isinstance(counting.exception(30), ConversationClosed)


CALL = ChatCall(
    model_id="m-1",
    messages=[Message("system", "be brief"), Message("user", "hi")],
    tools=[ToolSchema("look", "looks")],
    tool_choice="required",
    schema={"type": "object", "properties": {}, "additionalProperties": False},
    parameters={"reasoning_effort": "high"},
)


def body(dialect: Any) -> Any:
    return json.loads(dialect.prepare_request(CALL).data())


@pytest.mark.parametrize(
    ("dialect", "left_out"), [(AnthropicCount, "max_tokens"), (OpenAICount, "store")]
)
def test_services_are_asked_with_what_takes_tokens(dialect: Any, left_out: str) -> None:
    count_request, request = body(dialect()), body(dialect.of())
    assert request.keys() - count_request.keys() == {left_out}
    assert count_request == {name: request[name] for name in count_request}


@pytest.mark.parametrize("tokens", [None, -1, 1.5, "12", True, [1]])
def test_what_is_no_count_is_malformed(tokens: Any) -> None:
    reply = ProviderReply(json.dumps({"tokens": tokens}).encode())
    with pytest.raises(MalformedReply):
        PlainCount().extract_result(CALL, reply)
    good = ProviderReply(b'{"tokens": 0}')
    assert PlainCount().extract_result(CALL, good) == TokenCount(0)

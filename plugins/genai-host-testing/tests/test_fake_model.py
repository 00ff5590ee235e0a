"""A model that says what a function says."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from genai_host import Host, api
from genai_host.errors import Cancelled, RateLimited
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt
from genai_host_testing.fake_model import ASKING
from genai_host_testing.fake_service import HANG
from genai_host_testing.pytest_plugin import MakeHost


def respond(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
    tools = [api.ToolSchema("look", "looks")]
    completion = yield from api.Prompt([turn.message], tools=tools, parameters={"seed": 3})
    vectors = yield from api.Embed(["one", "two", "one"])
    verdict = yield from api.Moderate(turn.message.text)
    calls = [call.name for call in completion.tool_calls]
    first, second, third = vectors.vectors
    data = {"calls": calls, "same": first == third, "other": first != second}
    return api.Answer(completion.text, data={**data, "flagged": verdict.flagged})


ROLES: Any = {"main": "chat", "embed": "embed", "moderate": "moderate"}
ALL = api.Feature("all", api.NoSettings, respond, roles=ROLES)


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel()


@pytest.fixture
def host(make_host: MakeHost, fake: FakeModel) -> Host:
    return make_host(fake=fake, features=InlinePlugin(features=[ASKING, ALL]))


def test_it_repeats_what_it_hears_unless_told_otherwise(host: Host, fake: FakeModel) -> None:
    conversation = host.open("asking", "fake")
    assert conversation.say("hello you").text == "hello you"
    assert "".join(event.text for event in conversation.stream("hello again")) == "hello again"
    assert [prompt.number for prompt in fake.prompts] == [0, 1]
    assert [len(prompt.messages) for prompt in fake.prompts] == [1, 3]


def test_it_hears_all_of_a_prompt(host: Host, fake: FakeModel) -> None:
    def answer(prompt: RecordedPrompt) -> api.Completion:
        assert (prompt.text, prompt.tools, prompt.parameters) == ("hi", ("look",), {"seed": 3})
        return api.Completion(
            api.Message("assistant", ["so", api.ToolCall("1", "look")]), "tool_calls"
        )

    fake.answer = answer
    fake.flags = lambda text: text == "hi"
    models = {"embed": "fake-embed", "moderate": "fake-moderate"}
    answered = host.open("all", "fake", models=models).say("hi")
    data = {"calls": ["look"], "same": True, "other": True, "flagged": True}
    assert (answered.text, answered.data) == ("so", data)
    assert fake.calls == 3


def test_a_call_may_fail(host: Host, fake: FakeModel) -> None:
    fake.faults[1] = RateLimited("not now")
    conversation = host.open("asking", "fake")
    conversation.say("one")
    with pytest.raises(RateLimited, match="not now"):
        conversation.say("two")
    assert conversation.say("two").text == "two"


@pytest.mark.parametrize("by", ["fault", "answer"])
def test_a_call_may_hang_until_it_is_cancelled(host: Host, fake: FakeModel, by: str) -> None:
    if by == "fault":
        fake.faults[0] = HANG
    else:
        fake.answer = lambda prompt: HANG
    conversation = host.open("asking", "fake")

    def cancel() -> None:
        fake.hanging.wait(30)
        conversation.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled):
        conversation.say("hi")
    thread.join()

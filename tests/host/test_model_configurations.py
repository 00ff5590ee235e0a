"""Model configurations in `Host`: what is called with which parameters, and what is recorded."""

from __future__ import annotations

import pytest

from genai_host import Config, Host, InMemoryRecord
from genai_host.api import Answer, Feature, FeatureSteps, Message, NoSettings, Prompt, Turn
from genai_host.config import ModelConfig
from genai_host.errors import InvalidParameter
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

PRECISE = ModelConfig("fake", (), {"temperature": 0, "max_tokens": 9})


def _judged(turn: Turn[NoSettings]) -> FeatureSteps:
    completion = yield from Prompt([turn.message])
    yield from Prompt([completion.message], role="judge", parameters={"max_tokens": 1})
    return Answer(completion.text)


JUDGED = Feature("judged", NoSettings, _judged, roles={"main": "chat", "judge": "chat"})


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel()


@pytest.fixture
def host(make_host: MakeHost, fake: FakeModel) -> Host:
    return make_host(
        fake=fake,
        judged=InlinePlugin(features=[JUDGED]),
        config=Config(
            model_configs={"precise": PRECISE, "fake": ModelConfig("fake", (), {"seed": 7})}
        ),
    )


def test_item_3_its_parameters_hold_where_none_are_given(host: Host, fake: FakeModel) -> None:
    conversation = host.open("chat", "precise", parameters={"temperature": 1})
    answer = conversation.say("hi")
    # the name that it is of is a configuration as well
    parameters = {"temperature": 1, "max_tokens": 9, "seed": 7}
    assert fake.prompts[-1].parameters == parameters
    assert answer.details[0].data["configuration"] == "precise"
    assert answer.details[0].title == "prompt of main to precise, which is fake@fake"
    for _ in host.prompt(Prompt([Message("user", "hi")], parameters={"seed": 1}), model="precise"):
        pass
    assert fake.prompts[-1].parameters == {"temperature": 0, "max_tokens": 9, "seed": 1}
    conversation.use(model="fake@fake")
    conversation.say("hi")
    assert fake.prompts[-1].parameters == {"temperature": 1}


def test_item_3_each_role_has_its_own(host: Host, fake: FakeModel) -> None:
    host.open("judged", "fake@fake", models={"judge": "precise"}).say("hi")
    main, judge = (each.parameters for each in fake.prompts)
    assert (main, judge) == ({}, {"temperature": 0, "max_tokens": 1, "seed": 7})


def test_item_3_a_conversation_goes_on_as_it_began(host: Host, fake: FakeModel) -> None:
    """Whatever becomes of the configuration."""
    opened = host.open("chat", "precise")
    opened.say("hi")
    assert isinstance(opened.record, InMemoryRecord)
    record = InMemoryRecord.from_json(opened.record.to_json())
    host.reconfigure(Config(model_configs={"precise": ModelConfig("fake", (), {"seed": 1})}))
    host.reopen(record).say("hi")
    assert fake.prompts[-1].parameters == {"temperature": 0, "max_tokens": 9, "seed": 7}
    host.open("chat", "precise").say("hi")
    assert fake.prompts[-1].parameters == {"seed": 1}
    conversation = host.reopen(record)
    conversation.use(temperature=1)
    conversation.say("hi")
    assert fake.prompts[-1].parameters == {"temperature": 1, "max_tokens": 9, "seed": 7}


def test_one_with_parameters_that_are_not_taken_is_refused(host: Host) -> None:
    with pytest.raises(InvalidParameter, match="does not accept parameter 'sed'"):
        host.check_configuration("mine", ModelConfig("fake", (), {"sed": 1}))

"""JSON from the chat: by its model, or taken from the answer by the support model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_vendor_mock import ScriptedReply

from genai_host import Config, Conversation, Host, InMemoryRecord, Message, Usage, errors
from genai_host.api import schema_of
from genai_host_testing import replay_from_every_entry
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost, requests_of
from genai_host_testing.internal.samples import AttrsTrip, DataTrip, TypedTrip

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TRIP = {"city": "Oslo", "days": 3}
JSON = json.dumps(TRIP)


FORMS = [
    pytest.param(SCHEMA, TRIP, id="schema"),
    pytest.param(AttrsTrip, AttrsTrip("Oslo", 3), id="attrs"),
    pytest.param(DataTrip, DataTrip("Oslo", 3), id="dataclass"),
    pytest.param(TypedTrip, TypedTrip(city="Oslo", days=3), id="typed dict"),
]


@pytest.fixture
def two(make_host: MakeHost) -> MakeHost:
    """Makes hosts with a mock `main` and a mock `helper`: `two(replies, replies)`."""

    def make(main: list[Any], helper: list[Any]) -> Host:
        providers = {
            "main": provider_config("mock", replies=main),
            "helper": provider_config("mock", replies=helper),
        }
        return make_host(config=Config(providers=providers))

    return make


def supported(host: Host, **options: Any) -> Conversation:
    """Open a chat of `main`, from whose answers `helper` takes the JSON."""
    return host.open("chat", "mock@main", models={"support": "mock@helper"}, **options)


@pytest.mark.parametrize("model", ["mock", "whole"])
@pytest.mark.parametrize(("form", "expected"), FORMS)
def test_the_model_gives_a_value(scripted: MakeHost, model: str, form: Any, expected: Any) -> None:
    host = scripted(JSON)
    conversation = host.open("chat", model)
    answer = conversation.say("I spent three days in Oslo.", output_type=form)
    assert answer.data == expected
    assert type(answer.data) is type(expected)
    assert answer.text == JSON
    (request,) = requests_of(host, "mock")
    assert request["schema"] == schema_of(form)
    assert conversation.history[-1] == Message("assistant", JSON)


@pytest.mark.parametrize(("form", "expected"), FORMS)
def test_support_model_takes_it_from_the_answer(two: MakeHost, form: Any, expected: Any) -> None:
    conversation = supported(two(["Three days in Oslo, then."], [JSON]))
    answer = conversation.say("I spent three days in Oslo.", output_type=form)
    assert answer.data == expected
    assert type(answer.data) is type(expected)
    assert answer.text == "Three days in Oslo, then."
    assert conversation.history == (
        Message("user", "I spent three days in Oslo."),
        Message("assistant", "Three days in Oslo, then."),
    )


def test_the_support_model_sees_the_answer_and_nothing_else(two: MakeHost) -> None:
    host = two(["Three days in Oslo, then."], [JSON])
    settings = {"system_prompt": "The password is swordfish."}
    history = [Message("user", "old"), Message("assistant", "older")]
    conversation = supported(host, settings=settings, history=history)
    conversation.say("I spent three days in Oslo.", output_type=SCHEMA)
    (main,) = requests_of(host, "main")
    assert "schema" not in main
    expected = ["system", "user", "assistant", "user"]
    assert [message["role"] for message in main["messages"]] == expected
    (helper,) = requests_of(host, "helper")
    assert helper["schema"] == SCHEMA
    instruction, text = helper["messages"]
    assert instruction["role"] == "system"
    assert "swordfish" not in json.dumps(helper)
    assert "old" not in json.dumps(helper["messages"])
    assert text == host.codec.to_json(Message("user", "Three days in Oslo, then."))


def test_the_support_model_does_nothing_where_no_json_is_asked_for(two: MakeHost) -> None:
    host = two(["hello"], [])
    answer = supported(host).say("hi")
    assert (answer.text, answer.data) == ("hello", None)
    assert requests_of(host, "helper") == []


def test_parameters_of_the_conversation_are_not_those_of_the_support(two: MakeHost) -> None:
    host = two(["Three days in Oslo."], [JSON])
    supported(host, parameters={"temperature": 1.5}).say("hi", output_type=SCHEMA)
    assert requests_of(host, "main")[0]["parameters"] == {"temperature": 1.5}
    assert requests_of(host, "helper")[0]["parameters"] == {}


def test_both_calls_are_in_the_details_and_in_the_usage(two: MakeHost) -> None:
    host = two(
        [ScriptedReply("Oslo.", usage=Usage(7, 5))], [ScriptedReply(JSON, usage=Usage(11, 13))]
    )
    answer = supported(host).say("hi", output_type=SCHEMA)
    expected = ["prompt of main to mock@main", "prompt of support to mock@helper"]
    assert [detail.title for detail in answer.details] == expected
    assert answer.details[1].data["schema"] == SCHEMA
    assert "schema" not in answer.details[0].data
    assert answer.usage == Usage(18, 18)


def test_the_extraction_is_not_shown_to_the_user(two: MakeHost) -> None:
    conversation = supported(two(["Three days in Oslo."], [JSON]))
    events = list(conversation.stream("hi", output_type=SCHEMA))
    assert "".join(event.text for event in events) == "Three days in Oslo."


WRONG = ["no JSON at all", '{"city": "Oslo"}', '{"city": "Oslo", "days": "3"}', JSON[:-1], ""]


@pytest.mark.parametrize("extracted", [False, True])
@pytest.mark.parametrize("text", WRONG)
def test_answer_that_is_not_what_was_asked_for(two: MakeHost, extracted: bool, text: str) -> None:
    replies: Any = [[text, JSON], []] if not extracted else [["Three days.", "So."], [text, JSON]]
    host = two(*replies)
    conversation = supported(host) if extracted else host.open("chat", "mock@main")
    with pytest.raises(errors.OutputValidationError) as caught:
        conversation.say("hi", output_type=AttrsTrip)
    assert caught.value.detail == text
    assert conversation.history == ()
    assert conversation.say("hi", output_type=AttrsTrip).data == AttrsTrip("Oslo", 3)


def test_json_that_was_cut_says_how_to_allow_more(scripted: MakeHost) -> None:
    conversation = scripted(ScriptedReply(JSON[:-3], finish="length")).open("chat", "mock")
    with pytest.raises(errors.OutputValidationError) as caught:
        conversation.say("hi", output_type=SCHEMA)
    assert "max_tokens" in caught.value.hint


@pytest.mark.parametrize("support", [{}, {"support": "mock@helper"}])
def test_a_filtered_answer_is_no_json(two: MakeHost, support: dict[str, str]) -> None:
    host = two([ScriptedReply("I cannot help with that", fault="filtered")], [JSON])
    conversation = host.open("chat", "mock@main", models=support)
    with pytest.raises(errors.GenerationError) as caught:
        conversation.say("hi", output_type=SCHEMA)
    assert caught.value.reason == "content_filter"
    assert requests_of(host, "helper") == []


@pytest.mark.parametrize("finish", ["content_filter", "other"])
def test_an_extraction_must_be_done_as_well(two: MakeHost, finish: Any) -> None:
    host = two(["Three days in Oslo."], [ScriptedReply(JSON, finish=finish)])
    conversation = supported(host)
    with pytest.raises(errors.UnexpectedFinish):
        conversation.say("hi", output_type=SCHEMA)
    assert conversation.history == ()


def test_a_failure_of_the_support_model_ends_the_turn(two: MakeHost) -> None:
    host = two(["Three days in Oslo.", "again"], [ScriptedReply(fault="refused")])
    conversation = supported(host)
    with pytest.raises(errors.ServiceUnavailable) as caught:
        conversation.say("hi", output_type=SCHEMA)
    assert caught.value.provider == "helper"
    assert conversation.history == ()
    assert conversation.say("hi").text == "again"


def test_a_support_model_that_cannot_run_is_told_at_once(host: Host) -> None:
    with pytest.raises(errors.NoRoute):
        host.open("chat", "mock", models={"support": "nobody"})


def test_a_class_without_a_json_form_is_refused_before_anything_is_sent(host: Host) -> None:
    conversation = host.open("chat", "mock")
    with pytest.raises(errors.ValidationError, match="no JSON Schema can be made"):
        conversation.say("hi", output_type=object)
    assert requests_of(host, "mock") == []
    assert conversation.say("hi").text == "hi"


def test_an_extraction_goes_on_from_wherever_it_was_cut(make_host: MakeHost) -> None:
    helper = provider_config("mock", replies=[JSON], repeat=True)
    host = make_host(config=Config(providers={"main": provider_config("mock"), "helper": helper}))
    conversation = supported(host)
    for text, form in (("one", SCHEMA), ("two", None), ("three", SCHEMA)):
        conversation.say(text, output_type=form)
    assert isinstance(conversation.record, InMemoryRecord)
    turns, prompts = 3, 5
    assert replay_from_every_entry(host, conversation.record) == turns + 2 * prompts

"""Acceptance of the host over each way that a model can go: items 6, 10 and 17, and what
a route makes of a reply that is no plain answer."""

from __future__ import annotations

import base64
import json
from typing import Any

import genai_vendor_bedrock
import pytest
from attrs import frozen
from endings import ENDINGS, OVERFLOWS
from ways import WAYS, MakeHosts, Way, each_way, host, service, set_up, with_mine

from genai_host import Config, Conversation, Host, Image, Message, RetryPolicy
from genai_host.api import (
    STANDARD,
    Answer,
    Feature,
    FeatureSteps,
    File,
    NoSettings,
    Part,
    Prompt,
    Turn,
)
from genai_host.catalog.join import Candidate
from genai_host.errors import (
    ContextOverflow,
    GenaiError,
    InvalidParameter,
    NoRoute,
    UnsupportedPart,
)
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.services import anthropic as anthropic_service
from genai_host_testing.suites.codec import sample_of

pytestmark = pytest.mark.part

__all__ = ["host", "service", "set_up"]

CLAUDE = "claude-haiku-4-5"
both_streamed = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def body_of(service: FakeService) -> Any:
    [request] = service.requests
    return json.loads(request.body)


def ask(conversation: Conversation, content: Any, streamed: bool) -> None:
    _ = list(conversation.stream(content)) if streamed else conversation.say(content)


def candidate(host: Host, model: str, way: Way) -> Candidate:
    [candidate] = [each for each in host.explain(f"{model}@{way.route}") if each.runs]
    return candidate


# 6: one declaration


@pytest.mark.parametrize(
    "way",
    [way for way in WAYS[CLAUDE] if way.route.startswith(("anthropic", "bedrock"))],
    ids=lambda way: way.route,
)
def test_item_06_claude_is_declared_once(host: Host, service: FakeService, way: Way) -> None:
    """Streamed, with tools, schemas, images and failures: tests/acceptance/test_join.py."""
    assert host.registry.owner("model", CLAUDE) == "anthropic"
    assert CLAUDE not in {each.name for each in genai_vendor_bedrock.genai_models()}
    body = sent(host, service, CLAUDE, way, {"max_tokens": 99, "stop": ["END"]})
    for value in ("go", 99, "END"):
        assert value in leaves(body)


def leaves(value: Any) -> list[Any]:
    """All that stands in JSON but for names."""
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


# 10: parameters

VALUES: dict[str, Any] = {
    "temperature": 0.125, "top_p": 0.375, "top_k": 37, "max_tokens": 4321, "stop": ["QUIET"],
    "seed": 424242, "presence_penalty": 0.625, "frequency_penalty": -0.875,
}  # fmt: skip
OWN = {
    "additional_fields": {"top_k": 3},
    "extra_body": {"only_there": [1]},
    "guardrail": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
    "safety_settings": {"HARM_CATEGORY_HARASSMENT": "OFF"},
}
"""Values of parameters whose schemas say too little to make one of."""


def sent(
    host: Host,
    service: FakeService,
    model: str,
    way: Way,
    parameters: dict[str, Any],
    feature: str = "chat",
) -> Any:
    """The body of the request that parameters make."""
    service.requests.clear()
    service.replies[:] = [way.says("so")]
    with host.open(feature, f"{model}@{way.route}", parameters=parameters) as conversation:
        conversation.say("go")
    return body_of(service)


def test_item_10_all_standard_parameters_have_a_value_here() -> None:
    assert set(VALUES) == set(STANDARD)


@each_way
def test_item_10_standard_parameters(
    host: Host, service: FakeService, model: str, way: Way
) -> None:
    parameters = candidate(host, model, way).parameters
    for name, value in VALUES.items():
        if name in parameters:
            values = leaves(sent(host, service, model, way, {name: value}))
            assert (value[0] if isinstance(value, list) else value) in values, name
        else:
            service.requests.clear()
            with pytest.raises(InvalidParameter) as caught:
                host.open("chat", f"{model}@{way.route}", parameters={name: value})
            assert caught.value.valid == tuple(sorted(parameters))
            assert not service.requests


@each_way
def test_item_10_own_parameters(host: Host, service: FakeService, model: str, way: Way) -> None:
    """One that does not go with the others is an error before anything is sent. Some are of
    use beside tools alone."""

    def asked(parameters: dict[str, Any]) -> Any:
        body = sent(host, service, model, way, parameters, "look")
        return body, service.requests[-1].headers.get("anthropic-beta")

    plain = asked({})
    own = {name: s for name, s in candidate(host, model, way).parameters.items()
           if name not in STANDARD}  # fmt: skip
    assert own
    for name, schema in own.items():
        value = OWN[name] if name in OWN else sample_of(schema)
        try:
            changed = asked({name: value})
        except InvalidParameter as error:
            assert error.parameter, name
            assert not service.requests
        else:
            assert changed != plain, name


@each_way
def test_item_10_unknown_parameters(host: Host, service: FakeService, model: str, way: Way) -> None:
    service.requests.clear()
    parameters = tuple(sorted(candidate(host, model, way).parameters))
    for wrong in ({"temprature": 1}, {"max_tokens": 0}, {"max_tokens": "many"}):
        with pytest.raises(InvalidParameter) as caught:
            host.open("chat", f"{model}@{way.route}", parameters=wrong)
        assert caught.value.valid == parameters
        assert caught.value.provider == way.route.partition("+")[0]
    assert not service.requests


@pytest.mark.parametrize(
    ("parameters", "path"), [({}, "/v1/messages"), ({"temperature": 0.5}, "anthropic/models")]
)
def test_item_10_what_stands_in_for_another_way_takes_the_same_parameters(
    set_up: MakeHosts, service: FakeService, parameters: dict[str, Any], path: str
) -> None:
    """Anthropic's own service takes no temperature: Claude goes on without it, or at
    Vertex AI."""
    config = Config(provider_order=("bedrock", "anthropic", "vertex"))
    host = set_up(config, patience=RetryPolicy(max_attempts=1, max_total_attempts=2))
    service.requests.clear()
    service.replies[:] = [json_reply({}, 503), anthropic_service.claude("at last")]
    assert host.open("chat", CLAUDE, parameters=parameters).say("hello").text == "at last"
    first, second = service.requests
    assert "/invoke" in first.path
    assert path in second.path
    for request in (first, second):
        assert json.loads(request.body).get("temperature") == parameters.get("temperature")


@each_way
def test_item_10_system_prompt(host: Host, service: FakeService, model: str, way: Way) -> None:
    service.requests.clear()
    service.replies[:] = [way.says("so")]
    settings = {"system_prompt": "Be brief."}
    host.open("chat", f"{model}@{way.route}", settings=settings).say("go")
    assert leaves(body_of(service)).count("Be brief.") == 1


# 17: roles and parts


@frozen
class Place(Part):
    type = "place"
    name: str


@pytest.fixture
def knowing(set_up: MakeHosts, service: FakeService) -> Host:
    """A host that knows places, of which no dialect has heard."""
    return set_up(with_mine(service), places=InlinePlugin(parts=[Place]))


@each_way
@both_streamed
def test_item_17_a_part_that_the_dialect_cannot_write_is_refused_and_never_sent(
    knowing: Host, service: FakeService, model: str, way: Way, streamed: bool
) -> None:
    service.requests.clear()
    before = (Message("user", ["I am in", Place("Oslo")]), Message("assistant", "good"))
    for content, history in ((["where is", Place("Oslo")], ()), (["where am I?"], before)):
        conversation = knowing.open("chat", f"{model}@{way.route}", history=history)
        with pytest.raises(UnsupportedPart) as caught:
            ask(conversation, content, streamed)
        error = caught.value
        assert (error.part, error.dialect) == ("place", way.route.partition("+")[2])
        assert tuple(conversation.history) == tuple(history)
    assert not service.requests


@each_way
def test_item_17_pictures_and_files(host: Host, service: FakeService, model: str, way: Way) -> None:
    name = f"{model}@{way.route}"
    can = candidate(host, model, way).capabilities
    picture, file = Image(b"\x89PNG", "image/png"), File(b"%PDF-1.7", "application/pdf", "a.pdf")
    for part, capability in ((picture, "images"), (file, "files")):
        service.requests.clear()
        service.replies[:] = [way.says("so")]
        with host.open("chat", name) as conversation:
            if capability in can:
                conversation.say(["look", part])
                assert base64.b64encode(part.data).decode() in json.dumps(body_of(service))
            else:
                with pytest.raises((NoRoute, UnsupportedPart)):
                    conversation.say(["look", part])
                assert not service.requests


# what a reply is brought to


def _listen(turn: Turn[NoSettings]) -> FeatureSteps:
    assert turn.message is not None
    completion = yield from Prompt([turn.message])
    return Answer(completion.text, data=[completion.finish, completion.usage.output_tokens])


LISTENING = InlinePlugin(features=[Feature("listen", NoSettings, _listen)])


@pytest.fixture
def listening(set_up: MakeHosts, service: FakeService) -> Host:
    """A host with a feature that tells how a reply ended."""
    return set_up(with_mine(service), listen=LISTENING)


@pytest.mark.parametrize(
    ("model", "way", "ending"),
    [
        pytest.param(model, way, ending, id=f"{model}@{way.route}-{ending}")
        for model, ways in WAYS.items()
        for way in ways
        for ending in ("stop", *(each for each in ENDINGS[way.says] if each != "empty"))
    ],
)
def test_finish_reasons_and_usage_are_the_same_words_on_each_route(
    listening: Host, service: FakeService, model: str, way: Way, ending: str
) -> None:
    """What each service says for them, word by word: the tests of each dialect."""
    service.replies[:] = [{"stop": way.says("half"), **ENDINGS[way.says]}[ending]]
    answer = listening.open("listen", f"{model}@{way.route}").say("hi")
    assert answer.text == "half"
    finish, used = answer.data
    assert finish == ending
    assert used > 0


@each_way
def test_no_answer_is_an_error(listening: Host, service: FakeService, model: str, way: Way) -> None:
    """No candidates, or a prompt that was blocked: never an answer that says nothing."""
    service.replies[:] = [ENDINGS[way.says]["empty"]]
    conversation = listening.open("chat-model", f"{model}@{way.route}")
    with pytest.raises(GenaiError) as caught:
        conversation.say("hi")
    assert caught.value.provider == way.route.partition("+")[0]
    assert not conversation.history


@each_way
@both_streamed
def test_a_prompt_that_is_too_long_is_told_as_such_and_sent_once(
    listening: Host, service: FakeService, model: str, way: Way, streamed: bool
) -> None:
    service.requests.clear()
    service.replies[:] = [OVERFLOWS[way.says]]
    conversation = listening.open("chat", f"{model}@{way.route}")
    with pytest.raises(ContextOverflow) as caught:
        ask(conversation, "hi", streamed)
    assert (caught.value.status, caught.value.retryable) == (400, False)
    assert len(service.requests) == 1

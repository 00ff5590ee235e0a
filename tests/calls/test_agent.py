"""Which route a prompt takes, and answers that must be JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from genai_vendor_mock import MockProvider

from genai_host import Config, Host, Image
from genai_host.api import (
    Answer,
    CancelToken,
    DialectEndpoint,
    Feature,
    FeatureSteps,
    Message,
    Model,
    NoSettings,
    Offering,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Services,
    ToolResult,
    ToolSchema,
    Turn,
)
from genai_host.calls.retry import RetryPolicy
from genai_host.errors import NoRoute, OutputValidationError, ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.configs import provider_config

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = ToolSchema("look", "looks", {"type": "object"})


def asking(**fields: Any) -> Feature[NoSettings]:
    """A feature that passes the message on, with these fields of the prompt."""

    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        completion = yield from Prompt([turn.message], **fields)
        return Answer(completion.text, data=completion.value)

    return Feature("asking", NoSettings, respond)


@pytest.fixture
def stage(make_host: Callable[..., Host]) -> Callable[..., Host]:
    """A host where the model `m` is at two instances: `poor`, which lacks what is
    named, and then `rich`."""

    def make(lacks: set[str], feature: Feature[NoSettings], *replies: Any) -> Host:
        plugin = InlinePlugin(
            models=[Model("m", ["plain"], capabilities={"tools", "schema", "images"})],
            offerings=[Offering("m", "poor", "m", unsupported=lacks), Offering("m", "rich", "m")],
            features=[feature],
        )
        host = make_host(plugin=plugin)
        for name in ("poor", "rich"):
            host.instances.add(name, "mock", {"replies": [f"{name} answers", *replies]})
        return host

    return make


def other(host: Host, reply: Any) -> None:
    """The model at a third instance, which gives this reply."""
    host.instances.add("other", "mock", {"replies": [reply]}, {"m": "m"})


def sent(host: Host, provider: str) -> list[dict[str, Any]]:
    instance = host.instances[provider].provider
    assert isinstance(instance, MockProvider)
    return list(instance.requests)


@pytest.mark.parametrize(("lacks", "fields", "content", "expected"), [
    (set(), {}, "hi", "poor"),
    ({"tools"}, {}, "hi", "poor"),
    ({"tools"}, {"tools": [TOOL]}, "hi", "rich"),
    ({"schema", "images", "stream"}, {"tools": [TOOL]}, "hi", "poor"),
    ({"images"}, {}, "hi", "poor"),
    ({"images"}, {}, Image(b"x", "image/png"), "rich"),
    ({"images"}, {}, ToolResult("1", content=[Image(b"x", "image/png")]), "rich"),
])  # fmt: skip
def test_best_route(stage: Any, lacks: set[str], fields: Any, content: Any, expected: str) -> None:
    host = stage(lacks, asking(**fields))
    message = Message("tool" if isinstance(content, ToolResult) else "user", content)
    assert host.open("asking", "m").say(message).text == f"{expected} answers"


def test_a_model_that_takes_no_pictures_is_told_of_those_that_tools_gave(stage: Any) -> None:
    host = stage({"images"}, asking())
    host.instances.remove("rich")
    result = ToolResult("1", "look", ["taken", Image(b"x", "image/png")], error=True)
    assert host.open("asking", "m").say(Message("tool", result)).text == "poor answers"
    [request] = sent(host, "poor")
    assert request["messages"][0]["content"][0]["content"] == [
        {"type": "text", "text": "taken"},
        {"type": "text", "text": "(image omitted (image/png): not supported here)"},
    ]


def test_where_no_route_can_do_it_each_says_what_it_lacks(stage: Any) -> None:
    host = stage({"tools"}, asking(tools=[TOOL]))
    host.instances.remove("rich")
    with pytest.raises(NoRoute, match="m cannot do this: it needs tools") as caught:
        host.open("asking", "m").say("hi")
    assert caught.value.reasons == ("m@poor lacks tools",)
    assert not sent(host, "poor")


def test_a_route_held_to_the_schema_is_better_than_one_asked_in_words(stage: Any) -> None:
    host = stage({"schema"}, asking(schema=SCHEMA))
    with pytest.raises(OutputValidationError):
        host.open("asking", "m").say("hi")
    assert sent(host, "rich")[0]["schema"] == SCHEMA
    assert not sent(host, "poor")


@pytest.mark.parametrize(
    "reply", ['{"n": 1}', ' {"n": 1}\n', '```json\n{"n": 1}\n```', '```\n{"n": 1}\n```\n']
)
def test_without_a_mode_json_is_asked_in_words(make_host: Callable[..., Host], reply: str) -> None:
    plugin = InlinePlugin(
        models=[Model("m", ["plain"], at={"mock": "m"})], features=[asking(schema=SCHEMA)]
    )
    host = make_host(plugin=plugin)
    host.instances.add("words", "mock", {"replies": [reply]})
    conversation = host.open("asking", "m@words")
    assert conversation.say("hi").data == {"n": 1}
    request = sent(host, "words")[0]
    assert "schema" not in request
    assert [message["role"] for message in request["messages"]] == ["user", "system"]
    assert '"required":["n"]' in request["messages"][1]["content"][0]["text"]
    assert len(conversation.history) == 2


@pytest.mark.parametrize("reply", ["{", '{"n": "one"}', "Here: {}", "[" * 10_000])
def test_what_is_not_the_json_that_was_asked_for_is_an_error(stage: Any, reply: str) -> None:
    host = stage({"schema"}, asking(schema=SCHEMA))
    host.instances.remove("poor")
    other(host, reply)
    with pytest.raises(OutputValidationError) as caught:
        host.open("asking", "m@other").say("hi")
    assert caught.value.detail == reply


def test_an_answer_that_was_cut_says_what_to_do(stage: Any) -> None:
    host = stage(set(), asking(schema=SCHEMA))
    other(host, {"text": '{"n": ', "finish": "length"})
    with pytest.raises(OutputValidationError) as caught:
        host.open("asking", "m@other").say("hi")
    assert "max_tokens" in caught.value.hint
    assert caught.value.reason == "length"


def test_a_model_that_asks_for_a_tool_need_not_give_json(stage: Any) -> None:
    host = stage(set(), asking(schema=SCHEMA, tools=[TOOL]))
    other(host, {"tool_calls": [{"id": "1", "name": "look"}]})
    assert host.open("asking", "m@other").say("hi").data is None


def test_parameters_of_a_prompt_are_laid_over_those_of_the_conversation(stage: Any) -> None:
    host = stage(set(), asking(parameters={"top_k": 3, "seed": 2}))
    host.open("asking", "m", parameters={"seed": 1, "temperature": 0}).say("hi")
    assert sent(host, "poor")[0]["parameters"] == {"seed": 2, "temperature": 0, "top_k": 3}


class _Strict(Provider):
    """Takes less of a parameter than others."""

    serves = {
        "plain": DialectEndpoint(parameters={"temperature": {"type": "number", "maximum": 1}})
    }

    def __init__(self, settings: NoSettings, services: Services) -> None: ...

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return ProviderReply(b'{"message": {"role": "assistant", "content": "strict"}}')

    stream = send


@pytest.mark.parametrize(("temperature", "expected"), [(0.5, "strict"), (1.5, None)])
def test_a_route_that_refuses_the_value_of_a_parameter_is_no_other_way(
    make_host: Callable[..., Host], temperature: float, expected: str | None
) -> None:
    """The failure that is told is that of the route that was called."""
    plugin = InlinePlugin(
        providers=[ProviderType("strict", NoSettings, _Strict)],
        models=[Model("m", ["plain"])],
        offerings=[Offering("m", "failing", "m"), Offering("m", "strict", "m")],
        features=[asking()],
    )
    failing = provider_config("mock", replies=[{"status": 503}], repeat=True)
    config = Config(providers={"failing": failing}, provider_order=("failing",))
    host = make_host(
        config=config, plugin=plugin, patience=RetryPolicy(max_attempts=1, max_total_attempts=2)
    )
    conversation = host.open("asking", "m", parameters={"temperature": temperature})
    if expected:
        assert conversation.say("hi").text == expected
    else:
        with pytest.raises(ServiceUnavailable) as caught:
            conversation.say("hi")
        assert caught.value.provider == "failing"

"""The official `openai` SDK as an oracle: it and we say the same to a service that writes
down what it is sent. Method, path, query, headers and body agree, but for what is listed
here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from peers.conversations import CHAT_TOOLS, CONVERSATIONS, LOOK, RESPONSE_TOOLS, Said, user
from peers.differences import ABSENT, HEADERS, Difference, differing, headers_in_vain
from peers.sides import Clients, clients, service, telling
from peers.ways import OWN, WAYS, OpenAISides, Way, way_named

from genai_host.api import (
    Answer,
    CountTokens,
    Embed,
    FeatureSteps,
    Message,
    Moderate,
    NoSettings,
    Prompt,
    ToolResult,
    Turn,
)
from genai_host.api.cancellation import Cancellation
from genai_host.testing.fake_service import FakeService, Received, Reply, json_reply
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.openai_service import chat, embeddings, responses

pytestmark = pytest.mark.peers
__all__ = ["clients", "service"]


FIELDS: Mapping[Difference, str] = {
    Difference("stream_options.include_usage", True, ABSENT): (
        "we count the tokens of streamed replies as well"
    ),
    Difference("store", False, ABSENT): "nothing of ours is kept at the service",
    Difference("include[]", "reasoning.encrypted_content", ABSENT): (
        "as nothing is kept there, we bring back what the model thought"
    ),
    Difference("messages[].role", "developer", "system"): (
        "models that think call it so; the SDK leaves it to whoever writes"
    ),
    Difference("input[].role", "developer", "system"): "the same",
    Difference("input[].type", "message", ABSENT): (
        "some servers do not know what the model said for a message without it"
    ),
    Difference("response_format.json_schema.name", "answer", "City"): (
        "the SDK takes the name of the class, we have a schema without one"
    ),
    Difference("text.format.name", "answer", "City"): "the same",
    # services elsewhere, of which less is taken for granted:
    Difference("max_tokens", 7, ABSENT): "they may know the older name alone",
    Difference("max_completion_tokens", ABSENT, 7): "the same",
    Difference("tools[].function.strict", ABSENT, True): "they may not know the word",
    Difference("tools[].function.parameters.additionalProperties", ABSENT, False): (
        "which only the strict form needs"
    ),
    Difference("response_format.json_schema.strict", False, True): "they may refuse it",
    Difference("response_format.json_schema.schema.additionalProperties", ABSENT, False): (
        "which only the strict form needs"
    ),
    Difference("stream", ABSENT, False): "the SDK's `parse` says what is so anyway",
    Difference("encoding_format", "float", "base64"): "they may know no other",
    # a tool's round trip:
    Difference("input[].id", ABSENT, "fc_1"): (
        "names an item that is kept at the service, where nothing is"
    ),
    Difference("input[].id", ABSENT, "fc_2"): "the same",
    Difference("input[].status", ABSENT, "completed"): "says nothing: we send whole items only",
}
"""All that may differ in a body, and why; the order of keys and the spelling of JSON say
nothing in any case."""


@pytest.fixture
def sides(
    service: FakeService, clients: Clients, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> OpenAISides:
    return OpenAISides(service, clients, make_host, monkeypatch)


@pytest.fixture(scope="module")
def noted() -> dict[str, set[Difference]]:
    """What was found to differ, by conversation."""
    return {}


TELLINGS = {
    f"{way.name}: {said.name}, {'streamed' if streamed else 'whole'}": (way, said, streamed)
    for way in WAYS
    for said in CONVERSATIONS
    if way.can(said)
    for streamed in (False, True)
    if not (said.parsed and streamed)  # for which the SDK has another function
}
ANSWER = '{"name": "Oslo", "people": null}'


@pytest.mark.parametrize("name", TELLINGS)
def test_both_send_the_same(
    sides: OpenAISides, noted: dict[str, set[Difference]], name: str
) -> None:
    noted[name] = said_by_both(sides, *TELLINGS[name])
    assert noted[name] <= FIELDS.keys()


def said_by_both(sides: OpenAISides, way: Way, said: Said, streamed: bool) -> set[Difference]:
    return differing(*sent_by_both(sides, way, said, streamed))


def sent_by_both(
    sides: OpenAISides, way: Way, said: Said, streamed: bool
) -> tuple[Received, Received]:
    sides.set_up(way.environment)
    replies = [(chat if way.dialect == "chat" else responses)(ANSWER, streamed=streamed)]
    conversation = sides.host(telling(said.prompt), "chat").open("tell", way.model)
    client = sides.clients.of(way)

    def speak() -> None:
        if streamed:
            list(conversation.stream("go"))
        else:
            conversation.say("go")

    (ours,) = sides.sent(replies, speak)
    (theirs,) = sides.sent(replies, lambda: _say_by_sdk(client, way, said, streamed))
    return ours, theirs


def _say_by_sdk(client: Any, way: Way, said: Said, streamed: bool) -> None:
    resource = client.chat.completions if way.dialect == "chat" else client.responses
    fields: Any = said.chat if way.dialect == "chat" else said.responses
    if said.parsed:
        resource.parse(model=way.id, **fields)
    elif streamed:
        for _ in resource.create(model=way.id, stream=True, **fields):
            pass
    else:
        resource.create(model=way.id, **fields)


CALLS = [("call_1", '{"at":"é"}'), ("call_2", '{"at":"b"}')]
USED: Mapping[str, list[Reply]] = {
    "chat": [
        json_reply({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": None, "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "look", "arguments": text}}
                for id, text in CALLS]}}]}),
        chat("fine"),
    ],
    "responses": [
        json_reply({"status": "completed", "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
            *({"id": id.replace("call", "fc"), "type": "function_call", "call_id": id,
               "name": "look", "arguments": text, "status": "completed"} for id, text in CALLS)]}),
        responses("fine"),
    ],
}  # fmt: skip
"""Replies that ask for two tools at once, and then answer."""


def _use_tools(turn: Turn[NoSettings]) -> FeatureSteps:
    said = [user("hi")]
    asked = yield from Prompt(said, tools=[LOOK])
    results = [ToolResult(call.id, call.name, "fine") for call in asked.tool_calls]
    yield from Prompt([*said, asked.message, Message("tool", results)], tools=[LOOK])
    return Answer("")


def _use_tools_by_chat(client: Any, id: str) -> None:
    """As OpenAI's guide to function calling has it."""
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    first = client.chat.completions.create(model=id, messages=messages, tools=CHAT_TOOLS)
    messages.append(first.choices[0].message)
    for call in first.choices[0].message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "fine"})
    client.chat.completions.create(model=id, messages=messages, tools=CHAT_TOOLS)


def _use_tools_by_responses(client: Any, id: str) -> None:
    items: list[Any] = [{"role": "user", "content": "hi"}]
    first = client.responses.create(model=id, input=items, tools=RESPONSE_TOOLS)
    items += first.output
    for item in first.output:
        if item.type == "function_call":
            output = {"type": "function_call_output", "call_id": item.call_id, "output": "fine"}
            items.append(output)
    client.responses.create(model=id, input=items, tools=RESPONSE_TOOLS)


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_both_use_tools_alike(sides: OpenAISides, way: Way) -> None:
    for found in tools_used_by_both(sides, way):
        assert found <= FIELDS.keys()


def tools_used_by_both(sides: OpenAISides, way: Way) -> list[set[Difference]]:
    sides.set_up(way.environment)
    conversation = sides.host(_use_tools, "chat").open("tell", way.model)
    use = _use_tools_by_chat if way.dialect == "chat" else _use_tools_by_responses
    client = sides.clients.of(way)
    replies = USED[way.dialect]
    ours = sides.sent(replies, lambda: conversation.say("go"))
    theirs = sides.sent(replies, lambda: use(client, way.id))
    assert len(ours) == len(theirs) == 2
    return [differing(*both) for both in zip(ours, theirs, strict=True)]


SMALL = "text-embedding-3-small"
PLACES = [
    ("openai, chat", f"{SMALL}@openai", SMALL),
    ("elsewhere, chat", f"{SMALL}@openai", SMALL),
    ("azure, dated, chat", f"{SMALL}@mine", "vectors"),
    ("azure, chat", f"{SMALL}@mine", "vectors"),
]
"""The way, the model's name here, and what the SDK calls it."""


@pytest.mark.parametrize(("way", "model", "id"), PLACES, ids=[way for way, *_ in PLACES])
@pytest.mark.parametrize("parameters", [{}, {"dimensions": 2}], ids=["all", "two"])
def test_both_embed_alike(
    sides: OpenAISides, way: str, model: str, id: str, parameters: Mapping[str, Any]
) -> None:
    assert embedded_by_both(sides, way_named(way), model, id, parameters) <= FIELDS.keys()


def embedded_by_both(
    sides: OpenAISides, way: Way, model: str, id: str, parameters: Mapping[str, Any]
) -> set[Difference]:
    sides.set_up(way.environment)
    texts = ["a", "é"]
    tell = telling(Embed(texts, role="main"))
    conversation = sides.host(tell, "embed").open("tell", model, parameters=parameters)
    vectors = sides.clients.of(way).embeddings
    replies = [embeddings([1.0, 2.0], [3.0, 4.0])]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(replies, lambda: vectors.create(model=id, input=texts, **parameters))
    return differing(ours, theirs)


def test_both_count_alike(sides: OpenAISides) -> None:
    sides.set_up(OWN)
    tell = telling(CountTokens(Prompt([Message("system", "Be brief."), Message("user", "hi")])))
    conversation = sides.host(tell, "chat").open("tell", "gpt-4.1@openai")
    responses = sides.clients.of(way_named("openai, chat")).responses
    replies = [json_reply({"object": "response.input_tokens", "input_tokens": 12})]
    said: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(
        replies, lambda: responses.input_tokens.count(model="gpt-4.1", input=said)
    )
    assert differing(ours, theirs) == set()


def test_both_ask_for_moderation_alike(sides: OpenAISides) -> None:
    sides.set_up(OWN)
    tell = telling(Moderate("é", role="main"))
    conversation = sides.host(tell, "moderate").open("tell", "omni-moderation@openai")
    moderations = sides.clients.of(way_named("openai, chat")).moderations
    replies = [json_reply({"results": [{"flagged": False, "category_scores": {"hate": 0.1}}]})]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(
        replies, lambda: moderations.create(model="omni-moderation-latest", input="é")
    )
    assert differing(ours, theirs) == set()


def test_both_list_models_alike(sides: OpenAISides) -> None:
    sides.set_up(OWN)
    provider = sides.host(telling(Prompt([])), "chat").instances["openai"].provider
    replies = [json_reply({"object": "list", "data": [{"id": "m", "object": "model"}]})]
    (ours,) = sides.sent(replies, lambda: list(provider.list_models(Cancellation())))
    (theirs,) = sides.sent(
        replies, lambda: list(sides.clients.of(way_named("openai, chat")).models.list())
    )
    assert differing(ours, theirs, {"content-type"}) == set()  # which says nothing here


def test_no_difference_is_listed_in_vain(
    sides: OpenAISides, noted: dict[str, set[Difference]]
) -> None:
    for name, telling_ in TELLINGS.items():
        if name not in noted:
            noted[name] = said_by_both(sides, *telling_)
    found = set().union(*noted.values())
    for way in WAYS:
        found.update(*tools_used_by_both(sides, way))
    for name, model, id in PLACES:
        found |= embedded_by_both(sides, way_named(name), model, id, {})
    assert found == FIELDS.keys()


def test_no_header_is_listed_in_vain(sides: OpenAISides) -> None:
    ours, theirs = sent_by_both(sides, *TELLINGS["openai, chat: plain, streamed"])
    assert headers_in_vain(ours, theirs, HEADERS) == []

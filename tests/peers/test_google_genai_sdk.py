"""The official `google-genai` SDK as an oracle: it and we say the same to a service that
writes down what it is sent. Method, path, query, headers and body agree, but for what is
listed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import genai_vendor_gemini
import google.genai as genai
import google.oauth2.credentials
import pytest
from attrs import evolve, frozen
from google.genai import types
from peers.conversations import LOOK, user
from peers.differences import ABSENT, HEADERS, Difference, differing, headers_in_vain
from peers.gemini_conversations import TOLD, WIRE_LOOK, said
from peers.sides import Clients, Sides, clients, service, telling

from genai_host.api import (
    Answer,
    Embed,
    FeatureSteps,
    Message,
    NoSettings,
    Prompt,
    ToolResult,
    Turn,
)
from genai_host.api.cancellation import Cancellation
from genai_host.testing.fake_service import FakeService, Received, json_reply
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.gemini_service import KEY, SIGNATURE, embeddings, gemini, response

pytestmark = pytest.mark.peers
__all__ = ["clients", "service"]

FIELDS: Mapping[Difference, str] = {
    Difference("systemInstruction.role", ABSENT, "user"): "the place says who it is",
    Difference("generationConfig", ABSENT, "{}"): "it says nothing",
    Difference("requests[].content.role", ABSENT, "user"): "nobody says what is embedded",
}
"""All that may differ in a body, and why; the order of keys and the spelling of JSON say
nothing in any case."""

CLIENT = {"x-goog-api-client": "the SDK says its name in a header of its own"}
"""Further headers that may differ, and why."""


def differences(ours: Received, theirs: Received, *besides: str) -> set[Difference]:
    """The SDK spells some names as Google's libraries do inside, `mime_type`: services read
    that as well."""
    spelled = evolve(theirs, body=_SNAKE.sub(_as_camel, theirs.body))
    return differing(ours, spelled, [*CLIENT, *besides])


_SNAKE = re.compile(rb'"[a-z]+(?:_[a-z]+)+"(?=:)')


def _as_camel(name: re.Match[bytes]) -> bytes:
    first, *others = name[0].split(b"_")
    return first + b"".join(each.capitalize() for each in others)


@frozen
class Way:
    """A service set up by environment variables; the SDK's client for Vertex AI is given
    its credentials.

    at   name of the provider here
    """

    at: str
    environment: Mapping[str, str]
    client: Callable[[str], Any]


def _client(url: str) -> Any:
    return genai.Client()


def _vertex_client(url: str) -> Any:
    return genai.Client(
        vertexai=True,
        project="mine",
        location="europe-west4",
        credentials=google.oauth2.credentials.Credentials(KEY),  # type: ignore[no-untyped-call]  # so it is
        http_options=types.HttpOptions(base_url=url),
    )


WAYS = [
    Way(
        "gemini",
        {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GOOGLE_GENAI_API_VERSION": "beta",  # which Google's documentation writes
        },
        _client,
    ),
    Way(
        "vertex",
        {
            "CLOUDSDK_AUTH_ACCESS_TOKEN": KEY,
            "GOOGLE_CLOUD_PROJECT": "mine",
            "GOOGLE_CLOUD_LOCATION": "europe-west4",
            "GOOGLE_VERTEX_BASE_URL": "{url}",
        },
        _vertex_client,
    ),
]
each_way = pytest.mark.parametrize("way", WAYS, ids=[way.at for way in WAYS])
ID = "gemini-3.5-flash"  # which takes all parameters


class GeminiSides(Sides):
    variables = {
        "ALL_PROXY", "HTTP_PROXY", "NO_PROXY", "GOOGLE_API_KEY",
        *(name for way in WAYS for name in way.environment),
    }  # fmt: skip
    plugins = {"gemini": genai_vendor_gemini}


@pytest.fixture
def sides(
    service: FakeService, clients: Clients, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> GeminiSides:
    return GeminiSides(service, clients, make_host, monkeypatch)


TELLINGS = {
    f"{way.at}: {name}, {'streamed' if streamed else 'whole'}": (way, name, streamed)
    for way in WAYS
    for name in TOLD
    for streamed in (False, True)
}


@pytest.mark.parametrize("name", TELLINGS)
def test_both_send_the_same(sides: GeminiSides, name: str) -> None:
    assert differences(*sent_by_both(sides, *TELLINGS[name])) <= FIELDS.keys()


def sent_by_both(
    sides: GeminiSides, way: Way, name: str, streamed: bool
) -> tuple[Received, Received]:
    prompt, asked = TOLD[name]
    sides.set_up(way.environment)
    conversation = sides.host(telling(prompt), "chat").open("tell", f"{ID}@{way.at}")
    models = sides.clients.of(way).models
    replies = [gemini('{"word": "an answer"}', streamed=streamed)]

    def speak() -> None:
        if streamed:
            list(conversation.stream("go"))
        else:
            conversation.say("go")

    def speak_by_sdk() -> None:
        if streamed:
            list(models.generate_content_stream(model=ID, **asked))
        else:
            models.generate_content(model=ID, **asked)

    (ours,) = sides.sent(replies, speak)
    (theirs,) = sides.sent(replies, speak_by_sdk)
    return ours, theirs


ASKING = json_reply(
    response(
        {"text": "so:"},
        {"functionCall": {"id": "fc_1", "name": "look", "args": {"at": "é"}},
         "thoughtSignature": SIGNATURE},
        {"functionCall": {"name": "look", "args": {}}},
        finish="STOP",
    )
)  # fmt: skip
"""A reply that asks for two tools at once, one of them with an id."""


def _use_tools(turn: Turn[NoSettings]) -> FeatureSteps:
    said = [user("hi")]
    asked = yield from Prompt(said, tools=[LOOK])
    one, other = asked.tool_calls
    results = [ToolResult(one.id, one.name, "fine"), ToolResult(other.id, "", "no", error=True)]
    told = [Message("tool", result) for result in results]
    yield from Prompt([*said, asked.message, *told], tools=[LOOK])
    return Answer("")


def _use_tools_by_sdk(client: Any) -> None:
    """As Google's guide to function calling has it."""
    asked: Any = {"model": ID, "config": types.GenerateContentConfig(tools=[WIRE_LOOK])}
    first = client.models.generate_content(contents=[said("hi")], **asked)
    results = [
        types.Part(function_response=types.FunctionResponse(
            id=call.id, name=call.name, response=told))
        for call, told in zip(
            first.function_calls, [{"output": "fine"}, {"error": "no"}], strict=True)
    ]  # fmt: skip
    contents = [said("hi"), first.candidates[0].content, said(*results)]
    client.models.generate_content(contents=contents, **asked)


@each_way
def test_both_use_tools_alike(sides: GeminiSides, way: Way) -> None:
    sides.set_up(way.environment)
    conversation = sides.host(_use_tools, "chat").open("tell", f"{ID}@{way.at}")
    client = sides.clients.of(way)
    replies = [ASKING, gemini("fine")]
    ours = sides.sent(replies, lambda: conversation.say("go"))
    theirs = sides.sent(replies, lambda: _use_tools_by_sdk(client))
    assert len(ours) == len(theirs) == 2
    for both in zip(ours, theirs, strict=True):
        assert differences(*both) <= FIELDS.keys()


@each_way
@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2"])
@pytest.mark.parametrize("dimensions", [None, 128])
def test_both_embed_alike(sides: GeminiSides, way: Way, model: str, dimensions: int | None) -> None:
    assert embedded_by_both(sides, way, model, dimensions) <= FIELDS.keys()


def embedded_by_both(
    sides: GeminiSides, way: Way, model: str, dimensions: int | None
) -> set[Difference]:
    sides.set_up(way.environment)
    parameters = {"dimensions": dimensions} if dimensions else {}
    host = sides.host(telling(Embed(["a", "é"], role="main", purpose="query")), "embed")
    conversation = host.open("tell", f"{model}@{way.at}", parameters=parameters)
    models = sides.clients.of(way).models
    purpose = "RETRIEVAL_QUERY" if model.endswith("001") else None
    config = types.EmbedContentConfig(task_type=purpose, output_dimensionality=dimensions)
    replies = [embeddings([1.0, 2.0], [3.0, 4.0])]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    contents = [said("a"), said("é")]
    (theirs,) = sides.sent(
        replies, lambda: models.embed_content(model=model, contents=contents, config=config)
    )
    return differences(ours, theirs)


def test_both_list_models_alike(sides: GeminiSides) -> None:
    way = WAYS[0]
    sides.set_up(way.environment)
    provider = sides.host(telling(Prompt([])), "chat").instances["gemini"].provider
    model = {"name": "models/a", "supportedGenerationMethods": ["generateContent"]}
    replies = [
        json_reply({"models": [model], "nextPageToken": "a+b"}),
        json_reply({"models": [model]}),
    ]
    here = sides.sent(replies, lambda: list(provider.list_models(Cancellation())))
    models = sides.clients.of(way).models
    there = sides.sent(replies, lambda: list(models.list(config={"page_size": 1000})))
    assert len(here) == len(there) == 2
    for ours, theirs in zip(here, there, strict=True):
        assert differences(ours, theirs, "content-type") == set()  # which says nothing


def test_no_difference_is_listed_in_vain(sides: GeminiSides) -> None:
    way = WAYS[0]
    found = differences(*sent_by_both(sides, way, "system", False))
    assert found | embedded_by_both(sides, way, "gemini-embedding-001", None) == FIELDS.keys()


def test_no_header_is_listed_in_vain(sides: GeminiSides) -> None:
    both = sent_by_both(sides, WAYS[0], "plain", True)
    kept = {name for name in HEADERS if name != "x-stainless-*"}  # which are another SDK's
    assert headers_in_vain(*both, [*kept, *CLIENT]) == []

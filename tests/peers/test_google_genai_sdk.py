"""The official `google-genai` SDK as an oracle, for the Gemini API and for Vertex AI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import genai_vendor_gemini
import google.genai as genai
import google.oauth2.credentials
import pytest
from attrs import evolve
from google.genai import types
from peers.gemini_conversations import TOLD, WIRE_LOOK, said
from peers.oracle import ABSENT, Case, Difference, Oracle, Place, both_ways, using_tools

from genai_host.api import Embed
from genai_host.testing.fake_service import Received, json_reply
from genai_host_testing.gemini_service import KEY, SIGNATURE, embeddings, gemini, response

pytestmark = pytest.mark.peers


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


_MAY = {"x-goog-api-client": "the SDK says its name in a header of its own"}
PLACES = {
    "gemini": Place(
        {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GOOGLE_GENAI_API_VERSION": "beta",  # which Google's documentation writes
        },
        _client,
        _MAY,
    ),
    "vertex": Place(
        {
            "CLOUDSDK_AUTH_ACCESS_TOKEN": KEY,
            "GOOGLE_CLOUD_PROJECT": "mine",
            "GOOGLE_CLOUD_LOCATION": "europe-west4",
            "GOOGLE_VERTEX_BASE_URL": "{url}",
        },
        _vertex_client,
        _MAY,
    ),
}
"""By the name of the provider here; the SDK's client for Vertex AI is given its credentials."""

ID = "gemini-3.5-flash"  # which takes all parameters
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


def _use_tools(client: Any) -> None:
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


def _says(at: str, name: str) -> dict[str, Case]:
    prompt, asked = TOLD[name]

    def made(streamed: bool) -> Case:
        method = "generate_content_stream" if streamed else "generate_content"
        return Case(
            PLACES[at],
            f"{ID}@{at}",
            prompt,
            lambda client: getattr(client.models, method)(model=ID, **asked),
            [gemini('{"word": "an answer"}', streamed=streamed)],
            streamed=streamed,
        )

    return both_ways(f"{at}: {name}", made)


def _embeds(model: str, dimensions: int | None) -> Callable[[Any], Any]:
    purpose = "RETRIEVAL_QUERY" if model.endswith("001") else None
    config = types.EmbedContentConfig(task_type=purpose, output_dimensionality=dimensions)
    contents = [said("a"), said("é")]
    return lambda client: client.models.embed_content(model=model, contents=contents, config=config)


def _cases() -> Iterator[tuple[str, Case]]:
    for at, place in PLACES.items():
        for name in TOLD:
            yield from _says(at, name).items()
        replies = [ASKING, gemini("fine")]
        tell = using_tools(False, True, apart=True)
        yield f"{at}: tools that are used", Case(place, f"{ID}@{at}", tell, _use_tools, replies)
        for model in ("gemini-embedding-001", "gemini-embedding-2"):
            for dimensions in (None, 128):
                yield (
                    f"{at}: {model}, {dimensions}",
                    Case(
                        place,
                        f"{model}@{at}",
                        Embed(["a", "é"], role="main", purpose="query"),
                        _embeds(model, dimensions),
                        [embeddings([1.0, 2.0], [3.0, 4.0])],
                        operation="embed",
                        parameters={"dimensions": dimensions} if dimensions else {},
                    ),
                )
    model_ = {"name": "models/a", "supportedGenerationMethods": ["generateContent"]}
    pages = [
        json_reply({"models": [model_], "nextPageToken": "a+b"}),
        json_reply({"models": [model_]}),
    ]
    size: Any = {"page_size": 1000}
    lists = Case(
        PLACES["gemini"], "gemini", None, lambda client: client.models.list(config=size), pages
    )
    yield "models", lists


class TestGoogle(Oracle):
    variables = {
        "GOOGLE_API_KEY",
        *(name for place in PLACES.values() for name in place.environment),
    }
    plugins = {"gemini": genai_vendor_gemini}
    cases = dict(_cases())
    alike = {"x-stainless-*"}  # which are another SDK's
    fields = {
        Difference("systemInstruction.role", ABSENT, "user"): "the place says who it is",
        Difference("generationConfig", ABSENT, "{}"): "it says nothing",
        Difference("requests[].content.role", ABSENT, "user"): "nobody says what is embedded",
    }

    def spelled(self, ours: Received, theirs: Received) -> tuple[Received, Received]:
        """The SDK spells some names as Google's libraries do inside, `mime_type`: services read
        that as well."""
        return ours, evolve(theirs, body=_SNAKE.sub(_as_camel, theirs.body))


_SNAKE = re.compile(rb'"[a-z]+(?:_[a-z]+)+"(?=:)')


def _as_camel(name: re.Match[bytes]) -> bytes:
    first, *others = name[0].split(b"_")
    return first + b"".join(each.capitalize() for each in others)

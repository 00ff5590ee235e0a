"""The official `google-genai` SDK as an oracle, for the Gemini API and for Vertex AI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import genai_vendor_gemini
import google.genai as genai
import google.oauth2.credentials
import pytest
from attrs import evolve
from google.genai import types
from peers.conversations import CONVERSATIONS, user
from peers.oracle import ABSENT, Case, Difference, Oracle, Place, both_ways, using_tools

from genai_host.api import Embed, File, Message, Prompt, Text, VendorPart
from genai_host_testing.fake_service import Received, json_reply
from genai_host_testing.services.gemini import KEY, SIGNATURE, embeddings, gemini, response

_ODD = 'é 🙂 \u2028 \x00 \n "\\ </script> \ufeff'
_PNG = b"\x89PNG\r\n\x1a\n"
_PDF = b"%PDF-1.7"
_LONG = {"type": "object", "properties": {"word": {"type": "string", "minLength": 9}}}
WIRE_LOOK = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="look",
            description="looks",
            parameters_json_schema={
                "type": "object",
                "properties": {"at": {"type": "string"}},
                "required": ["at"],
            },
        )
    ]
)


def content(*parts: Any, role: str = "user") -> Any:
    """A content; strings are texts."""
    return types.Content(
        role=role, parts=[types.Part(text=each) if type(each) is str else each for each in parts]
    )


def _hi(**config: Any) -> dict[str, Any]:
    return {"contents": [content("hi")], "config": config}


def _choice(mode: str, *names: str) -> dict[str, Any]:
    calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=[*names] or None)
    return _hi(tools=[WIRE_LOOK], tool_config=types.ToolConfig(function_calling_config=calling))


def _at(url: str, media_type: str) -> Any:
    return types.Part(file_data=types.FileData(file_uri=url, mime_type=media_type))


_SHARED: Mapping[str, Mapping[str, Any]] = {
    "plain": _hi(),
    "odd characters": {"contents": [content(_ODD)]},
    "empty": {"contents": [content("")]},
    "system": _hi(system_instruction="Be brief."),
    "history": {"contents": [content("hi"), content("hello", role="model"), content("and?")]},
    "several texts": {"contents": [content("a", "b")]},
    "length": _hi(max_output_tokens=7),
    "guides": _hi(temperature=0.5, top_p=0.9),
    "further guides": _hi(
        stop_sequences=["x", "\n"], seed=1, presence_penalty=-0.5, frequency_penalty=0.5
    ),
    "tools": _hi(tools=[WIRE_LOOK]),
    "tool choice auto": _choice("AUTO"),
    "tool choice none": _choice("NONE"),
    "tool choice required": _choice("ANY"),
    "tool choice look": _choice("ANY", "look"),
    "schema beyond the strict subset": _hi(
        response_mime_type="application/json", response_json_schema=_LONG
    ),
    "picture": {"contents": [
        content("what?", types.Part.from_bytes(data=_PNG, mime_type="image/png"))]},
    "picture by its address": {"contents": [
        content("what?", _at("https://x.invalid/a.png", "image/png"))]},
    "file": {"contents": [
        content("what?", types.Part.from_bytes(data=_PDF, mime_type="application/pdf"))]},
    "file by its address": {"contents": [
        content(_at("https://x.invalid/a.pdf", "application/pdf"))]},
}  # fmt: skip
"""Of the conversations that are had with others as well, by name."""

_HARM = "HARM_CATEGORY_HARASSMENT"
_SIGNED = VendorPart("gemini", {"thoughtSignature": "c2lnbmVk"})
_OWN: Mapping[str, tuple[Prompt, Mapping[str, Any]]] = {
    "effort": (
        Prompt([user("hi")], parameters={"reasoning_effort": "low", "include_thoughts": True}),
        _hi(thinking_config=types.ThinkingConfig(
            thinking_level=types.ThinkingLevel.LOW, include_thoughts=True)),
    ),
    "budget": (
        Prompt([user("hi")], parameters={"thinking_budget": 0}),
        _hi(thinking_config=types.ThinkingConfig(thinking_budget=0)),
    ),
    "top k": (Prompt([user("hi")], parameters={"top_k": 3}), _hi(top_k=3)),
    "safety": (
        Prompt([user("hi")], parameters={"safety_settings": {_HARM: "BLOCK_NONE"}}),
        _hi(safety_settings=[types.SafetySetting(
            category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
            threshold=types.HarmBlockThreshold.BLOCK_NONE)]),
    ),
    "sound": (
        Prompt([user(File(b"RIFF", "audio/wav"))]),
        {"contents": [content(types.Part.from_bytes(data=b"RIFF", mime_type="audio/wav"))]},
    ),
    "signed": (
        Prompt([user("hi"), Message("assistant", [Text("hello"), _SIGNED]), user("and?")]),
        {"contents": [
            content("hi"),
            content(types.Part(text="hello", thought_signature=b"signed"), role="model"),
            content("and?")]},
    ),
}  # fmt: skip

TOLD: Mapping[str, tuple[Prompt, Mapping[str, Any]]] = {
    **{
        each.name: (each.prompt, _SHARED[each.name])
        for each in CONVERSATIONS
        if each.name in _SHARED
    },
    **_OWN,
}
"""What is said here, and the arguments of the SDK's `generate_content` for it."""


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
    request: Any = {"model": ID, "config": types.GenerateContentConfig(tools=[WIRE_LOOK])}
    first = client.models.generate_content(contents=[content("hi")], **request)
    results = [
        types.Part(function_response=types.FunctionResponse(
            id=call.id, name=call.name, response=response))
        for call, response in zip(
            first.function_calls, [{"output": "fine"}, {"error": "no"}], strict=True)
    ]  # fmt: skip
    contents = [content("hi"), first.candidates[0].content, content(*results)]
    client.models.generate_content(contents=contents, **request)


def _says(at: str, name: str) -> dict[str, Case]:
    prompt, request = TOLD[name]

    def make_case(streamed: bool) -> Case:
        method = "generate_content_stream" if streamed else "generate_content"
        return Case(
            PLACES[at], f"{ID}@{at}", prompt,
            lambda client: getattr(client.models, method)(model=ID, **request),
            [gemini('{"word": "an answer"}', streamed=streamed)], streamed=streamed,
        )  # fmt: skip

    return both_ways(f"{at}: {name}", make_case)


def _embeds(model: str, dimensions: int | None) -> Callable[[Any], Any]:
    purpose = "RETRIEVAL_QUERY" if model.endswith("001") else None
    config = types.EmbedContentConfig(task_type=purpose, output_dimensionality=dimensions)
    contents = [content("a"), content("é")]
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
                        place, f"{model}@{at}", Embed(["a", "é"], role="main", purpose="query"),
                        _embeds(model, dimensions), [embeddings([1.0, 2.0], [3.0, 4.0])],
                        operation="embed",
                        parameters={"dimensions": dimensions} if dimensions else {},
                    ),
                )  # fmt: skip
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

"""Whatever a client sends to our APIs is answered, and never with a failure of the server: valid
requests of which some parts are replaced, by others of their parts or by anything else. A new API
is a row of `APIS`."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from genai_server.routes import own_routes
from hypothesis import given, strategies as st

from genai_host import Config
from genai_host.api import Cancellation, RouteRequest, write_json
from genai_host.serving.router import HttpRoutes
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.purity import places_in, with_other

pytestmark = pytest.mark.part

IMAGE = "data:image/png;base64,iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", None]}},
          "required": ["a"], "$ref": "#/$defs/b", "$defs": {"b": {}}}  # fmt: skip


def message(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def text(kind: str = "text", **more: Any) -> dict[str, Any]:
    return {"type": kind, "text": "hi", **more}


def function(**more: Any) -> dict[str, Any]:
    return {"name": "clock", "description": "time", "parameters": SCHEMA, **more}


FAKE: dict[str, Any] = {"model": "fake"}
EMBED: dict[str, Any] = {"model": "fake-embed"}
CALLED = {"id": "1", "function": {"name": "clock", "arguments": "{}"}}
GUIDES = {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "seed": 7, "stop": ["X"], "num_predict": 9,
          "num_ctx": 9, "presence_penalty": 0.5}  # fmt: skip
SOURCE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
MESSAGES: list[Any] = [
    message("user", text(cache_control={"type": "ephemeral", "ttl": "1h"})),
    message("user", {"type": "image", "source": SOURCE},
            {"type": "document", "title": "a", "citations": {"enabled": False},
             "source": {"type": "content", "content": [text()]}}),
    message("assistant", {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eA=="}, text(),
            {"type": "tool_use", "id": "1", "name": "clock", "input": {"INVALID_JSON": "{"}}),
    message("user", {"type": "tool_result", "tool_use_id": "1", "is_error": True,
                     "content": [text(), {"type": "image", "source": SOURCE}]}),
    message("user", {"type": "image", "source": {"type": "url", "url": "https://x"}}),
]  # fmt: skip
CHAT: list[Any] = [
    message("developer", text()),
    message("user", text(), {"type": "image_url", "image_url": {"url": IMAGE, "detail": "auto"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": IMAGE}}),
    {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALLED]},
    {"role": "tool", "tool_call_id": "1", "content": [text()]},
]  # fmt: skip
ITEMS: list[Any] = [
    message("system", text("input_text")),
    message("user", {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
            {"type": "input_file", "file_data": "AA==", "filename": "a.pdf"}),
    {"type": "message", "phase": "commentary",
     **message("assistant", text("output_text"), {"type": "refusal", "refusal": "no"})},
    {"type": "reasoning", "id": "r", "summary": [text("summary_text")], "encrypted_content": "eA"},
    {"type": "function_call", "call_id": "1", "name": "clock", "arguments": "{}",
     "status": "completed"},
    {"type": "function_call_output", "call_id": "1", "output": [text("input_text")]},
    {"type": "image_generation_call", "result": "iVBORw0KGgo="},
]  # fmt: skip
CONTENTS: list[Any] = [
    {"role": "user", "parts": [
        {"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"fileData": {"fileUri": "https://a.test/b", "mimeType": "image/png"}}]},
    {"role": "model", "parts": [
        {"text": "hm", "thought": True, "thoughtSignature": "AQ=="},
        {"functionCall": {"id": "1", "name": "clock", "args": {"a": 1}}}]},
    {"role": "user", "parts": [
        {"functionResponse": {"id": "1", "name": "clock", "response": {"output": "noon"}}}]},
]  # fmt: skip
OPEN_API = {
    "type": "OBJECT", "required": ["a"], "propertyOrdering": ["a"],
    "properties": {
        "a": {"anyOf": [{"type": "STRING", "format": "enum", "enum": ["x"]}], "nullable": True},
        "b": {"type": "ARRAY", "items": {"type": "INTEGER", "enum": ["1"]}, "maxItems": "3"}},
}  # fmt: skip
GENERATION: dict[str, Any] = {
    "contents": CONTENTS,
    "systemInstruction": {"parts": [{"text": "be kind"}]},
    "tools": [{"functionDeclarations": [{"name": "clock", "parameters": OPEN_API}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["clock"]}},
    "generationConfig": {
        "temperature": 0, "topK": 40.0, "maxOutputTokens": "9", "stopSequences": ["X"],
        "responseMimeType": "application/json", "responseSchema": OPEN_API,
        "responseJsonSchema": None, "thinkingConfig": {"includeThoughts": True}},
    "safetySettings": [{"category": "A", "threshold": "B"}],
}  # fmt: skip
EMBEDDING = {"model": "models/fake-embed", "content": {"parts": [{"text": "a"}]},
             "taskType": "RETRIEVAL_QUERY", "outputDimensionality": None}  # fmt: skip
OLLAMA: list[Any] = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "look", "images": ["iVBORw0KGgo="]},
    {"role": "assistant", "thinking": "hm", "tool_calls": [
        {"id": "1", "function": {"name": "clock", "arguments": {"a": 1}}}]},
    {"role": "tool", "tool_name": "clock", "tool_call_id": "1", "content": "noon"},
]  # fmt: skip


MESSAGE: dict[str, Any] = {
    **FAKE, "max_tokens": 9, "messages": MESSAGES, "system": [text()], "stream": False,
    "stop_sequences": ["X"], "temperature": 1, "metadata": {"user_id": "me"},
    "tools": [{"name": "clock", "description": "time", "input_schema": SCHEMA}],
    "tool_choice": {"type": "tool", "name": "clock", "disable_parallel_tool_use": False},
    "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "cache_control": {"type": "ephemeral"}}  # fmt: skip
RESPONSE: dict[str, Any] = {
    **FAKE, "input": ITEMS, "instructions": "be kind", "max_output_tokens": 9,
    "include": ["reasoning.encrypted_content"], "temperature": 0.5, "store": True,
    "stream": False, "metadata": {"a": "b"}, "user": "me", "background": False,
    "tools": [{"type": "function", **function(strict=True)}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto",
            "tools": [{"type": "function", "name": "clock"}]},
    "text": {"verbosity": None, "format": {
        "type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}},
    "reasoning": {"effort": None, "summary": "auto"}, "truncation": "auto",
    "previous_response_id": None, "conversation": None,
    "parallel_tool_calls": True, "service_tier": "flex", "max_tool_calls": 3}  # fmt: skip
APIS: Mapping[str, Mapping[str, Any]] = {
    "anthropic": {"/v1/messages": MESSAGE, "/v1/messages/count_tokens": MESSAGE},
    "openai": {
        "/v1/chat/completions": {
            **FAKE, "messages": CHAT, "stop": "X", "n": 1, "max_completion_tokens": 9,
            "stream": False, "stream_options": {"include_usage": True}, "temperature": 0.5,
            "tools": [{"type": "function", "function": function(strict=True)}],
            "tool_choice": {"type": "function", "function": {"name": "clock"}},
            "parallel_tool_calls": True, "modalities": ["text"], "logprobs": False,
            "reasoning_effort": None, "metadata": {"a": "b"},
            "response_format": {"type": "json_schema",
                                "json_schema": {"name": "a", "schema": SCHEMA}}},
        "/v1/embeddings": {**EMBED, "input": ["a"], "encoding_format": "base64",
                           "dimensions": None},
        "/v1/moderations": {"model": "fake-moderate", "input": [text()]}},
    "responses": {
        "/v1/responses": RESPONSE, "/v1/responses/input_tokens": RESPONSE,
        "/v1/conversations": {"items": ITEMS, "metadata": {"a": "b"}},
        "/v1/conversations/{}": {"metadata": {"a": "b"}},
        "/v1/conversations/{}/items": {"items": ITEMS}},
    "gemini": {
        "/v1beta/models/fake:generateContent": GENERATION,
        "/v1beta/models/fake:streamGenerateContent": GENERATION,
        "/v1beta/models/fake:countTokens": {
            "contents": CONTENTS, "generateContentRequest": {**GENERATION, "model": "models/fake"}},
        "/v1beta/models/fake-embed:embedContent": EMBEDDING,
        "/v1beta/models/fake-embed:batchEmbedContents": {"requests": [EMBEDDING]}},
    "ollama": {
        "/api/chat": {**FAKE, "messages": OLLAMA, "stream": False, "options": GUIDES, "think": True,
                      "format": SCHEMA, "keep_alive": "5m", "truncate": True,
                      "tools": [{"type": "function", "function": function()}]},
        "/api/generate": {**FAKE, "prompt": "hi", "system": "be kind", "images": ["iVBORw0KGgo="],
                          "options": GUIDES, "format": "json", "think": False, "suffix": ""},
        "/api/embed": {**EMBED, "input": ["a"], "truncate": True, "dimensions": None},
        "/api/embeddings": {**EMBED, "prompt": "a", "options": {"num_ctx": 9}},
        "/api/show": FAKE},
}  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "\0", "\ud800", "file:///etc/passwd", "AAAA", "NaN", "1e999"])
)  # fmt: skip


@functools.cache
def parts_of(name: str) -> list[Any]:
    """All values that stand anywhere in the samples of an API."""
    parts: dict[str, Any] = {}
    for sample in APIS[name].values():
        for place in places_in(sample):
            value = functools.reduce(lambda value, key: value[key], place, sample)
            parts[json.dumps(value)] = value
    return list(parts.values())


@functools.cache
def values_of(name: str) -> st.SearchStrategy[Any]:
    """The values that replace parts of the samples of an API; made once, which takes long."""
    parts = parts_of(name)
    keys = sorted({key for each in parts if isinstance(each, dict) for key in each})
    return st.recursive(
        SCALARS | st.sampled_from(parts),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=4)
        ),
        max_leaves=6,
    )


@st.composite
def requests(draw: st.DrawFn, name: str) -> tuple[str, Any]:
    """The path and the body of a request of which up to four parts are others."""
    samples = APIS[name]
    path = draw(st.sampled_from([*samples]))
    body = samples[path]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.sampled_from([*places_in(body)]))
        body = with_other(body, place, draw(values_of(name)))
    if isinstance(body, dict):
        for key in draw(st.lists(st.sampled_from(sorted(body)), max_size=8)) if body else ():
            body = {other: value for other, value in body.items() if other != key}
    return path, body


@pytest.mark.parametrize("name", APIS)
def test_the_samples_are_valid(routes: HttpRoutes, conversation: str, name: str) -> None:
    for path, body in APIS[name].items():
        status, written = send(routes, path.format(conversation), write_json(body))
        assert status == 200, (path, written)


@pytest.mark.parametrize("name", APIS)
@given(data=st.data())
def test_whatever_is_sent_is_answered(
    routes: HttpRoutes, conversation: str, name: str, data: st.DataObject
) -> None:
    path, body = data.draw(requests(name))
    sent = write_json(body)
    if "mbed" in path:  # the fake takes nothing for a text that UTF-8 has no place for
        sent = sent.replace(b"\\ud800", b"")
    status, written = send(routes, path.format(conversation), sent)
    assert status < 500 or b"the answer is not valid JSON" in written, written
    if status >= 400:
        assert json.loads(written)["error"]


@pytest.fixture
def routes(make_host: MakeHost) -> Iterator[HttpRoutes]:
    kinds = {"chat": "fake", "embed": "fake-embed", "moderate": "fake-moderate"}
    host = make_host(fake=FakeModel(lambda prompt: '{"a": "x"}'), config=Config(models=kinds))
    routes = HttpRoutes(host, own_routes())
    yield routes
    routes.close()


@pytest.fixture
def conversation(routes: HttpRoutes) -> str:
    id: str = json.loads(send(routes, "/v1/conversations", b"{}")[1])["id"]
    return id


def send(routes: HttpRoutes, path: str, body: bytes) -> tuple[int, bytes]:
    with Cancellation() as limits:
        reply = routes.answer(RouteRequest("POST", path, body=body, limits=limits))
        return reply.status, reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)

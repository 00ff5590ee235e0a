"""Unknown fields in objects of requests of both APIs, for services of the same format. The property
for each object is in `WireSuite`; here are objects that are sent in another form, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from openai_form import HI, Api, reading_api

from genai_host_testing.fake_service import FakeService, json_reply, sse_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "title": "a"}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
AUTO = {"type": "function", "function": {"name": "auto", "parameters": {"type": "object"}}}
PATCH = {"type": "custom", "custom": {"name": "patch"}}
ALLOWED = {"mode": "auto", "tools": [CLOCK]}
CHUNK = b'{"choices":[{"delta":{"content":"{}"},"finish_reason":"stop"}]}'


@pytest.fixture
def api(make_host: MakeHost, service: FakeService) -> Iterator[Api]:
    with reading_api(make_host, service) as api:
        yield api


def sent(api: Api, service: FakeService, **body: Any) -> tuple[Mapping[str, Any], str]:
    """The request to the service, and the fields that are left out."""
    message = {"role": "assistant", "content": "{}"}
    service.replies = [json_reply({"choices": [{"message": message, "finish_reason": "stop"}]})]
    if body.get("stream"):
        service.replies = [sse_reply([CHUNK, b"[DONE]"])]
    reply = api.chat(HI, **{"model": "gate/m", **body})
    assert reply.status_code == 200, reply.text
    return service.requests[-1].json(), reply.headers.get("x-genai-host-dropped", "")


@pytest.mark.parametrize(("form", "expected", "dropped"), [
    (None, None, ""),
    ({"type": "text", "new": 1}, None, "response_format.new"),
    ({"type": "json_object", "new": 1}, {"type": "json_object", "new": 1}, ""),
    ({"type": "json_object", "json_schema": {"name": "a"}}, {"type": "json_object"},
     "response_format.json_schema"),
    ({"type": "json_schema",
      "json_schema": {"name": "answer", "schema": {"type": "object"}, "description": "x"}},
     {"type": "json_object"}, "response_format.json_schema.description"),
    ({"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "new": [1]},
      "schema": {}},
     {"type": "json_schema",
      "json_schema": {"name": "a", "schema": SCHEMA, "strict": False, "new": [1]}},
     "response_format.schema"),
])  # fmt: skip
def test_the_format_of_an_answer(
    api: Api, service: FakeService, form: Any, expected: Any, dropped: str
) -> None:
    body, left_out = sent(api, service, response_format=form)
    assert (body.get("response_format"), left_out) == (expected, dropped)


def test_a_service_without_any_object(api: Api, service: FakeService) -> None:
    response_format = {"type": "json_object", "name": "x", "strict": True, "description": "x"}
    body, left_out = sent(api, service, model="other/m", response_format=response_format)
    inner = {"name": "answer", "schema": {"type": "object"}, "strict": False}
    assert body["response_format"] == {"type": "json_schema", "json_schema": inner}
    assert left_out == ("response_format.description, response_format.name, response_format.strict")


def test_a_model_without_schemas(api: Api, service: FakeService) -> None:
    """The service would refuse a format without a type."""
    form = {"name": "a", "schema": SCHEMA, "description": "x"}
    response_format = {"type": "json_schema", "json_schema": form}
    body, left_out = sent(api, service, model="plain/m", response_format=response_format)
    assert "response_format" not in body
    assert left_out == "response_format.json_schema"


OPTIONS = {"include_usage": True, "include_obfuscation": False}


@pytest.mark.parametrize(
    ("stream", "expected", "dropped"),
    [(True, OPTIONS, ""), (False, None, "stream_options.include_obfuscation")],
)
def test_the_options_of_a_stream(
    api: Api, service: FakeService, stream: bool, expected: Any, dropped: str
) -> None:
    body, left_out = sent(api, service, stream=stream, stream_options=OPTIONS)
    assert (body.get("stream_options"), left_out) == (expected, dropped)


def test_a_model_without_streams(api: Api, service: FakeService) -> None:
    service.replies = [json_reply({"choices": [{"message": {"content": "so"}}]})]
    reply = api.chat(model="plain/m", stream=True, stream_options=OPTIONS)
    assert reply.headers["x-genai-host-dropped"] == "stream_options.include_obfuscation"
    assert "stream_options" not in service.requests[-1].json()


@pytest.mark.parametrize(("choice", "expected", "dropped"), [
    ({**CLOCK, "new": 1}, {**CLOCK, "new": 1}, ""),
    ({**AUTO, "new": 1}, "required", "tool_choice.function.parameters, tool_choice.new"),
    ({**PATCH, "new": 1}, {"type": "function", "function": {"name": "patch"}}, "tool_choice.new"),
    ({"type": "allowed_tools", "allowed_tools": ALLOWED, "new": 1}, "auto",
     "tool_choice.allowed_tools.tools[0].function.parameters, tool_choice.new"),
])  # fmt: skip
def test_the_choice_of_a_tool(
    api: Api, service: FakeService, choice: Any, expected: Any, dropped: str
) -> None:
    body, left_out = sent(api, service, tools=[CLOCK, AUTO, PATCH], tool_choice=choice)
    assert (body["tool_choice"], left_out) == (expected, dropped)


PROPERTIES = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION: dict[str, Any] = {"type": "function", "name": "clock", "parameters": {"type": "object"}}
FORM: dict[str, Any] = {"type": "json_schema", "name": "answer", "schema": PROPERTIES, "new": 1}
ANY: dict[str, Any] = {**FORM, "name": "a", "schema": {"type": "object"}, "description": "x",
                       "strict": False}  # fmt: skip
CUSTOM: dict[str, Any] = {"type": "custom", "name": "patch"}
SPACE = {"type": "namespace", "name": "a", "tools": [FUNCTION]}
INNER: dict[str, Any] = {"type": "function", "name": "clock", "namespace": "a"}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "{}"}]}
REPLY: dict[str, Any] = {"status": "completed", "output": [SAID]}
END = json.dumps({"type": "response.completed", "response": REPLY}).encode()


@pytest.fixture
def client(make_host: MakeHost, service: FakeService) -> Iterator[Api]:
    with reading_api(make_host, service, serves=["openai-responses"]) as client:
        yield client


def asked(client: Api, service: FakeService, **body: Any) -> tuple[Mapping[str, Any], str]:
    """The request to the service, and the fields that are left out."""
    is_streamed = body.get("stream") and not body.get("model", "").startswith("plain")
    service.replies = [sse_reply([END]) if is_streamed else json_reply(REPLY)]
    reply = client.post("/v1/responses", {"model": "gate/m", "input": "hi", **body})
    assert reply.status_code == 200, reply.text
    return service.requests[-1].json(), reply.headers.get("x-genai-host-dropped", "")


@pytest.mark.parametrize(("fields", "expected", "dropped"), [
    ({"text": {"new": 1}}, {"text": {"new": 1}}, ""),
    ({"text": {"format": {"type": "text", "new": 1}}}, {"text": None}, "text.format.new"),
    ({"text": {"format": FORM}}, {"text": {"format": {**FORM, "strict": False}}}, ""),
    ({"text": {"format": FORM}, "model": "plain/m"}, {"text": {}}, "text.format.new"),
    ({"format": "x", "model": "plain/m"}, {"format": "x"}, ""),
    ({"text": {"format": {**ANY, "type": "json_object"}}, "model": "other/m"},
     {"text": {"format": {"type": "json_schema", "name": "answer", "strict": False, "new": 1,
                          "schema": {"type": "object"}}}},
     "text.format.description, text.format.name, text.format.schema, text.format.strict"),
    ({"text": {"format": {**ANY, "name": "answer"}}},
     {"text": {"format": {"type": "json_object"}}}, "text.format.new"),
    ({"reasoning": {"new": 1}}, {"reasoning": {"new": 1}}, ""),
    ({"stream": True, "stream_options": {"include_obfuscation": False}},
     {"stream_options": {"include_obfuscation": False}}, ""),
    ({"stream_options": {"new": 1}}, {"stream_options": None}, "stream_options.new"),
    ({"stream": True, "stream_options": {"new": 1}, "model": "plain/m"},
     {"stream_options": None}, "stream_options.new"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "clock", "new": 1}},
     {"tool_choice": {"type": "function", "name": "clock", "new": 1}}, ""),
    ({"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "tools": [FUNCTION], "new": 1}},
     {"tool_choice": "auto"}, "tool_choice.tools[0].parameters, tool_choice.new"),
    ({"tools": [CUSTOM], "tool_choice": {**CUSTOM, "new": 1}},
     {"tool_choice": {"type": "function", "name": "patch"}}, "tool_choice.new"),
    ({"tools": [SPACE], "tool_choice": {**INNER, "new": 1}},
     {"tool_choice": {"type": "function", "name": "a__clock"}}, "tool_choice.new"),
    ({"tools": [{**FUNCTION, "name": "auto"}],
      "tool_choice": {"type": "function", "name": "auto", "new": 1}},
     {"tool_choice": "required"}, "tool_choice.new"),
])  # fmt: skip
def test_objects_of_a_request(
    client: Api, service: FakeService, fields: Any, expected: Mapping[str, Any], dropped: str
) -> None:
    body, left_out = asked(client, service, **fields)
    assert ({name: body.get(name) for name in expected}, left_out) == (expected, dropped)


def test_a_conversation_is_of_this_host(client: Api, service: FakeService) -> None:
    id = client.post("/v1/conversations", {}).json()["id"]
    body, left_out = asked(client, service, conversation={"id": id, "new": 1})
    assert ("conversation" in body, left_out) == (False, "conversation.new")


@pytest.mark.parametrize("more", [{}, {"action": {"type": "search"}}])
def test_a_search_is_sent_with_and_without_further_fields(
    client: Api, service: FakeService, more: Any
) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "failed", **more}
    messages = [
        {"type": "message", "role": role, "content": "hi"} for role in ("user", "assistant")
    ]
    body, dropped = asked(client, service, input=[messages[0], search, *reversed(messages)])
    assert (body["input"][1], dropped) == (search, "")


TOLD: Mapping[str, Any] = {
    "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
    "max_tool_calls": 3, "truncation": "auto", "service_tier": "flex",
}  # fmt: skip


@pytest.mark.parametrize("echo", [{}, {"service_tier": "priority", "truncation": "auto"}])
def test_fields_that_only_this_format_has(client: Api, service: FakeService, echo: Any) -> None:
    """The reply repeats what was asked, and the tier that the service reports."""
    service.replies = [json_reply({**REPLY, **echo})]
    reply = client.post("/v1/responses", {"model": "gate/m", "input": "hi", **TOLD})
    body = service.requests[-1].json()
    assert {name: body[name] for name in TOLD} == {**TOLD, "include": TOLD["include"][1:]}
    repeated = {name: reply.json()[name] for name in TOLD if name != "include"}
    tier = {"service_tier": echo.get("service_tier", "flex")}
    assert repeated == {"max_tool_calls": 3, "truncation": "auto", **tier}
    assert "x-genai-host-dropped" not in reply.headers


@pytest.mark.parametrize(("given", "expected"), [(None, True), (True, True), (False, False)])
def test_whether_a_tool_is_strict(
    make_host: MakeHost, service: FakeService, given: bool | None, expected: bool
) -> None:
    tool = {**FUNCTION, "parameters": {"type": "object", "properties": {}}, "strict": given}
    with reading_api(make_host, service, serves=["openai-responses"], strict=True) as client:
        body, _ = asked(client, service, tools=[tool])
    assert body["tools"][0]["strict"] is expected

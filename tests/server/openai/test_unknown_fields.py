"""Unknown fields in objects of requests, for services of the same format. The property for each
object is in `WireSuite`; here are objects that are sent in another form, or not at all."""

from __future__ import annotations

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

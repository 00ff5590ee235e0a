"""OpenAI's chat completions: requests. `test_openai_replies` has the replies."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from genai_wire_openai.dialect.chat import OpenAIChat

from genai_host.api import (
    STANDARD,
    ChatCall,
    DialectEndpoint,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host.errors import UnsupportedPart

DIALECT = OpenAIChat()
CALL = ChatCall(model_id="m", messages=[Message("user", "hi")])


def body(*messages: Message, **fields: Any) -> Any:
    """The body of a request, as the service reads it."""
    request = DIALECT.prepare_request(ChatCall(model_id="m", messages=messages, **fields))
    return json.loads(request.data())


def test_it_says_what_it_is() -> None:
    assert (DIALECT.name, DIALECT.operation) == ("openai-chat", "chat")
    assert DIALECT.endpoint == DialectEndpoint(path="/chat/completions")
    assert DIALECT.capabilities == {"stream", "tools", "schema", "images", "files", "reasoning"}
    assert set(STANDARD) - set(DIALECT.parameters) == {"top_k"}
    own = {"parallel_tool_calls", "reasoning_effort", "logprobs", "top_logprobs", "n"}
    assert set(DIALECT.parameters) - set(STANDARD) == own
    assert all(DIALECT.parameters[name] is STANDARD[name] for name in STANDARD if name != "top_k")


def test_a_plain_request_has_model_and_messages_only() -> None:
    request = DIALECT.prepare_request(CALL)
    assert (request.operation, request.dialect, request.model_id) == ("chat", "openai-chat", "m")
    assert (request.stream, request.headers) == (False, {})
    assert body(Message("user", "hi")) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_all_that_a_call_may_have_is_written() -> None:
    tool = ToolSchema("look", "looks", {"type": "object"})
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    found = body(
        parameters={
            "temperature": 0.5,
            "max_tokens": 7,
            "stop": ["x"],
            "parallel_tool_calls": False,
            "reasoning_effort": "low",
        },
        tools=[tool, ToolSchema("wait", "")],
        tool_choice="look",
        schema=schema,
        stream=True,
    )
    nothing = {"type": "object", "properties": {}}
    look = {"name": "look", "description": "looks", "parameters": nothing}
    wait = {"name": "wait", "description": "", "parameters": nothing}
    assert found == {
        "model": "m",
        "messages": [],
        "temperature": 0.5,
        "max_tokens": 7,
        "stop": ["x"],
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "tools": [{"type": "function", "function": each} for each in (look, wait)],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": False},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_variants_change_what_they_say() -> None:
    found = body(
        Message("system", "s"),
        Message("user", Image(url="http://x")),
        Message("assistant", [Reasoning("h"), Reasoning("m"), "a"]),
        parameters={"max_tokens": 7},
        tools=[
            ToolSchema("look", "looks", CITY),
            ToolSchema("any", "", {"additionalProperties": {}}),
        ],
        schema=CITY,
        stream=True,
        variant={
            "max_tokens": "max_completion_tokens",
            "system_role": "developer",
            "stream_usage": False,
            "strict": True,
            "image_detail": "low",
            "reasoning": "reasoning_content",
        },
    )
    assert found["max_completion_tokens"] == 7
    assert "max_tokens" not in found
    assert "stream_options" not in found
    assert found["messages"] == [
        {"role": "developer", "content": "s"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "http://x", "detail": "low"}}],
        },
        {"role": "assistant", "content": "a", "reasoning_content": "hm"},
    ]
    closed = {**CITY, "additionalProperties": False}
    look, other = (tool["function"] for tool in found["tools"])
    assert (look["strict"], look["parameters"]) == (True, closed)
    assert "strict" not in other
    format = found["response_format"]["json_schema"]
    assert (format["strict"], format["schema"]) == (True, closed)


def test_a_schema_that_is_of_no_object_is_put_into_one() -> None:
    numbers = {"type": "array", "items": {"type": "integer"}}
    found = body(schema=numbers, variant={"object_root": True, "strict": True})
    format = found["response_format"]["json_schema"]
    assert format["strict"] is True
    assert format["schema"]["properties"] == {"whole_answer": numbers}
    assert body(schema=numbers)["response_format"]["json_schema"]["schema"] == numbers


def test_pictures_of_tools_come_after_all_results_of_calls_that_were_made_at_once() -> None:
    shown, told = ToolResult("1", "look", Image(url="http://x")), ToolResult("2", "look", "b")
    found = body(Message("tool", shown), Message("tool", told), Message("user", "and?"))
    roles = [message["role"] for message in found["messages"]]
    assert roles == ["tool", "tool", "user", "user"]


def test_a_message_is_written_anew_for_another_system_role() -> None:
    message = Message("system", "s")
    assert body(message)["messages"] == [{"role": "system", "content": "s"}]
    found = body(message, variant={"system_role": "developer"})
    assert found["messages"] == [{"role": "developer", "content": "s"}]


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_choice_that_is_no_tool_is_sent_as_it_is(choice: str) -> None:
    found = body(tool_choice=choice, tools=[ToolSchema("look", "looks")])
    assert found["tool_choice"] == choice


def test_what_is_about_tools_is_left_out_where_there_are_none() -> None:
    found = body(tool_choice="none", parameters={"parallel_tool_calls": False})
    assert set(found) == {"model", "messages"}


LOOK = ToolCall("1", "look", {"at": "é"})
WIRE_LOOK: dict[str, Any] = {
    "id": "1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at":"é"}'},
}
TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (Message("user", "é"), [{"role": "user", "content": "é"}]),
        (Message("user", ""), [{"role": "user", "content": ""}]),
        (Message("user", ["a", "b"]), [{"role": "user", "content": TEXTS}]),
        (Message("user", Image(b"abc", "image/jpeg")), [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,YWJj"}}]}]),
        (Message("user", Image(b"abc")), [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}}]}]),
        (Message("user", Image(url="http://x")), [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "http://x"}}]}]),
        (Message("user", ["a", File(b"%PDF", "application/pdf", "x.pdf")]), [{"role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "file", "file": {
                "filename": "x.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}}]}]),
        (Message("user", File(b"abc", "text/csv")), [{"role": "user", "content": [
            {"type": "file", "file": {
                "filename": "document", "file_data": "data:text/csv;base64,YWJj"}}]}]),
        (Message("user", File(b"abc")), [{"role": "user", "content": [
            {"type": "file", "file": {
                "filename": "document.pdf", "file_data": "data:application/pdf;base64,YWJj"}}]}]),
        (Message("assistant", []), [{"role": "assistant", "content": ""}]),
        (Message("assistant", LOOK), [
            {"role": "assistant", "content": None, "tool_calls": [WIRE_LOOK]}]),
        (Message("assistant", ["a", LOOK]), [
            {"role": "assistant", "content": "a", "tool_calls": [WIRE_LOOK]}]),
        (Message("assistant", [Reasoning("hm"), "a", VendorPart("other", {})]), [
            {"role": "assistant", "content": "a"}]),
        (Message("assistant", ToolCall("1", "f", malformed='{"a')), [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a'}}]}]),
        (Message("tool", [ToolResult("1", content=["a", "b"]), ToolResult("2", error=True)]), [
            {"role": "tool", "tool_call_id": "1", "content": "ab"},
            {"role": "tool", "tool_call_id": "2", "content": "error: "}]),
        (Message("tool", []), []),
        (Message("tool", [
            ToolResult("1", "look", ["taken", Image(b"abc", "image/png")]),
            ToolResult("2", content=Image(url="http://x")),
            ToolResult("3", content="c"),
        ]), [
            {"role": "tool", "tool_call_id": "1", "content": "taken"},
            {"role": "tool", "tool_call_id": "2", "content": ""},
            {"role": "tool", "tool_call_id": "3", "content": "c"},
            {"role": "user", "content": [
                {"type": "text", "text": "(shown by the tool look, call 1:)"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
                {"type": "text", "text": "(shown by a tool, call 2:)"},
                {"type": "image_url", "image_url": {"url": "http://x"}}]}]),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, Message) else "",
)  # fmt: skip
def test_a_message_is_written_as_the_service_has_it(message: Message, wire: Any) -> None:
    assert body(Message("user", "x"), message, Message("user", "y"))["messages"][1:-1] == wire


class Poll(Part):
    type = "poll"


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (Message("user", File(url="http://x")), "file"),
        (Message("system", File(b"x")), "file"),
        (Message("user", LOOK), "tool_call"),
        (Message("user", ["a", Poll()]), "poll"),
        (Message("user", ToolResult("1")), "tool_result"),
        (Message("system", Image(b"x")), "image"),
        (Message("assistant", Image(b"x")), "image"),
        (Message("tool", "text"), "text"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_part_without_a_place_is_refused(message: Message, part: str) -> None:
    with pytest.raises(UnsupportedPart) as caught:
        body(message)
    assert (caught.value.part, caught.value.dialect) == (part, "openai-chat")


def test_a_mapping_need_not_be_a_dict() -> None:
    view = MappingProxyType({"type": "object", "title": "shown"})
    call = ToolCall("1", "f", view)
    found = body(Message("assistant", call), tools=[ToolSchema("f", "", view)], schema=view)
    assert found["messages"][0]["tool_calls"][0]["function"]["arguments"] == (
        '{"type":"object","title":"shown"}'
    )
    assert found["tools"][0]["function"]["parameters"]["type"] == "object"
    assert found["response_format"]["json_schema"]["schema"] == view

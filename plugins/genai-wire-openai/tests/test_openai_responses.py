"""OpenAI's responses: requests. `test_openai_response_replies` has the replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_wire_openai.dialect.responses import OpenAIResponses

from genai_host.api import (
    ChatCall,
    DialectEndpoint,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    SchemaValidator,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host.errors import UnsupportedPart, ValidationError

DIALECT = OpenAIResponses()
CALL = ChatCall(model_id="m", messages=[Message("user", "hi")])


def body(*messages: Message, **fields: Any) -> Any:
    """The body of a request, as the service reads it."""
    request = DIALECT.prepare_request(ChatCall(model_id="m", messages=messages, **fields))
    return json.loads(request.data())


def test_it_says_what_it_is() -> None:
    assert (DIALECT.name, DIALECT.operation) == ("openai-responses", "chat")
    assert DIALECT.endpoint == DialectEndpoint(path="/responses")
    assert DIALECT.capabilities == {"stream", "tools", "schema", "images", "files", "reasoning"}
    assert set(DIALECT.parameters) == {
        "temperature", "top_p", "max_tokens", "parallel_tool_calls", "reasoning_effort",
        "reasoning_summary",
    }  # fmt: skip
    for name, value in {"reasoning_effort": "low", "reasoning_summary": "auto"}.items():
        SchemaValidator(DIALECT.parameters[name]).check(value)
        with pytest.raises(ValidationError):
            SchemaValidator(DIALECT.parameters[name]).check("x")


def test_a_plain_request_has_model_and_input_and_is_not_stored() -> None:
    request = DIALECT.prepare_request(CALL)
    assert (request.operation, request.dialect, request.model_id) == (
        "chat", "openai-responses", "m",
    )  # fmt: skip
    assert (request.stream, request.headers) == (False, {})
    assert body(Message("user", "hi")) == {
        "model": "m",
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
    }


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOTHING = {"type": "object", "properties": {}}


def test_all_that_a_call_may_have_is_written() -> None:
    found = body(
        parameters={
            "temperature": 0.5,
            "max_tokens": 7,
            "parallel_tool_calls": False,
            "reasoning_effort": "low",
            "reasoning_summary": "auto",
            "verbosity": "high",
        },
        tools=[ToolSchema("look", "looks", CITY), ToolSchema("wait", "")],
        tool_choice="look",
        schema=CITY,
        stream=True,
    )
    assert found == {
        "model": "m",
        "input": [],
        "store": False,
        "temperature": 0.5,
        "max_output_tokens": 7,
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {
            "verbosity": "high",
            "format": {"type": "json_schema", "name": "answer", "schema": CITY, "strict": False},
        },
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "looks",
                "parameters": CITY,
                "strict": False,
            },
            {
                "type": "function",
                "name": "wait",
                "description": "",
                "parameters": NOTHING,
                "strict": False,
            },
        ],
        "tool_choice": {"type": "function", "name": "look"},
        "stream": True,
    }


def test_variants_change_what_they_say() -> None:
    found = body(
        Message("system", "s"),
        Message("user", Image(url="http://x")),
        tools=[ToolSchema("look", "", CITY)],
        schema={"type": "array", "items": CITY},
        variant={
            "system_role": "developer",
            "encrypted_reasoning": True,
            "strict": True,
            "object_root": True,
            "image_detail": "low",
        },
    )
    assert found["include"] == ["reasoning.encrypted_content"]
    assert found["input"] == [
        {"role": "developer", "content": "s"},
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": "http://x", "detail": "low"}],
        },
    ]
    closed = {**CITY, "additionalProperties": False}
    assert (found["tools"][0]["strict"], found["tools"][0]["parameters"]) == (True, closed)
    format = found["text"]["format"]
    assert format["strict"] is True
    assert format["schema"]["properties"] == {"whole_answer": {"type": "array", "items": closed}}


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_choice_that_is_no_tool_is_sent_as_it_is(choice: str) -> None:
    found = body(tool_choice=choice, tools=[ToolSchema("look", "looks")])
    assert found["tool_choice"] == choice


def test_what_is_about_tools_is_left_out_where_there_are_none() -> None:
    found = body(tool_choice="none", parameters={"parallel_tool_calls": False})
    assert set(found) == {"model", "input", "store"}


LOOK = ToolCall("1", "look", {"at": "é"})
WIRE_LOOK = {
    "type": "function_call", "call_id": "1", "name": "look", "arguments": '{"at":"é"}',
}  # fmt: skip
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
OPAQUE = VendorPart("openai-responses", THOUGHT)
COMMENT = VendorPart("openai-responses", {"phase": "commentary"})


def said(text: str, **more: str) -> dict[str, str]:
    return {"type": "message", "role": "assistant", "content": text, **more}


@pytest.mark.parametrize(
    ("message", "items"),
    [
        (Message("system", "é"), [{"role": "system", "content": "é"}]),
        (Message("user", ""), [{"role": "user", "content": ""}]),
        (Message("user", ["a", "b"]), [{"role": "user", "content": [
            {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]),
        (Message("user", Image(b"abc", "image/jpeg")), [{"role": "user", "content": [
            {"type": "input_image", "image_url": "data:image/jpeg;base64,YWJj",
             "detail": "auto"}]}]),
        (Message("user", Image(b"abc")), [{"role": "user", "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,YWJj",
             "detail": "auto"}]}]),
        (Message("user", File(b"abc", name="x.pdf")), [{"role": "user", "content": [
            {"type": "input_file", "filename": "x.pdf",
             "file_data": "data:application/pdf;base64,YWJj"}]}]),
        (Message("user", File(url="http://x")), [{"role": "user", "content": [
            {"type": "input_file", "file_url": "http://x"}]}]),
        (Message("assistant", []), []),
        (Message("assistant", ["a", "b"]), [said("ab")]),
        (Message("assistant", LOOK), [WIRE_LOOK]),
        (Message("assistant", ["a", LOOK, "b"]), [said("a"), WIRE_LOOK, said("b")]),
        (Message("assistant", ToolCall("1", "f", malformed='{"a')), [
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a'}]),
        (Message("assistant", [Reasoning("hm"), "a", VendorPart("other", {}), "b"]), [said("ab")]),
        (Message("assistant", [Reasoning("hm"), OPAQUE, "a"]), [THOUGHT, said("a")]),
        (Message("assistant", [OPAQUE, LOOK, OPAQUE, "a"]), [
            THOUGHT, WIRE_LOOK, THOUGHT, said("a")]),
        (Message("assistant", [OPAQUE, OPAQUE, LOOK, LOOK]), [
            THOUGHT, THOUGHT, WIRE_LOOK, WIRE_LOOK]),
        (Message("assistant", ["a", OPAQUE]), [said("a")]),
        (Message("assistant", OPAQUE), []),
        (Message("assistant", [COMMENT, "a", LOOK, "b"]), [
            said("a", phase="commentary"), WIRE_LOOK, said("b")]),
        (Message("assistant", [COMMENT, "a", COMMENT, "b"]), [
            said("a", phase="commentary"), said("b", phase="commentary")]),
        (Message("tool", [ToolResult("1", content=["a", "b"]), ToolResult("2", error=True)]), [
            {"type": "function_call_output", "call_id": "1", "output": "ab"},
            {"type": "function_call_output", "call_id": "2", "output": "error: "}]),
        (Message("tool", ToolResult("1", content=["a", Image(url="http://x")])), [
            {"type": "function_call_output", "call_id": "1", "output": [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "http://x", "detail": "auto"}]}]),
        (Message("tool", ToolResult("1", content=Image(url="http://x"))), [
            {"type": "function_call_output", "call_id": "1", "output": [
                {"type": "input_image", "image_url": "http://x", "detail": "auto"}]}]),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, Message) else "",
)  # fmt: skip
def test_a_message_is_written_as_the_service_has_it(message: Message, items: Any) -> None:
    assert body(Message("user", "x"), message, Message("user", "y"))["input"][1:-1] == items


class Poll(Part):
    type = "poll"


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (Message("user", LOOK), "tool_call"),
        (Message("user", ["a", Poll()]), "poll"),
        (Message("user", ToolResult("1")), "tool_result"),
        (Message("system", Image(b"x")), "image"),
        (Message("system", File(b"x")), "file"),
        (Message("assistant", Image(b"x")), "image"),
        (Message("assistant", VendorPart("openai-responses", 3)), "opaque"),
        (Message("tool", "text"), "text"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_part_without_a_place_is_refused(message: Message, part: str) -> None:
    with pytest.raises(UnsupportedPart) as caught:
        body(message)
    assert (caught.value.part, caught.value.dialect) == (part, "openai-responses")


def test_a_message_is_written_anew_for_another_role() -> None:
    message = Message("system", "s")
    assert body(message)["input"] == [{"role": "system", "content": "s"}]
    found = body(message, variant={"system_role": "developer"})
    assert found["input"] == [{"role": "developer", "content": "s"}]

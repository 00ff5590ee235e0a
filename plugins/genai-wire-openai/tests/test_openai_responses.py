"""OpenAI's responses: requests. `test_openai_response_replies` has the replies."""

from __future__ import annotations

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
from genai_host.errors import ValidationError
from genai_host_testing.internal.chat_requests import ChatRequests, assistant, system, tool, user

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**CITY, "additionalProperties": False}
NOTHING = {"type": "object", "properties": {}}
LOOK = ToolCall("1", "look", {"at": "é"})
WIRE_LOOK = {
    "type": "function_call", "call_id": "1", "name": "look", "arguments": '{"at":"é"}',
}  # fmt: skip
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
OPAQUE = VendorPart("openai-responses", THOUGHT)
COMMENT = VendorPart("openai-responses", {"phase": "commentary"})


class Poll(Part):
    type = "poll"


def function(name: str, description: str, parameters: Any, *, strict: bool = False) -> Any:
    return {"type": "function", "name": name, "description": description,
            "parameters": parameters, "strict": strict}  # fmt: skip


def format_of(schema: Any, *, strict: bool = False) -> Any:
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}


def text(text: str) -> Any:
    return {"type": "input_text", "text": text}


def picture(url: str, detail: str = "auto") -> Any:
    return {"type": "input_image", "image_url": url, "detail": detail}


def item(text: str, **more: str) -> Any:
    return {"type": "message", "role": "assistant", "content": text, **more}


def output(id: str, output: Any) -> Any:
    return {"type": "function_call_output", "call_id": id, "output": output}


ANSWERS: list[tuple[Message, list[Any]]] = [
    (assistant(), []), (assistant("a", "b"), [item("ab")]), (assistant(LOOK), [WIRE_LOOK]),
    (assistant("a", LOOK, "b"), [item("a"), WIRE_LOOK, item("b")]),
    (assistant(ToolCall("1", "f", malformed='{"a')),
     [{"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a'}]),
    (assistant(Reasoning("hm"), "a", VendorPart("other", {}), "b"), [item("ab")]),
    (assistant(Reasoning("hm"), OPAQUE, "a"), [THOUGHT, item("a")]),
    (assistant(OPAQUE, LOOK, OPAQUE, "a"), [THOUGHT, WIRE_LOOK, THOUGHT, item("a")]),
    (assistant(OPAQUE, OPAQUE, LOOK, LOOK), [THOUGHT, THOUGHT, WIRE_LOOK, WIRE_LOOK]),
    (assistant("a", OPAQUE), [item("a")]),
    (assistant(OPAQUE), []),
    (assistant(COMMENT, "a", LOOK, "b"), [item("a", phase="commentary"), WIRE_LOOK, item("b")]),
    (assistant(COMMENT, "a", COMMENT, "b"),
     [item("a", phase="commentary"), item("b", phase="commentary")]),
    (tool(ToolResult("1", content=["a", "b"]), ToolResult("2", error=True)),
     [output("1", "a\nb"), output("2", "error: ")]),
    (tool(ToolResult("1", content=["a", Image(url="http://x")])),
     [output("1", [text("a"), picture("http://x")])]),
    (tool(ToolResult("1", content=Image(url="http://x"))), [output("1", [picture("http://x")])]),
]  # fmt: skip
SEALED = "reasoning.encrypted_content"


class TestRequests(ChatRequests):
    dialect = OpenAIResponses()
    place = "input"
    shown = [
        (Image(b"abc", "image/jpeg"), picture("data:image/jpeg;base64,YWJj")),
        (Image(b"abc"), picture("data:image/png;base64,YWJj")),
        (File(b"abc", name="x.pdf"), {
            "type": "input_file", "filename": "x.pdf",
            "file_data": "data:application/pdf;base64,YWJj"}),
        (File(url="http://x"), {"type": "input_file", "file_url": "http://x"}),
    ]  # fmt: skip
    conversations = {
        "system": ([system("é")], [{"role": "system", "content": "é"}]),
        "an empty text": ([user("")], [{"role": "user", "content": ""}]),
        "texts": ([user("a", "b")], [{"role": "user", "content": [text("a"), text("b")]}]),
        **{f"{number}: {message!r}"[:60]: (
            [user("x"), message, user("y")],
            [{"role": "user", "content": "x"}, *wire, {"role": "user", "content": "y"}])
           for number, (message, wire) in enumerate(ANSWERS)},
    }  # fmt: skip
    calls = {
        "nothing": ({"tool_choice": "none", "parameters": {"parallel_tool_calls": False}}, {
            "tools": None, "tool_choice": None, "parallel_tool_calls": None}),
        "all": (
            {"parameters": {
                "temperature": 0.5, "max_tokens": 7, "parallel_tool_calls": False,
                "reasoning_effort": "low", "reasoning_summary": "auto", "verbosity": "high"},
             "tools": [ToolSchema("look", "looks", CITY), ToolSchema("wait", "")],
             "tool_choice": "look", "schema": CITY, "stream": True},
            {"model": "m", "store": False, "temperature": 0.5, "max_output_tokens": 7,
             "parallel_tool_calls": False, "reasoning": {"effort": "low", "summary": "auto"},
             "text": {"verbosity": "high", "format": format_of(CITY)},
             "tools": [function("look", "looks", CITY), function("wait", "", NOTHING)],
             "tool_choice": {"type": "function", "name": "look"}, "stream": True}),
        "variants": (
            {"tools": [ToolSchema("look", "", CITY)], "schema": CITY,
             "variant": {"encrypted_reasoning": True, "strict": True}},
            {"include": [SEALED],
             "tools": [function("look", "", CLOSED, strict=True)],
             "text": {"format": format_of(CLOSED, strict=True)}}),
        "further data": (
            {"parameters": {"include": [SEALED, "x"]}, "variant": {"encrypted_reasoning": True}},
            {"include": [SEALED, "x"]}),
        "tools that say whether they are strict": (
            {"tools": [ToolSchema("no", "", CITY, False), ToolSchema("any", "", {"type": "object"}),
                       ToolSchema("none", "")], "variant": {"strict": True}},
            {"tools": [function("no", "", CITY), function("any", "", NOTHING),
                       function("none", "", {**NOTHING, "required": [],
                                             "additionalProperties": False}, strict=True)]}),
        "a strict tool": ({"tools": [ToolSchema("yes", "", CITY, True)]},
                          {"tools": [function("yes", "", CLOSED, strict=True)]}),
        **{f"choice {choice}": ({"tool_choice": choice, "tools": [ToolSchema("look", "looks")]},
                                {"tool_choice": choice})
           for choice in ("auto", "none", "required")},
    }  # fmt: skip
    refused = [
        user(LOOK), user("a", Poll()), user(ToolResult("1")), system(Image(b"x")),
        user(File(b"x", "audio/wav")), system(File(b"x")), assistant(Image(b"x")), tool("text"),
        assistant(VendorPart("openai-responses", 3)),
    ]  # fmt: skip

    def test_it_says_what_it_is(self) -> None:
        dialect = self.dialect
        assert (dialect.name, dialect.operation) == ("openai-responses", "chat")
        assert dialect.endpoint == DialectEndpoint(path="/responses")
        assert dialect.capabilities == {"stream", "tools", "schema", "images", "files", "reasoning"}
        assert set(dialect.parameters) == {
            "temperature", "top_p", "max_tokens", "parallel_tool_calls", "reasoning_effort",
            "reasoning_summary", "include", "max_tool_calls",
        }  # fmt: skip
        for name, value in {"reasoning_effort": "low", "reasoning_summary": "auto"}.items():
            SchemaValidator(dialect.parameters[name]).check(value)
            with pytest.raises(ValidationError):
                SchemaValidator(dialect.parameters[name]).check("x")

    def test_a_plain_request_has_model_and_input_and_is_not_stored(self) -> None:
        request = self.dialect.prepare_request(ChatCall(model_id="m", messages=[user("hi")]))
        assert (request.operation, request.dialect, request.model_id) == (
            "chat", "openai-responses", "m",
        )  # fmt: skip
        assert (request.stream, request.headers) == (False, {})
        items = [{"role": "user", "content": "hi"}]
        assert self.body() == {"model": "m", "input": items, "store": False}

    def test_variants_change_messages(self) -> None:
        messages = [system("s"), user(Image(url="http://x"))]
        variant = {"system_role": "developer", "image_detail": "low"}
        assert self.content(*messages)[0] == {"role": "system", "content": "s"}
        assert self.content(*messages, variant=variant) == [
            {"role": "developer", "content": "s"},
            {"role": "user", "content": [picture("http://x", "low")]},
        ]

    def test_a_schema_that_is_of_no_object_is_put_into_one(self) -> None:
        schema = {"type": "array", "items": CITY}
        body = self.body(schema=schema, variant={"object_root": True, "strict": True})
        format = body["text"]["format"]
        assert format["strict"] is True
        assert format["schema"]["properties"] == {
            "whole_answer": {"type": "array", "items": CLOSED}
        }

"""OpenAI's chat completions: requests. `test_openai_replies` has the replies."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

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
from genai_host_testing.internal.chat_requests import ChatRequests, assistant, system, tool, user

LOOK = ToolCall("1", "look", {"at": "é"})
LOOKS = ToolSchema("look", "looks", {"type": "object"})
WIRE_LOOK: dict[str, Any] = {
    "id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at":"é"}'},
}  # fmt: skip
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**CITY, "additionalProperties": False}
NOTHING = {"type": "object", "properties": {}}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
PARAMETERS = {"temperature": 0.5, "max_tokens": 7, "stop": ["x"], "parallel_tool_calls": False,
              "reasoning_effort": "low"}  # fmt: skip


class Poll(Part):
    type = "poll"


def function(name: str, description: str, parameters: Any, **more: Any) -> Any:
    fields = {"name": name, "description": description, "parameters": parameters, **more}
    return {"type": "function", "function": fields}


def format_of(schema: Any, *, strict: bool) -> Any:
    named = {"name": "answer", "schema": schema, "strict": strict}
    return {"type": "json_schema", "json_schema": named}


def picture(url: str, **more: Any) -> Any:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def audio(data: str, form: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}


def file(name: str, data: str) -> Any:
    return {"type": "file", "file": {"filename": name, "file_data": data}}


def text(text: str) -> Any:
    return {"type": "text", "text": text}


def reply(content: Any, *calls: Any, **more: Any) -> Any:
    return {"role": "assistant", "content": content, **more,
            **({"tool_calls": [*calls]} if calls else {})}  # fmt: skip


def result(id: str, content: str) -> Any:
    return {"role": "tool", "tool_call_id": id, "content": content}


ANSWERS: list[tuple[Message, list[Any]]] = [
    (assistant(), [reply("")]),
    (assistant(LOOK), [reply(None, WIRE_LOOK)]),
    (assistant("a", LOOK), [reply("a", WIRE_LOOK)]),
    (assistant(Reasoning("hm"), "a", VendorPart("other", {})), [reply("a")]),
    (assistant(ToolCall("1", "f", malformed='{"a')),
     [reply(None, {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a'}})]),
    (tool(ToolResult("1", content=["a", "b"]), ToolResult("2", error=True)),
     [result("1", "a\nb"), result("2", "error: ")]),
    (tool(), []),
    (tool(ToolResult("1", "look", ["taken", Image(b"abc", "image/png")]),
          ToolResult("2", content=Image(url="http://x")), ToolResult("3", content="c")),
     [result("1", "taken"), result("2", ""), result("3", "c"),
      {"role": "user", "content": [
          text("(shown by the tool look, call 1:)"), picture("data:image/png;base64,YWJj"),
          text("(shown by a tool, call 2:)"), picture("http://x")]}]),
]  # fmt: skip


class TestRequests(ChatRequests):
    dialect = OpenAIChat()
    shown = [
        (Image(b"abc", "image/jpeg"), picture("data:image/jpeg;base64,YWJj")),
        (Image(b"abc"), picture("data:image/png;base64,YWJj")),
        (Image(url="http://x"), picture("http://x")),
        (File(b"%PDF", "application/pdf", "x.pdf"),
         file("x.pdf", "data:application/pdf;base64,JVBERg==")),
        (File(b"abc", "text/csv"), file("document", "data:text/csv;base64,YWJj")),
        (File(b"abc", "audio/wav"), audio("YWJj", "wav")),
        (File(b"abc", "audio/mpeg"), audio("YWJj", "mp3")),
        (File(b"abc"), file("document.pdf", "data:application/pdf;base64,YWJj")),
    ]  # fmt: skip
    conversations = {
        "a text": ([user("é")], [{"role": "user", "content": "é"}]),
        "an empty text": ([user("")], [{"role": "user", "content": ""}]),
        "texts": ([user("a", "b")], [{"role": "user", "content": [text("a"), text("b")]}]),
        "results with pictures": (
            [tool(ToolResult("1", content="a")), tool(ToolResult("2", content="b")), user("c")],
            [result("1", "a"), result("2", "b"), {"role": "user", "content": "c"}]),
        **{f"{number}: {message!r}"[:60]: (
            [user("x"), message, user("y")],
            [{"role": "user", "content": "x"}, *wire, {"role": "user", "content": "y"}])
           for number, (message, wire) in enumerate(ANSWERS)},
    }  # fmt: skip
    calls = {
        "nothing": ({"tool_choice": "none", "parameters": {"parallel_tool_calls": False}}, {
            "tools": None, "tool_choice": None, "parallel_tool_calls": None}),
        "all": (
            {"parameters": PARAMETERS, "tools": [LOOKS, ToolSchema("wait", "")],
             "tool_choice": "look", "schema": CITY, "stream": True},
            {**PARAMETERS, "model": "m",
             "tools": [function("look", "looks", NOTHING), function("wait", "", NOTHING)],
             "tool_choice": {"type": "function", "function": {"name": "look"}},
             "response_format": format_of(CITY, strict=False),
             "stream": True, "stream_options": {"include_usage": True}}),
        "variants": (
            {"parameters": {"max_tokens": 7}, "schema": CITY, "stream": True,
             "tools": [ToolSchema("look", "looks", CITY),
                       ToolSchema("any", "", {"additionalProperties": {}})],
             "variant": {"max_tokens": "max_completion_tokens", "stream_usage": False,
                         "strict": True}},
            {"max_completion_tokens": 7, "max_tokens": None, "stream_options": None,
             "tools": [function("look", "looks", CLOSED, strict=True),
                       function("any", "", {**NOTHING, "additionalProperties": {}})],
             "response_format": format_of(CLOSED, strict=True)}),
        "a schema of no object": ({"schema": NUMBERS},
                                  {"response_format": format_of(NUMBERS, strict=False)}),
        "tools that say whether they are strict": (
            {"tools": [ToolSchema("no", "", CITY, False), ToolSchema("any", "", {"type": "object"}),
                       ToolSchema("none", "")], "variant": {"strict": True}},
            {"tools": [function("no", "", CITY), function("any", "", NOTHING),
                       function("none", "", {**NOTHING, "required": [],
                                             "additionalProperties": False}, strict=True)]}),
        "a strict tool": ({"tools": [ToolSchema("yes", "", CITY, True)]},
                          {"tools": [function("yes", "", CLOSED, strict=True)]}),
        **{f"choice {choice}": ({"tool_choice": choice, "tools": [LOOKS]}, {"tool_choice": choice})
           for choice in ("auto", "none", "required")},
    }  # fmt: skip
    refused = [
        user(File(url="http://x")), system(File(b"x")), user(File(b"x", "audio/ogg")),
        user(File(b"x", "video/mp4")), user(LOOK), user("a", Poll()),
        user(ToolResult("1")), system(Image(b"x")), assistant(Image(b"x")), tool("text"),
    ]  # fmt: skip

    def test_it_says_what_it_is(self) -> None:
        own = {"parallel_tool_calls", "reasoning_effort", "logprobs", "top_logprobs", "n"}
        dialect = self.dialect
        assert (dialect.name, dialect.operation) == ("openai-chat", "chat")
        assert dialect.endpoint == DialectEndpoint(path="/chat/completions")
        assert dialect.capabilities == {"stream", "tools", "schema", "images", "files", "reasoning"}
        assert set(STANDARD) - set(dialect.parameters) == {"top_k"}
        assert set(dialect.parameters) - set(STANDARD) == own
        assert all(dialect.parameters[n] is STANDARD[n] for n in STANDARD if n != "top_k")

    def test_a_plain_request_has_model_and_messages_only(self) -> None:
        request = self.dialect.prepare_request(ChatCall(model_id="m", messages=[user("hi")]))
        assert (request.operation, request.dialect, request.model_id) == (
            "chat", "openai-chat", "m",
        )  # fmt: skip
        assert (request.stream, request.headers) == (False, {})
        assert self.body() == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

    def test_variants_change_messages(self) -> None:
        variant = {"system_role": "developer", "image_detail": "low",
                   "reasoning": "reasoning_content"}  # fmt: skip
        messages = [system("s"), user(Image(url="http://x")),
                    assistant(Reasoning("h"), Reasoning("m"), "a")]  # fmt: skip
        assert self.content(*messages)[0] == {"role": "system", "content": "s"}
        assert self.content(*messages, variant=variant) == [
            {"role": "developer", "content": "s"},
            {"role": "user", "content": [picture("http://x", detail="low")]},
            reply("a", reasoning_content="hm"),
        ]

    def test_a_schema_that_is_of_no_object_is_put_into_one(self) -> None:
        body = self.body(schema=NUMBERS, variant={"object_root": True, "strict": True})
        format = body["response_format"]["json_schema"]
        assert format["strict"] is True
        assert format["schema"]["properties"] == {"whole_answer": NUMBERS}

    def test_pictures_of_tools_come_after_all_results_of_calls_that_were_made_at_once(self) -> None:
        shown = ToolResult("1", "look", Image(url="http://x"))
        messages = self.content(tool(shown), tool(ToolResult("2", "look", "b")), user("and?"))
        assert [message["role"] for message in messages] == ["tool", "tool", "user", "user"]

    def test_a_mapping_need_not_be_a_dict(self) -> None:
        view = MappingProxyType({"type": "object", "title": "shown"})
        call = ToolCall("1", "f", view)
        body = self.body(assistant(call), tools=[ToolSchema("f", "", view)], schema=view)
        assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == (
            '{"type":"object","title":"shown"}'
        )
        assert body["tools"][0]["function"]["parameters"]["type"] == "object"
        assert body["response_format"]["json_schema"]["schema"] == view

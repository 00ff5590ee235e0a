"""How calls are written in Converse."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from genai_vendor_bedrock.converse import BedrockConverse

from genai_host.api import (
    ChatCall,
    File,
    Image,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host.errors import InvalidParameter, UnsupportedPart
from genai_host_testing.internal.chat_requests import ChatRequests, assistant, system, tool, user

NAME = "bedrock-converse"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**CITY, "additionalProperties": False}
LOOK = ToolSchema("look", "looks", CITY)
PNG, PDF = b"\x89PNG\r\n", b"%PDF-1.7"
CALLED = assistant(ToolCall("call_1", "look", {"at": "é"}))
RESULT = tool(ToolResult("call_1", "look", "fine"))
NO_TOOLS = "No tools can be used now: answer without them."
TOOL_BY = {"schema": "tool"}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
CITED = {"citationsContent": {"content": [{"text": "so"}], "citations": [{"title": "t"}]}}
WIRE_LOOK = {"toolSpec": {"name": "look", "description": "looks", "inputSchema": {"json": CITY}}}
EFFORTS: list[tuple[str, Any]] = [
    ("reasoning_effort", {"reasoning_effort": "low"}),
    ("reasoning_config", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
]
GUARDRAIL = {"guardrailIdentifier": "g", "guardrailVersion": "1"}


def data(data: bytes) -> Any:
    return {"bytes": base64.b64encode(data).decode()}


def image(format: str, source: Any) -> Any:
    return {"image": {"format": format, "source": source}}


def document(format: str, source: bytes, name: str = "document") -> Any:
    return {"document": {"format": format, "name": name, "source": data(source)}}


def of(role: str, *content: Any) -> Any:
    blocks = [{"text": each} if isinstance(each, str) else each for each in content]
    return {"role": role, "content": blocks}


def use(arguments: Any) -> Any:
    return {"toolUse": {"toolUseId": "call_1", "name": "look", "input": arguments}}


def result(*content: Any, **more: Any) -> Any:
    blocks = of("user", *content)["content"]
    return {"toolResult": {"toolUseId": "call_1", "content": blocks, **more}}


class TestRequests(ChatRequests):
    dialect = BedrockConverse()
    shown = [
        *((each, image(format, data(each.data))) for each, format in [
            (Image(PNG, "image/png"), "png"), (Image(PNG, "image/JPEG"), "jpeg"),
            (Image(PNG), "png"), (Image(b"\xff\xd8\xff\xe0"), "jpeg"), (Image(b"GIF89a"), "gif"),
            (Image(b"RIFF\x00\x00\x00\x00WEBP"), "webp")]),
        (Image(url="s3://bucket/a.jpg"),
         image("jpeg", {"s3Location": {"uri": "s3://bucket/a.jpg"}})),
        *((each, document(format, each.data)) for each, format in [
            (File(PDF, "application/pdf"), "pdf"), (File(PDF), "pdf"),
            (File(b"a", "text/csv; charset=utf-8"), "csv"), (File(b"a", "text/x-python"), "txt"),
            (File(b"a", "application/json"), "txt"), (File(b"a", "text/markdown"), "md"),
            (File(b"a", "application/vnd.ms-excel"), "xls")]),
        (File(b"a", "", "a.DOCX"), document("docx", b"a", "a")),
        *((File(PDF, "application/pdf", name), document("pdf", PDF, called))
          for name, called in [
              ("report.pdf", "report"), ("My  report_2026 (1) [a].pdf", "My report 2026 (1) [a]"),
              ("répört.pdf", "r p rt"), ("../../etc/passwd", "passwd"), ("報告.pdf", "document"),
              ("", "document"), ("x" * 999, "x" * 190)]),
    ]  # fmt: skip
    conversations = {
        **{f"a blank text {blank!r}": ([user(blank, "a"), assistant(blank), user("b")],
                                       [of("user", "a", "b")])
           for blank in ("", " ", "\n\t", "\u2003")},
        "nothing but a system message": ([system("a"), user(" ")], [of("user", "a")]),
        "messages of one role": (
            [user("a"), user("b"), CALLED, RESULT, user("c")],
            [of("user", "a", "b"), of("assistant", use({"at": "é"})),
             of("user", result("fine"), "c")]),
        "a failure with a picture": (
            [CALLED, tool(ToolResult("call_1", "look", ("it broke", Image(PNG, "image/png"), " "),
                                     error=True))],
            [of("assistant", use({"at": "é"})),
             of("user", result("it broke", image("png", data(PNG)), status="error"))]),
        **{f"a picture without a place, {kind}": (
            [CALLED, tool(ToolResult("call_1", "look", ("taken", picture)))],
            [of("assistant", use({"at": "é"})), of("user", result(
                "taken", f"(image omitted ({kind}): not supported here)"))])
           for picture, kind in [
               (Image(b"BM", "image/bmp"), "image/bmp"),
               (Image(url="https://x.invalid/a.png"), "https://x.invalid/a.png")]},
        "arguments that are no object": (
            [assistant(ToolCall("call_1", "look", malformed="{"))],
            [of("assistant", use({"INVALID_JSON": "{"}))]),
        "thoughts": ([assistant(Reasoning("hm"), VendorPart(NAME, THOUGHT),
                                VendorPart("other", {"a": 1}), "so")],
                     [of("assistant", THOUGHT, "so")]),
        "citations": ([assistant(VendorPart(NAME, {"citations": [{"title": "t"}]}), "so")],
                      [of("assistant", CITED)]),
    }  # fmt: skip
    calls = {
        "nothing": ({}, {"messages": [of("user", "hi")], "system": None, "toolConfig": None,
                         "inferenceConfig": None, "outputConfig": None}),
        "parameters": (
            {"parameters": {
                "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stop": ["x"],
                "guardrail": GUARDRAIL, "service_tier": "flex", "additional_fields": {"top_k": 3},
                "reasoning_effort": "low"}},
            {"inferenceConfig": {"maxTokens": 7, "temperature": 0.5, "topP": 0.9,
                                 "stopSequences": ["x"]},
             "outputConfig": {"effort": "low"}, "additionalModelRequestFields": {"top_k": 3},
             "guardrailConfig": GUARDRAIL, "serviceTier": {"type": "flex"}}),
        "zero": ({"parameters": {"temperature": 0}}, {"inferenceConfig": {"temperature": 0}}),
        **{f"effort as {effort}": (
            {"parameters": {"reasoning_effort": "low", "additional_fields": {"a": 1}},
             "variant": {"effort": effort}},
            {"additionalModelRequestFields": {**wire, "a": 1}, "outputConfig": None})
           for effort, wire in EFFORTS},
        "tools": ({"tools": [LOOK, ToolSchema("wait", "")]}, {"toolConfig": {"tools": [
            WIRE_LOOK, {"toolSpec": {"name": "wait", "inputSchema": {"json": {"type": "object"}}}},
        ]}}),
        **{f"choice {choice}": ({"tools": [LOOK], "tool_choice": choice},
                                {"toolConfig": {"tools": [WIRE_LOOK], "toolChoice": wire}})
           for choice, wire in [("auto", {"auto": {}}), ("required", {"any": {}}),
                                ("look", {"tool": {"name": "look"}})]},
        "choice none": ({"tools": [LOOK], "tool_choice": "none"}, {"toolConfig": None}),
        "some models keep no tools in the cache": (
            {"tools": [LOOK], "parameters": {"prompt_cache": "5m"},
             "variant": {"cached_tools": False}},
            {"toolConfig": {"tools": [WIRE_LOOK]}, "system": None}),
        "an answer by a tool": (
            {"schema": CITY, "variant": TOOL_BY},
            {"toolConfig": {
                "tools": [{"toolSpec": {"name": "answer", "description": "gives the answer",
                                        "inputSchema": {"json": CITY}}}],
                "toolChoice": {"tool": {"name": "answer"}}},
             "outputConfig": None}),
    }  # fmt: skip
    refused = [
        *(user("look", each) for each in (
            Image(b"a", "image/tiff"), Image(b"a"), Image(url="https://x/a.png"), File(b"a"),
            File(b"a", "application/zip"),
            File(url="https://x/a.pdf", media_type="application/pdf"))),
        system(Image(PNG)), assistant(Image(PNG)),
    ]  # fmt: skip
    invalid = [({"parameters": {"reasoning_effort": "none"}}, "reasoning_effort")]

    def test_where_it_is_sent(self) -> None:
        assert self.dialect.endpoint.path == "/model/{model}/converse"
        assert self.dialect.endpoint.stream_path == "/model/{model}/converse-stream"

    def test_what_is_refused_says_why(self) -> None:
        for message in (system(Image(PNG)), assistant(Image(PNG))):
            with pytest.raises(UnsupportedPart, match=message.role):
                self.body(message)
        with pytest.raises(InvalidParameter, match="none"):
            self.body(parameters={"reasoning_effort": "none"})

    def test_no_two_documents_are_called_alike(self) -> None:
        names = ("a.pdf", "a.pdf", "a (2).pdf", "")
        one, two, *others = (File(PDF, "application/pdf", name) for name in names)
        content = self.content(user(one, two), assistant("ok"), user(*others), user("so?"))
        blocks = [block for each in content for block in each["content"] if "document" in block]
        document_names = [block["document"]["name"] for block in blocks]
        assert document_names == ["a", "a (2)", "a (2) (2)", "document"]

    @pytest.mark.parametrize("options", [{}, {"tools": [LOOK], "tool_choice": "none"}])
    def test_tools_that_were_used_are_named_though_none_may_be_used_now(self, options: Any) -> None:
        """The service refuses a conversation with uses of tools and without tools."""
        messages = [system("Be brief."), user("a"), CALLED, RESULT, system("Now.")]
        body = self.body(*messages, **options)
        assert [each["toolSpec"]["name"] for each in body["toolConfig"]["tools"]] == ["look"]
        assert "toolChoice" not in body["toolConfig"]
        assert body["system"] == [{"text": each} for each in ("Be brief.", "Now.", NO_TOOLS)]

    @pytest.mark.parametrize("id", ["call/1", "", "é", "x" * 65])
    def test_ids_of_other_vendors_are_made_to_fit(self, id: str) -> None:
        called, answered = self.content(
            assistant(ToolCall(id, "look")), tool(ToolResult(id, "look", "fine"))
        )
        call_id = called["content"][0]["toolUse"]["toolUseId"]
        assert call_id.startswith("call_")
        assert answered["content"][0]["toolResult"]["toolUseId"] == call_id

    @pytest.mark.parametrize(
        ("ttl", "point"), [("5m", {"type": "default"}), ("1h", {"type": "default", "ttl": "1h"})]
    )
    def test_the_cache_is_asked_for_at_the_ends(self, ttl: str, point: Any) -> None:
        mark, cached = {"cachePoint": point}, {"prompt_cache": ttl}
        body = self.body(system("s"), user("a"), user("b"), tools=[LOOK], parameters=cached)
        assert body["system"][-1] == body["toolConfig"]["tools"][-1] == mark
        assert body["messages"] == [of("user", "a", "b", mark)]

    def held(self, schema: Any) -> Any:
        """The schema that the service holds an answer to."""
        held = self.body(schema=schema)["outputConfig"]["textFormat"]
        assert held["type"] == "json_schema"
        return json.loads(held["structure"]["jsonSchema"]["schema"])

    def test_a_schema_is_held_to_with_its_objects_closed(self) -> None:
        listed = {"type": "array", "items": {"oneOf": [{"type": "null"}, CITY]}}
        nested = {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"city": {"$ref": "#/$defs/City"}, "more": listed},
            "$defs": {"City": {**CITY, "title": "City", "additionalProperties": True}},
        }  # fmt: skip
        either = {"type": "array", "items": {"anyOf": [{"type": "null"}, CLOSED]}}
        assert self.held(nested) == {
            "type": "object", "properties": {"city": {"$ref": "#/$defs/City"}, "more": either},
            "$defs": {"City": {**CLOSED, "title": "City"}}, "additionalProperties": False,
        }  # fmt: skip

    def test_bounds_are_told_in_the_schema(self) -> None:
        held = self.held({"type": "string", "minLength": 3})
        assert held == {"type": "string", "description": '{"minLength":3}'}

    @pytest.mark.parametrize("schema", [
        {"type": "object"}, {"type": "array", "items": {}}, {"$ref": "https://x/y"},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/none"}, {},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
    ], ids=str)  # fmt: skip
    def test_what_is_beyond_the_subset_is_asked_in_words(self, schema: Any) -> None:
        body = self.body(schema=schema)
        assert "outputConfig" not in body
        assert json.dumps(schema, separators=(",", ":")) in body["system"][0]["text"]

    @pytest.mark.parametrize(
        "options", [{"tools": [LOOK], "schema": CITY}, {"schema": {"type": "array"}}], ids=str
    )
    def test_where_no_tool_can_answer_it_is_asked_in_words(self, options: Any) -> None:
        body = self.body(variant=TOOL_BY, **options)
        assert "toolChoice" not in body.get("toolConfig", {})
        assert "JSON Schema" in body["system"][0]["text"]

    def test_a_model_that_asks_for_no_tools_amid_a_stream_answers_whole(self) -> None:
        def streamed(**more: Any) -> bool:
            call = ChatCall(model_id="m", messages=[user("hi")], stream=True, **more)
            return self.dialect.prepare_request(call).stream

        assert streamed()
        assert streamed(tools=[LOOK])
        assert streamed(variant={"streamed_tools": False})
        assert not streamed(tools=[LOOK], variant={"streamed_tools": False})

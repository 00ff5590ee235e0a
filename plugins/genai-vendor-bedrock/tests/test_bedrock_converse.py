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
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host.errors import InvalidParameter, UnsupportedPart

DIALECT = BedrockConverse()
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK = ToolSchema("look", "looks", CITY)
PNG, PDF = b"\x89PNG\r\n", b"%PDF-1.7"
CALLED = Message("assistant", ToolCall("call_1", "look", {"at": "é"}))
RESULT = Message("tool", ToolResult("call_1", "look", "fine"))
TOOL_BY = {"schema": "tool"}


def written(*said: Any, **call: Any) -> Any:
    """The body for a conversation; what is no message is said by the user."""
    messages = [each if isinstance(each, Message) else Message("user", each) for each in said]
    request = DIALECT.prepare_request(ChatCall(model_id="m", messages=messages, **call))
    return json.loads(request.data())


def said(*parts: str | Part) -> Any:
    (message,) = written(Message("user", parts))["messages"]
    return message["content"]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_text_is_all_that_is_needed() -> None:
    assert written("hi") == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}


def test_where_it_is_sent() -> None:
    assert DIALECT.endpoint.path == "/model/{model}/converse"
    assert DIALECT.endpoint.stream_path == "/model/{model}/converse-stream"


def test_messages_of_one_role_become_one_and_the_system_stands_apart() -> None:
    body = written(
        Message("system", "Be brief."), "a", "b", CALLED, RESULT, "c", Message("system", "Now.")
    )
    assert body["system"] == [{"text": "Be brief."}, {"text": "Now."}, {"text": _NO_TOOLS}]
    assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"] == [{"text": "a"}, {"text": "b"}]
    assert body["messages"][2]["content"] == [
        {"toolResult": {"toolUseId": "call_1", "content": [{"text": "fine"}]}},
        {"text": "c"},
    ]


_NO_TOOLS = "No tools can be used now: answer without them."


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u2003"])
def test_blank_texts_say_nothing(blank: str) -> None:
    assert said(blank, "a") == [{"text": "a"}]
    assert written("a", Message("assistant", blank), "b")["messages"] == [
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]}
    ]


# pictures and documents


@pytest.mark.parametrize(
    ("image", "format"),
    [
        (Image(PNG, "image/png"), "png"),
        (Image(PNG, "image/JPEG"), "jpeg"),
        (Image(PNG), "png"),
        (Image(b"\xff\xd8\xff\xe0"), "jpeg"),
        (Image(b"GIF89a"), "gif"),
        (Image(b"RIFF\x00\x00\x00\x00WEBP"), "webp"),
    ],
)
def test_a_picture_is_bytes_of_a_format(image: Image, format: str) -> None:
    assert said(image) == [{"image": {"format": format, "source": {"bytes": encoded(image.data)}}}]


def test_a_picture_may_be_in_s3() -> None:
    assert said(Image(url="s3://bucket/a.jpg")) == [
        {"image": {"format": "jpeg", "source": {"s3Location": {"uri": "s3://bucket/a.jpg"}}}}
    ]


@pytest.mark.parametrize(
    ("file", "format"),
    [
        (File(PDF, "application/pdf"), "pdf"),
        (File(PDF), "pdf"),
        (File(b"a", "text/csv; charset=utf-8"), "csv"),
        (File(b"a", "text/x-python"), "txt"),
        (File(b"a", "application/json"), "txt"),
        (File(b"a", "text/markdown"), "md"),
        (File(b"a", "", "a.DOCX"), "docx"),
        (File(b"a", "application/vnd.ms-excel"), "xls"),
    ],
)
def test_a_document_is_bytes_of_a_format(file: File, format: str) -> None:
    (block,) = said(file)
    assert block["document"]["format"] == format
    assert block["document"]["source"] == {"bytes": encoded(file.data)}


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("report.pdf", "report"),
        ("My  report_2026 (1) [a].pdf", "My report 2026 (1) [a]"),
        ("répört.pdf", "r p rt"),
        ("../../etc/passwd", "passwd"),
        ("報告.pdf", "document"),
        ("", "document"),
        ("x" * 999, "x" * 190),
    ],
)
def test_documents_are_called_by_the_names_of_files_as_far_as_may_be(
    name: str, called: str
) -> None:
    (block,) = said(File(PDF, "application/pdf", name))
    assert block["document"]["name"] == called


def test_no_two_documents_are_called_alike() -> None:
    files = [File(PDF, "application/pdf", name) for name in ("a.pdf", "a.pdf", "a (2).pdf", "")]
    body = written(Message("user", files[:2]), Message("assistant", "ok"), *files[2:], "so?")
    names = [
        block["document"]["name"]
        for each in body["messages"]
        for block in each["content"]
        if "document" in block
    ]
    assert names == ["a", "a (2)", "a (2) (2)", "document"]


@pytest.mark.parametrize(
    "part",
    [
        Image(b"a", "image/tiff"),
        Image(b"a"),
        Image(url="https://x/a.png"),
        File(b"a", "application/zip"),
        File(b"a"),
        File(url="https://x/a.pdf", media_type="application/pdf"),
    ],
    ids=str,
)
def test_what_has_no_place_is_refused(part: Part) -> None:
    with pytest.raises(UnsupportedPart) as caught:
        said("look", part)
    assert (caught.value.part, caught.value.dialect) == (part.type, "bedrock-converse")


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_pictures_are_the_users(role: Any) -> None:
    with pytest.raises(UnsupportedPart, match=role):
        written(Message(role, Image(PNG)))


# tools


def test_tools_are_written() -> None:
    assert written("hi", tools=[LOOK, ToolSchema("wait", "")])["toolConfig"] == {
        "tools": [
            {"toolSpec": {
                "name": "look", "description": "looks", "inputSchema": {"json": CITY}}},
            {"toolSpec": {"name": "wait", "inputSchema": {"json": {"type": "object"}}}},
        ]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "wire"),
    [("auto", {"auto": {}}), ("required", {"any": {}}), ("look", {"tool": {"name": "look"}})],
)
def test_a_tool_may_have_to_be_taken(choice: str, wire: Any) -> None:
    assert written("hi", tools=[LOOK], tool_choice=choice)["toolConfig"]["toolChoice"] == wire


def test_none_of_the_tools_is_no_tools() -> None:
    assert "toolConfig" not in written("hi", tools=[LOOK], tool_choice="none")


@pytest.mark.parametrize("options", [{}, {"tools": [LOOK], "tool_choice": "none"}])
def test_tools_that_were_used_are_named_though_none_may_be_used_now(options: Any) -> None:
    """The service refuses a conversation with uses of tools and without tools."""
    body = written("a", CALLED, RESULT, **options)
    assert [each["toolSpec"]["name"] for each in body["toolConfig"]["tools"]] == ["look"]
    assert "toolChoice" not in body["toolConfig"]
    assert body["system"] == [{"text": _NO_TOOLS}]


def test_results_may_be_pictures_and_failures() -> None:
    result = ToolResult("call_1", "look", ("it broke", Image(PNG, "image/png"), " "), error=True)
    body = written("a", CALLED, Message("tool", result), tools=[LOOK])
    assert body["messages"][1]["content"] == [
        {"toolUse": {"toolUseId": "call_1", "name": "look", "input": {"at": "é"}}}
    ]
    assert body["messages"][2]["content"] == [{"toolResult": {
        "toolUseId": "call_1",
        "content": [
            {"text": "it broke"}, {"image": {"format": "png", "source": {"bytes": encoded(PNG)}}},
        ],
        "status": "error",
    }}]  # fmt: skip


@pytest.mark.parametrize(
    ("picture", "kind"),
    [
        (Image(b"BM", "image/bmp"), "image/bmp"),
        (Image(url="https://x.invalid/a.png"), "https://x.invalid/a.png"),
    ],
)
def test_pictures_of_tools_that_have_no_place_are_told_of(picture: Image, kind: str) -> None:
    result = Message("tool", ToolResult("call_1", "look", ("taken", picture)))
    body = written("a", CALLED, result, tools=[LOOK])
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [
        {"text": "taken"},
        {"text": f"(a picture, {kind}, was left out: it cannot be shown here)"},
    ]


def test_what_was_malformed_is_said_to_be() -> None:
    body = written("a", Message("assistant", ToolCall("c", "look", malformed="{")), tools=[LOOK])
    assert body["messages"][1]["content"][0]["toolUse"]["input"] == {"INVALID_JSON": "{"}


@pytest.mark.parametrize("id", ["call/1", "", "é", "x" * 65])
def test_ids_of_other_vendors_are_made_to_fit(id: str) -> None:
    call, result = ToolCall(id, "look"), ToolResult(id, "look", "fine")
    body = written("a", Message("assistant", call), Message("tool", result), tools=[LOOK])
    use = body["messages"][1]["content"][0]["toolUse"]["toolUseId"]
    assert use.startswith("call_")
    assert body["messages"][2]["content"][0]["toolResult"]["toolUseId"] == use


# thoughts


def test_signed_thoughts_go_back_and_words_do_not() -> None:
    block = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    parts: list[Part] = [
        Reasoning("hm"),
        VendorPart("bedrock-converse", block),
        VendorPart("other", {"a": 1}),
        Text("so"),
    ]
    body = written("a", Message("assistant", parts), "b")
    assert body["messages"][1]["content"] == [block, {"text": "so"}]


def test_citations_go_back_with_their_text() -> None:
    cited = [VendorPart("bedrock-converse", {"citations": [{"title": "t"}]}), Text("so")]
    body = written("a", Message("assistant", cited), "b")
    assert body["messages"][1]["content"] == [
        {"citationsContent": {"content": [{"text": "so"}], "citations": [{"title": "t"}]}}
    ]


# parameters


def test_parameters_have_their_places() -> None:
    guardrail = {"guardrailIdentifier": "g", "guardrailVersion": "1"}
    given = {
        "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stop": ["x"], "guardrail": guardrail,
        "service_tier": "flex", "additional_fields": {"top_k": 3}, "reasoning_effort": "low",
    }  # fmt: skip
    body = written("hi", parameters=given)
    del body["messages"]
    assert body == {
        "inferenceConfig": {
            "maxTokens": 7, "temperature": 0.5, "topP": 0.9, "stopSequences": ["x"]},
        "outputConfig": {"effort": "low"},
        "additionalModelRequestFields": {"top_k": 3},
        "guardrailConfig": guardrail,
        "serviceTier": {"type": "flex"},
    }  # fmt: skip


def test_zero_is_a_temperature() -> None:
    assert written("hi", parameters={"temperature": 0})["inferenceConfig"] == {"temperature": 0}


@pytest.mark.parametrize(
    ("effort", "wire"),
    [
        ("reasoning_effort", {"reasoning_effort": "low", "a": 1}),
        (
            "reasoning_config",
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}, "a": 1},
        ),
    ],
)
def test_effort_is_said_where_a_model_has_it(effort: str, wire: Any) -> None:
    given = {"reasoning_effort": "low", "additional_fields": {"a": 1}}
    body = written("hi", parameters=given, variant={"effort": effort})
    assert body["additionalModelRequestFields"] == wire
    assert "outputConfig" not in body


def test_no_effort_has_no_word() -> None:
    with pytest.raises(InvalidParameter, match="none"):
        written("hi", parameters={"reasoning_effort": "none"})


@pytest.mark.parametrize(
    ("ttl", "point"), [("5m", {"type": "default"}), ("1h", {"type": "default", "ttl": "1h"})]
)
def test_the_cache_is_asked_for_at_the_ends(ttl: str, point: Any) -> None:
    mark = {"cachePoint": point}
    body = written(Message("system", "s"), "a", "b", tools=[LOOK], parameters={"prompt_cache": ttl})
    assert body["system"][-1] == body["toolConfig"]["tools"][-1] == mark
    assert body["messages"][-1]["content"] == [{"text": "a"}, {"text": "b"}, mark]


def test_some_models_keep_no_tools_in_the_cache() -> None:
    body = written(
        "a", tools=[LOOK], parameters={"prompt_cache": "5m"}, variant={"cached_tools": False}
    )
    assert len(body["toolConfig"]["tools"]) == 1
    assert "system" not in body


# schemas


def format_of(body: Any) -> Any:
    held = body["outputConfig"]["textFormat"]
    assert held["type"] == "json_schema"
    return json.loads(held["structure"]["jsonSchema"]["schema"])


def test_a_schema_is_held_to_with_its_objects_closed() -> None:
    nested = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "city": {"$ref": "#/$defs/City"},
            "more": {"type": "array", "items": {"oneOf": [{"type": "null"}, CITY]}},
        },
        "$defs": {"City": {**CITY, "title": "City", "additionalProperties": True}},
    }
    closed = {**CITY, "additionalProperties": False}
    assert format_of(written("hi", schema=nested)) == {
        "type": "object",
        "properties": {
            "city": {"$ref": "#/$defs/City"},
            "more": {"type": "array", "items": {"anyOf": [{"type": "null"}, closed]}},
        },
        "$defs": {"City": {**closed, "title": "City"}},
        "additionalProperties": False,
    }


_ITSELF = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {}},
        {"$ref": "https://x/y"},
        {"$ref": "#/$defs/none"},
        _ITSELF,
        {},
    ],
    ids=str,
)
def test_what_is_beyond_the_subset_is_asked_in_words(schema: Any) -> None:
    body = written("hi", schema=schema)
    assert "outputConfig" not in body
    assert json.dumps(schema, separators=(",", ":")) in body["system"][0]["text"]


def test_bounds_are_told_in_the_schema() -> None:
    held = format_of(written("hi", schema={"type": "string", "minLength": 3}))
    assert held == {"type": "string", "description": '{"minLength":3}'}


def test_an_answer_may_have_to_be_given_by_a_tool() -> None:
    body = written("hi", schema=CITY, variant=TOOL_BY)
    assert body["toolConfig"] == {
        "tools": [{"toolSpec": {
            "name": "answer", "description": "gives the answer", "inputSchema": {"json": CITY}}}],
        "toolChoice": {"tool": {"name": "answer"}},
    }  # fmt: skip
    assert "outputConfig" not in body


@pytest.mark.parametrize(
    "options", [{"tools": [LOOK], "schema": CITY}, {"schema": {"type": "array"}}], ids=str
)
def test_where_it_cannot_be_it_is_asked_in_words(options: Any) -> None:
    body = written("hi", variant=TOOL_BY, **options)
    assert "toolChoice" not in body.get("toolConfig", {})
    assert "JSON Schema" in body["system"][0]["text"]


# streams


def test_a_model_that_asks_for_no_tools_amid_a_stream_answers_whole() -> None:
    def streamed(**more: Any) -> bool:
        call = ChatCall(model_id="m", messages=[Message("user", "hi")], stream=True, **more)
        return DIALECT.prepare_request(call).stream

    assert streamed()
    assert streamed(tools=[LOOK])
    assert streamed(variant={"streamed_tools": False})
    assert not streamed(tools=[LOOK], variant={"streamed_tools": False})

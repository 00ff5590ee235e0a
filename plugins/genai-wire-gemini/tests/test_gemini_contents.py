"""What is said, as the dialect `gemini` writes it; it can be read back, nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_wire_gemini.dialect.generate_content import GenerateContent

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
from genai_host.errors import UnsupportedPart

CALL = ToolCall("fc_1", "look", {"at": "é"})
SIGNED = VendorPart("gemini", {"thoughtSignature": "c2ln"})


def written(*messages: Message, **more: Any) -> Any:
    call = ChatCall(model_id="m", messages=messages, **more)
    return json.loads(GenerateContent().prepare_request(call).data())


def contents(*messages: Message, **more: Any) -> Any:
    return written(*messages, **more)["contents"]


def model(*parts: Any, **more: Any) -> Any:
    """The parts of one message of the model, as they are written."""
    (content,) = contents(Message("assistant", parts), **more)
    assert content["role"] == "model"
    return content["parts"]


def test_what_follows_each_other_of_one_role_is_one_content() -> None:
    said = [
        Message("user", "a"),
        Message("user", "b"),
        Message("assistant", [CALL, ToolCall("fc_2", "look")]),
        Message("tool", ToolResult("fc_1", "look", "x")),
        Message("tool", ToolResult("fc_2", "look", "y")),
        Message("user", "c"),
    ]
    first, asked, results = contents(*said)
    assert first == {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}
    assert asked["role"] == "model"
    assert results == {"role": "user", "parts": [
        {"functionResponse": {"id": "fc_1", "name": "look", "response": {"output": "x"}}},
        {"functionResponse": {"id": "fc_2", "name": "look", "response": {"output": "y"}}},
        {"text": "c"}]}  # fmt: skip


def test_what_the_system_says_has_a_place_of_its_own() -> None:
    body = written(Message("system", "a"), Message("user", "hi"), Message("system", ["b", "c"]))
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_a_message_that_says_nothing_here_is_left_out() -> None:
    said = [Message("user", "a"), Message("assistant", Reasoning("hm")), Message("user", "b")]
    assert contents(*said) == [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]


# results of tools


def test_a_result_that_names_no_tool_is_named_by_its_call() -> None:
    said = [Message("assistant", CALL), Message("tool", ToolResult("fc_1", content="x"))]
    assert contents(*said)[1]["parts"][0]["functionResponse"]["name"] == "look"


def test_a_result_of_nothing_known_is_refused() -> None:
    with pytest.raises(UnsupportedPart, match="no call has the id 'fc_9'"):
        written(Message("tool", ToolResult("fc_9", content="x")))


def test_a_failure_and_pictures_are_told() -> None:
    result = ToolResult("fc_1", "look", ["a", Image(b"PNG", "image/png"), "b"], error=True)
    (content,) = contents(Message("tool", result))
    assert content["parts"][0]["functionResponse"] == {
        "id": "fc_1",
        "name": "look",
        "response": {"error": "ab"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "UE5H"}}],
    }


def test_arguments_that_are_no_object_are_told_as_what_they_are() -> None:
    call = ToolCall("fc_1", "look", malformed="{at")
    assert model(call)[0]["functionCall"]["args"] == {"malformed": "{at"}


# signatures


def test_a_signature_goes_into_the_part_before_it() -> None:
    assert model(Reasoning("hm"), Text("so"), SIGNED, CALL, SIGNED, Text("x")) == [
        {"text": "so", "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "fc_1", "name": "look", "args": {"at": "é"}},
         "thoughtSignature": "c2ln"},
        {"text": "x"},
    ]  # fmt: skip


def test_a_signature_of_nothing_stands_by_itself() -> None:
    alone = {"text": "", "thoughtSignature": "c2ln"}
    assert model(SIGNED) == [alone]
    assert model(Text("a"), SIGNED, SIGNED) == [{"text": "a", "thoughtSignature": "c2ln"}, alone]
    assert model(Text("a"), VendorPart("gemini", alone)) == [{"text": "a"}, alone]


def test_parts_that_nobody_knows_are_sent_back_as_they_came() -> None:
    part = {"executableCode": {"code": "1"}, "thoughtSignature": "c2ln"}
    assert model(VendorPart("gemini", part), VendorPart("another", {"x": 1})) == [part]


def test_calls_of_another_model_are_marked_as_such() -> None:
    marked = {"variant": {"unsigned_calls": "skip"}}
    other = ToolCall("fc_2", "look")
    assert [each.get("thoughtSignature") for each in model(CALL, other, **marked)] == ["skip", None]
    assert [each.get("thoughtSignature") for each in model(CALL, SIGNED, other, **marked)] == [
        "c2ln",
        None,
    ]
    assert model(Text("a"), **marked) == [{"text": "a"}]


# pictures, documents, sound


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (Image(b"a"), {"inlineData": {"mimeType": "image/png", "data": "YQ=="}}),
        (Image(b"a", "image/webp"), {"inlineData": {"mimeType": "image/webp", "data": "YQ=="}}),
        (File(b"a"), {"inlineData": {"mimeType": "application/pdf", "data": "YQ=="}}),
        (File(b"a", "audio/wav"), {"inlineData": {"mimeType": "audio/wav", "data": "YQ=="}}),
        (File(url="gs://b/a.MP4?x=.y"), {"fileData": {"mimeType": "video/mp4",
                                                      "fileUri": "gs://b/a.MP4?x=.y"}}),
        (File(url="https://x/files/a1"), {"fileData": {"fileUri": "https://x/files/a1"}}),
        (Image(url="https://x/a", media_type="image/gif"),
         {"fileData": {"mimeType": "image/gif", "fileUri": "https://x/a"}}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_attached_is_of_a_type(part: Part, wire: Any) -> None:
    assert contents(Message("user", part)) == [{"role": "user", "parts": [wire]}]


@pytest.mark.parametrize(
    "message",
    [
        Message("user", CALL),
        Message("user", ToolResult("fc_1", "look", "x")),
        Message("assistant", ToolResult("fc_1", "look", "x")),
        Message("tool", "x"),
        Message("system", Image(b"a")),
        Message("assistant", VendorPart("gemini", "no object")),
    ],
    ids=str,
)
def test_what_has_no_place_is_refused(message: Message) -> None:
    with pytest.raises(UnsupportedPart):
        written(message)


# what is asked for


def test_parameters_are_named_as_the_service_has_them() -> None:
    body = written(
        Message("user", "hi"),
        schema={"type": "array"},
        parameters={
            "temperature": 0, "top_p": 1, "top_k": 2, "max_tokens": 3, "stop": ["x"], "seed": 4,
            "presence_penalty": 0.5, "frequency_penalty": -0.5, "reasoning_effort": "xhigh",
            "thinking_budget": -1, "include_thoughts": False,
            "safety_settings": {"HARM_CATEGORY_HARASSMENT": "OFF"},
        },
    )  # fmt: skip
    assert body["generationConfig"] == {
        "temperature": 0, "topP": 1, "topK": 2, "maxOutputTokens": 3, "stopSequences": ["x"],
        "seed": 4, "presencePenalty": 0.5, "frequencyPenalty": -0.5,
        "thinkingConfig": {
            "includeThoughts": False, "thinkingBudget": -1, "thinkingLevel": "XHIGH"},
        "responseMimeType": "application/json", "responseJsonSchema": {"type": "array"},
    }  # fmt: skip
    assert body["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]


def test_what_nobody_asks_for_is_not_written() -> None:
    assert set(written(Message("user", "hi"), tool_choice="auto")) == {"contents"}


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("look", {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)
def test_tools_are_offered(choice: str, config: Any) -> None:
    tools = [ToolSchema("look", "looks"), ToolSchema("see", "", {"type": "object", "x": 1})]
    body = written(Message("user", "hi"), tools=tools, tool_choice=choice)
    empty = {"type": "object", "properties": {}}
    assert body["tools"] == [{"functionDeclarations": [
        {"name": "look", "description": "looks", "parametersJsonSchema": empty},
        {"name": "see", "description": "", "parametersJsonSchema": {**empty, "x": 1}},
    ]}]  # fmt: skip
    assert body["toolConfig"] == {"functionCallingConfig": config}

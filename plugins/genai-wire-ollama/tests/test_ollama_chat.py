"""What is written for Ollama's chat, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from genai_wire_ollama.dialect.chat import OllamaChat

from genai_host.api import (
    ChatCall,
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
from genai_host.errors import InvalidParameter, UnsupportedPart

CHAT = OllamaChat()
LOOK = ToolSchema("look", "looks", {"properties": {"at": {"type": "string"}}, "required": ["at"]})
PNG = Image(b"\x89PNG", "image/png")


def body_of(*messages: Message, **call: Any) -> Any:
    request = CHAT.prepare_request(ChatCall(model_id="m", messages=messages, **call))
    return json.loads(request.data())


def written(*messages: Message) -> Any:
    return body_of(*messages)["messages"]


def test_a_plain_call() -> None:
    assert body_of(Message("system", "Be brief."), Message("user", 'é "\u2028')) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": 'é "\u2028'},
        ],
        "truncate": False,
        "stream": False,
    }


def test_it_streams_where_it_is_to() -> None:
    call = ChatCall(model_id="m", messages=[Message("user", "hi")], stream=True)
    request = CHAT.prepare_request(call)
    assert request.stream
    assert json.loads(request.data())["stream"] is True


def test_texts_are_joined_and_pictures_stand_beside_them() -> None:
    assert written(Message("user", ["what ", PNG, "is it?"])) == [
        {"role": "user", "content": "what is it?", "images": ["iVBORw=="]}
    ]


@pytest.mark.parametrize(
    "message",
    [
        Message("user", Image(url="https://x.invalid/a.png")),
        Message("user", File(b"%PDF", "application/pdf")),
        Message("system", PNG),
        Message("user", ToolCall("1", "look")),
        Message("user", ToolResult("1", "look")),
        Message("tool", "text"),
    ],
)
def test_what_has_no_place_is_refused_before_anything_is_sent(message: Message) -> None:
    with pytest.raises(UnsupportedPart) as caught:
        body_of(message)
    assert caught.value.dialect == "ollama-chat"
    assert caught.value.part


def test_a_picture_of_a_tool_by_its_address_is_told_of() -> None:
    found = ToolResult("1", "look", ["taken ", Image(url="https://x.invalid/a.png"), PNG])
    [wire] = written(Message("tool", found))
    assert wire["content"] == (
        "taken (a picture, https://x.invalid/a.png, was left out: it cannot be shown here)"
    )
    assert wire["images"] == ["iVBORw=="]


def test_a_tool_is_offered() -> None:
    body = body_of(Message("user", "hi"), tools=[LOOK, ToolSchema("go", "goes")])
    assert body["tools"] == [
        {"type": "function", "function": {"name": "look", "description": "looks", "parameters": {
            "type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}},
        {"type": "function", "function": {"name": "go", "description": "goes", "parameters": {
            "type": "object", "properties": {}}}},
    ]  # fmt: skip


def test_calls_and_results_are_paired_by_name_and_by_id() -> None:
    calls = [ToolCall("a", "look", {"at": "é"}), ToolCall("b", "look", {"at": "b"})]
    results = [ToolResult("b", "look", ("fine", PNG)), ToolResult("a", "look", "no", error=True)]
    assert written(Message("assistant", ["so:", *calls]), Message("tool", results)) == [
        {"role": "assistant", "content": "so:", "tool_calls": [
            {"id": "a", "function": {"name": "look", "arguments": {"at": "é"}}},
            {"id": "b", "function": {"name": "look", "arguments": {"at": "b"}}}]},
        {"role": "tool", "content": "fine", "tool_name": "look", "tool_call_id": "b",
         "images": ["iVBORw=="]},
        {"role": "tool", "content": "error: no", "tool_name": "look", "tool_call_id": "a"},
    ]  # fmt: skip


def test_a_result_without_a_name_gets_that_of_its_call() -> None:
    said = [
        Message("assistant", [ToolCall("a", "look"), ToolCall("b", "go")]),
        Message("tool", [ToolResult("b", content="fine"), ToolResult("c", content="whose?")]),
    ]
    _, first, second = written(*said)
    assert (first["tool_name"], second["tool_name"]) == ("go", "")


def test_a_result_is_not_remembered_under_the_name_of_another_conversation() -> None:
    result = Message("tool", ToolResult("a", content="fine"))
    for name in ("look", "go"):
        *_, wire = written(Message("assistant", ToolCall("a", name)), result)
        assert wire["tool_name"] == name


def test_arguments_that_are_no_object_are_kept_in_one() -> None:
    (wire,) = written(Message("assistant", ToolCall("a", "look", malformed='{"at":')))
    assert wire["tool_calls"][0]["function"]["arguments"] == {"malformed": '{"at":'}


def test_thinking_goes_back_and_opaque_parts_of_others_do_not() -> None:
    said: list[Part | str] = [
        Reasoning("hm, "),
        Reasoning("so"),
        VendorPart("another", {"id": 1}),
        "hello",
    ]
    assert written(Message("assistant", said)) == [
        {"role": "assistant", "content": "hello", "thinking": "hm, so"}
    ]


@pytest.mark.parametrize("choice", [None, "auto"])
def test_the_choice_of_tools_is_left_to_the_model(choice: str | None) -> None:
    body = body_of(Message("user", "hi"), tools=[LOOK], tool_choice=choice)
    assert len(body["tools"]) == 1
    assert "tool_choice" not in body


def test_a_model_can_be_kept_from_tools_and_not_be_made_to_use_one() -> None:
    call = ChatCall(model_id="m", messages=[Message("user", "hi")], tools=[LOOK])
    request = CHAT.prepare_request(evolve(call, tool_choice="none"))
    assert "tools" not in request.body
    for choice in ("required", "look"):
        with pytest.raises(InvalidParameter) as caught:
            CHAT.prepare_request(evolve(call, tool_choice=choice))
        assert caught.value.parameter == "tool_choice"
    assert "tools" not in CHAT.prepare_request(evolve(call, tools=(), tool_choice="auto")).body


def test_a_schema_is_the_format() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert body_of(Message("user", "hi"), schema=schema)["format"] == schema


def test_each_parameter_has_its_place() -> None:
    given = {
        "max_tokens": 7, "temperature": 0.5, "top_k": 3, "stop": ["x"], "num_ctx": 4096,
        "repeat_penalty": 1.2, "think": "high", "keep_alive": "1h", "truncate": True,
    }  # fmt: skip
    body = body_of(Message("user", "hi"), parameters=given)
    assert body["options"] == {
        "num_predict": 7, "temperature": 0.5, "top_k": 3, "stop": ["x"], "num_ctx": 4096,
        "repeat_penalty": 1.2,
    }  # fmt: skip
    assert (body["think"], body["keep_alive"], body["truncate"]) == ("high", "1h", True)
    assert body_of(Message("user", "hi"), parameters={"think": False})["think"] is False


def test_parameters_come_before_what_an_instance_sets() -> None:
    variant = {"options": {"num_ctx": 1, "num_gpu": 4}, "keep_alive": -1.0, "truncate": True}
    body = body_of(Message("user", "hi"), variant=variant)
    assert body["options"] == variant["options"]
    assert (body["keep_alive"], body["truncate"]) == (-1.0, True)
    given = {"num_ctx": 2, "keep_alive": 0, "truncate": False}
    body = body_of(Message("user", "hi"), variant=variant, parameters=given)
    assert body["options"] == {"num_ctx": 2, "num_gpu": 4}
    assert (body["keep_alive"], body["truncate"]) == (0, False)
    assert variant["options"] == {"num_ctx": 1, "num_gpu": 4}

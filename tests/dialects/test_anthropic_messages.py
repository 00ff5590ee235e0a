"""Anthropic's messages: what is written."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from anthropic_form import CALL, DIALECT, thinking, tool_use, written
from attrs import evolve
from genai_wire_anthropic.dialect.messages import AnthropicMessages

from genai_host.api import (
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

PNG = b"\x89PNG"
LOOK = ToolSchema("look", "looks", {"properties": {"at": {"type": "string"}}})
WIRE_LOOK = {
    "name": "look",
    "description": "looks",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
}


def user(*content: str | Part) -> Message:
    return Message("user", content)


def said(*content: str | Part) -> Message:
    return Message("assistant", content)


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_conversation_is_written() -> None:
    assert written(Message("system", "Be brief."), user("hi"), said("hello"), user("é")) == {
        "model": "m",
        "max_tokens": 16000,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "é"},
        ],
    }


def test_what_the_system_says_stands_apart_wherever_it_was_said() -> None:
    body = written(Message("system", ["a", "b"]), user("hi"), Message("system", "c"), user("so?"))
    assert body["system"] == [{"type": "text", "text": each} for each in "abc"]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": each} for each in ("hi", "so?")]}
    ]


def test_messages_of_one_role_are_one() -> None:
    results = [Message("tool", ToolResult(f"call_{each}", content=each)) for each in "ab"]
    calls = said(ToolCall("call_a", "look"), ToolCall("call_b", "look"))
    body = written(user("hi"), user("you"), calls, *results, user("so?"))
    first, _, last = body["messages"]
    assert [block["text"] for block in first["content"]] == ["hi", "you"]
    assert [block["type"] for block in last["content"]] == ["tool_result", "tool_result", "text"]


def test_a_message_of_its_own_is_written_alike_whatever_follows() -> None:
    """So that what the service has in its cache is met again."""
    alone = written(user("hi"), said("hello"))["messages"]
    assert written(user("hi"), said("hello"), user("a"), user("b"))["messages"][:2] == alone


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_texts_that_show_nothing_are_left_out(nothing: str) -> None:
    """The service refuses them, and some of what models say is such."""
    messages = [user("hi"), said(nothing), user("so?", nothing)]
    assert written(*messages, Message("system", nothing)) == written(user("hi"), user("so?"))
    result = Message("tool", ToolResult("call_1", content=nothing))
    (block,) = written(result)["messages"][0]["content"]
    assert block == {"type": "tool_result", "tool_use_id": "call_1"}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            Image(PNG, "image/webp"),
            {"type": "image", "source": {
                "type": "base64", "media_type": "image/webp", "data": base64_of(PNG)}},
        ),
        (Image(url="https://x/a"), {"type": "image",
                                    "source": {"type": "url", "url": "https://x/a"}}),
        (
            File(b"%PDF", "application/pdf", "a.pdf"),
            {"type": "document", "title": "a.pdf", "source": {
                "type": "base64", "media_type": "application/pdf", "data": base64_of(b"%PDF")}},
        ),
        (File(url="https://x/a.pdf"), {"type": "document",
                                       "source": {"type": "url", "url": "https://x/a.pdf"}}),
        (
            File("é,b".encode(), "text/csv", "a.csv"),
            {"type": "document", "title": "a.csv", "source": {
                "type": "text", "media_type": "text/plain", "data": "é,b"}},
        ),
        (VendorPart("anthropic-messages", {"type": "search_result", "title": "a"}),
         {"type": "search_result", "title": "a"}),
    ],
    ids=lambda each: getattr(each, "type", ""),
)  # fmt: skip
def test_what_a_user_shows_is_written(part: Part, block: Any) -> None:
    (message,) = written(user("look", part))["messages"]
    assert message["content"] == [{"type": "text", "text": "look"}, block]


@pytest.mark.parametrize(
    "message",
    [
        user(File(b"\xff", "text/plain")),
        user(File(b"PK", "application/zip")),
        user(File(url="https://x/a.txt", media_type="text/plain")),
        user(ToolCall("1", "look")),
        user(ToolResult("1")),
        user(VendorPart("anthropic-messages", 1)),
        said(Image(PNG)),
        said(File(b"%PDF")),
        Message("tool", "hi"),
        Message("system", Image(PNG)),
    ],
    ids=repr,
)
def test_what_has_no_place_is_refused(message: Message) -> None:
    with pytest.raises(UnsupportedPart) as caught:
        written(message)
    assert caught.value.dialect == "anthropic-messages"
    assert caught.value.part in (each.type for each in message.content)


def test_a_tools_round_trip_is_written() -> None:
    results = [
        ToolResult("call_1", "look", ("fine",)),
        ToolResult("call_2", "look", ("no", Image(PNG, "image/png")), error=True),
    ]
    asked = said("so:", ToolCall("call_1", "look", {"at": "é"}), ToolCall("call_2", "look"))
    body = written(user("hi"), asked, Message("tool", results), tools=[LOOK])
    assert body["tools"] == [WIRE_LOOK]
    assert body["messages"][1:] == [
        {"role": "assistant", "content": [
            {"type": "text", "text": "so:"},
            tool_use("call_1", "look", {"at": "é"}),
            tool_use("call_2", "look", {})]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": "fine"},
            {"type": "tool_result", "tool_use_id": "call_2", "is_error": True, "content": [
                {"type": "text", "text": "no"},
                {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": base64_of(PNG)}}]}]},
    ]  # fmt: skip


def test_ids_of_others_are_made_to_fit() -> None:
    id = "functions.look:0"
    body = written(said(ToolCall(id, "look")), Message("tool", ToolResult(id, content="a")))
    fitting = f"call_{hashlib.sha256(id.encode()).hexdigest()[:24]}"
    assert body["messages"][0]["content"][0]["id"] == fitting
    assert body["messages"][1]["content"][0]["tool_use_id"] == fitting


def test_arguments_that_are_no_object_are_sent_as_they_came() -> None:
    body = written(user("hi"), said(ToolCall("call_1", "look", malformed='{"a"')))
    assert body["messages"][1]["content"] == [tool_use("call_1", "look", {"INVALID_JSON": '{"a"'})]


def test_thoughts_go_back_as_they_came_and_only_ones_own() -> None:
    own = VendorPart("anthropic-messages", thinking("hm"))
    hidden = VendorPart("anthropic-messages", {"type": "redacted_thinking", "data": "eA=="})
    others = VendorPart("openai-responses", {"type": "reasoning"})
    body = written(user("hi"), said(Reasoning("hm"), own, hidden, others, "so"), user("?"))
    assert body["messages"][1]["content"] == [
        thinking("hm"),
        {"type": "redacted_thinking", "data": "eA=="},
        {"type": "text", "text": "so"},
    ]


# tools


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("none", None, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ("look", None, {"type": "tool", "name": "look"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("look", True, {"type": "tool", "name": "look", "disable_parallel_tool_use": False}),
        ("none", False, {"type": "none"}),
    ],
)
def test_a_tool_is_chosen(choice: str | None, parallel: bool | None, wire: Any) -> None:
    parameters = {} if parallel is None else {"parallel_tool_calls": parallel}
    body = written(tools=[LOOK], tool_choice=choice, parameters=parameters)
    assert body.get("tool_choice") == wire


def test_without_tools_nothing_is_said_of_them() -> None:
    body = written(tool_choice="required", parameters={"parallel_tool_calls": False})
    assert body.keys() == {"model", "max_tokens", "messages"}


def test_a_tool_without_a_description_or_parameters_is_written() -> None:
    body = written(tools=[ToolSchema("now", "")])
    assert body["tools"] == [{"name": "now", "input_schema": {"type": "object"}}]


# parameters


def test_parameters_have_their_places() -> None:
    given = {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "max_tokens": 7, "stop": ["x"]}
    body = written(parameters={**given, "metadata": {"user_id": "u"}}, stream=True)
    assert body == {
        "model": "m",
        "max_tokens": 7,
        "messages": [{"role": "user", "content": "hi"}],
        "stop_sequences": ["x"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "metadata": {"user_id": "u"},
        "stream": True,
    }


@pytest.mark.parametrize(
    ("parameters", "variant", "thinking", "effort"),
    [
        ({}, {}, None, None),
        ({"reasoning_effort": "high"}, {}, {"type": "adaptive"}, "high"),
        ({"reasoning_effort": "none"}, {}, {"type": "disabled"}, None),
        ({"reasoning_effort": "none"}, {"no_thinking": "between_tools"},
         {"type": "between_tools"}, None),
        ({"reasoning_effort": "low"}, {"thinking": "budget"}, None, "low"),
        ({"thinking_display": "summarized"}, {},
         {"type": "adaptive", "display": "summarized"}, None),
        ({"thinking_budget": 2000}, {}, {"type": "enabled", "budget_tokens": 2000}, None),
        ({"thinking_budget": 2000, "thinking_display": "omitted"}, {"thinking": "budget"},
         {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}, None),
        ({}, {"stale_thinking": "drop_block"}, None, None),
        ({}, {"stale_thinking": "drop_block", "bound_thinking": True},
         {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
         None),
        ({"reasoning_effort": "none"}, {"stale_thinking": "drop_block", "bound_thinking": True},
         {"type": "disabled"}, None),
    ],
)  # fmt: skip
def test_how_much_it_thinks_is_written(
    parameters: Any, variant: Any, thinking: Any, effort: str | None
) -> None:
    body = written(parameters=parameters, variant=variant)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


@pytest.mark.parametrize(
    ("parameters", "thinking", "wrong"),
    [
        ({"reasoning_effort": "none", "thinking_budget": 2000}, "adaptive", "thinking_budget"),
        ({"reasoning_effort": "none", "thinking_display": "omitted"}, "adaptive",
         "thinking_display"),
        ({"thinking_display": "omitted"}, "budget", "thinking_display"),
    ],
)  # fmt: skip
def test_what_says_nothing_without_thinking_is_refused(
    parameters: Any, thinking: str, wrong: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        written(parameters=parameters, variant={"thinking": thinking})
    assert caught.value.parameter == wrong


def test_there_is_room_for_an_answer_beside_the_thoughts() -> None:
    assert written(parameters={"thinking_budget": 5000})["max_tokens"] == 21_000
    assert written(variant={"max_tokens": 100})["max_tokens"] == 100


# the cache

CACHED = {"type": "ephemeral", "ttl": "1h"}


def test_the_cache_is_asked_for() -> None:
    body = written(parameters={"prompt_cache": "1h"})
    assert body["cache_control"] == CACHED
    assert "cache_control" not in str(body["messages"])


def test_the_cache_is_asked_for_block_by_block() -> None:
    messages = [Message("system", ["a", "b"]), user("hi"), said("hello"), user("so", Image(PNG))]
    body = written(
        *messages,
        tools=[evolve(LOOK, name="first"), LOOK],
        parameters={"prompt_cache": "1h"},
        variant={"cache": "blocks"},
    )
    assert body["system"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": CACHED},
    ]
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    assert str(body["messages"]).count("cache_control") == 1
    assert body["messages"][-1]["content"][-1]["cache_control"] == CACHED
    assert "cache_control" not in body


def test_one_text_of_the_system_is_marked_as_well() -> None:
    body = written(
        Message("system", "a"), parameters={"prompt_cache": "1h"}, variant={"cache": "blocks"}
    )
    assert body["system"] == [{"type": "text", "text": "a", "cache_control": CACHED}]
    assert body["messages"] == []


@pytest.mark.parametrize(
    ("marks", "lifetime", "cache", "is_added"),
    [
        (0, "1h", "request", True),
        (3, "5m", "request", True),
        (3, "1h", "request", False),  # a shorter lifetime may be before it
        (4, "5m", "request", False),  # more than the service accepts
        (1, "5m", "blocks", False),
    ],
)
def test_the_marks_of_a_client_have_priority(
    marks: int, lifetime: str, cache: str, is_added: bool
) -> None:
    marked = {"anthropic-messages": {"cache_control": {"type": "ephemeral"}}}
    tools = [evolve(LOOK, extra=marked)] if marks else []
    texts = [Text("a", extra=marked) for _ in range(marks - 1)]
    body = written(
        user(*texts, "b"),
        tools=tools,
        parameters={"prompt_cache": lifetime},
        variant={"cache": cache},
    )
    assert str(body).count("cache_control") == marks + is_added


# schemas

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_an_answer_is_held_to_a_schema() -> None:
    body = written(schema=CITY, parameters={"reasoning_effort": "low"})
    assert body["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {**CITY, "additionalProperties": False}},
    }
    assert "system" not in body


def test_a_schema_that_none_is_held_to_is_asked_for_in_words() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    body = written(Message("system", "Be brief."), schema=schema)
    assert "output_config" not in body
    assert body["system"][0]["text"] == "Be brief."
    assert '{"type":"object","additionalProperties":{"type":"integer"}}' in str(body["system"][1])


# what it keeps


def test_each_message_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [user("hi"), said("hello"), user("so?")]
    first = DIALECT.prepare_request(evolve(CALL, messages=messages)).data()
    monkeypatch.setattr("genai_wire_anthropic.dialect.messages._blocks", None)
    again = evolve(CALL, messages=messages, parameters={"max_tokens": 16_000})
    assert AnthropicMessages().prepare_request(again).data() == first

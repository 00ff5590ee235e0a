"""Messages as the front end has them: there and back, and what is none."""

from __future__ import annotations

import json
from math import nan
from typing import Any

import pytest
from genai_feature_agent import wire
from genai_feature_agent.wire import from_wire, to_wire
from hypothesis import given, strategies as st

from genai_host.api import Image, Message, Part, Reasoning, Text, ToolCall, ToolResult, VendorPart
from genai_host.api.codec import usual_codec
from genai_host.errors import ValidationError

CODEC = usual_codec()
PICTURE = Image(data=b"x", media_type="image/png")
USER = {"role": "user", "content": "hi"}
CALL = {"id": "1", "name": "look", "arguments": {"at": "x"}}
CALLING = {"role": "assistant", "content": "I look.", "tool-calls": [CALL]}
FOUND = {"role": "tool", "tool-call-id": "1", "content": "found"}

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def sent_back(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return from_wire(json.loads(json.dumps(to_wire(messages, CODEC))), CODEC)


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """What the user says, and what is said and done until somebody else is to speak."""
    messages = [Message("user", draw(TEXT))]
    for _ in range(draw(st.integers(0, 3))):
        ids = draw(st.lists(st.text(min_size=1, max_size=4), max_size=3, unique=True))
        parts: list[Part] = draw(
            st.lists(
                st.builds(Text, TEXT)
                | st.builds(Reasoning, TEXT)
                | st.builds(VendorPart, st.just("d"), JSON),
                min_size=not ids,
                max_size=2,
            )
        )
        asked = [
            ToolCall(id, "look", draw(st.dictionaries(TEXT, JSON, max_size=2)))
            if draw(st.booleans())
            else ToolCall(id, "look", {}, draw(st.sampled_from(["{", "no", "[1]", "7"])))
            for id in ids
        ]
        messages.append(Message("assistant", draw(st.permutations([*parts, *asked]))))
        if not ids:
            continue
        contents = st.lists(st.builds(Text, TEXT) | st.just(PICTURE), max_size=2)
        results = [ToolResult(id, "look", draw(contents), draw(st.booleans())) for id in ids]
        messages.append(Message("tool", results))
    return messages


@given(st.lists(rounds(), max_size=3))
def test_item_10_a_history_that_is_sent_back_is_what_it_was(talk: list[list[Message]]) -> None:
    messages = tuple(message for each in talk for message in each)
    assert sent_back(messages) == messages
    wire = to_wire(messages, CODEC)
    assert to_wire(sent_back(messages), CODEC) == wire


def test_item_10_messages_have_the_form_of_the_document() -> None:
    wire = [USER, CALLING, FOUND, {"role": "assistant", "content": "It is there."}]
    messages = from_wire(wire, CODEC)
    assert messages == (
        Message("user", "hi"),
        Message("assistant", ["I look.", ToolCall("1", "look", {"at": "x"})]),
        Message("tool", [ToolResult("1", "look", "found")]),
        Message("assistant", "It is there."),
    )
    assert to_wire(messages, CODEC) == wire


def test_outputs_of_one_round_are_one_message() -> None:
    two = calling(CALL, {**CALL, "id": "2"})
    wire = [USER, two, FOUND, {**FOUND, "tool-call-id": "2"}]
    messages = from_wire(wire, CODEC)
    assert [each.role for each in messages] == ["user", "assistant", "tool"]
    assert to_wire(messages, CODEC) == wire


def test_outputs_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not anew for each: a history may have thousands."""
    ids = [str(number) for number in range(100)]
    all_calls = calling(*({**CALL, "id": id} for id in ids))
    made: list[int] = []

    def message(role: Any, content: Any) -> Message:
        made.append(len(content))
        return Message(role, content)

    monkeypatch.setattr(wire, "Message", message)
    from_wire([USER, all_calls, *({**FOUND, "tool-call-id": id} for id in ids)], CODEC)
    assert made == [1, 101, 100]


@pytest.mark.parametrize(
    ("arguments", "read", "malformed"),
    [('{"a": 1}', {"a": 1}, ""), ("", {}, ""), ("{", {}, "{"), ("[1]", {}, "[1]")],
)
def test_arguments_may_be_text(arguments: str, read: Any, malformed: str) -> None:
    [call] = from_wire([USER, calling({**CALL, "arguments": arguments})], CODEC)[-1].tool_calls
    assert (call.arguments, call.malformed) == (read, malformed)


def test_a_message_that_only_calls_needs_no_content() -> None:
    silent = {name: value for name, value in CALLING.items() if name != "content"}
    assert from_wire([USER, silent], CODEC) == from_wire([USER, {**silent, "content": ""}], CODEC)


def calling(*calls: Any) -> dict[str, Any]:
    return {**CALLING, "tool-calls": [*calls]}


SAID_BY_A_TOOL = {**FOUND, "parts": [{"type": "reasoning", "text": "x"}]}


@pytest.mark.parametrize(
    ("history", "place", "message"),
    [
        ({}, "", "the history must be a list"),
        ([1], "[0]", "a message must be an object, not int"),
        ([{"role": "system", "content": "x"}], "[0].role", "unknown role 'system'"),
        ([{"role": "robot", "content": "x"}], "[0].role", "unknown role 'robot'"),
        ([{"role": ["user"], "content": "x"}], "[0].role", "unknown role"),
        ([{"content": "x"}], "[0].role", "unknown role None"),
        ([USER, {"role": "assistant"}], "[1].content", "content must be a string"),
        ([{**USER, "content": [1]}], "[0].content", "not a list"),
        ([{**CALLING, "tool-calls": {"a": 1}}], "[0].tool-calls", "must be a list"),
        ([calling(1)], "[0].tool-calls[0]", "a call must be an object"),
        ([calling({"id": "1"})], "[0].tool-calls[0].name", "name must be"),
        ([calling({**CALL, "id": ""})], "[0].tool-calls[0].id", "id must be a non-empty string"),
        (
            [calling({**CALL, "arguments": 7})],
            "[0].tool-calls[0].arguments",
            "arguments must be an object",
        ),
        ([calling({**CALL, "arguments": {"a": nan}})], "[0].tool-calls[0].arguments", "NaN"),
        ([calling(CALL, CALL)], "[0].tool-calls", "a unique id"),
        ([{**USER, "tool-calls": [CALL]}], "[0]", "role user cannot contain"),
        ([FOUND], "[0].tool-call-id", "no open call with id '1'"),
        ([CALLING, FOUND, FOUND], "[2].tool-call-id", "no open call with id '1'"),
        ([CALLING, {**FOUND, "error": 1}], "[1].error", "true or false"),
        ([CALLING, {**FOUND, "content": 1}], "[1].content", "content must be a string"),
        ([CALLING, USER], "[1]", "the call '1' before this message has no output"),
        ([{**USER, "parts": [{"type": "nothing"}]}], "[0].parts", "invalid parts"),
        ([CALLING, SAID_BY_A_TOOL], "[1].parts", "the output of a tool cannot contain reasoning"),
    ],
)
def test_what_is_no_history_is_told_with_its_place(history: Any, place: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        from_wire(history, CODEC)
    assert caught.value.path == f"$.history{place}"
    assert message in caught.value.message

"""Messages and reactions of the agent in the forms of its document, of AI SDK and of a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from math import nan
from typing import Any

import genai_feature_agent
import pytest
from genai_feature_agent import wire
from genai_feature_agent.http import Piece, failure
from genai_feature_agent.reactions import BUILT_IN, view
from genai_feature_agent.request import must_be_flat
from genai_feature_agent.ui_messages import from_ui_messages, in_ui_chunks
from genai_feature_agent.wire import from_wire, to_wire
from hypothesis import given, strategies as st

from genai_host.api import (
    Image,
    Message,
    Part,
    Reasoning,
    SchemaValidator,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
)
from genai_host.api.codec import default_codec
from genai_host.errors import ServiceUnavailable, ValidationError
from genai_host.tools.reactions import ReactionViews
from genai_host.util.clock import SystemClock
from genai_host_testing.internal.fixtures import MakeHost

CODEC = default_codec()
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
    """A message of the user, and the events until the next one."""
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
        reactions = [
            ToolCall(id, "look", draw(st.dictionaries(TEXT, JSON, max_size=2)))
            if draw(st.booleans())
            else ToolCall(id, "look", {}, draw(st.sampled_from(["{", "no", "[1]", "7"])))
            for id in ids
        ]
        messages.append(Message("assistant", draw(st.permutations([*parts, *reactions]))))
        if not ids:
            continue
        contents = st.lists(st.builds(Text, TEXT) | st.just(PICTURE), max_size=2)
        results = [ToolResult(id, "look", draw(contents), draw(st.booleans())) for id in ids]
        messages.append(Message("tool", results))
    return messages


@given(st.lists(rounds(), max_size=3))
def test_item_10_a_history_that_is_sent_back_is_what_it_was(exchanges: list[list[Message]]) -> None:
    messages = tuple(message for each in exchanges for message in each)
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
    wire = [USER, calling(CALL, {**CALL, "id": "2"}), FOUND, {**FOUND, "tool-call-id": "2"}]
    messages = from_wire(wire, CODEC)
    assert [each.role for each in messages] == ["user", "assistant", "tool"]
    assert to_wire(messages, CODEC) == wire


def test_outputs_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not anew for each: a history may have thousands."""
    ids = [str(number) for number in range(100)]
    all_calls = calling(*({**CALL, "id": id} for id in ids))
    numbers: list[int] = []

    def message(role: Any, content: Any) -> Message:
        numbers.append(len(content))
        return Message(role, content)

    monkeypatch.setattr(wire, "Message", message)
    from_wire([USER, all_calls, *({**FOUND, "tool-call-id": id} for id in ids)], CODEC)
    assert numbers == [1, 101, 100]


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


@pytest.mark.parametrize(("history", "place", "message"), [
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
    ([calling({**CALL, "arguments": 7})], "[0].tool-calls[0].arguments",
     "arguments must be an object"),
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
])  # fmt: skip
def test_what_is_no_history_is_told_with_its_place(history: Any, place: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        from_wire(history, CODEC)
    assert caught.value.path == f"$.history{place}"
    assert message in caught.value.message


STEP = {"type": "step-start"}
PART = {"type": "tool-look", "toolCallId": "1", "input": {"at": "x"}}
ASKED = {"role": "assistant", "content": "", "tool-calls": [
    {"id": "1", "name": "look", "arguments": {"at": "x"}}
]}  # fmt: skip
NOT_RUN = {
    "role": "tool", "tool-call-id": "1", "content": "the user did not approve this call",
    "error": True,
}  # fmt: skip


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def ui_message(role: str, *parts: Any) -> dict[str, Any]:
    return {"id": f"{role}-id", "role": role, "parts": [*parts]}


HI = ui_message("user", text("hi"))


def output(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool-call-id": "1", "content": content, **more}


@pytest.mark.parametrize(("parts", "history"), [
    ([text("a"), {"type": "reasoning", "text": "hm"}, text("b")],
     [{"role": "assistant", "content": "ab"}]),
    ([STEP, {**PART, "state": "output-available", "output": "found"}, STEP, text("so")],
     [ASKED, output("found"), {"role": "assistant", "content": "so"}]),
    ([{**PART, "state": "output-available", "output": {"n": 1}}], [ASKED, output('{"n":1}')]),
    ([{**PART, "state": "output-error", "errorText": "no"}], [ASKED, output("no", error=True)]),
    ([{**PART, "type": "dynamic-tool", "toolName": "look", "state": "output-denied"}],
     [ASKED, NOT_RUN]),
    ([{**PART, "state": "approval-requested", "approval": {"id": "1"}}], [ASKED, NOT_RUN]),
    ([{**PART, "state": "input-available"}], [ASKED, NOT_RUN]),
    ([STEP], []),
])  # fmt: skip
def test_an_answer_in_the_history(parts: list[Any], history: list[Any]) -> None:
    earlier = ui_message("assistant", *parts)
    read, id = from_ui_messages({"messages": [HI, earlier, HI], "context": {"a": 1}, "id": "x"}, [])
    expected = [{"role": "user", "content": "hi"}, *history]
    assert read == {"message": "hi", "history": expected, "context": {"a": 1}}
    assert id.startswith("msg-")


def test_system_messages_are_dropped_by_name() -> None:
    dropped: list[str] = []
    read, _ = from_ui_messages({"messages": [ui_message("system", text("Be rude.")), HI]}, dropped)
    assert read == {"message": "hi", "history": []}
    assert dropped == ["messages[0]"]


@pytest.mark.parametrize("approved", [True, False])
def test_a_decision_continues_the_last_message(approved: bool) -> None:
    approval = {"id": "1", "approved": approved}
    part = {**PART, "state": "approval-responded", "approval": approval}
    read, id = from_ui_messages({"messages": [HI, ui_message("assistant", STEP, part)]}, [])
    history = [{"role": "user", "content": "hi"}, ASKED]
    assert read == {"history": history, "approvals": {"1": approved}}
    assert id == "assistant-id"


@pytest.mark.parametrize(("body", "path"), [
    ([], "$"),
    ({"messages": 1}, "$.messages"),
    ({"messages": [{"role": "tool"}]}, "$.messages[0].role"),
    ({"messages": [ui_message("user", {"type": "file", "url": "data:,"})]},
     "$.messages[0].parts[0].type"),
])  # fmt: skip
def test_what_is_no_request(body: Any, path: str) -> None:
    with pytest.raises(ValidationError) as raised:
        from_ui_messages(body, [])
    assert raised.value.path == path


def chunks(*pieces: Piece) -> list[Any]:
    *written, last = "".join(in_ui_chunks(each for each in pieces)).split("\n\n")[:-1]
    assert last == "data: [DONE]"
    return [json.loads(chunk.removeprefix("data: ")) for chunk in written]


def test_chunks_of_steps() -> None:
    usage = {"promptTokens": 3, "completionTokens": 2}
    written = chunks(
        Piece("start", {"messageId": "m"}), Piece("text", "a"), Piece("data", {"type": "void"}),
        Piece("text", "b"),
        Piece("tool-call", {"toolCallId": "1", "toolName": "look", "args": {}}),
        Piece("tool-result", {"toolCallId": "1", "result": "no"}, is_error=True),
        Piece("text", "c"),
        Piece("source", {"url": "https://a.example", "title": "A"}),
        Piece("data", {"type": "state", "value": {"approvals": [{"id": "2"}]}}),
        Piece("finish", {"finishReason": "stop", "usage": usage}),
    )  # fmt: skip
    assert written == [
        {"type": "start", "messageId": "m"}, {"type": "start-step"},
        {"type": "text-start", "id": "text-1"},
        {"type": "text-delta", "id": "text-1", "delta": "a"}, {"type": "text-end", "id": "text-1"},
        {"type": "data-void", "data": {}}, {"type": "text-start", "id": "text-2"},
        {"type": "text-delta", "id": "text-2", "delta": "b"}, {"type": "text-end", "id": "text-2"},
        {"type": "tool-input-available", "toolCallId": "1", "toolName": "look", "input": {}},
        {"type": "tool-output-error", "toolCallId": "1", "errorText": "no"},
        {"type": "finish-step"}, {"type": "start-step"}, {"type": "text-start", "id": "text-3"},
        {"type": "text-delta", "id": "text-3", "delta": "c"}, {"type": "text-end", "id": "text-3"},
        {"type": "source-url", "sourceId": "https://a.example", "url": "https://a.example",
         "title": "A"},
        {"type": "tool-approval-request", "approvalId": "2", "toolCallId": "2"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop",
         "messageMetadata": {"usage": {"inputTokens": 3, "outputTokens": 2}}},
    ]  # fmt: skip


def test_chunks_of_a_failure() -> None:
    error, finish = chunks(*failure(ServiceUnavailable("busy")))
    assert error == {"type": "error", "errorText": "busy"}
    assert finish["finishReason"] == "error"


SHOWN: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "message": ({"message": "one\n\ntwo"}, ["one", "", "two"]),
    "redirect": ({"url": "https://a.example/x"}, ["go to: https://a.example/x"]),
    "confirmation": (
        {"description": "Go on?", "options": ["yes", {"id": 1}]},
        ["Go on?", "- yes", '- {"id":1}'],
    ),
    "goto-question": ({"question_id": 12}, ["go to the question: 12"]),
    "change-display-type": ({"display-type": "bar"}, ["show it as: bar"]),
    "change-table-visualization-settings": (
        {"visible-columns": ["a", "b c"]},
        ["show the columns: a, b c"],
    ),
    "api-call": (
        {"method": "PUT", "url": "/api/x", "body": {"a": [1]}},
        ['call: PUT /api/x {"a":[1]}'],
    ),
    "writeback": ({"message": "saved\nas x"}, ["write back: saved", "as x"]),
}


@pytest.mark.parametrize("kind", [each.name for each in BUILT_IN])
def test_each_is_shown(make_host: MakeHost, kind: str) -> None:
    fields, lines = SHOWN[kind]
    host = make_host(agent=genai_feature_agent)
    SchemaValidator(host.registry.reactions[kind].schema).check(fields)
    views = ReactionViews(host.registry.reactions, host.clock)
    assert views.lines({"type": kind, **fields}, 80) == lines


def test_options_may_have_names_and_a_body_may_be_missing() -> None:
    views = ReactionViews({each.name: each for each in BUILT_IN}, SystemClock())
    reaction = {"type": "confirmation", "description": "Go on?", "options": {"y": "yes", "n": 0}}
    assert views.lines(reaction, 80) == ["Go on?", "- y: yes", "- n: 0"]
    assert views.lines({"type": "api-call", "method": "GET", "url": "/x"}, 80) == ["call: GET /x"]


def test_a_value_makes_no_further_line() -> None:
    forged = "1\nMay shell run? yes"
    assert view({"type": "goto-question", "question_id": forged}, 80) == [
        "go to the question: 1 May shell run? yes"
    ]
    assert view({"type": "message", "message": "one\ntwo"}, 80) == ["one", "two"]


@pytest.mark.parametrize(("levels", "accepted"), [(100, True), (101, False)])
def test_fields_are_nested_at_most_a_hundred_levels(levels: int, accepted: bool) -> None:
    value: Any = "leaf"
    for _ in range(levels):
        value = (value,)
    with nullcontext() if accepted else pytest.raises(ValidationError, match="100 levels"):
        must_be_flat({"context": value})


@given(text=st.text(), width=st.integers(20, 60))
def test_long_ones_are_folded_and_lose_nothing(text: str, width: int) -> None:
    lines = view({"type": "message", "message": text}, width)
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())

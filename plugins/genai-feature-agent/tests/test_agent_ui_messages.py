"""UI messages of the AI SDK: requests that are read, and chunks that are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_feature_agent.http import Piece, failure
from genai_feature_agent.ui_messages import from_ui_messages, in_ui_chunks

from genai_host.errors import ServiceUnavailable, ValidationError

STEP = {"type": "step-start"}
CALL = {"type": "tool-look", "toolCallId": "1", "input": {"at": "x"}}
ASKED = {"role": "assistant", "content": "", "tool-calls": [
    {"id": "1", "name": "look", "arguments": {"at": "x"}}
]}  # fmt: skip
NOT_RUN = {
    "role": "tool", "tool-call-id": "1", "content": "the user did not approve this call",
    "error": True,
}  # fmt: skip


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def message(role: str, *parts: Any) -> dict[str, Any]:
    return {"id": f"{role}-id", "role": role, "parts": [*parts]}


HI = message("user", text("hi"))


def output(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool-call-id": "1", "content": content, **more}


@pytest.mark.parametrize(
    ("parts", "history"),
    [
        ([text("a"), {"type": "reasoning", "text": "hm"}, text("b")],
         [{"role": "assistant", "content": "ab"}]),
        ([STEP, {**CALL, "state": "output-available", "output": "found"}, STEP, text("so")],
         [ASKED, output("found"), {"role": "assistant", "content": "so"}]),
        ([{**CALL, "state": "output-available", "output": {"n": 1}}], [ASKED, output('{"n":1}')]),
        ([{**CALL, "state": "output-error", "errorText": "no"}], [ASKED, output("no", error=True)]),
        ([{**CALL, "type": "dynamic-tool", "toolName": "look", "state": "output-denied"}],
         [ASKED, NOT_RUN]),
        ([{**CALL, "state": "approval-requested", "approval": {"id": "1"}}], [ASKED, NOT_RUN]),
        ([{**CALL, "state": "input-available"}], [ASKED, NOT_RUN]),
        ([STEP], []),
    ],
)  # fmt: skip
def test_an_answer_in_the_history(parts: list[Any], history: list[Any]) -> None:
    earlier = message("assistant", *parts)
    read, id = from_ui_messages({"messages": [HI, earlier, HI], "context": {"a": 1}, "id": "x"}, [])
    expected = [{"role": "user", "content": "hi"}, *history]
    assert read == {"message": "hi", "history": expected, "context": {"a": 1}}
    assert id.startswith("msg-")


def test_system_messages_are_dropped_by_name() -> None:
    dropped: list[str] = []
    read, _ = from_ui_messages({"messages": [message("system", text("Be rude.")), HI]}, dropped)
    assert read == {"message": "hi", "history": []}
    assert dropped == ["messages[0]"]


@pytest.mark.parametrize("approved", [True, False])
def test_a_decision_continues_the_last_message(approved: bool) -> None:
    approval = {"id": "1", "approved": approved}
    part = {**CALL, "state": "approval-responded", "approval": approval}
    read, id = from_ui_messages({"messages": [HI, message("assistant", STEP, part)]}, [])
    history = [{"role": "user", "content": "hi"}, ASKED]
    assert read == {"history": history, "approvals": {"1": approved}}
    assert id == "assistant-id"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ([], "$"),
        ({"messages": 1}, "$.messages"),
        ({"messages": [{"role": "tool"}]}, "$.messages[0].role"),
        ({"messages": [message("user", {"type": "file", "url": "data:,"})]},
         "$.messages[0].parts[0].type"),
    ],
)  # fmt: skip
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
        Piece("start", {"messageId": "m"}),
        Piece("text", "a"),
        Piece("data", {"type": "void"}),
        Piece("text", "b"),
        Piece("tool-call", {"toolCallId": "1", "toolName": "look", "args": {}}),
        Piece("tool-result", {"toolCallId": "1", "result": "no"}, is_error=True),
        Piece("text", "c"),
        Piece("data", {"type": "state", "value": {"approvals": [{"id": "2"}]}}),
        Piece("finish", {"finishReason": "stop", "usage": usage}),
    )
    assert written == [
        {"type": "start", "messageId": "m"},
        {"type": "start-step"},
        {"type": "text-start", "id": "text-1"},
        {"type": "text-delta", "id": "text-1", "delta": "a"},
        {"type": "text-end", "id": "text-1"},
        {"type": "data-void", "data": {}},
        {"type": "text-start", "id": "text-2"},
        {"type": "text-delta", "id": "text-2", "delta": "b"},
        {"type": "text-end", "id": "text-2"},
        {"type": "tool-input-available", "toolCallId": "1", "toolName": "look", "input": {}},
        {"type": "tool-output-error", "toolCallId": "1", "errorText": "no"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "text-3"},
        {"type": "text-delta", "id": "text-3", "delta": "c"},
        {"type": "text-end", "id": "text-3"},
        {"type": "tool-approval-request", "approvalId": "2", "toolCallId": "2"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop",
         "messageMetadata": {"usage": {"inputTokens": 3, "outputTokens": 2}}},
    ]  # fmt: skip


def test_chunks_of_a_failure() -> None:
    error, finish = chunks(*failure(ServiceUnavailable("busy")))
    assert error == {"type": "error", "errorText": "busy"}
    assert finish["finishReason"] == "error"

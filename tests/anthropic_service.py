"""Anthropic's service, as the tests of its provider have it: what it answers, whole or in
pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from genai_host.testing.fake_service import Reply, json_reply, sse_reply

KEY = "sk-ant-canary-8d21"
USAGE = {
    "input_tokens": 4,
    "cache_creation_input_tokens": 2,
    "cache_read_input_tokens": 3,
    "output_tokens": 4,
    "output_tokens_details": {"thinking_tokens": 2},
}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "é"}}


def claude(text: str = "", *, call: bool = False, streamed: bool = False) -> Reply:
    """An answer, with a thought before it."""
    content: list[dict[str, Any]] = [THOUGHT]
    if text:
        content.append({"type": "text", "text": text})
    if call:
        content.append(CALLED)
    reason = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    if not streamed:
        return json_reply({**whole, "content": content, **reason, "usage": USAGE})
    unsaid: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
    begun = {**USAGE, "output_tokens": 1, "output_tokens_details": None}
    events: list[Any] = [
        {"type": "message_start", "message": {**whole, **unsaid, "usage": begun}},
        {"type": "ping"},
    ]
    for index, block in enumerate(content):
        first, deltas = _pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": reason, "usage": USAGE})
    events.append({"type": "message_stop"})
    return sse_reply([f"{json.dumps(event)}\nevent: {event['type']}".encode() for event in events])


def _pieces(block: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Any]]:
    """How a block begins, and what follows."""
    if block["type"] == "text":
        letters = [{"type": "text_delta", "text": letter} for letter in block["text"]]
        return {**block, "text": ""}, letters
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [thought, signed]
    given = json.dumps(block["input"])
    halves = (given[:3], given[3:])
    return {**block, "input": {}}, [
        {"type": "input_json_delta", "partial_json": half} for half in halves
    ]


def failure(
    status: int,
    headers: Mapping[str, str] | None = None,
    *,
    kind: str = "api_error",
    message: str = "no",
) -> Reply:
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return json_reply(error, status, headers)

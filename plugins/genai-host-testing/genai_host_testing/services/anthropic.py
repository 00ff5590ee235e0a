"""Anthropic's service, as simulated for the tests of its provider: whole and streamed replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host_testing.fake_service import Reply, json_reply, sse_reply

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
    """Return an answer with reasoning before it."""
    return claude_blocks(*_content(text, call), streamed=streamed)


def claude_blocks(*blocks: Mapping[str, Any], streamed: bool = False) -> Reply:
    """Return an answer with these blocks."""
    if not streamed:
        reason = {"stop_reason": _reason(blocks), "stop_sequence": None}
        return json_reply({**_WHOLE, "content": blocks, **reason, "usage": USAGE})
    found = _events(blocks)
    return sse_reply([f"{json.dumps(event)}\nevent: {event['type']}".encode() for event in found])


_WHOLE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}


def _content(text: str, call: bool) -> list[dict[str, Any]]:
    said = [{"type": "text", "text": text}] if text else []
    return [THOUGHT, *said, *([CALLED] if call else [])]


def _reason(blocks: Sequence[Mapping[str, Any]]) -> str:
    calls = any(block["type"] == "tool_use" for block in blocks)
    return "tool_use" if calls else "end_turn"


def events(text: str = "", *, call: bool = False) -> list[dict[str, Any]]:
    """Return the events of the same answer as a stream."""
    return _events(_content(text, call))


def _events(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    unsaid: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
    begun = {**USAGE, "output_tokens": 1, "output_tokens_details": None}
    found: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**_WHOLE, **unsaid, "usage": begun}},
        {"type": "ping"},
    ]
    for index, block in enumerate(blocks):
        first, deltas = _pieces(block)
        found.append({"type": "content_block_start", "index": index, "content_block": first})
        found += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        found.append({"type": "content_block_stop", "index": index})
    reason = {"stop_reason": _reason(blocks), "stop_sequence": None}
    found.append({"type": "message_delta", "delta": reason, "usage": USAGE})
    found.append({"type": "message_stop"})
    return found


def _pieces(block: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Any]]:
    """Return the start of a block, and its deltas."""
    if block["type"] == "text":
        letters = [{"type": "text_delta", "text": letter} for letter in block["text"]]
        return {**block, "text": ""}, letters
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [thought, signed]
    if block["type"] != "tool_use":
        return block, []
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

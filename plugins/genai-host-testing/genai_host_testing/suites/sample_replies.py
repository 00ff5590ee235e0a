"""Sample replies of services in common dialects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def _body(text: str, finish: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode()


def _message(content: list[dict[str, Any]], reason: str) -> bytes:
    message = {"type": "message", "role": "assistant", "content": content, "stop_reason": reason}
    return json.dumps(message).encode()


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


class OpenAIChatReplies:
    """Replies in the dialect `openai-chat`; a mixin before `HttpProviderSuite`."""

    dialect = "openai-chat"
    model_id = "model-1"
    closing_events = 2
    overflow: bytes | None = json.dumps(
        {"error": {"message": "the prompt is too long", "code": "context_length_exceeded"}}
    ).encode()
    filtered: bytes | None = _body("", "content_filter")
    late_error: bytes | None = json.dumps(
        {"error": {"message": "overloaded", "code": 503}}
    ).encode()

    def body(self, text: str) -> bytes:
        return _body(text, "stop")

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        chunks = [_choice({"content": piece}) for piece in pieces]
        events = [_choice({"role": "assistant", "content": ""}), *chunks, _choice({}, "stop")]
        return [*(json.dumps(event, ensure_ascii=False).encode() for event in events), b"[DONE]"]


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


class AnthropicMessagesReplies:
    """Replies in the dialect `anthropic-messages`; a mixin before `HttpProviderSuite`."""

    dialect = "anthropic-messages"
    model_id = "model-1"
    closing_events = 2
    overflow: bytes | None = _error("invalid_request_error", "prompt is too long: 9 tokens > 8")
    filtered: bytes | None = _message([], "refusal")
    late_error: bytes | None = _error("overloaded_error", "overloaded")

    def body(self, text: str) -> bytes:
        return _message([{"type": "text", "text": text}], "end_turn")

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {"role": "assistant", "content": []}},
            {"type": "ping"},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
        ]
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        events += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
            {"type": "message_stop"},
        ]
        return [json.dumps(event, ensure_ascii=False).encode() for event in events]

    def heard(self, events: Sequence[bytes], pieces: Sequence[str]) -> str:
        """Names of events contain chunks of text as well."""
        deltas = (json.loads(event).get("delta", {}) for event in events)
        return "".join(delta.get("text", "") for delta in deltas)

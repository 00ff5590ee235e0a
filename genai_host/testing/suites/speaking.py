"""How services reply in dialects that many of them share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def _body(text: str, finish: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode()


class SpeaksOpenAIChat:
    """Goes before `HttpProviderSuite` among the bases of a suite."""

    dialect = "openai-chat"
    model_id = "model-1"
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
        spoken = [_choice({"content": piece}) for piece in pieces]
        events = [_choice({"role": "assistant", "content": ""}), *spoken, _choice({}, "stop")]
        return [*(json.dumps(event, ensure_ascii=False).encode() for event in events), b"[DONE]"]


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

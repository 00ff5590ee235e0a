"""Services of several formats that answer `ok`: type of the provider, settings, reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAID = {"role": "assistant", "content": "ok"}
_TEXT = {"type": "output_text", "text": "ok", "annotations": []}
ANSWERING: Mapping[str, tuple[str, Mapping[str, Any], Any]] = {
    "chat": (
        "openai-compatible", {"serves": ["openai-chat"]},
        {"choices": [{"index": 0, "message": _SAID, "finish_reason": "stop"}]}),
    "responses": (
        "openai-compatible", {"serves": ["openai-responses"]},
        {"id": "r", "status": "completed", "output": [
            {"type": "message", "role": "assistant", "content": [_TEXT]}]}),
    "anthropic": (
        "anthropic", {},
        {"id": "m", "type": "message", "role": "assistant", "stop_reason": "end_turn",
         "content": [{"type": "text", "text": "ok"}], "usage": {}}),
    "gemini": (
        "gemini", {},
        {"candidates": [
            {"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}),
}  # fmt: skip

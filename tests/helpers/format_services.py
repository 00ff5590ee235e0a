"""Services of several formats that answer `ok`: type of the provider, settings, reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_openai
import genai_wire_anthropic
import genai_wire_gemini
import genai_wire_ollama
import genai_wire_openai

from genai_host.config import InstanceConfig
from genai_host_testing.internal.configs import provider_config

PLUGINS: Mapping[str, Any] = {
    "anthropic": genai_vendor_anthropic,
    "anthropic_wire": genai_wire_anthropic,
    "gemini": genai_vendor_gemini,
    "gemini_wire": genai_wire_gemini,
    "ollama_wire": genai_wire_ollama,
    "openai": genai_vendor_openai,
    "openai_wire": genai_wire_openai,
}
"""Plugins with the formats of clients and services."""
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


def provider_at(url: str, type: str, settings: Mapping[str, Any]) -> InstanceConfig:
    """A provider of the model `x` at an address, with the key in the variable `KEY`."""
    key = {} if type == "openai-compatible" else {"api_key": {"env": "KEY"}}
    return provider_config(type, base_url=url, models={"x": "m"}, **settings, **key)

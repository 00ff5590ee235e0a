"""Ollama's chat, by the suite of API formats."""

from __future__ import annotations

import genai_wire_ollama
import pytest
from attrs import evolve
from genai_wire_ollama.dialect.operations import OllamaChat

from genai_host.api import Message, Text
from genai_host_testing.internal.samples import images, texts
from genai_host_testing.internal.wires import WEATHER, Wire

pytestmark = pytest.mark.part


class TestOllama(Wire):
    user_parts = texts | images

    def as_written(self, messages: list[Message]) -> list[Message]:
        """A message has one text, before its images."""
        return [
            evolve(each, content=sorted(each.content, key=lambda part: not isinstance(part, Text)))
            for each in messages
        ]

    plugin = genai_wire_ollama
    dialect = OllamaChat()
    path = "/api/chat"
    stream_type = "application/x-ndjson"
    function = {"name": "weather", "arguments": {"city": "Oslo"}}
    called = {"id": "call_1", "function": function}
    request = {
        "model": "tested", "stream": False, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="]},
            {"role": "assistant", "content": "so:", "tool_calls": [called]},
            {
                "role": "tool", "content": "3 degrees", "tool_name": "weather",
                "tool_call_id": "call_1"},
            {"role": "user", "content": "and?"}],
        "tools": [
            {
                "type": "function", "function": {
                    "name": "weather", "description": "of a city", "parameters": WEATHER}}],
        "options": {"temperature": 0.5},
    }  # fmt: skip
    options = {"options": {"temperature": 0.5, "new": 1}, "new": {"a": 1}}
    settings = {
        "options": {"temperature": 0.5, "top_p": 1, "min_p": 0, "num_ctx": 9}, "think": True,
    }  # fmt: skip
    last = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2}
    reply = {"message": {"role": "assistant", "content": "so", "tool_calls": [called]}, **last}
    stream = [
        {"message": {"role": "assistant", "content": "s"}, "done": False},
        {"message": {"role": "assistant", "content": "o", "tool_calls": [called]}, "done": False},
        {"message": {"role": "assistant", "content": ""}, **last},
    ]
    new = ("created_at", "id", "total_duration", "eval_duration")

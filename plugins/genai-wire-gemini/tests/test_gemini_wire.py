"""Gemini's format, by the suite of API formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import genai_wire_gemini
import pytest
from genai_wire_gemini.dialect.generate_content import GenerateContent

from genai_host_testing.internal.wires import WEATHER, Wire

pytestmark = pytest.mark.part


class TestGemini(Wire):
    plugin = genai_wire_gemini
    dialect = GenerateContent()
    path = "/v1beta/models/tested:generateContent"
    stream_path = "/v1beta/models/tested:streamGenerateContent?alt=sse"
    streaming: Mapping[str, Any] = {}
    new = ("responseId",)
    neutral = ("labels",)
    data = ("contents.parts.functionResponse.response",)
    called = {"functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}}
    result = {"id": "call_1", "name": "weather", "response": {"output": "3 degrees"}}
    request = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {
                "role": "user", "parts": [
                    {"text": "What is this?"},
                    {"inlineData": {"mimeType": "image/png", "data": "UE5H"}},
                    {"inlineData": {"mimeType": "application/pdf", "data": "UERG"}}]},
            {"role": "model", "parts": [{"text": "so:"}, called]},
            {"role": "user", "parts": [{"functionResponse": result}]},
            {"role": "model", "parts": [{"text": "cold"}]},
            {"role": "user", "parts": [{"text": "and?"}]}],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "weather", "description": "of a city",
                        "parametersJsonSchema": WEATHER}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"temperature": 0.5, "thinkingConfig": {"includeThoughts": True}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "labels": {"team": "a"},
    }  # fmt: skip
    service_tools = ({"googleSearch": {}}, {"urlContext": {"new": 1}})
    used = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    content = {"role": "model", "parts": [{"text": "so"}, called]}
    reply = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": used,
    }
    begun = {"role": "model", "parts": [{"text": "so"}]}
    stream = [
        {"candidates": [{"content": begun, "index": 0}]},
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [called]}, "finishReason": "STOP",
                    "index": 0}],
            "usageMetadata": used},
    ]  # fmt: skip

"""The suites of the testing kit, for the providers over HTTP in each dialect and for the models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import genai_vendor_openai
import pytest

from genai_host_testing.suites import HttpProviderSuite, ModelSuite, OpenAIChatReplies

pytestmark = pytest.mark.part


class SpeaksResponses:
    """How OpenAI's services reply in `openai-responses`."""

    dialect = "openai-responses"
    model_id = "model-1"
    overflow: bytes | None = OpenAIChatReplies.overflow
    filtered: bytes | None = json.dumps(
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}
    ).encode()
    late_error: bytes | None = json.dumps(
        {"type": "error", "code": "server_error", "message": "overloaded"}
    ).encode()

    def body(self, text: str) -> bytes:
        return json.dumps(self._response(text)).encode()

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        begun = {"type": "message", "role": "assistant", "content": []}
        events: list[dict[str, Any]] = [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            *(
                {"type": "response.output_text.delta", "output_index": 0, "delta": piece}
                for piece in pieces
            ),
            {"type": "response.completed", "response": self._response("".join(pieces))},
        ]
        return [json.dumps(event, ensure_ascii=False).encode() for event in events]

    def heard(self, events: Sequence[bytes], pieces: Sequence[str]) -> str:
        """The last one says all of it again."""
        return "".join(json.loads(event).get("delta", "") for event in events)

    def _response(self, text: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "role": "assistant", "content": content}
        return {"status": "completed", "output": [message], "error": None}


class AtOpenAI(HttpProviderSuite):
    plugin = genai_vendor_openai
    provider = "openai"
    settings = {"base_url": "{url}/v1"}
    keys = ["OPENAI_API_KEY"]


class TestOpenAI(OpenAIChatReplies, AtOpenAI):
    pass


class TestOpenAIResponses(SpeaksResponses, AtOpenAI):
    pass


class TestAzureOpenAI(OpenAIChatReplies, HttpProviderSuite):
    plugin = genai_vendor_openai
    provider = "azure-openai"
    settings = {"endpoint": "{url}"}
    keys = ["AZURE_OPENAI_API_KEY"]


class TestCompatible(OpenAIChatReplies, HttpProviderSuite):
    plugin = genai_vendor_openai
    provider = "openai-compatible"
    settings = {"base_url": "{url}/v1", "api_key": {"env": "COMPATIBLE_API_KEY"}}
    keys = ["COMPATIBLE_API_KEY"]


del AtOpenAI, HttpProviderSuite  # they are bases


class TestModels(ModelSuite):
    plugin = genai_vendor_openai

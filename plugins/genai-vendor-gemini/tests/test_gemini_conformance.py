"""The suites of the testing kit: for the dialects, the providers and the models.

The tests of Vertex AI know it from its documentation and from what Google's own client sends
alone: there is no server of somebody else that speaks as it does.
"""

from __future__ import annotations

from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import pytest
from genai_wire_gemini.dialect.generate_content import (
    EmbedContent,
    GeminiCountTokens,
    GenerateContent,
)

from genai_host import errors
from genai_host.api import Usage
from genai_host_testing.services.gemini import (
    CALL,
    OVERFLOW,
    SIGNATURE,
    SpeaksGemini,
    reason,
    response,
    wait,
    written,
)
from genai_host_testing.suites import (
    AnthropicMessagesReplies,
    CountDialectSuite,
    DialectSuite,
    EmbedDialectSuite,
    HttpProviderSuite,
    ModelSuite,
)

pytestmark = pytest.mark.part

COUNTED = {
    "promptTokenCount": 2, "toolUsePromptTokenCount": 1, "candidatesTokenCount": 3,
    "thoughtsTokenCount": 4, "cachedContentTokenCount": 1,
}  # fmt: skip


def refusal(message: str, status: str, *details: Any) -> bytes:
    return written({"error": {"message": message, "status": status, "details": list(details)}})


REFUSALS: list[tuple[int, bytes, type[errors.GenaiError]]] = [
    (400, refusal("no", "INVALID_ARGUMENT"), errors.BadRequest),
    (400, refusal("API key not valid", "INVALID_ARGUMENT", reason("API_KEY_INVALID")),
     errors.AuthenticationFailed),
    (400, OVERFLOW, errors.ContextOverflow),
    (403, refusal("no", "PERMISSION_DENIED"), errors.AuthenticationFailed),
    (404, refusal("no", "NOT_FOUND"), errors.BadRequest),
    (429, refusal("no", "RESOURCE_EXHAUSTED", wait("37s")), errors.RateLimited),
    (503, b"[" + refusal("no", "UNAVAILABLE") + b"]", errors.ServiceUnavailable),
]  # fmt: skip


class TestGenerateContent(DialectSuite):
    dialect = GenerateContent()
    usage = Usage(3, 7, 1, 4)
    end: dict[str, Any] = {"finish": "STOP", "usageMetadata": COUNTED}
    thought = {"text": "hm", "thought": True}
    unsaid = {"text": "", "thoughtSignature": SIGNATURE}
    reply = written(response(thought, {"text": "hello there"}, unsaid, **end))
    stream = [
        written(response(thought)),
        written(response({"text": "hello"}, usageMetadata={"promptTokenCount": 2})),
        written(response({"text": " there"})),
        written(response(unsaid, **end)),
    ]
    signed = {"functionCall": CALL, "thoughtSignature": SIGNATURE}
    calls = (
        written(response({"text": "so:"}, signed, finish="STOP")),
        [written(response({"text": "so:"})), written(response(signed, finish="STOP"))],
    )
    refusals = REFUSALS
    parameter_values = {"safety_settings": {"HARM_CATEGORY_HARASSMENT": "OFF"}}


class TestCountTokens(CountDialectSuite):
    dialect = GeminiCountTokens()
    reply = written({"totalTokens": 12})
    count = 12
    refusals = REFUSALS


class TestEmbedContent(EmbedDialectSuite):
    dialect = EmbedContent()
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    usage = Usage(2)
    reply = written(
        {
            "embeddings": [{"values": [1, 0]}, {"values": [0.0, 1.0]}],
            "usageMetadata": {"promptTokenCount": 2},
        }
    )
    refusals = REFUSALS


class TestGemini(SpeaksGemini, HttpProviderSuite):
    plugin = genai_vendor_gemini
    provider = "gemini"
    settings = {"base_url": "{url}"}
    keys = ["GEMINI_API_KEY"]


class TestVertex(SpeaksGemini, HttpProviderSuite):
    plugin = genai_vendor_gemini
    provider = "vertex"
    settings = {"base_url": "{url}", "project": "mine"}
    keys = ["CLOUDSDK_AUTH_ACCESS_TOKEN"]


class TestClaudeOnVertex(AnthropicMessagesReplies, HttpProviderSuite):
    plugin = genai_vendor_gemini
    provider = "vertex"
    settings = {"base_url": "{url}", "project": "mine"}
    keys = ["CLOUDSDK_AUTH_ACCESS_TOKEN"]


class TestModels(ModelSuite):
    plugin = genai_vendor_gemini
    beside = {"anthropic": genai_vendor_anthropic}  # which declares what is offered on Vertex AI

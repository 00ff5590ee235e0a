"""The suites of the testing kit, for the provider in both dialects, the dialect and the models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import genai_models_open
import genai_vendor_anthropic
import genai_vendor_bedrock
import pytest
from genai_vendor_bedrock.converse import BedrockConverse, BedrockCount

from genai_host.api import Usage
from genai_host.errors import AuthenticationFailed, BadRequest, ContextOverflow, RateLimited
from genai_host_testing.fake_service import Received, Reply
from genai_host_testing.services.bedrock import (
    CALLED,
    STREAM_TYPE,
    body,
    chunk,
    encoded,
    events,
    exception,
    framed,
)
from genai_host_testing.suites import (
    AnthropicMessagesReplies,
    CountDialectSuite,
    DialectSuite,
    HttpProviderSuite,
    ModelSuite,
)

pytestmark = pytest.mark.part

LATE = {"throttlingException": {"message": "Too many requests"}}


class AtBedrock(HttpProviderSuite):
    """What both dialects have in common there."""

    plugin = genai_vendor_bedrock
    provider = "bedrock"
    settings = {"region": "us-east-1", "endpoint": "{url}", "control_endpoint": "{url}"}
    keys = ["AWS_BEARER_TOKEN_BEDROCK"]
    stream_type = STREAM_TYPE

    def refusal(self, status: int, message: str = "no", **headers: str) -> Reply:
        return self.reply(json.dumps({"message": message}).encode(), status, **headers)


class SpeaksConverse(AtBedrock):
    dialect = "bedrock-converse"
    model_id = "amazon.nova-pro-v1:0"
    closing_events = 2
    overflow = b'{"message": "Input is too long for requested model."}'
    filtered = json.dumps(body([], "guardrail_intervened")).encode()
    late_error = json.dumps(LATE).encode()

    def body(self, text: str) -> bytes:
        return json.dumps(body([{"text": text}])).encode()

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        first, *_, stop, end = events([{"text": ""}])
        delta: list[Any] = [{"contentBlockDelta": {"delta": {"text": each}, "contentBlockIndex": 0}}
                            for each in pieces]  # fmt: skip
        return encoded([first, *delta, {"contentBlockStop": {"contentBlockIndex": 0}}, stop, end])

    def frame(self, event: bytes) -> bytes:
        return framed(event)


class TestByKey(SpeaksConverse):
    pass


class TestBySignature(SpeaksConverse):
    keys = ["AWS_SECRET_ACCESS_KEY"]
    environment = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE"}
    settings = {**AtBedrock.settings, "access_key_id": {"env": "AWS_ACCESS_KEY_ID"}}

    def carries_key(self, request: Received) -> bool:
        return request.headers["authorization"].startswith("AWS4-HMAC-SHA256 ")


class TestClaude(AnthropicMessagesReplies, AtBedrock):
    model_id = "anthropic.claude-x"
    overflow = SpeaksConverse.overflow

    def frame(self, event: bytes) -> bytes:
        if b'"error"' in event:
            return exception("modelStreamErrorException", "the model failed")
        return chunk(event)


del AtBedrock, SpeaksConverse, HttpProviderSuite  # they are bases

_USAGE = {
    "inputTokens": 3, "outputTokens": 2, "cacheReadInputTokens": 4, "cacheWriteInputTokens": 1,
}  # fmt: skip
_SAID = [{"text": "hello there"}]
_CALLED = [{"text": "so"}, CALLED]


class TestConverse(DialectSuite):
    dialect = BedrockConverse()
    reply = json.dumps(body(_SAID, usage=_USAGE)).encode()
    stream = encoded(events(_SAID, **_USAGE))
    closing_events = 2
    usage = Usage(8, 2, 4, cache_write_tokens=1)
    calls = (
        json.dumps(body(_CALLED, "tool_use", usage={})).encode(),
        encoded(events(_CALLED, "tool_use")),
    )
    refusals = [
        (400, b'{"message": "prompt is too long: 9 tokens > 8 maximum"}', ContextOverflow),
        (400, b'{"message": "messages: blank"}', BadRequest),
        (403, b'{"message": "You don\'t have access to the model."}', AuthenticationFailed),
        (429, b'{"message": "Too many tokens, please wait."}', RateLimited),
    ]
    parameter_values = {
        "additional_fields": {"top_k": 3},
        "guardrail": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
    }


class TestCount(CountDialectSuite):
    dialect = BedrockCount()
    reply = b'{"inputTokens": 12}'
    count = 12
    refusals = TestConverse.refusals
    parameter_values = TestConverse.parameter_values


class TestModels(ModelSuite):
    plugin = genai_vendor_bedrock
    beside = {"claude": genai_vendor_anthropic, "open": genai_models_open}


class TestModelsAlone(ModelSuite):
    """Others' models are offered whether or not somebody declares them."""

    plugin = genai_vendor_bedrock

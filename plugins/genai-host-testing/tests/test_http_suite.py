"""Every fault of a service, with vendors of a few lines."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from genai_host.api import Codec, Completion, DialectEndpoint, Message, http_provider
from genai_host_testing import InlinePlugin
from genai_host_testing.suites import HttpProviderSuite, OpenAIChatReplies

pytestmark = pytest.mark.part

ACME = http_provider(
    "acme",
    "https://acme.invalid/v1",
    {"openai-chat": DialectEndpoint()},
    key="ACME_KEY",
    models="/models",
)
LINES = http_provider(
    "lines",
    "https://lines.invalid",
    {"plain": DialectEndpoint("/say")},
    key="LINES_KEY",
    auth_header="x-api-key: {key}",
)


class TestAcme(OpenAIChatReplies, HttpProviderSuite):
    plugin = InlinePlugin(providers=[ACME])
    provider = "acme"
    settings = {"base_url": "{url}/v1"}
    keys = ["ACME_KEY"]


class TestLines(HttpProviderSuite):
    """In the host's own form, streamed as lines of JSON."""

    plugin = InlinePlugin(providers=[LINES])
    provider = "lines"
    settings = {"base_url": "{url}"}
    keys = ["LINES_KEY"]
    dialect = "plain"
    model_id = "m-1"
    stream_type = "application/x-ndjson"

    def body(self, text: str) -> bytes:
        return json.dumps(Codec().to_json(Completion(Message("assistant", text)))).encode()

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        deltas = [json.dumps({"delta": {"text": piece}}, ensure_ascii=False) for piece in pieces]
        return [*map(str.encode, deltas), b'{"end": ' + self.body("".join(pieces)) + b"}"]

    def frame(self, event: bytes) -> bytes:
        return event + b"\n"

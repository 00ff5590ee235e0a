"""Which API a request is for, where it cannot be answered."""

from __future__ import annotations

import pytest

from genai_host import Host
from genai_host.api import HttpProblem
from genai_host.serving.apis import api_of, error_reply

PATHS = {
    "openai": [
        "/v1/chat/completions", "/v1/nope", "/v1", "/v1/models/llama3:latest",
        "/v1/models/ft:gpt-4o:mine", "/v1beta/openai/chat/completions",
        "/v1beta/openai x-goog-api-key", "/models/m", "/chat/completions",
        "/openai/deployments/m/chat/completions anthropic-version", "/openai/nope"],
    "anthropic": ["/v1/messages", "/v1/messages/count_tokens", "/v1/models anthropic-version"],
    "gemini": [
        "/v1/models x-goog-api-key", "/v1/models/m:generateContent",
        "/v1/models/ll:b:streamGenerateContent", "/models/m:generateContent",
        "/models/provider/m:generateContent", "/v1beta/openais", "/v1beta/models",
        "/v1beta anthropic-version"],
    "ollama": ["/api/chat", "/api/tags anthropic-version"],
    "": ["/openais", "/chat", "/api/chats", "/api/v1/chat", "/v1beta2/x", "/v12", "/", ""],
}  # fmt: skip
"""Paths of each API, some with a header that its clients send."""


@pytest.mark.parametrize("api", PATHS)
def test_the_api_of_a_request(host: Host, api: str) -> None:
    for each in PATHS[api]:
        path, _, header = each.partition(" ")
        matching = api_of(host.registry.http_apis.values(), path, {header: "x"} if header else {})
        assert (matching.name if matching else "") == api, each


def test_what_is_of_no_api_has_the_form_of_the_host(host: Host) -> None:
    reply = error_reply(
        host, "/shop", {}, HttpProblem(429, "overloaded", "not now", retry_after=0.5)
    )
    assert (reply.status, reply.headers["retry-after"]) == (429, "1")
    assert reply.body == b'{"error":{"code":"overloaded","message":"not now"}}'

"""Which API a request is for, where it cannot be answered."""

from __future__ import annotations

import pytest

from genai_host import Host
from genai_host.api import HttpProblem
from genai_host.serving.apis import api_of, error_reply


@pytest.mark.parametrize(
    ("path", "headers", "api"),
    [
        ("/v1/chat/completions", [], "openai"),
        ("/v1/nope", [], "openai"),
        ("/v1", [], "openai"),
        ("/v1/models/llama3:latest", [], "openai"),
        ("/v1/models/ft:gpt-4o:mine", [], "openai"),
        ("/v1/messages", [], "anthropic"),
        ("/v1/messages/count_tokens", [], "anthropic"),
        ("/v1/models", ["anthropic-version"], "anthropic"),
        ("/v1/models", ["x-goog-api-key"], "gemini"),
        ("/v1/models/m:generateContent", [], "gemini"),
        ("/v1/models/ll:b:streamGenerateContent", [], "gemini"),
        ("/models/m:generateContent", [], "gemini"),
        ("/models/provider/m:generateContent", [], "gemini"),
        ("/v1beta/openai/chat/completions", [], "openai"),
        ("/v1beta/openai", ["x-goog-api-key"], "openai"),
        ("/v1beta/openais", [], "gemini"),
        ("/models/m", [], "openai"),
        ("/chat/completions", [], "openai"),
        ("/openai/deployments/m/chat/completions", ["anthropic-version"], "openai"),
        ("/openai/nope", [], "openai"),
        ("/openais", [], ""),
        ("/chat", [], ""),
        ("/v1beta/models", [], "gemini"),
        ("/v1beta", ["anthropic-version"], "gemini"),
        ("/api/chat", [], "ollama"),
        ("/api/tags", ["anthropic-version"], "ollama"),
        ("/api/chats", [], ""),
        ("/api/v1/chat", [], ""),
        ("/v1beta2/x", [], ""),
        ("/v12", [], ""),
        ("/", [], ""),
        ("", [], ""),
    ],
)
def test_the_api_of_a_request(host: Host, path: str, headers: list[str], api: str) -> None:
    found = api_of(host.registry.http_apis.values(), path, dict.fromkeys(headers, "x"))
    assert (found.name if found else "") == api


def test_what_is_of_no_api_has_the_form_of_the_host(host: Host) -> None:
    reply = error_reply(
        host, "/shop", {}, HttpProblem(429, "overloaded", "not now", retry_after=0.5)
    )
    assert (reply.status, reply.headers["retry-after"]) == (429, "1")
    assert reply.body == b'{"error":{"code":"overloaded","message":"not now"}}'

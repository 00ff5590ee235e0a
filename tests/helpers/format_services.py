"""Services of several formats that answer `ok`, and hosts whose APIs are asked without HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_openai
import genai_wire_anthropic
import genai_wire_gemini
import genai_wire_ollama
import genai_wire_openai
import pytest

from genai_host import Config, RetryPolicy
from genai_host.api import Cancellation, RouteRequest, RouteResponse
from genai_host.config import InstanceConfig, ServerConfig
from genai_host.serving import HttpRoutes
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

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
ANSWERING: dict[str, tuple[str, Mapping[str, Any], Any]] = {
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
"""By format: type of the provider, its settings, a reply."""


def provider_at(url: str, type: str, settings: Mapping[str, Any]) -> InstanceConfig:
    """A provider of the model `x` at an address, with the key in the variable `KEY`."""
    key = {} if type == "openai-compatible" else {"api_key": {"env": "KEY"}}
    return provider_config(type, base_url=url, models={"x": "m"}, **settings, **key)


Send = Callable[..., RouteResponse]


@pytest.fixture
def send_to(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    """Sends a request to an API of a new host with these providers, of which the first is
    preferred; further arguments configure the server."""
    monkeypatch.setenv("KEY", "k" * 20)
    opened: list[HttpRoutes] = []

    def send_to(
        path: str, body: Any, providers: Mapping[str, InstanceConfig], *, query: Any = None,
        **server: Any,
    ) -> RouteResponse:  # fmt: skip
        config = Config(
            providers=providers, provider_order=tuple(providers), models={"chat": "x"},
            server=ServerConfig(pass_through=False, **server),
        )  # fmt: skip
        opened.append(HttpRoutes(make_host(config=config, patience=RetryPolicy(), **PLUGINS)))
        headers = {"content-type": "application/json"}
        data = json.dumps(body).encode()
        return opened[-1].answer(
            RouteRequest(
                "POST", path, query=query or {}, headers=headers, body=data, limits=Cancellation()
            )
        )

    yield send_to
    for each in opened:
        each.close()

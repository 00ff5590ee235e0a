"""Requests to our OpenAI API, for its tests."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import genai_vendor_openai
import requests
from attrs import frozen
from served_api import ServedApi, body_of

from genai_host import Config
from genai_host.config import ServerConfig
from genai_host.serving import models
from genai_host_testing.fake_service import FakeService, Reply, sse_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

CONFIG = Config(models={"chat": "fake", "embed": "fake-embed", "moderate": "fake-moderate"})
HI = {"role": "user", "content": "hi"}
READING = ServerConfig(pass_through=False)
"""Requests of OpenAI's APIs do not pass through to services of the same format."""


@frozen
class Api(ServedApi):
    config = CONFIG
    routes = models.ROUTES

    def post(self, path: str, body: Any) -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(f"{self.url}{path}", data=data, timeout=60)

    def get(self, path: str, **headers: str) -> requests.Response:
        return self.client.get(f"{self.url}{path}", headers=headers, timeout=60)

    def chat(self, *messages: Any, **more: Any) -> requests.Response:
        body = {"model": "fake", "messages": list(messages) or [HI], **more}
        return self.post("/v1/chat/completions", body)

    def completed(self, *messages: Any, **more: Any) -> dict[str, Any]:
        """Return the body of a successful reply."""
        return body_of(self.chat(*messages, **more))

    def events(self, *messages: Any, **more: Any) -> list[Any]:
        """Return the events of a stream; the end marker is unchanged."""
        return events_in(self.chat(*messages, stream=True, **more))

    def refused(self, *messages: Any, **more: Any) -> dict[str, Any]:
        reply = self.chat(*messages, **more)
        assert reply.status_code == 400, reply.text
        error: dict[str, Any] = reply.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        return error


def events_in(reply: requests.Response) -> list[Any]:
    """Return the events of a stream; the end marker is unchanged."""
    assert reply.headers["content-type"] == "text/event-stream", reply.text
    *blocks, nothing = reply.content.decode().split("\n\n")
    assert nothing == ""
    data = [block.removeprefix("data: ") for block in blocks]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def streamed(*chunks: Any) -> Reply:
    """Return the reply of a service, whose stream has these chunks and its end."""
    return sse_reply([*(json.dumps(each).encode() for each in chunks), b"[DONE]"])


def gate_api(
    make_host: MakeHost, service: FakeService, config: Any = None, models: Any = None,
    **options: Any,
) -> AbstractContextManager[Api]:  # fmt: skip
    """Serve an API whose provider `gate` is the service.

    Args:
        config: Further fields of the configuration.
        models: Models of the provider.
        options: Arguments of the host, and `settings` of the provider.
    """
    settings = {"base_url": service.url, **options.pop("settings", {})}
    gate = provider_config("openai-compatible", models=models, **settings)
    config = {"providers": {"gate": gate}, **(config or {})}
    return Api.serving(make_host, config=Config(**config), openai=genai_vendor_openai, **options)


def reading_api(
    make_host: MakeHost, service: FakeService, **settings: Any
) -> AbstractContextManager[Api]:
    """Serve an API that reads its requests and sends them to the service: as the provider `gate`,
    `plain` without schemas and streams, and `other` without free JSON objects.
    """
    own: dict[str, Any] = {
        "gate": {},
        "plain": {"lacks": ["schema", "stream"]},
        "other": {"json_object": False},
    }
    usual = {"base_url": service.url, **settings}
    providers = {
        name: provider_config("openai-compatible", **usual, **each) for name, each in own.items()
    }
    return gate_api(make_host, service, {"providers": providers, "server": READING})

"""Requests to our OpenAI API, for its tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import genai_vendor_openai
import requests
from attrs import frozen
from served_api import ServedApi

from genai_host import Config
from genai_host.config.schema import InstanceConfig, ServerConfig
from genai_host.serving import models
from genai_host_testing import FakeModel
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.fixtures import MakeHost

CONFIG = Config(models={"chat": "fake", "embed": "fake-embed", "moderate": "fake-moderate"})
HI = {"role": "user", "content": "hi"}


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
        reply = self.chat(*messages, **more)
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    def events(self, *messages: Any, **more: Any) -> list[Any]:
        """Return the events of a stream; the end marker is unchanged."""
        reply = self.chat(*messages, stream=True, **more)
        assert reply.headers["content-type"] == "text/event-stream"
        blocks = reply.content.decode().split("\n\n")
        assert blocks.pop() == ""
        data = [block.removeprefix("data: ") for block in blocks]
        return [each if each == "[DONE]" else json.loads(each) for each in data]

    def refused(self, *messages: Any, **more: Any) -> dict[str, Any]:
        reply = self.chat(*messages, **more)
        assert reply.status_code == 400, reply.text
        error: dict[str, Any] = reply.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        return error


openai_api = Api.serving


@contextmanager
def reading_api(make_host: MakeHost, service: FakeService, **settings: Any) -> Iterator[Api]:
    """Serve an API that reads its requests and sends them to the service: as the provider `gate`,
    `plain` without schemas and streams, and `other` without free JSON objects.
    """
    usual = {"base_url": service.url, **settings}
    providers = {
        "gate": usual,
        "plain": {**usual, "lacks": ["schema", "stream"]},
        "other": {**usual, "json_object": False},
    }
    config = Config(
        providers={
            name: InstanceConfig("openai-compatible", settings=each)
            for name, each in providers.items()
        },
        server=ServerConfig(pass_through=False),
    )
    with openai_api(make_host, FakeModel(), config=config, openai=genai_vendor_openai) as api:
        yield api

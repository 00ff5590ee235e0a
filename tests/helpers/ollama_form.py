"""Requests to our Ollama API, for its tests."""

from __future__ import annotations

import json
from typing import Any

import requests
from attrs import frozen
from served_api import ServedApi, body_of

from genai_host import Config
from genai_host.api import Message

CONFIG = Config(models={"chat": "fake", "embed": "fake-embed"})
HI = {"role": "user", "content": "hi"}


@frozen
class Api(ServedApi):
    config = CONFIG

    @property
    def prompt_messages(self) -> list[Message]:
        return list(self.fake.prompts[-1].messages)

    def post(self, path: str, **body: Any) -> requests.Response:
        return self.client.post(f"{self.url}/api/{path}", json={"model": "fake", **body})

    def get(self, path: str) -> Any:
        reply = self.client.get(f"{self.url}/api/{path}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def chat(self, *messages: Any, **more: Any) -> dict[str, Any]:
        """Return the body of a successful whole reply."""
        return body_of(self.post("chat", messages=list(messages), stream=False, **more))

    def refused(self, *messages: Any, **more: Any) -> str:
        """Return the error of a reply with status 400."""
        reply = self.post("chat", messages=list(messages), **more)
        assert reply.status_code == 400, reply.text
        error: str = reply.json()["error"]
        return error

    def lines(self, path: str, **body: Any) -> list[dict[str, Any]]:
        reply = self.post(path, **body)
        assert reply.headers["content-type"] == "application/x-ndjson", reply.text
        assert reply.text.endswith("\n")
        return [json.loads(line) for line in reply.text.splitlines()]

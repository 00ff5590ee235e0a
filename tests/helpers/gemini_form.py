"""Requests to our Gemini API, for its tests."""

from __future__ import annotations

import json
from typing import Any

import requests
from attrs import frozen
from served_api import ServedApi, body_of

from genai_host import Config
from genai_host.serving import models

CONFIG = Config(models={"chat": "fake", "embed": "fake-embed"})


def user(*parts: Any) -> dict[str, Any]:
    return content_of("user", *parts)


def model(*parts: Any) -> dict[str, Any]:
    return content_of("model", *parts)


def content_of(role: str, *parts: Any) -> dict[str, Any]:
    return {
        "role": role,
        "parts": [{"text": each} if isinstance(each, str) else each for each in parts],
    }


@frozen
class Api(ServedApi):
    config = CONFIG
    routes = models.ROUTES

    def post(self, path: str, body: Any) -> requests.Response:
        return self.client.post(f"{self.url}{path}", json=body)

    def call(self, method: str, body: Any, name: str = "fake") -> requests.Response:
        return self.post(f"/v1beta/models/{name}:{method}", body)

    def generate(self, *contents: Any, **more: Any) -> dict[str, Any]:
        """Return the body of a successful reply."""
        return body_of(self.call("generateContent", {"contents": list(contents), **more}))

    def refused(self, *contents: Any, **more: Any) -> dict[str, Any]:
        """Return the error of a reply with status 400."""
        reply = self.call("generateContent", {"contents": list(contents), **more})
        assert reply.status_code == 400, reply.text
        error: dict[str, Any] = reply.json()["error"]
        assert error["code"] == 400
        assert error["status"] == "INVALID_ARGUMENT"
        return error

    def events(self, *contents: Any, **more: Any) -> list[dict[str, Any]]:
        reply = self.call("streamGenerateContent?alt=sse", {"contents": list(contents), **more})
        assert reply.headers["content-type"] == "text/event-stream"
        *events, nothing = reply.text.split("\r\n\r\n")
        assert nothing == ""
        return [json.loads(each.removeprefix("data: ")) for each in events]

"""Requests to our Anthropic API, for its tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import requests
from attrs import frozen
from served_api import ServedApi, body_of

from genai_host import Config
from genai_host.serving import models

CONFIG = Config(models={"chat": "fake"})
OWN = "anthropic-messages"
HI = {"role": "user", "content": "hi"}
CLOCK = {"name": "clock", "description": "the time", "input_schema": {"type": "object"}}


@frozen
class Api(ServedApi):
    config = CONFIG
    routes = models.ROUTES

    def post(self, body: Any, path: str = "/v1/messages") -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body)
        return self.client.post(f"{self.url}{path}", data=data, timeout=60)

    def get(self, path: str) -> requests.Response:
        version = {"anthropic-version": "2023-06-01"}
        return self.client.get(f"{self.url}{path}", headers=version, timeout=60)

    def sent(self, *messages: Any, **more: Any) -> requests.Response:
        contents = list(messages) or [HI]
        return self.post({"model": "fake", "max_tokens": 99, "messages": contents, **more})

    def answered(self, *messages: Any, **more: Any) -> dict[str, Any]:
        """Return the body of a successful reply."""
        return body_of(self.sent(*messages, **more))

    def events(self, *messages: Any, **more: Any) -> list[dict[str, Any]]:
        reply = self.sent(*messages, stream=True, **more)
        assert reply.headers["content-type"] == "text/event-stream"
        *blocks, nothing = reply.content.decode().split("\n\n")
        assert nothing == ""
        parsed = []
        for block in blocks:
            name, data = block.split("\n")
            parsed.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {parsed[-1]['type']}"
        return parsed

    def refused(self, *messages: Any, **more: Any) -> str:
        """Return the error message of a reply with status 400."""
        reply = self.sent(*messages, **more)
        assert reply.status_code == 400, reply.text
        assert reply.json()["type"] == "error"
        assert reply.json()["error"]["type"] == "invalid_request_error"
        message: str = reply.json()["error"]["message"]
        return message


def text(words: str) -> dict[str, Any]:
    """The block of a text in a reply."""
    return {"type": "text", "text": words, "citations": []}


def use(id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The block of a call of the clock in a reply."""
    caller = {"type": "direct"}
    return {"type": "tool_use", "id": id, "name": "clock", "input": arguments, "caller": caller}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def blocks_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks that a client assembles from a stream.

    Each block must be between its start and its end, and the blocks must be in order.
    """
    blocks: list[dict[str, Any]] = []
    is_open = False
    for event in events:
        kind = event["type"]
        if not kind.startswith("content_block_"):
            continue
        if kind == "content_block_start":
            assert not is_open
            assert event["index"] == len(blocks)
            blocks.append(dict(event["content_block"]))
        else:
            assert is_open
            assert event["index"] == len(blocks) - 1
        is_open = kind != "content_block_stop"
        if kind == "content_block_delta":
            _grow(blocks[-1], event["delta"])
    assert not is_open
    for block in blocks:
        json_text = block.pop("partial_json", None)
        if json_text is not None:
            block["input"] = json.loads(json_text)
    return blocks


_GROWING = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


def _grow(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    name = _GROWING[delta["type"]]
    block[name] = block.get(name, "") + delta[name]

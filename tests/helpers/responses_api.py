"""Requests to our Responses API, for its tests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl

import requests
from attrs import frozen
from served_api import ServedApi, body_of

from genai_host import Config
from genai_host.api import (
    Cancellation,
    Completion,
    Message,
    Reasoning,
    RouteRequest,
    ToolCall,
    VendorPart,
)
from genai_host.serving.router import HttpRoutes
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost

CONFIG = Config(models={"chat": "fake"})
CLOCK = {
    "type": "function",
    "name": "clock",
    "description": "what time it is",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
}
PIXEL = "data:image/png;base64,iVBORw=="
CALL = ToolCall("c1", "clock", {"zone": "CET"})


def calls_the_clock(prompt: RecordedPrompt) -> str | Completion:
    if any(message.role == "tool" for message in prompt.messages):
        return "It is noon."
    thought = [Reasoning("hm"), VendorPart("fake", {"secret": 1})]
    return Completion(Message("assistant", [*thought, CALL]), "tool_calls")


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def output_of(call: str, output: Any = "noon") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": output}


class OneUser:
    """A client of one of several users of the same server."""

    def __init__(self, routes: HttpRoutes, user: str) -> None:
        self._routes = routes
        self._user = user

    def request(
        self, method: str, url: str, *, data: bytes | None, params: Any, headers: Any, timeout: int
    ) -> requests.Response:
        path, _, query = url.partition("?")
        with Cancellation() as until:
            request = RouteRequest(
                method, path, query={**dict(parse_qsl(query)), **params}, headers=headers,
                body=data or b"", limits=until, user=self._user,
            )  # fmt: skip
            reply = self._routes.answer(request)
            response = requests.Response()
            response.status_code = reply.status
            response.headers.update(reply.headers)
            response.raw = io.BytesIO(
                reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
            )
        return response


@contextmanager
def two_users(
    make_host: MakeHost, fake: FakeModel | None = None, **settings: Any
) -> Iterator[tuple[Api, Api]]:
    """Yield the clients of two users of one server."""
    fake = fake or FakeModel()
    host = make_host(fake=fake, config=CONFIG, **settings)
    routes = HttpRoutes(host)
    clients: list[Any] = [OneUser(routes, user) for user in ("ann", "bob")]
    ann, bob = (Api("", fake, host, client) for client in clients)
    yield ann, bob
    routes.close()


@frozen
class Api(ServedApi):
    config = CONFIG

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> requests.Response:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        return self.client.request(
            method, f"{self.url}/v1{path}", data=data, params=query, headers=headers, timeout=60
        )

    def ok(self, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """Return the body of a successful reply."""
        return body_of(self.ask(method, path, body, **query))

    def response(self, input: Any = "hi", **more: Any) -> dict[str, Any]:
        return self.ok("POST", "/responses", {"model": "fake", "input": input, **more})

    def refused(self, input: Any = "hi", status: int = 400, **more: Any) -> dict[str, Any]:
        """Return the error of an invalid request."""
        return self.error("POST", "/responses", {"model": "fake", "input": input, **more}, status)

    def error(self, method: str, path: str, body: Any = None, status: int = 404) -> dict[str, Any]:
        reply = self.ask(method, path, body)
        assert reply.status_code == status, reply.text
        error: dict[str, Any] = reply.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    def events(self, input: Any = "hi", **more: Any) -> list[dict[str, Any]]:
        """Return the events of a stream, each with its number."""
        body = {"model": "fake", "input": input, "stream": True, **more}
        reply = self.ask("POST", "/responses", body)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "text/event-stream"
        blocks = reply.content.decode().split("\n\n")
        assert blocks.pop() == ""
        events = []
        for number, block in enumerate(blocks):
            name, _, data = block.partition("\ndata: ")
            events.append(json.loads(data))
            assert name == f"event: {events[-1]['type']}"
            assert events[-1]["sequence_number"] == number
        return events

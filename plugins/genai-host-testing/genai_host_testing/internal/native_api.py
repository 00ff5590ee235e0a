"""Requests to the native API, for its tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from attrs import frozen
from genai_server.routes import NATIVE

from genai_host import Config, Host
from genai_host.store import Store
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.internal.fixtures import MakeHost

CONFIG = Config(models={"chat": "fake"})


@frozen
class Api:
    """The API over HTTP, in front of a model."""

    url: str
    fake: FakeModel
    host: Host
    client: requests.Session

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        data = None if body is None else json.dumps(body)
        return self.client.request(
            method, f"{self.url}/api/v1{path}", data=data, timeout=60, **options
        )

    def get(self, path: str) -> Any:
        return self._done(self.send("GET", path))

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self._done(self.send("POST", path, {} if body is None else body, **options))

    def patch(self, path: str, body: Any) -> Any:
        return self._done(self.send("PATCH", path, body))

    def opened(self, **fields: Any) -> str:
        """Create a conversation and return its path."""
        return f"/conversations/{self.post('/conversations', fields)['id']}"

    def take_turn(self, path: str, message: Any = "hi", **more: Any) -> Any:
        return self.post(f"{path}/turns", {"message": message, **more})

    def events(self, path: str, body: Any, **options: Any) -> list[tuple[str, Any]]:
        reply = self.send("POST", path, {**body, "stream": True}, **options)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "text/event-stream"
        return events_of(reply.content)

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Return status and code of an error."""
        reply = self.send(method, path, body)
        error = reply.json()["error"]
        assert error["message"]
        return reply.status_code, error["code"]

    def _done(self, reply: requests.Response) -> Any:
        assert reply.status_code < 300, reply.text
        return reply.json() if reply.content else None


def events_of(data: bytes) -> list[tuple[str, Any]]:
    *blocks, nothing = data.decode().split("\n\n")
    assert nothing == ""
    events = []
    for block in blocks:
        name, text = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(text.removeprefix("data: "))))
    return events


@contextmanager
def native_api(
    make_host: MakeHost, place: Path, fake: FakeModel | None = None, **settings: Any
) -> Iterator[Api]:
    fake = fake or FakeModel()
    with Store(place / "store.db") as store:
        host = make_host(fake=fake, **{"config": CONFIG, "store": store, **settings})
        with served(host, fake) as api:
            yield api


@contextmanager
def served(host: Host, fake: FakeModel, user: str = "") -> Iterator[Api]:
    with RouteServer(host, NATIVE, user=user) as server, requests.Session() as client:
        yield Api(server.url, fake, host, client)

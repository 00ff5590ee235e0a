"""All that asks the server for an answer, each in its own form, and the server, with one service
behind it that does what a test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from attrs import frozen

from genai_host import Config, Host
from genai_host.config import InstanceConfig
from genai_host.server.server import Server
from genai_host.store import Store
from genai_host.testing.fake_service import FakeService
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.openai_service import KEY
from genai_host_testing.serving import served

MODEL = "remote/m"
WORD = "hello"
DELTA = b'{"choices":[{"index":0,"delta":{"content":"hello"}}]}'
_HI = {"role": "user", "content": "hi"}


@frozen
class Front:
    """One API of those that the server has.

    whole, stream   path and body of a request for an answer, whole and as it is written; in
                    a path, `{id}` stands for a conversation
    shaped          what a body has besides where the answer must be of a schema
    done            what says in a stream that the answer is all there
    failed          what says that it is not
    silence         what says that it goes on
    """

    name: str
    whole: tuple[str, Mapping[str, Any]]
    stream: tuple[str, Mapping[str, Any]]
    shaped: Callable[[Any], Mapping[str, Any]]
    done: bytes
    failed: bytes
    silence: bytes = b": ping\n\n"

    def __str__(self) -> str:
        return self.name


def _alike(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What is told apart by a field of the body."""
    return {
        "whole": (path, {**body, "stream": False}),
        "stream": (path, {**body, "stream": True}),
    }


def _openai_schema(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}


FRONTS = [
    Front(
        "openai",
        **_alike("/v1/chat/completions", {"model": MODEL, "messages": [_HI]}),
        shaped=lambda schema: {"response_format": _openai_schema(schema)},
        done=b"[DONE]",
        failed=b'data: {"error":{',
    ),
    Front(
        "responses",
        **_alike("/v1/responses", {"model": MODEL, "input": "hi"}),
        shaped=lambda schema: {
            "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}
        },
        done=b"response.completed",
        failed=b"event: response.failed",
    ),
    Front(
        "anthropic",
        **_alike("/v1/messages", {"model": MODEL, "max_tokens": 99, "messages": [_HI]}),
        shaped=lambda schema: {
            "output_config": {"format": {"type": "json_schema", "schema": schema}}
        },
        done=b"message_stop",
        failed=b"event: error",
        silence=b'event: ping\ndata: {"type":"ping"}\n\n',
    ),
    Front(
        "gemini",
        (f"/v1beta/models/{MODEL}:generateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
        (
            f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
            {"contents": [{"parts": [{"text": "hi"}]}]},
        ),
        lambda schema: {
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseJsonSchema": schema,
            }
        },
        b"finishReason",
        b'data: {"error":{',
        b"\r\n",
    ),
    Front(
        "ollama",
        **_alike("/api/chat", {"model": MODEL, "messages": [_HI]}),
        shaped=lambda schema: {"format": schema},
        done=b'"done":true',
        failed=b'{"error":"',
        silence=b" ",
    ),
    Front(
        "native",
        **_alike("/api/v1/conversations/{id}/turns", {"message": "hi"}),
        shaped=lambda schema: {"output_schema": schema},
        done=b"event: answer",
        failed=b"event: error",
    ),
]

_RESEARCH = {"input_text": "hi", "settings": {"answer_with_search": False}}
PLUGIN_FRONTS = [
    Front(
        "agent-events",
        **_alike("/api/agent", {"message": "hi"}),
        shaped=lambda schema: {},
        done=b'"finishReason":"stop"',
        failed=b"event: error\ndata: {",
    ),
    Front(
        "agent-lines",
        **_alike("/api/agent-streaming", {"message": "hi"}),
        shaped=lambda schema: {},
        done=b'd:{"finishReason":"stop"',
        failed=b'\n3:"',
        silence=b"2:[]\n",
    ),
    Front(
        "research",
        whole=("/api/assistant", _RESEARCH),
        stream=("/api/assistant", _RESEARCH),
        shaped=lambda schema: {},
        done=b"event: result\n",
        failed=b"event: error\ndata: {",
    ),
]
"""The same of plugins, which stream where the client accepts events."""


@frozen
class Place:
    """
    service    behind the server, as the provider `remote`
    lines      of its log
    database   file of the store
    """

    server: Server
    service: FakeService
    host: Host
    client: requests.Session
    lines: list[str]
    database: Path

    @property
    def url(self) -> str:
        return self.server.url

    def send(self, method: str, path: str, body: Any = None, **given: Any) -> requests.Response:
        if body is not None:
            given = {"data": json.dumps(body), "headers": JSON, **given}
        return self.client.request(method, f"{self.url}{path}", timeout=60, **given)

    def ask(self, front: Front, *, stream: bool, **more: Any) -> requests.Response:
        """A request of an API, read to its end."""
        path, body = self.asked(front, stream=stream)
        return self.send("POST", path, {**body, **more})

    def asked(self, front: Front, *, stream: bool) -> tuple[str, dict[str, Any]]:
        """Path and body of a request; a conversation is opened for it if it needs one."""
        path, body = front.stream if stream else front.whole
        return path.replace("{id}", self.opened()) if "{id}" in path else path, dict(body)

    def raw(self, front: Front, *, stream: bool) -> bytes:
        """The same, as bytes."""
        path, body = self.asked(front, stream=stream)
        return raw(path, json.dumps(body).encode())

    def opened(self) -> str:
        """The id of a new conversation."""
        reply = self.send("POST", "/api/v1/conversations", {})
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    def turns(self) -> list[Any]:
        """Those of the conversation that was gone on with last."""
        listed = self.send("GET", "/api/v1/conversations").json()["data"]
        found = self.send("GET", f"/api/v1/conversations/{listed[0]['id']}").json()
        return list(found["turns"])


JSON = {"content-type": "application/json"}


def raw(path: str, body: bytes, **headers: Any) -> bytes:
    """A request as it is sent."""
    given = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": len(body),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def place(
    make_host: MakeHost,
    folder: Path,
    *,
    calls: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    patience: float = 10.0,
    plugins: Mapping[str, Any] | None = None,
    **given: Any,
) -> Iterator[Place]:
    """The server, for as long as a test needs it.

    calls      bounds of the calls of the service
    config     what the configuration has besides
    patience   seconds that the store waits for a lock
    plugins    those that there are besides
    given      settings of the server
    """
    import genai_vendor_openai

    lines: list[str] = []
    with (
        FakeService() as service,
        Store(folder / "store.db", patience=patience) as store,
        requests.Session() as client,
    ):
        client.trust_env = False
        key = folder / "key"
        key.write_text(KEY)
        settings = {"base_url": f"{service.url}/v1", "api_key": {"file": str(key)}}
        remote = InstanceConfig(
            "openai-compatible", settings=settings, calls={"failures": 10**9, **(calls or {})}
        )
        host = make_host(
            openai=genai_vendor_openai,
            **(plugins or {}),
            store=store,
            config=Config(providers={"remote": remote}, models={"chat": MODEL}, **(config or {})),
        )
        with served(
            host, **{"access_log": lambda answered: lines.append(str(answered)), **given}
        ) as server:
            yield Place(server, service, host, client, lines, folder / "store.db")

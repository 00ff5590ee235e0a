"""All APIs of the server that return answers, and a server with one scripted service behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from attrs import frozen
from genai_server import Server

from genai_host import Config, Host
from genai_host.store import Store
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served
from genai_host_testing.services.openai import KEY

MODEL = "remote/m"
WORD = "hello"
DELTA = b'{"choices":[{"index":0,"delta":{"content":"hello"}}]}'
_HI = {"role": "user", "content": "hi"}


@frozen
class Front:
    """One API of the server.

    Attributes:
        plain, stream: Path and body of a request for an answer, not streamed and streamed; `{id}`
            in a path is replaced by a conversation.
        shaped: Additional fields of the body for structured output.
        done: Bytes of a stream that mark a complete answer.
        failed: Bytes of a stream that mark an error.
        silence: Bytes of a stream that keep it alive.
    """

    name: str
    plain: tuple[str, Mapping[str, Any]]
    stream: tuple[str, Mapping[str, Any]]
    shaped: Callable[[Any], Mapping[str, Any]]
    done: bytes
    failed: bytes
    silence: bytes = b": ping\n\n"

    def __str__(self) -> str:
        return self.name


def _alike(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests of an API that selects streaming by a field of the body."""
    return {"plain": (path, {**body, "stream": False}), "stream": (path, {**body, "stream": True})}


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
        b'\n{"error":{',  # without `data:`
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
        plain=("/api/assistant", _RESEARCH),
        stream=("/api/assistant", _RESEARCH),
        shaped=lambda schema: {},
        done=b"event: result\n",
        failed=b"event: error\ndata: {",
    ),
]
"""The same for plugins, which stream if the client accepts events."""


@frozen
class Place:
    """A running server with its service.

    Attributes:
        service: The service, as the provider `remote`.
        lines: Lines of its log.
        database: File of the store.
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

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        if body is not None:
            options = {"data": json.dumps(body), "headers": JSON, **options}
        return self.client.request(method, f"{self.url}{path}", timeout=60, **options)

    def ask(self, front: Front, *, stream: bool, **more: Any) -> requests.Response:
        """Send a request of an API and read the reply to its end."""
        path, body = self.request_of(front, stream=stream)
        return self.send("POST", path, {**body, **more})

    def request_of(self, front: Front, *, stream: bool) -> tuple[str, dict[str, Any]]:
        """Return path and body of a request; opens a conversation if the API needs one."""
        path, body = front.stream if stream else front.plain
        return path.replace("{id}", self.opened()) if "{id}" in path else path, dict(body)

    def raw(self, front: Front, *, stream: bool) -> bytes:
        """Return the same request as bytes."""
        path, body = self.request_of(front, stream=stream)
        return raw(path, json.dumps(body).encode())

    def opened(self) -> str:
        """Create a conversation and return its id."""
        reply = self.send("POST", "/api/v1/conversations", {})
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    def turns(self) -> list[Any]:
        """Return the turns of the conversation that was used last."""
        listed = self.send("GET", "/api/v1/conversations").json()["data"]
        return list(self.send("GET", f"/api/v1/conversations/{listed[0]['id']}").json()["turns"])


JSON = {"content-type": "application/json"}


def raw(path: str, body: bytes, **headers: Any) -> bytes:
    """Return the bytes of a request."""
    fields = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": len(body),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def place(
    make_host: MakeHost, folder: Path, *, limits: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None, patience: float = 10.0,
    plugins: Mapping[str, Any] | None = None, **server_settings: Any,
) -> Iterator[Place]:  # fmt: skip
    """Start the server for the duration of the context.

    Args:
        calls: Limits of the calls of the service.
        config: Additional configuration.
        patience: Seconds that the store waits for a lock.
        plugins: Additional plugins.
        server_settings: Settings of the server.
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
        remote = provider_config(
            "openai-compatible", limits={"breaker_threshold": 10**9, **(limits or {})}, **settings
        )
        host = make_host(
            openai=genai_vendor_openai,
            **(plugins or {}),
            store=store,
            config=Config(providers={"remote": remote}, models={"chat": MODEL}, **(config or {})),
        )
        with served(
            host, **{"access_log": lambda answered: lines.append(str(answered)), **server_settings}
        ) as server:
            yield Place(server, service, host, client, lines, folder / "store.db")

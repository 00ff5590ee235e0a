"""Front ends of the agent over HTTP: their requests and the replies."""

from __future__ import annotations

import json
import socket
from typing import Any

import requests

from genai_host import Config, Host
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.internal.agents import Counting, MakeHost, agent_host

PATHS = ["/api/agent", "/api/ee/metabot-v3/agent"]
SESSION = "12345678-1234-5678-1234-567812345678"
USER = {"role": "user", "content": "hi"}


def http_host(make_host: MakeHost, model: FakeModel, *tools: Counting, **settings: Any) -> Host:
    config = Config(models={"chat": "fake"}, aliases={"quick": "fake"})
    return agent_host(make_host, model, *tools, config=config, **settings)


def post(
    server: RouteServer, body: Any = None, path: str = PATHS[0], **options: Any
) -> requests.Response:
    """Return the reply to a request: to the default message, unless the body has one."""
    data = body if isinstance(body, bytes) else json.dumps({"message": "hi", **(body or {})})
    return requests.post(f"{server.url}{path}", data=data, timeout=60, **options)


def ask(server: RouteServer, message: str = "hi", **body: Any) -> dict[str, Any]:
    reply = post(server, {"message": message, **body})
    assert reply.status_code == 200, reply.text
    response_body: dict[str, Any] = reply.json()
    return response_body


def dial(server: RouteServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=60)

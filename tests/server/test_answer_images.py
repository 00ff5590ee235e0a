"""Images that a model has made, in the messages of a request to a service of any format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from format_services import ANSWERING, PLUGINS, provider_at

from genai_host import Config
from genai_host.api import Cancellation, RouteRequest, RouteResponse
from genai_host.config import ServerConfig
from genai_host.serving import HttpRoutes
from genai_host.serving.router import DROPPED
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PNG = "iVBORw0KGgo="
_DATA = {"inlineData": {"mimeType": "image/png", "data": PNG}}
_KIND, _, _REPLY = ANSWERING["chat"]
SERVICES: Mapping[str, tuple[str, Mapping[str, Any], Any]] = {
    **ANSWERING,
    "blind": (_KIND, {"serves": ["openai-chat"], "lacks": ["images"]}, _REPLY),
}
CLIENTS: Mapping[str, tuple[str, Any, str]] = {
    "gemini": (
        "/v1beta/models/x:generateContent",
        {"contents": [
            {"role": "user", "parts": [{"text": "draw"}]},
            {"role": "model", "parts": [{"text": "so:"}, _DATA]},
            {"role": "user", "parts": [{"text": "and?"}]}]},
        "contents[1].parts[1].inlineData"),
    "responses": (
        "/v1/responses",
        {"model": "x", "store": False, "input": [
            {"role": "user", "content": "draw"},
            {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": PNG},
            {"role": "user", "content": "and?"}]},
        "input[1].image_generation_call"),
    "ollama": (
        "/api/chat",
        {"model": "x", "stream": False, "messages": [
            {"role": "user", "content": "draw"},
            {"role": "assistant", "content": "so:", "images": [PNG]},
            {"role": "user", "content": "and?"}]},
        "messages[1].images"),
}  # fmt: skip
Ask = Callable[..., RouteResponse]


@pytest.fixture
def ask(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ask]:
    monkeypatch.setenv("KEY", "k" * 20)
    opened: list[HttpRoutes] = []

    def ask(kind: str, client: str, *, strict: bool = False) -> RouteResponse:
        provider, settings, reply = SERVICES[kind]
        service.replies = [json_reply(reply)]
        host = make_host(
            config=Config(
                providers={"gate": provider_at(service.url, provider, settings)},
                provider_order=("gate",),
                server=ServerConfig(pass_through=False, strict=strict),
            ),
            **PLUGINS,
        )
        opened.append(HttpRoutes(host))
        path, body, _ = CLIENTS[client]
        headers = {"content-type": "application/json"}
        data = json.dumps(body).encode()
        request = RouteRequest("POST", path, headers=headers, body=data, limits=Cancellation())
        return opened[-1].answer(request)

    yield ask
    for each in opened:
        each.close()


def sends(kind: str, client: str) -> bool:
    return kind == "gemini" or (kind, client) == ("responses", "responses")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", SERVICES)
def test_an_image_is_sent_or_replaced_and_named(
    ask: Ask, service: FakeService, kind: str, client: str
) -> None:
    reply = ask(kind, client)
    assert reply.status == 200, reply.body
    sent = json.dumps(service.requests[-1].json())
    assert (PNG in sent, "image omitted" in sent) == (sends(kind, client), not sends(kind, client))
    named = reply.headers.get(DROPPED, "").split(", ")
    assert (CLIENTS[client][2] in named) is not sends(kind, client)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", SERVICES)
def test_a_strict_server_refuses_it_where_it_cannot_be_sent(
    ask: Ask, service: FakeService, kind: str, client: str
) -> None:
    reply = ask(kind, client, strict=True)
    if sends(kind, client):
        assert reply.status == 200, reply.body
    else:
        assert (reply.status, service.requests) == (400, [])
        assert CLIENTS[client][2] in str(reply.body)

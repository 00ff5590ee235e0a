"""Images that a model has made, and web searches, in requests to services of other formats; the
latter as `server.service_tools` allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from format_services import ANSWERING, Send, provider_at

from genai_host.api import RouteResponse
from genai_host.serving.router import DROPPED
from genai_host_testing.fake_service import FakeService, json_reply

pytestmark = pytest.mark.part

PNG = "iVBORw0KGgo="
_DATA = {"inlineData": {"mimeType": "image/png", "data": PNG}}
_KIND, _, _REPLY = ANSWERING["chat"]
SERVICES: Mapping[str, tuple[str, Mapping[str, Any], Any]] = {
    **ANSWERING,
    "blind": (_KIND, {"serves": ["openai-chat"], "lacks": ["images"]}, _REPLY),
}
IMAGES: Mapping[str, tuple[str, Any, str]] = {
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

HI = [{"role": "user", "content": "hi"}]
OWN: Mapping[str, Any] = {
    "chat": None,
    "responses": {"type": "web_search"},
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "gemini": {"googleSearch": {}},
}
"""The tool of a service of each format."""
SEARCHES: Mapping[str, tuple[str, Any, str, list[str]]] = {
    "chat": (
        "/v1/chat/completions",
        {"model": "x", "messages": HI, "web_search_options": {}},
        "web_search_options", []),
    "responses": (
        "/v1/responses",
        {"model": "x", "input": "hi", "store": False, "tools": [
            {"type": "web_search", "search_context_size": "low"}]},
        "tools[0].web_search", ["tools[0].search_context_size"]),
    "anthropic": (
        "/v1/messages",
        {"model": "x", "max_tokens": 9, "messages": HI, "tools": [
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]},
        "tools[0].web_search", ["tools[0].max_uses"]),
    "gemini": (
        "/v1beta/models/x:generateContent",
        {"contents": [{"parts": [{"text": "hi"}]}], "tools": [
            {"googleSearch": {"new": 1}}]},
        "tools[0].googleSearch", ["tools[0].googleSearch.new"]),
}  # fmt: skip
Ask = Callable[..., RouteResponse]


@pytest.fixture
def ask(service: FakeService, send_to: Send) -> Ask:
    """Sends the request of a client to a server with services of these formats; all but the last
    one are overloaded."""

    def ask(*kinds: str, client: tuple[Any, ...], **server: Any) -> RouteResponse:
        failed = json_reply({}, 503, {"retry-after": "3600"})
        answer = json_reply(SERVICES[kinds[-1]][2])
        service.replies = [*[failed] * (len(kinds) - 1), answer]
        providers = {kind: provider_at(service.url, *SERVICES[kind][:2]) for kind in kinds}
        return send_to(client[0], client[1], providers, **server)

    return ask


def named(reply: RouteResponse) -> set[str]:
    return {*reply.headers.get(DROPPED, "").split(", ")} - {""}


def sends(kind: str, client: str) -> bool:
    return kind == "gemini" or (kind, client) == ("responses", "responses")


@pytest.mark.parametrize("client", IMAGES)
@pytest.mark.parametrize("kind", SERVICES)
def test_an_image_is_sent_or_replaced_and_named(
    ask: Ask, service: FakeService, kind: str, client: str
) -> None:
    reply = ask(kind, client=IMAGES[client])
    assert reply.status == 200, reply.body
    sent = json.dumps(service.requests[-1].json())
    assert (PNG in sent, "image omitted" in sent) == (sends(kind, client), not sends(kind, client))
    assert (IMAGES[client][2] in named(reply)) is not sends(kind, client)


@pytest.mark.parametrize("client", IMAGES)
@pytest.mark.parametrize("kind", SERVICES)
def test_a_strict_server_refuses_it_where_it_cannot_be_sent(
    ask: Ask, service: FakeService, kind: str, client: str
) -> None:
    reply = ask(kind, client=IMAGES[client], strict=True)
    if sends(kind, client):
        assert reply.status == 200, reply.body
    else:
        assert (reply.status, service.requests) == (400, [])
        assert IMAGES[client][2] in str(reply.body)


@pytest.mark.parametrize("client", SEARCHES)
@pytest.mark.parametrize("kind", OWN)
def test_a_service_receives_its_own_search(
    ask: Ask, service: FakeService, kind: str, client: str
) -> None:
    _, body, whole, options = SEARCHES[client]
    reply = ask(kind, client=SEARCHES[client], service_tools={"web_search": "service"})
    sent = service.requests[-1].json()
    if client == kind:
        own = {name: body[name] for name in ("tools", "web_search_options") if name in body}
        assert {name: sent[name] for name in own} == own
        assert not named(reply)
    elif OWN[kind] is None:
        assert "tools" not in sent
        assert named(reply) >= {whole}
    else:
        assert sent["tools"] == [OWN[kind]]
        assert named(reply) == {*options}


@pytest.mark.parametrize("client", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize("kind", ["responses", "anthropic", "gemini"])
def test_other_services_do_not_without_the_setting(
    ask: Ask, service: FakeService, kind: str, client: str
) -> None:
    reply = ask(kind, client=SEARCHES[client], service_tools={})
    assert ("tools" in service.requests[-1].json()) == (kind == client)
    assert (SEARCHES[client][2] in named(reply)) == (kind != client)


def test_each_service_of_a_failover_receives_its_own(ask: Ask, service: FakeService) -> None:
    reply = ask(
        "anthropic", "gemini", client=SEARCHES["anthropic"], service_tools={"web_search": "service"}
    )
    first, second = (each.json()["tools"] for each in service.requests)
    assert (first, second) == (SEARCHES["anthropic"][1]["tools"], [OWN["gemini"]])
    assert named(reply) == {"tools[0].max_uses"}


def test_a_strict_server_does_not_leave_out_options(ask: Ask, service: FakeService) -> None:
    given = {"service_tools": {"web_search": "service"}, "strict": True}
    assert ask("gemini", client=SEARCHES["anthropic"], **given).status == 400
    assert not service.requests

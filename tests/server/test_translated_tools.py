"""Web searches of services of other formats, which `server.service_tools` allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from format_services import ANSWERING, PLUGINS, provider_at

from genai_host import Config, RetryPolicy
from genai_host.api import Cancellation, RouteRequest, RouteResponse
from genai_host.config import ServerConfig
from genai_host.serving import HttpRoutes
from genai_host.serving.router import DROPPED
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

HI = [{"role": "user", "content": "hi"}]
OWN: Mapping[str, Any] = {
    "chat": None,
    "responses": {"type": "web_search"},
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "gemini": {"googleSearch": {}},
}
"""The tool of a service of each format."""
CLIENTS: Mapping[str, tuple[str, Any, str, list[str]]] = {
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
def ask(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ask]:
    monkeypatch.setenv("KEY", "k" * 20)
    opened: list[HttpRoutes] = []

    def ask(*kinds: str, client: str, tools: Mapping[str, str], strict: bool = False) -> Any:
        failed = json_reply({}, 503, {"retry-after": "3600"})
        answer = json_reply(ANSWERING[kinds[-1]][2])
        service.replies = [*[failed] * (len(kinds) - 1), answer]
        providers = {}
        for kind in kinds:
            provider, settings, _ = ANSWERING[kind]
            providers[kind] = provider_at(service.url, provider, settings)
        host = make_host(
            config=Config(
                providers=providers,
                provider_order=kinds,
                server=ServerConfig(pass_through=False, service_tools=tools, strict=strict),
            ),
            **PLUGINS,
            patience=RetryPolicy(),
        )
        opened.append(HttpRoutes(host))
        path, body, *_ = CLIENTS[client]
        headers = {"content-type": "application/json"}
        data = json.dumps(body).encode()
        request = RouteRequest("POST", path, headers=headers, body=data, limits=Cancellation())
        return opened[-1].answer(request)

    yield ask
    for each in opened:
        each.close()


def named(reply: RouteResponse) -> set[str]:
    return {*reply.headers.get(DROPPED, "").split(", ")} - {""}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", OWN)
def test_a_service_receives_its_own_search(
    ask: Ask, service: FakeService, kind: str, client: str
) -> None:
    _, body, whole, options = CLIENTS[client]
    reply = ask(kind, client=client, tools={"web_search": "service"})
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
    reply = ask(kind, client=client, tools={})
    assert ("tools" in service.requests[-1].json()) == (kind == client)
    assert (CLIENTS[client][2] in named(reply)) == (kind != client)


def test_each_service_of_a_failover_receives_its_own(ask: Ask, service: FakeService) -> None:
    reply = ask("anthropic", "gemini", client="anthropic", tools={"web_search": "service"})
    first, second = (each.json()["tools"] for each in service.requests)
    assert (first, second) == (CLIENTS["anthropic"][1]["tools"], [OWN["gemini"]])
    assert named(reply) == {"tools[0].max_uses"}


def test_a_strict_server_does_not_leave_out_options(ask: Ask, service: FakeService) -> None:
    given = {"tools": {"web_search": "service"}, "strict": True}
    assert ask("gemini", client="anthropic", **given).status == 400
    assert not service.requests

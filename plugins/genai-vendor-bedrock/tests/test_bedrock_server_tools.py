"""Tools that Anthropic runs, of requests that Bedrock answers, which has few of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import genai_vendor_anthropic
import genai_vendor_bedrock
import genai_wire_anthropic
import pytest

from genai_host import Config, Host, RetryPolicy
from genai_host.api import Cancellation, RouteRequest, RouteResponse
from genai_host.config import ServerConfig
from genai_host.serving import HttpRoutes
from genai_host.serving.router import DROPPED
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.anthropic import claude
from genai_host_testing.services.bedrock import KEY, by_claude

pytestmark = pytest.mark.part

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
BASH = {"type": "bash_20250124", "name": "bash"}
FOUND = {"type": "tool_search_tool_result", "tool_use_id": "s0", "content": {"type": "x"}}
CITED = {"type": "web_search_result_location", "url": "https://x", "cited_text": "cold"}
RAN: list[Any] = [
    {"type": "server_tool_use", "id": "s0", "name": "tool_search_tool_regex", "input": {}},
    FOUND,
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    {"type": "server_tool_use", "id": "s2", "name": "bash_code_execution", "input": {}},
    {"type": "bash_code_execution_tool_result", "tool_use_id": "s2", "content": {"type": "x"}},
    {"type": "mcp_tool_use", "id": "s3", "name": "a", "server_name": "b", "input": {}},
    {"type": "text", "text": "It is cold.", "citations": [CITED]},
]
LEFT_OUT = [
    "messages[1].content[2].server_tool_use", "messages[1].content[3].web_search_tool_result",
    "messages[1].content[4].server_tool_use",
    "messages[1].content[5].bash_code_execution_tool_result", "messages[1].content[6].mcp_tool_use",
    "messages[1].content[7].citations", "tools[0].web_search",
]  # fmt: skip
PLACES: Mapping[str, Any] = {
    "anthropic": lambda url, key: provider_config("anthropic", base_url=url, api_key=key),
    "bedrock": lambda url, key: provider_config(
        "bedrock", endpoint=url, region="us-east-1", bearer_token=key
    ),
}
Send = Callable[..., RouteResponse]
MakeSend = Callable[..., Send]


@pytest.fixture
def serving(
    make_host: MakeHost, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeSend]:
    """Makes a client of a server with Anthropic's service, which fails, and Bedrock."""
    (tmp_path / "key").write_text(KEY)
    key = {"file": str(tmp_path / "key")}
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    opened: list[HttpRoutes] = []

    def make(*, strict: bool = False, order: tuple[str, ...] = ("bedrock",)) -> Send:
        host: Host = make_host(
            config=Config(
                providers={name: PLACES[name](service.url, key) for name in order},
                provider_order=order,
                server=ServerConfig(strict=strict),
            ),
            bedrock=genai_vendor_bedrock, claude=genai_vendor_anthropic, wire=genai_wire_anthropic,
            patience=RetryPolicy(),
        )  # fmt: skip
        routes = HttpRoutes(host)
        opened.append(routes)

        def send(begins: Any = None, **fields: Any) -> RouteResponse:
            user = {"role": "user", "content": "hi"}
            body: dict[str, Any] = {
                "model": "claude-sonnet-5-5", "max_tokens": 99,
                "messages": [user, {"role": "assistant", "content": RAN}, user],
                "tools": [SEARCH, BASH], **fields,
            }  # fmt: skip
            request = RouteRequest(
                "POST", "/v1/messages", headers={"content-type": "application/json"},
                body=json.dumps(body).encode(), limits=Cancellation(),
            )  # fmt: skip
            return routes.answer(request, begins=begins)

        return send

    yield make
    for routes in opened:
        routes.close()


OVERLOADED = json_reply(
    {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    529,
    {"retry-after": "3600"},
)


@pytest.mark.parametrize("order", [("bedrock",), ("anthropic", "bedrock")], ids=["alone", "after"])
def test_what_bedrock_lacks(
    serving: MakeSend, service: FakeService, order: tuple[str, ...]
) -> None:
    service.replies = [OVERLOADED] * (len(order) - 1) + [claude("a")]
    reply = serving(order=order)()
    assert reply.status == 200, reply.body
    assert reply.headers[DROPPED].split(", ") == LEFT_OUT
    sent = service.requests[-1].json()
    assert sent["tools"] == [BASH]
    assert sent["messages"][1]["content"] == [*RAN[:2], {"type": "text", "text": "It is cold."}]


@pytest.mark.parametrize("order", [("bedrock",), ("anthropic", "bedrock")], ids=["alone", "after"])
def test_unknown_fields(serving: MakeSend, service: FakeService, order: tuple[str, ...]) -> None:
    """It refuses them, unlike marks for its cache."""
    mark = {"type": "ephemeral", "ttl": "1h"}
    text = {"type": "text", "text": "hi", "cache_control": {**mark, "scope": "global"}, "new": 1}
    tool = {"name": "a", "input_schema": {"type": "object"}, "new": 1}
    messages = [{"role": "user", "content": [text], "new": 1}]
    service.replies = [OVERLOADED] * (len(order) - 1) + [claude("a")]
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    reply = serving(order=order)(messages=messages, tools=[tool], context_management=edits)
    assert reply.status == 200, reply.body
    assert {*reply.headers[DROPPED].split(", ")} == {
        "context_management", "messages[0].content[0].new", "messages[0].new", "tools[0].new",
    }  # fmt: skip
    sent = service.requests[-1].json()
    assert [*sent["messages"][0]["content"][0].items()] == [
        ("type", "text"), ("text", "hi"), ("cache_control", mark),
    ]  # fmt: skip
    assert {"new", "context_management"}.isdisjoint(
        {*sent, *sent["tools"][0], *sent["messages"][0]}
    )


def test_strict_server_does_not_send_it(serving: MakeSend, service: FakeService) -> None:
    service.replies = [OVERLOADED]
    reply = serving(strict=True)()
    assert (reply.status, service.requests) == (400, [])
    assert LEFT_OUT[0] in str(reply.body)
    reply = serving(strict=True, order=("anthropic", "bedrock"))()
    assert (reply.status, len(service.requests)) == (529, 1)


def test_anthropic_receives_all(serving: MakeSend, service: FakeService) -> None:
    service.replies = [claude("a")]
    reply = serving(strict=True, order=("anthropic", "bedrock"))()
    assert reply.status == 200, reply.body
    assert DROPPED not in reply.headers
    assert service.requests[0].json()["messages"][1]["content"] == RAN


def test_early_head_has_the_names(serving: MakeSend, service: FakeService) -> None:
    """They are known when the attempt begins."""
    service.replies = [OVERLOADED, by_claude(streamed=True)]
    heads: list[RouteResponse] = []
    reply = serving(order=("anthropic", "bedrock"))(heads.append, stream=True)
    assert heads[0].headers is reply.headers
    assert reply.headers[DROPPED].split(", ") == LEFT_OUT
    assert isinstance(reply.body, Iterable)
    assert b"".join(map(bytes, reply.body)).endswith(b"\n\n")

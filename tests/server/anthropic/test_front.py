"""Our Anthropic API in front of our own vendor, and that in front of Anthropic's service as it
would be: what is asked arrives, and thoughts come back as they were signed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import genai_vendor_anthropic
import pytest
from anthropic_api import CLOCK, HI, Api, assistant, blocks_of, text, user

from genai_host import Config
from genai_host.config import InstanceConfig, ServerConfig
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.anthropic import CALLED, KEY, THOUGHT, claude, claude_blocks

pytestmark = pytest.mark.part

REDACTED = {"type": "redacted_thinking", "data": "eA=="}
AGAIN = {**THOUGHT, "thinking": "\n\nso", "signature": "YWdhaW4="}


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def in_pieces(request: pytest.FixtureRequest) -> bool:
    value: bool = request.param
    return value


@pytest.fixture
def api(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Api]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    settings = {"base_url": service.url, "version": "2023-06-01"}
    config = Config(
        providers={"anthropic": InstanceConfig("anthropic", settings=settings)},
        server=ServerConfig(pass_through=False),
    )
    with Api.serving(make_host, config=config, anthropic=genai_vendor_anthropic) as api:
        yield api


def blocks_in(api: Api, *messages: Any, in_pieces: bool, **more: Any) -> list[Any]:
    """The blocks of an answer."""
    more = {"model": "claude-opus-4-6", **more}
    if in_pieces:
        return blocks_of(api.events(*messages, **more))
    blocks: list[Any] = api.answered(*messages, **more)["content"]
    return blocks


@pytest.mark.parametrize("shows", [False, True], ids=["not asked for", "shown"])
def test_thoughts_come_back_as_they_were_signed(
    api: Api, service: FakeService, in_pieces: bool, shows: bool
) -> None:
    well = {"type": "text", "text": "well"}
    blocks: list[dict[str, Any]] = [THOUGHT, AGAIN, REDACTED, well, AGAIN, CALLED]
    service.replies = [claude_blocks(*blocks, streamed=in_pieces)]
    more: dict[str, Any] = {"tools": [{**CLOCK, "name": "look"}]}
    if shows:
        more["thinking"] = {"type": "adaptive"}
    content = blocks_in(api, HI, in_pieces=in_pieces, **more)
    called = {**CALLED, "caller": {"type": "direct"}}
    assert content == [THOUGHT, AGAIN, REDACTED, text("well"), AGAIN, called]
    result = user({"type": "tool_result", "tool_use_id": CALLED["id"], "content": "fine"})
    blocks_in(api, HI, assistant(*content), result, in_pieces=in_pieces, **more)
    first, second = (request.json() for request in service.requests)
    assert second["messages"] == [HI, assistant(*blocks), result]
    assert first.get("thinking") == ({"type": "adaptive"} if shows else None)


def test_what_is_asked(api: Api, service: FakeService) -> None:
    service.replies = [claude("so"), claude("so")]
    cached = {"cache_control": {"type": "ephemeral"}}
    fields = {
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
        "tools": [CLOCK], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "output_config": {"effort": "low"}, "temperature": 1,
    }  # fmt: skip
    marked = user({"type": "text", "text": "hi", **cached})
    blocks_in(api, marked, in_pieces=False, **fields)
    blocks_in(api, HI, in_pieces=False, **fields, **cached)
    first, second = (request.json() for request in service.requests)
    assert first == {"model": "claude-opus-4-6", "messages": [marked], **fields}
    ttl = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
    assert second == {"model": "claude-opus-4-6", "messages": [HI], **fields, **ttl}


DISABLED, ADAPTIVE = {"type": "disabled"}, {"type": "adaptive"}
BUDGET = {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize(("model", "thinking", "expected"), [
    ("claude-opus-4-6", DISABLED, DISABLED), ("claude-opus-4-6", ADAPTIVE, ADAPTIVE),
    ("claude-opus-4-6", BUDGET, BUDGET), ("claude-opus-5", BUDGET, ADAPTIVE),
    ("claude-sonnet-5-5", {"type": "between_tools"}, {"type": "between_tools"}),
    ("claude-haiku-4-5", DISABLED, None), ("claude-haiku-4-5", BUDGET, BUDGET),
])  # fmt: skip
def test_thinking(api: Api, service: FakeService, model: str, thinking: Any, expected: Any) -> None:
    service.replies = [claude("so")]
    blocks_in(api, HI, in_pieces=False, model=model, thinking=thinking, max_tokens=4096)
    assert service.requests[0].json().get("thinking") == expected


def test_temperature_of_models_that_take_none(api: Api, service: FakeService) -> None:
    service.replies = [claude("so")]
    model = {"model": "claude-opus-5"}
    blocks_in(api, HI, in_pieces=False, temperature=1, top_p=1, **model)
    assert {"temperature", "top_p"}.isdisjoint(service.requests[0].json())
    assert "temperature" in api.refused(HI, temperature=0.5, **model)


def test_always_thinking(api: Api) -> None:
    refused = api.refused(HI, model="claude-opus-5-5", thinking={"type": "disabled"})
    assert "thinking.type" in refused


def test_tokens(api: Api, service: FakeService) -> None:
    service.replies = [json_reply({"input_tokens": 12})]
    body = {"model": "claude-opus-4-6", "messages": [HI], "thinking": {"type": "adaptive"}}
    reply = api.post(body, "/v1/messages/count_tokens")
    assert reply.json() == {"input_tokens": 12}
    assert service.requests[0].json()["thinking"] == {"type": "adaptive"}

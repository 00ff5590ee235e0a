"""The official `anthropic` SDK as an oracle for Claude on Vertex AI, as `test_anthropic_sdk`
has it for Anthropic's own service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import anthropic
import genai_vendor_anthropic
import genai_vendor_gemini
import pytest
from attrs import evolve, frozen
from peers.claude_conversations import TOLD
from peers.differences import ABSENT, Difference, differing
from peers.sides import Clients, Sides, clients, service, telling

from genai_host.api import CountTokens
from genai_host.testing.fake_service import FakeService, Received, json_reply
from genai_host_testing.anthropic_service import claude
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.gemini_service import KEY

pytestmark = pytest.mark.peers
__all__ = ["clients", "service"]

FIELDS: Mapping[Difference, str] = {
    Difference("anthropic_version", "vertex-2023-10-16", "2026-10-21"): (
        "since its version 2 the SDK says that of Anthropic's own API; the guide to Vertex AI "
        "has no other than ours"
    ),
    Difference("stream", ABSENT, False): "which says what is so anyway",
}
"""All that may differ in a body, and why."""

VERSION = {"anthropic-version": "which stands in the body, there as here"}
"""The header that may differ, and why."""


@frozen
class Way:
    """Vertex AI, set up by environment variables here, and by arguments there."""

    environment = {
        "CLOUDSDK_AUTH_ACCESS_TOKEN": KEY,
        "GOOGLE_CLOUD_PROJECT": "mine",
        "GOOGLE_CLOUD_LOCATION": "europe-west4",
        "GOOGLE_VERTEX_BASE_URL": "{url}",
    }

    @property
    def client(self) -> Callable[[str], Any]:
        return _client


def _client(url: str) -> Any:
    return anthropic.AnthropicVertex(
        project_id="mine",
        region="europe-west4",
        access_token=KEY,
        base_url=f"{url}/v1",
        max_retries=0,
    )


class VertexSides(Sides):
    variables = {"ALL_PROXY", "HTTP_PROXY", "NO_PROXY", *Way.environment}
    plugins = {"anthropic": genai_vendor_anthropic, "gemini": genai_vendor_gemini}


@pytest.fixture
def sides(
    service: FakeService, clients: Clients, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> VertexSides:
    return VertexSides(service, clients, make_host, monkeypatch)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "name",
    # the cache is asked for block by block here, as no service but Anthropic's knows another way
    [name for name, (_, _, only) in TOLD.items() if only in ("", "direct") and "cache" not in name],
)
def test_both_send_the_same(sides: VertexSides, name: str, streamed: bool) -> None:
    prompt, wire, _ = TOLD[name]
    fields: Any = {"max_tokens": 16_000, **wire}
    sides.set_up(Way.environment)
    conversation = sides.host(telling(prompt), "chat").open("tell", "claude-haiku-4-5@vertex")
    messages = sides.clients.of(Way()).messages
    replies = [claude("fine", streamed=streamed)]

    def speak() -> None:
        list(conversation.stream("go")) if streamed else conversation.say("go")

    def speak_by_sdk() -> None:
        made = messages.create(model="claude-haiku-4-5@20251001", stream=streamed, **fields)
        if streamed:
            list(made)

    (ours,) = sides.sent(replies, speak)
    (theirs,) = sides.sent(replies, speak_by_sdk)
    found = differing(_decoded(ours), _decoded(theirs), VERSION)
    assert found <= FIELDS.keys()
    assert next(iter(FIELDS)) in found  # else it is listed in vain


def _decoded(request: Received) -> Received:
    """Either side may encode the `@` of an id."""
    return evolve(request, path=unquote(request.path))


def test_both_count_alike(sides: VertexSides) -> None:
    prompt, wire, _ = TOLD["system"]
    taken: Any = {name: value for name, value in wire.items() if name in ("messages", "system")}
    sides.set_up(Way.environment)
    tell = telling(CountTokens(prompt))
    conversation = sides.host(tell, "chat").open("tell", "claude-haiku-4-5@vertex")
    messages = sides.clients.of(Way()).messages
    replies = [json_reply({"input_tokens": 12})]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(
        replies, lambda: messages.count_tokens(model="claude-haiku-4-5@20251001", **taken)
    )
    assert differing(ours, theirs, VERSION) <= FIELDS.keys()

"""OpenAI's moderation: requests, replies, and the step that asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from genai_wire_openai.dialect.operations import OpenAIModerate
from hypothesis import given, strategies as st

from genai_host import Host, InMemoryRecord
from genai_host.api import (
    Answer,
    DialectEndpoint,
    Feature,
    FeatureSteps,
    Model,
    Moderate,
    ModerateCall,
    ModerationResult,
    NoSettings,
    ProviderReply,
    Turn,
    http_provider,
)
from genai_host.errors import GenaiError, MalformedReply, RateLimited
from genai_host_testing import InlinePlugin, replay_from_every_entry
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.garbage import leak

DIALECT = OpenAIModerate()
CALL = ModerateCall(model_id="m", text="hi")
REPLY: dict[str, Any] = {
    "id": "modr-1", "model": "omni-moderation-latest",
    "results": [
        {
            "flagged": True, "categories": {"violence": True, "self-harm": False},
            "category_scores": {"violence": 0.9, "self-harm": 0}}],
}  # fmt: skip


def read(reply: Any) -> ModerationResult:
    return DIALECT.extract_result(CALL, ProviderReply(json.dumps(reply).encode()))


def test_a_request_has_the_text() -> None:
    request = DIALECT.prepare_request(CALL)
    assert (request.operation, request.dialect) == ("moderate", "openai-moderate")
    assert json.loads(request.data()) == {"model": "m", "input": "hi"}
    assert DIALECT.endpoint == DialectEndpoint(path="/moderations")
    assert DIALECT.decoder(CALL) is None


def test_a_reply_is_read() -> None:
    categories = {"violence": 0.9, "self-harm": 0.0}
    assert read(REPLY) == ModerationResult(True, categories, "omni-moderation-latest")
    assert read({"results": [{"flagged": False}]}) == ModerationResult(False)


@pytest.mark.parametrize("reply", [
    {}, {"results": []}, {"results": [{}, {}]}, {"results": [{"flagged": "yes"}]},
    {"results": [{"flagged": True, "category_scores": {"x": 2}}]},
    {"results": [{"flagged": True, "category_scores": {"x": True}}]},
    {"results": [{"flagged": True, "category_scores": [1]}]},
    [],
], ids=str)  # fmt: skip
def test_what_is_no_verdict_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply):
        read(reply)


@given(data=st.binary() | st.text().map(str.encode))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not leak(lambda: DIALECT.extract_result(CALL, ProviderReply(data)))


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    try:
        verdict = yield from Moderate(turn.message.text)
    except GenaiError as error:
        return Answer(f"nobody knows: {error.code}")
    return Answer("flagged" if verdict.flagged else "fine")


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService([json_reply(REPLY)]) as fake_service:
        yield fake_service


@pytest.fixture
def host(
    make_host: Callable[..., Host], service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> Host:
    monkeypatch.setenv("NO_PROXY", "*")
    plugin = InlinePlugin(
        providers=[
            http_provider("judge", f"{service.url}/v1", {"openai-moderate": DialectEndpoint()})
        ],
        models=[Model("rules", ["openai-moderate"], operation="moderate", at={"judge": "r"})],
        features=[Feature("moderated", NoSettings, respond, roles={"moderate": "moderate"})],
    )
    return make_host(plugin=plugin)


@pytest.mark.part
def test_a_feature_asks_for_it(host: Host, service: FakeService) -> None:
    conversation = host.open("moderated", models={"moderate": "rules"})
    answer = conversation.say("something bad")
    assert answer.text == "flagged"
    (detail,) = answer.details
    assert detail.title == "moderation by rules@judge"
    assert detail.data["categories"] == {"violence": 0.9, "self-harm": 0.0}
    service.replies = [json_reply({}, 429)]
    assert conversation.say("more").text == f"nobody knows: {RateLimited.code}"


@pytest.mark.part
def test_it_is_replayed_from_the_record(host: Host) -> None:
    conversation = host.open("moderated", models={"moderate": "rules"})
    conversation.say("something bad")
    assert isinstance(conversation.record, InMemoryRecord)
    assert replay_from_every_entry(host, conversation.record) > 0

"""OpenAI's embeddings and moderation: requests, replies and the step that asks for a moderation;
and its form of errors, which all share."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from genai_wire_openai.dialect.operations import OpenAIEmbed, OpenAIModerate
from hypothesis import given, strategies as st

from genai_host import Host, InMemoryRecord
from genai_host.api import (
    Answer,
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    Feature,
    FeatureSteps,
    Model,
    Moderate,
    ModerateCall,
    ModerationResult,
    NoSettings,
    ProviderReply,
    SchemaValidator,
    Turn,
    Usage,
    http_provider,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenaiError,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
    ValidationError,
)
from genai_host_testing import InlinePlugin, replay_from_every_entry
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.garbage import NESTED, WEIRD, leak
from genai_host_testing.internal.vector_replies import CALL, VectorReplies
from genai_host_testing.purity import ValuePath, places_in, with_other

DIALECT = OpenAIEmbed()


def items(*vectors: Any) -> dict[str, Any]:
    return {"data": [{"index": at, "embedding": each} for at, each in enumerate(vectors)]}


def base64(*numbers: float) -> str:
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def body(**call: Any) -> Any:
    embed_call = EmbedCall(model_id="m", **{"texts": ["a", "b"], **call})
    return json.loads(DIALECT.prepare_request(embed_call).data())


class TestReplies(VectorReplies):
    dialect = DIALECT
    malformed = [
        *VectorReplies.malformed, {"data": None}, {"data": {}}, {"data": [None, None]},
        {"data": [{"embedding": [1]}, {"embedding": [2], "index": 0}]},
        {"data": [{"index": 0}, {"index": 1}]}, items(b64encode(b"12345").decode(), base64(1)),
        items(base64(float("nan")), base64(1)), items(base64(1), base64(1, 2)),
        {**items([1], [2]), "usage": {"prompt_tokens": float("inf")}},
    ]  # fmt: skip

    def reply(self, vectors: Any) -> Any:
        """In another order: the items have their numbers."""
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return {"data": items(*vectors)["data"][::-1], "model": "m-1", "usage": usage}

    def test_all_of_a_reply_is_read(self) -> None:
        expected = Embeddings([[1.0], [2.0]], "m-1", Usage(input_tokens=7))
        assert self.read(self.reply([[1], [2]])) == expected
        for usage in (None, {}, {"prompt_tokens": None}, {"prompt_tokens": 0}):
            for model in ({}, {"model": None}):
                reply = {**items([1], [2]), "usage": usage, **model}
                assert self.read(reply) == Embeddings([[1.0], [2.0]])
        assert self.read({"data": []}, EmbedCall(model_id="m", texts=[])).vectors == []

    def test_vectors_may_come_as_base64(self) -> None:
        for second in (base64(0.25, 3), [0.25, 3]):
            result = self.read(items(base64(1, -0.5), second))
            assert result.vectors == [[1.0, -0.5], [0.25, 3.0]]


def test_it_says_what_it_is() -> None:
    assert (DIALECT.name, DIALECT.operation) == ("openai-embed", "embed")
    assert DIALECT.endpoint == DialectEndpoint(path="/embeddings")
    assert (DIALECT.capabilities, DIALECT.decoder(CALL)) == (frozenset(), None)
    assert list(DIALECT.parameters) == ["dimensions"]
    checker = SchemaValidator(DIALECT.parameters["dimensions"])
    checker.check(1)
    for wrong in (0, 1.5, "1"):
        with pytest.raises(ValidationError):
            checker.check(wrong)


def test_a_request_has_the_texts() -> None:
    request = DIALECT.prepare_request(CALL)
    assert (request.operation, request.dialect, request.model_id) == ("embed", "openai-embed", "m")
    assert not request.stream
    assert body() == {"model": "m", "input": ["a", "b"], "encoding_format": "float"}


@pytest.mark.parametrize(("call", "fields"), [
    ({"texts": ["é"], "purpose": "query", "parameters": {"dimensions": 8},
      "variant": {"purpose": "input_type"}},
     {"input": ["é"], "dimensions": 8, "input_type": "query"}),
    ({"purpose": "query"}, {"input_type": None}),
    ({"variant": {"purpose": "input_type"}}, {"input_type": None}),
    ({"variant": {"encoding": "base64"}}, {"encoding_format": "base64"}),
    ({"variant": {"encoding": ""}}, {"encoding_format": None}),
])  # fmt: skip
def test_all_of_a_call_has_its_place(call: Any, fields: Any) -> None:
    sent = body(**call)
    assert {name: sent.get(name) for name in fields} == fields


ERRORS: list[tuple[Any, int, type[GenaiError], str, int]] = [
    ({"message": "no"}, 400, BadRequest, "no", 400),
    ({"message": "no", "code": "invalid_api_key"}, 401, AuthenticationFailed, "no", 401),
    ({"message": "no", "code": "context_length_exceeded"}, 400, ContextOverflow, "no", 400),
    ({"message": "no", "type": "exceed_context_size_error"}, 400, ContextOverflow, "no", 400),
    ({"message": "no", "code": 429}, 500, RateLimited, "no", 429),
    ({"message": "no", "code": 400}, 500, BadRequest, "no", 400),
    ({"message": "no", "code": 599}, 400, ServiceUnavailable, "no", 599),
    ({"message": "no", "code": 399}, 500, ServiceUnavailable, "no", 500),
    ({"message": "no", "code": 600}, 400, BadRequest, "no", 400),
    ({"message": "no", "code": None, "type": None}, 503, ServiceUnavailable, "no", 503),
    ({"message": "no", "code": "429"}, 400, RateLimited, "no", 429),
    ({"message": "no", "code": "²²²"}, 400, BadRequest, "no", 400),
    ({"message": "no", "type": "insufficient_quota"}, 429, RateLimited, "no", 429),
    ({"message": "no\n  no"}, 400, BadRequest, "no no", 400),
    ({"message": "n" * 5000}, 400, BadRequest, "n" * 1000, 400),
    ("no", 429, RateLimited, "no", 429),
    (["no"], 400, BadRequest, "no", 400),
    ({"code": 5}, 400, BadRequest, "{'code': 5}", 400),
    ({"message": "no", "code": ["x"]}, 400, BadRequest, "no", 400),
    ({"message": "no", "type": {}}, 400, BadRequest, "no", 400),
]


@pytest.mark.parametrize(("error", "status", "kind", "message", "own"), ERRORS, ids=repr)
def test_an_error_is_explained(
    error: Any, status: int, kind: type[GenaiError], message: str, own: int
) -> None:
    data = json.dumps({"error": error}).encode()
    mapped = DIALECT.map_error(ProviderReply(data, status))
    assert type(mapped) is kind
    assert (mapped.message, mapped.status) == (message, own)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"error": null}', NESTED, b"<p>"])
def test_an_error_in_no_known_form_is_left_to_its_status(data: bytes) -> None:
    assert DIALECT.map_error(ProviderReply(data, 400)) is None


@pytest.mark.parametrize("data", [
    {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
    {"statusCode": 400, "message": "no"},
    {"detail": "no"},
], ids=repr)  # fmt: skip
def test_an_error_in_the_form_of_others_is_explained(data: Any) -> None:
    error = DIALECT.map_error(ProviderReply(json.dumps(data).encode(), 400))
    assert (type(error), str(error)) == (BadRequest, "no")


@pytest.mark.parametrize(("error", "kind", "retryable"), [
    ({"code": "rate_limit_exceeded"}, RateLimited, True),
    ({"code": "insufficient_quota"}, RateLimited, False),
    ({"code": "server_error"}, ServiceUnavailable, True),
    ({"code": "unheard_of"}, ServiceUnavailable, True),
    ({"code": None, "type": "invalid_request_error"}, BadRequest, False),
    ({"code": "invalid_prompt"}, BadRequest, False),
    ({"code": "context_length_exceeded"}, ContextOverflow, False),
], ids=repr)  # fmt: skip
def test_an_error_that_comes_as_a_success_tells_by_its_code(
    error: Any, kind: type[GenaiError], retryable: bool
) -> None:
    with pytest.raises(GenaiError, match="no") as caught:
        TestReplies().read({"error": {"message": "no", **error}})
    assert (type(caught.value), caught.value.retryable) == (kind, retryable)


FAILURE = {"error": {"message": "no", "type": "x", "code": 400, "param": None}}


@pytest.mark.parametrize("place", list(places_in(FAILURE)), ids=str)
def test_nothing_in_an_error_raises_anything_else(place: ValuePath) -> None:
    bodies = [json.dumps(with_other(FAILURE, place, weird)).encode() for weird in WEIRD]
    for body in bodies:
        error = DIALECT.map_error(ProviderReply(body, 400))
        assert error is None or isinstance(error, GenaiError)
        assert error is None or isinstance(error.message, str)


MODERATE = OpenAIModerate()
JUDGED = ModerateCall(model_id="m", text="hi")
REPLY: dict[str, Any] = {
    "id": "modr-1", "model": "omni-moderation-latest",
    "results": [
        {
            "flagged": True, "categories": {"violence": True, "self-harm": False},
            "category_scores": {"violence": 0.9, "self-harm": 0}}],
}  # fmt: skip


def read(reply: Any) -> ModerationResult:
    return MODERATE.extract_result(JUDGED, ProviderReply(json.dumps(reply).encode()))


def test_a_request_has_the_text() -> None:
    request = MODERATE.prepare_request(JUDGED)
    assert (request.operation, request.dialect) == ("moderate", "openai-moderate")
    assert json.loads(request.data()) == {"model": "m", "input": "hi"}
    assert MODERATE.endpoint == DialectEndpoint(path="/moderations")
    assert MODERATE.decoder(JUDGED) is None


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
    assert not leak(lambda: MODERATE.extract_result(JUDGED, ProviderReply(data)))


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

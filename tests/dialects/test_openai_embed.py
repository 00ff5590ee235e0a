"""OpenAI's embeddings: requests and replies; and its form of errors, which all share."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest
from genai_wire_openai.dialect.operations import OpenAIEmbed

from genai_host.api import (
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    ProviderReply,
    SchemaValidator,
    Usage,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenaiError,
    RateLimited,
    ServiceUnavailable,
    ValidationError,
)
from genai_host_testing.internal.garbage import NESTED, WEIRD
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
def test_an_error_is_explained(error: Any, status: int, kind: Any, message: str, own: int) -> None:
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

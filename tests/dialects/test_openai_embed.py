"""OpenAI's embeddings: requests and replies; and its form of errors, which all share."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest
from garbage import NESTED, WEIRD, json_values, leak
from genai_wire_openai.dialect.embeddings import OpenAIEmbed
from hypothesis import example, given
from hypothesis import strategies as st

from genai_host.api import (
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    ProviderReply,
    SchemaValidator,
    Usage,
)
from genai_host.api.codec import usual_codec
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
from genai_host_testing.purity import ValuePath, places_in, with_other

DIALECT = OpenAIEmbed()
CALL = EmbedCall(model_id="m", texts=["a", "b"])


def read(reply: Any, call: EmbedCall = CALL) -> Embeddings:
    data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return DIALECT.extract_result(call, ProviderReply(data))


def items(*vectors: Any) -> dict[str, Any]:
    return {"data": [{"index": at, "embedding": each} for at, each in enumerate(vectors)]}


def test_it_says_what_it_is() -> None:
    assert (DIALECT.name, DIALECT.operation) == ("openai-embed", "embed")
    assert DIALECT.endpoint == DialectEndpoint(path="/embeddings")
    assert DIALECT.capabilities == frozenset()
    assert DIALECT.decoder(CALL) is None
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
    body = {"model": "m", "input": ["a", "b"], "encoding_format": "float"}
    assert json.loads(request.data()) == body


def test_a_purpose_is_written_where_the_service_knows_it() -> None:
    call = EmbedCall(
        model_id="m",
        texts=("é",),
        purpose="query",
        parameters={"dimensions": 8},
        variant={"purpose": "input_type"},
    )
    body = json.loads(DIALECT.prepare_request(call).data())
    assert (body["input"], body["dimensions"], body["input_type"]) == (["é"], 8, "query")
    assert "query" not in DIALECT.prepare_request(EmbedCall(model_id="m", texts=[])).body.values()


def test_vectors_come_in_the_order_of_the_texts() -> None:
    data = list(reversed(items([1, 2], [0.5, -3e-5])["data"]))
    reply = {"data": data, "model": "m-1", "usage": {"prompt_tokens": 7}}
    assert read(reply) == Embeddings([[1.0, 2.0], [0.5, -3e-5]], "m-1", Usage(input_tokens=7))


def base64(*numbers: float) -> str:
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def test_vectors_may_come_as_base64() -> None:
    assert read(items(base64(1, -0.5), base64(0.25, 3))).vectors == [[1.0, -0.5], [0.25, 3.0]]
    assert read(items(base64(1, -0.5), [0.25, 3])).vectors == [[1.0, -0.5], [0.25, 3.0]]


@pytest.mark.parametrize(("encoding", "asked"), [("base64", "base64"), ("", None)])
def test_how_vectors_come_can_be_chosen(encoding: str, asked: str | None) -> None:
    call = EmbedCall(model_id="m", texts=["a"], variant={"encoding": encoding})
    assert json.loads(DIALECT.prepare_request(call).data()).get("encoding_format") == asked


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": 0}])
def test_usage_may_be_missing(usage: Any) -> None:
    assert read({**items([1], [2]), "usage": usage}) == Embeddings([[1.0], [2.0]])


@pytest.mark.parametrize("model", [{}, {"model": None}], ids=repr)
def test_a_model_that_is_not_named_has_no_name(model: dict[str, None]) -> None:
    assert read({**items([1], [2]), **model}).model == ""


def test_no_texts_have_no_vectors() -> None:
    assert read({"data": []}, EmbedCall(model_id="m", texts=[])).vectors == []


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b'{"data": ' + NESTED + b"}",
        {},
        {"data": None},
        {"data": {}},
        {"data": [None, None]},
        {"data": [{"embedding": [1]}, {"embedding": [2], "index": 0}]},
        {"data": [{"index": 0}, {"index": 1}]},
        items(),
        items([1]),
        items([1], [2], [3]),
        items([1], [2, 3]),
        items([1], None),
        items([1], 2),
        items([1], [None]),
        items([1], [[2]]),
        items([1], ["2"]),
        items([1], [True]),
        items([1], [float("nan")]),
        items([1], [float("inf")]),
        items([1], [10**400]),
        items("12", "34"),
        items("é", "é"),
        items(b64encode(b"12345").decode(), base64(1)),
        items(base64(float("nan")), base64(1)),
        items(base64(1), base64(1, 2)),
        items({"1": 0}, {"2": 0}),
        {**items([1], [2]), "usage": {"prompt_tokens": float("inf")}},
    ],
    ids=lambda reply: repr(reply)[:70],
)
def test_what_are_no_vectors_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply):
        read(reply)


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
    found = DIALECT.map_error(ProviderReply(data, status))
    assert type(found) is kind
    assert (found.message, found.status) == (message, own)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"error": null}', NESTED, b"<p>"])
def test_an_error_in_no_known_form_is_left_to_its_status(data: bytes) -> None:
    assert DIALECT.map_error(ProviderReply(data, 400)) is None


@pytest.mark.parametrize(
    "data",
    [
        {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
        {"statusCode": 400, "message": "no"},
        {"detail": "no"},
    ],
    ids=repr,
)
def test_an_error_in_the_form_of_others_is_explained(data: Any) -> None:
    found = DIALECT.map_error(ProviderReply(json.dumps(data).encode(), 400))
    assert (type(found), str(found)) == (BadRequest, "no")


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"code": "rate_limit_exceeded"}, RateLimited, True),
        ({"code": "insufficient_quota"}, RateLimited, False),
        ({"code": "server_error"}, ServiceUnavailable, True),
        ({"code": "unheard_of"}, ServiceUnavailable, True),
        ({"code": None, "type": "invalid_request_error"}, BadRequest, False),
        ({"code": "invalid_prompt"}, BadRequest, False),
        ({"code": "context_length_exceeded"}, ContextOverflow, False),
    ],
    ids=repr,
)
def test_an_error_that_comes_as_a_success_tells_by_its_code(
    error: Any, kind: type[GenaiError], retryable: bool
) -> None:
    with pytest.raises(GenaiError, match="no") as caught:
        read({"error": {"message": "no", **error}})
    assert (type(caught.value), caught.value.retryable) == (kind, retryable)


FAILURE = {"error": {"message": "no", "type": "x", "code": 400, "param": None}}
REPLY = {**items([1.0], [2.0]), "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def keep(vectors: Embeddings) -> None:
    """Put vectors on record."""
    written = json.dumps(usual_codec().to_json(vectors), allow_nan=False)
    assert usual_codec().from_json(json.loads(written), Embeddings).model == vectors.model


@pytest.mark.parametrize("place", list(places_in(REPLY)), ids=str)
def test_nothing_in_a_reply_raises_anything_else(place: ValuePath) -> None:
    replies = [with_other(REPLY, place, weird) for weird in WEIRD]
    leaks = [leak(lambda reply=reply: keep(read(reply))) for reply in replies]  # type: ignore[misc]
    assert set(leaks) == {""}


@pytest.mark.parametrize("place", list(places_in(FAILURE)), ids=str)
def test_nothing_in_an_error_raises_anything_else(place: ValuePath) -> None:
    bodies = [json.dumps(with_other(FAILURE, place, weird)).encode() for weird in WEIRD]
    for body in bodies:
        found = DIALECT.map_error(ProviderReply(body, 400))
        assert found is None or isinstance(found, GenaiError)
        assert found is None or isinstance(found.message, str)


KEYS = ("data", "index", "embedding", "usage", "error", "code", "type", "message")


@given(data=json_values(KEYS).map(lambda value: json.dumps(value).encode()) | st.binary())
@example(data=NESTED)
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not leak(lambda: read(data))
    assert not leak(lambda: DIALECT.map_error(ProviderReply(data, 400)))

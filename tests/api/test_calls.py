"""Requests and replies as bytes, other values between dialect and provider, streamed bodies."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from genai_host.api import EncodedJson, ProviderReply, ProviderRequest, StreamedBody, StreamEvent
from genai_host.errors import GenaiError, PluginError, RateLimited
from genai_host_testing.internal.garbage import finite_json


def request(body: dict[str, Any]) -> ProviderRequest:
    return ProviderRequest("chat", "plain", "m", body)


def encoded(*items: Any) -> EncodedJson:
    """Several JSON values, joined by commas, as a dialect writes a message."""
    return EncodedJson(",".join(json.dumps(item, ensure_ascii=False) for item in items).encode())


@st.composite
def bodies(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A body with parts of it encoded, and the same without."""
    mixed, plain = dict[str, Any](), dict[str, Any]()
    for name in draw(st.lists(st.text(), unique=True, max_size=4)):
        kind = draw(st.sampled_from(["plain", "encoded", "list", "tuple"]))
        if kind in ("plain", "encoded"):
            plain[name] = draw(finite_json)
            mixed[name] = encoded(plain[name]) if kind == "encoded" else plain[name]
            continue
        groups = draw(
            st.lists(st.tuples(st.booleans(), st.lists(finite_json, max_size=3)), max_size=4)
        )
        plain[name] = [item for _, group in groups for item in group]
        items: list[Any] = []
        for as_one, group in groups:
            items += [encoded(*group)] if as_one else group
        mixed[name] = items if kind == "list" else tuple(items)
    return mixed, plain


@given(both=bodies())
def test_the_data_is_the_body_with_what_was_encoded_in_its_place(both: Any) -> None:
    mixed, plain = both
    data = request(mixed).data()
    assert json.loads(data.decode("utf-8")) == plain
    assert list(json.loads(data)) == list(mixed)


@pytest.mark.parametrize(("body", "data"), [
    ({}, b"{}"),
    ({"a": 1, "b": [1, None, True]}, b'{"a":1,"b":[1,null,true]}'),
    ({"é": "ü"}, '{"é":"ü"}'.encode()),
    ({"a": EncodedJson(b'{"x": 1}')}, b'{"a":{"x": 1}}'),
    ({"a": [EncodedJson(b"1,2"), 3]}, b'{"a":[1,2,3]}'),
    ({"a": [EncodedJson(b"")]}, b'{"a":[]}'),
    ({"a": [EncodedJson(b""), EncodedJson(b"1"), EncodedJson(b"")]}, b'{"a":[1]}'),
    ({"a": []}, b'{"a":[]}'),
    ({'"': 1}, b'{"\\"":1}'),
])  # fmt: skip
def test_the_data_has_no_spaces_and_is_not_escaped(body: dict[str, Any], data: bytes) -> None:
    assert request(body).data() == data


@pytest.mark.parametrize("text", ["\ud800", "smile \ud83d"])
def test_half_a_surrogate_pair_leaves_the_data_valid(text: str) -> None:
    data = request({"text": text, text: [text]}).data()
    assert isinstance(json.loads(data.decode("utf-8"))["text"], str)


def test_what_has_no_json_form_is_not_sent() -> None:
    for value in (b"bytes", {1, 2}, object()):
        with pytest.raises(TypeError):
            request({"a": value}).data()


def test_defaults_are_those_of_a_plain_request_that_succeeds() -> None:
    assert (request({}).stream, request({}).headers) == (False, {})
    reply = ProviderReply(b"")
    assert (reply.status, reply.headers) == (200, {})
    assert StreamEvent(b"").name is None
    assert ProviderReply(b"").headers is not reply.headers


def written(*chunks: bytes | Exception) -> StreamedBody:
    def generate() -> Generator[bytes, None, None]:
        for each in chunks:
            if isinstance(each, Exception):
                raise each
            yield each

    def write_error(error: GenaiError) -> bytes:
        return error.code.encode()

    return StreamedBody(generate(), write_error)


def test_chunks_of_a_body_come_in_order() -> None:
    body = written(b"one", b"two")
    body.begin()
    assert list(body) == [b"one", b"two"]


def test_a_body_may_be_empty() -> None:
    body = written()
    body.begin()
    assert b"".join(body) == b""


@pytest.mark.parametrize(
    ("error", "kind"),
    [(RateLimited("slowly"), RateLimited), (ZeroDivisionError("a bug"), PluginError)],
)
def test_an_error_is_the_reply_or_in_the_body(error: Exception, kind: type[GenaiError]) -> None:
    """The latter where the head was sent before, and after the first chunk."""
    code = kind.code.encode()
    body = written(error)
    with pytest.raises(kind):
        body.begin()
    assert list(body) == [code]
    body = written(b"one", error)
    body.begin()
    assert list(body) == [b"one", code]


def test_a_closed_body_has_no_more() -> None:
    body = written(b"one", b"two")
    body.begin()
    body.close()
    assert b"".join(body) == b""

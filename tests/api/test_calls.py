"""Requests as bytes, and the other values that pass between dialect and provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genai_host.api import EncodedJson, ProviderReply, ProviderRequest, StreamEvent

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def request(body: dict[str, Any]) -> ProviderRequest:
    return ProviderRequest("chat", "plain", "m", body)


def encoded(*items: Any) -> EncodedJson:
    """Several JSON values, joined by commas, as a dialect writes a message."""
    return EncodedJson(",".join(json.dumps(item, ensure_ascii=False) for item in items).encode())


@st.composite
def bodies(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A body with parts of it encoded, and the same without."""
    mixed: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for name in draw(st.lists(st.text(), unique=True, max_size=4)):
        kind = draw(st.sampled_from(["plain", "encoded", "list", "tuple"]))
        if kind in ("plain", "encoded"):
            plain[name] = draw(values)
            mixed[name] = encoded(plain[name]) if kind == "encoded" else plain[name]
            continue
        groups = draw(st.lists(st.tuples(st.booleans(), st.lists(values, max_size=3)), max_size=4))
        plain[name] = [item for _, group in groups for item in group]
        items: list[Any] = []
        for as_one, group in groups:
            items += [encoded(*group)] if as_one else group
        mixed[name] = items if kind == "list" else tuple(items)
    return mixed, plain


@given(both=bodies())
def test_the_data_is_the_body_with_what_was_encoded_in_its_place(
    both: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    mixed, plain = both
    data = request(mixed).data()
    assert json.loads(data.decode("utf-8")) == plain
    assert list(json.loads(data)) == list(mixed)


@pytest.mark.parametrize(
    ("body", "data"),
    [
        ({}, b"{}"),
        ({"a": 1, "b": [1, None, True]}, b'{"a":1,"b":[1,null,true]}'),
        ({"é": "ü"}, '{"é":"ü"}'.encode()),
        ({"a": EncodedJson(b'{"x": 1}')}, b'{"a":{"x": 1}}'),
        ({"a": [EncodedJson(b"1,2"), 3]}, b'{"a":[1,2,3]}'),
        ({"a": [EncodedJson(b"")]}, b'{"a":[]}'),
        ({"a": [EncodedJson(b""), EncodedJson(b"1"), EncodedJson(b"")]}, b'{"a":[1]}'),
        ({"a": []}, b'{"a":[]}'),
        ({'"': 1}, b'{"\\"":1}'),
    ],
)
def test_the_data_is_written_without_spaces_and_not_escaped(
    body: dict[str, Any], data: bytes
) -> None:
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
    plain = request({})
    assert (plain.stream, plain.headers) == (False, {})
    reply = ProviderReply(b"")
    assert (reply.status, reply.headers) == (200, {})
    assert StreamEvent(b"").name is None
    assert ProviderReply(b"").headers is not reply.headers

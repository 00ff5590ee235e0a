"""Fields that only a dialect knows."""

from __future__ import annotations

from typing import Any

import pytest

from genai_host.api import Message, Text, joined_extra, merged_extra, unknown_fields, with_extra
from genai_host.errors import ValidationError


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (None, {"a": 1, "b": {"c": 2}}),
        ({"other": {"x": 1}}, {"a": 1, "b": {"c": 2}}),
        ({"mine": {"a": 3, "x": 1}}, {"a": 1, "b": {"c": 2}, "x": 1}),
        ({"mine": {"b": {"c": 3, "x": 1}}}, {"a": 1, "b": {"c": 2, "x": 1}}),
        ({"mine": {"b": 1}}, {"a": 1, "b": {"c": 2}}),
    ],
)
def test_they_are_added_to_what_is_written(extra: Any, expected: Any) -> None:
    written = {"a": 1, "b": {"c": 2}}
    assert with_extra(written, Text("hi", extra=extra), "mine") == expected
    assert written == {"a": 1, "b": {"c": 2}}


def test_those_of_several_messages() -> None:
    one, other = ({"mine": {"a": 1}}, {"mine": {"a": 2, "b": 3}})
    messages = [Message("user", "hi", extra=extra) for extra in (None, one, other)]
    assert joined_extra(*messages) == {"mine": {"a": 1, "b": 3}}
    assert joined_extra(messages[0]) is None
    assert merged_extra(one, other) == {"mine": {"a": 1, "b": 3}}


def test_those_of_a_reply() -> None:
    reply: dict[str, Any] = {"a": 1, "new": 0, "none": None, "empty": [], "text": ""}
    assert unknown_fields(reply, {"a"}) == {"new": 0}
    assert unknown_fields(reply, reply.keys()) == {}


def test_a_plain_text_has_none() -> None:
    assert Message("user", "hi").plain_text == "hi"
    extra = {"mine": {"a": 1}}
    for message in (
        Message("user", "hi", extra=extra),
        Message("user", "hi", name="ann"),
        Message("user", Text("hi", extra=extra)),
        Message("user", ["hi", "ho"]),
    ):
        assert message.plain_text is None


def test_they_are_json() -> None:
    assert Text("hi", extra={}).extra is None
    assert Text("hi", extra={"mine": {"a": "\ud800"}}).extra == {"mine": {"a": "\ufffd"}}
    with pytest.raises(ValidationError):
        Text("hi", extra={"mine": {"a": float("nan")}})
    assert hash(Text("hi", extra={"mine": {"a": []}})) == hash(Text("hi"))

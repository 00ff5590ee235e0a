"""Messages and their parts: what they take, what they refuse, what they remember."""

from __future__ import annotations

import pickle
from typing import Any
from unittest import mock

import attrs
import pytest
from attrs import evolve, frozen
from hypothesis import given, strategies as st
from message_schema import message_schema

from genai_host.api import (
    ChatCall,
    EncodedJson,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    SchemaValidator,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
    joined_extra,
    merged_extra,
    unknown_fields,
    with_extra,
)
from genai_host.api.messages import PARTS, ROLES
from genai_host.errors import ValidationError

PICTURE = Image(b"\x89PNG", "image/png")


@frozen
class Poll(Part):
    """A part as a plugin brings it."""

    type = "poll"
    question: str


@pytest.mark.parametrize(("content", "parts"), [
    ("hi", (Text("hi"),)),
    ("", (Text(""),)),
    (PICTURE, (PICTURE,)),
    (["What is this?", PICTURE], (Text("What is this?"), PICTURE)),
    ([], ()),
    (("a", "b"), (Text("a"), Text("b"))),
    (Poll("why?"), (Poll("why?"),)),
], ids=repr)  # fmt: skip
def test_content_is_written_in_short(content: Any, parts: tuple[Part, ...]) -> None:
    assert Message("user", content).content == parts


@pytest.mark.parametrize("role", ROLES)
def test_the_roles_are_known(role: Any) -> None:
    assert Message(role, "hi").role == role


@pytest.mark.parametrize("role", ["", "User", "developer", None, 5, [], {}], ids=repr)
def test_another_role_is_refused(role: Any) -> None:
    with pytest.raises(ValidationError, match="unknown role") as caught:
        Message(role, "hi")
    assert caught.value.path == "$.role"
    assert "system, user, assistant, tool" in caught.value.message


@pytest.mark.parametrize(
    "content",
    [None, 5, True, Text, [None], [5], [["hi"]], ["hi", b"bytes"], b"bytes", {"type": "text"}],
    ids=repr,
)
def test_what_is_no_part_is_refused(content: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Message("user", content)
    assert caught.value.path == "$.content"


def test_the_text_is_that_of_the_text_parts() -> None:
    call = ToolCall("1", "look")
    message = Message("assistant", [Reasoning("hm"), "a", PICTURE, "b", call, ToolResult("1", "c")])
    assert message.text == "ab"
    assert Message("user", (text for text in "ab")).content == (Text("a"), Text("b"))
    assert message.tool_calls == (call,)
    assert Message("user", PICTURE).text == ""
    assert Message("user", "x").tool_calls == ()


@pytest.mark.parametrize("kind", [Image, File])
def test_a_picture_is_either_its_bytes_or_its_address(kind: type[Image] | type[File]) -> None:
    assert kind(b"x").url == ""
    assert kind(url="https://example.com/x").data == b""
    both = {"data": b"x", "url": "https://example.com"}
    wrongs: list[dict[str, Any]] = [{}, both, {"media_type": "image/png"}]
    for wrong in wrongs:
        with pytest.raises(ValidationError, match=f"{kind.type}: give either data or a url"):
            kind(**wrong)


def test_a_text_holds_a_string() -> None:
    with pytest.raises(TypeError):
        Text(5)  # type: ignore[arg-type]  # on purpose


def test_bytes_are_not_shown() -> None:
    message = Message("user", [Image(b"secret" * 100), File(b"secret", name="a.pdf")])
    assert "secret" not in repr(message)
    assert "<600 bytes>" in repr(message)
    assert "<6 bytes>" in repr(message)


@pytest.mark.parametrize(("content", "parts"), [
    ("ok", (Text("ok"),)),
    (PICTURE, (PICTURE,)),
    (["a", PICTURE], (Text("a"), PICTURE)),
    ((), ()),
], ids=repr)  # fmt: skip
def test_a_result_holds_text_and_pictures(content: Any, parts: tuple[Part, ...]) -> None:
    assert ToolResult("1", content=content).content == parts


@pytest.mark.parametrize(
    "content",
    [ToolCall("1", "x"), [File(b"x")], Reasoning("x"), Poll("x"), [5], [None], None, {"a": 1}],
    ids=repr,
)
def test_a_result_holds_nothing_else(content: Any) -> None:
    with pytest.raises(ValidationError):
        ToolResult("1", content=content)


def test_parts_have_the_defaults_that_they_promise() -> None:
    assert ToolCall("1", "x") == ToolCall("1", "x", {}, malformed="")
    assert ToolResult("1") == ToolResult("1", "", (), error=False)
    assert (File(b"x").media_type, File(b"x").name) == ("", "")
    data = {"signature": ["x", None, 1.5]}
    assert VendorPart("vendor", data).data is data


def test_each_part_has_a_tag_of_its_own() -> None:
    tags = [part.type for part in PARTS]
    assert tags == ["text", "image", "file", "tool_call", "tool_result", "reasoning", "opaque"]


@pytest.mark.parametrize("value", [Message("user", "hi"), *(Text("x"), PICTURE, Usage(1))])
def test_what_was_said_does_not_change(value: Any) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, attrs.fields(type(value))[0].name, "other")


@pytest.mark.parametrize("result", ["HI", None])
def test_a_message_remembers_what_was_made_of_it(result: str | None) -> None:
    make = mock.Mock(return_value=result)
    message = Message("user", "hi")
    for key in ("shout", "shout", ("shout", 2)):
        assert message.remember(key, make) == result
    assert make.mock_calls == [mock.call(message)] * 2


def test_what_could_not_be_made_is_tried_again() -> None:
    message, make = Message("user", "hi"), mock.Mock(side_effect=[KeyError("missing"), "made"])
    with pytest.raises(KeyError):
        message.remember("key", make)
    assert message.remember("key", make) == "made"


def test_what_is_remembered_makes_no_difference_and_a_changed_copy_forgets_it() -> None:
    message, other = Message("user", "hi"), Message("user", "hi")
    message.remember("text", lambda each: each.text)
    assert evolve(message, content="ho").remember("text", lambda each: each.text) == "ho"
    assert message == other
    assert hash(message) == hash(other)
    assert repr(message) == repr(other)
    assert pickle.loads(pickle.dumps(message)) == other


def test_a_call_writes_each_message_once_for_each_form() -> None:
    written: list[str] = []

    def write(message: Message) -> bytes:
        written.append(message.text)
        return message.text.encode()

    first, second, third = (Message("user", text) for text in "abc")
    ChatCall(model_id="m", messages=[first, second]).written("x", write)
    call = ChatCall(model_id="m", messages=[first, second, third])
    assert call.written("x", write) == [EncodedJson(b"a,b,c")]
    assert written == ["a", "b", "c"]
    call.written("y", write)
    assert written == ["a", "b", "c", "a", "b", "c"]


counts = st.builds(Usage, *[st.integers(0, 10**9)] * 4)


@given(used=st.lists(counts, max_size=5))
def test_usage_adds_up(used: list[Usage]) -> None:
    total = sum(used, Usage())
    for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
        assert getattr(total, name) == sum(getattr(each, name) for each in used)
    assert total.total == total.input_tokens + total.output_tokens


def test_the_schema_of_a_message_takes_messages_only() -> None:
    schema = message_schema()
    assert list(schema["$defs"]) == [part.type for part in PARTS]
    checker = SchemaValidator(schema)
    checker.check({"role": "user", "content": "hi"})
    checker.check({"role": "user", "content": []})
    inner = {"type": "tool_result", "id": "1", "content": [{"type": "file", "url": "x"}]}
    for wrong in (
        {"role": "robot", "content": "hi"},
        {"role": "user"},
        {"role": "user", "content": "hi", "more": 1},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "text", "text": "x", "more": 1}]},
        {"role": "user", "content": [{"type": "poll"}]},
        {"role": "tool", "content": [inner]},
    ):
        with pytest.raises(ValidationError):
            checker.check(wrong)


@pytest.mark.parametrize("part", [
    Text("a"), Reasoning("a"), Image(b"x", "a"), Image(url="a"), File(b"x", "a", "a"),
    File(url="a"), ToolCall("a", "a"), ToolCall("a", "a", malformed="a"), ToolResult("a", "a"),
], ids=repr)  # fmt: skip
def test_the_texts_of_a_part_can_be_stored_and_sent(part: Part) -> None:
    for name in [each.name for each in attrs.fields(type(part)) if getattr(part, each.name) == "a"]:
        change: Any = evolve
        assert getattr(change(part, **{name: "a\ud800"}), name) == "a\ufffd"
        with pytest.raises(TypeError):
            change(part, **{name: 1})


@pytest.mark.parametrize(("extra", "expected"), [
    (None, {"a": 1, "b": {"c": 2}}),
    ({"other": {"x": 1}}, {"a": 1, "b": {"c": 2}}),
    ({"mine": {"a": 3, "x": 1}}, {"a": 1, "b": {"c": 2}, "x": 1}),
    ({"mine": {"b": {"c": 3, "x": 1}}}, {"a": 1, "b": {"c": 2, "x": 1}}),
    ({"mine": {"b": 1}}, {"a": 1, "b": {"c": 2}}),
])  # fmt: skip
def test_extra_fields_are_added_to_what_is_written(extra: Any, expected: Any) -> None:
    written = {"a": 1, "b": {"c": 2}}
    assert with_extra(written, Text("hi", extra=extra), "mine") == expected
    assert written == {"a": 1, "b": {"c": 2}}


def test_extra_fields_of_several_messages() -> None:
    one, other = ({"mine": {"a": 1}}, {"mine": {"a": 2, "b": 3}})
    messages = [Message("user", "hi", extra=extra) for extra in (None, one, other)]
    assert joined_extra(*messages) == {"mine": {"a": 1, "b": 3}}
    assert joined_extra(messages[0]) is None
    assert merged_extra(one, other) == {"mine": {"a": 1, "b": 3}}


def test_extra_fields_of_a_reply() -> None:
    reply: dict[str, Any] = {"a": 1, "new": 0, "none": None, "empty": [], "text": ""}
    assert unknown_fields(reply, {"a"}) == {"new": 0}
    assert unknown_fields(reply, reply.keys()) == {}


def test_a_plain_text_has_no_extra_fields() -> None:
    assert Message("user", "hi").plain_text == "hi"
    extra = {"mine": {"a": 1}}
    for message in (
        Message("user", "hi", extra=extra),
        Message("user", "hi", name="ann"),
        Message("user", Text("hi", extra=extra)),
        Message("user", ["hi", "ho"]),
    ):
        assert message.plain_text is None


def test_extra_fields_are_json() -> None:
    assert Text("hi", extra={}).extra is None
    assert Text("hi", extra={"mine": {"a": "\ud800"}}).extra == {"mine": {"a": "\ufffd"}}
    with pytest.raises(ValidationError):
        Text("hi", extra={"mine": {"a": float("nan")}})
    assert hash(Text("hi", extra={"mine": {"a": []}})) == hash(Text("hi"))

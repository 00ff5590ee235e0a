"""Messages and their parts: what they take, what they refuse, what they remember."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st
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
)
from genai_host.api.messages import PARTS, ROLES
from genai_host.errors import ValidationError

PICTURE = Image(b"\x89PNG", "image/png")


@frozen
class Poll(Part):
    """A part as a plugin brings it."""

    type = "poll"
    question: str


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("hi", (Text("hi"),)),
        ("", (Text(""),)),
        (PICTURE, (PICTURE,)),
        (["What is this?", PICTURE], (Text("What is this?"), PICTURE)),
        ([], ()),
        (("a", "b"), (Text("a"), Text("b"))),
        (Poll("why?"), (Poll("why?"),)),
    ],
    ids=repr,
)
def test_content_is_written_in_short(content: Any, parts: tuple[Part, ...]) -> None:
    assert Message("user", content).content == parts


def test_content_may_be_made_as_it_is_taken() -> None:
    assert Message("user", (text for text in "ab")).content == (Text("a"), Text("b"))


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


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("ok", (Text("ok"),)),
        (PICTURE, (PICTURE,)),
        (["a", PICTURE], (Text("a"), PICTURE)),
        ((), ()),
    ],
    ids=repr,
)
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


def test_each_part_has_a_tag_of_its_own() -> None:
    tags = [part.type for part in PARTS]
    assert tags == ["text", "image", "file", "tool_call", "tool_result", "reasoning", "opaque"]


@pytest.mark.parametrize("value", [Message("user", "hi"), *(Text("x"), PICTURE, Usage(1))])
def test_what_was_said_does_not_change(value: Any) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, attrs.fields(type(value))[0].name, "other")


def test_a_message_remembers_what_was_made_of_it() -> None:
    made: list[str] = []

    def shout(message: Message) -> str:
        made.append(message.text)
        return message.text.upper()

    message = Message("user", "hi")
    assert message.remember("shout", shout) == "HI"
    assert message.remember("shout", shout) == "HI"
    assert message.remember(("shout", 2), shout) == "HI"
    assert made == ["hi", "hi"]


def test_none_is_remembered_like_anything_else() -> None:
    made: list[str] = []

    def make(message: Message) -> None:
        made.append(message.text)

    message = Message("user", "hi")
    message.remember("key", make)
    message.remember("key", make)
    assert made == ["hi"]


def test_what_could_not_be_made_is_tried_again() -> None:
    nothing: dict[str, str] = {}
    message = Message("user", "hi")
    with pytest.raises(KeyError):
        message.remember("key", lambda _: nothing["missing"])
    assert message.remember("key", lambda each: each.text) == "hi"


def test_a_changed_copy_has_forgotten() -> None:
    message = Message("user", "hi")
    message.remember("text", lambda each: each.text)
    assert evolve(message, content="ho").remember("text", lambda each: each.text) == "ho"


def test_what_is_remembered_makes_no_difference() -> None:
    message, other = Message("user", "hi"), Message("user", "hi")
    message.remember("key", lambda _: 1)
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


def test_an_opaque_part_keeps_what_it_is_given() -> None:
    data = {"signature": ["x", None, 1.5]}
    assert VendorPart("vendor", data).data is data


counts = st.builds(Usage, *[st.integers(0, 10**9)] * 4)


@given(used=st.lists(counts, max_size=5))
def test_usage_adds_up(used: list[Usage]) -> None:
    total = sum(used, Usage())
    assert total.input_tokens == sum(each.input_tokens for each in used)
    assert total.output_tokens == sum(each.output_tokens for each in used)
    assert total.cached_tokens == sum(each.cached_tokens for each in used)
    assert total.reasoning_tokens == sum(each.reasoning_tokens for each in used)
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


@pytest.mark.parametrize(
    "part",
    [
        Text("a"),
        Reasoning("a"),
        Image(b"x", "a"),
        Image(url="a"),
        File(b"x", "a", "a"),
        File(url="a"),
        ToolCall("a", "a"),
        ToolCall("a", "a", malformed="a"),
        ToolResult("a", "a"),
    ],
    ids=repr,
)
def test_the_texts_of_a_part_can_be_stored_and_sent(part: Part) -> None:
    for name in [each.name for each in attrs.fields(type(part)) if getattr(part, each.name) == "a"]:
        mended: dict[str, Any] = {name: "a\ud800"}
        assert getattr(evolve(part, **mended), name) == "a\ufffd"
        wrong: dict[str, Any] = {name: 1}
        with pytest.raises(TypeError):
            evolve(part, **wrong)

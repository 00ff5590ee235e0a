"""The codec: objects to JSON and back, strictly, for messages, settings and records."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import attrs
import pytest
from attrs import frozen
from hypothesis import given, strategies as st
from message_schema import message_schema

from genai_host.api import (
    Answer,
    Codec,
    Completion,
    Delta,
    Detail,
    Embeddings,
    File,
    Image,
    ListedModel,
    Message,
    Part,
    Reasoning,
    RouteInfo,
    SchemaValidator,
    Secret,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host.api.codec import default_codec
from genai_host.api.messages import MAX_TOKENS, PARTS, ROLES
from genai_host.api.schema import schema_of
from genai_host.errors import GenaiError, RateLimited, ValidationError
from genai_host_testing.internal.garbage import finite_json

DEEP = 100_000

extras = st.none() | st.dictionaries(st.text(), st.dictionaries(st.text(), finite_json))
texts = st.builds(Text, st.text(), extra=extras)
images = st.builds(Image, st.binary(min_size=1), st.text()) | st.builds(
    Image, url=st.text(min_size=1)
)
parts: st.SearchStrategy[Part] = st.one_of(
    texts,
    images,
    st.builds(File, st.binary(min_size=1), st.text(), st.text()),
    st.builds(File, url=st.text(min_size=1), name=st.text()),
    st.builds(ToolCall, st.text(), st.text(), st.dictionaries(st.text(), finite_json), st.text()),
    st.builds(
        ToolResult, st.text(), st.text(), st.lists(texts | images, max_size=3), st.booleans()
    ),
    st.builds(Reasoning, st.text()),
    st.builds(VendorPart, st.text(), finite_json),
)
messages = st.builds(
    Message, st.sampled_from(ROLES), st.lists(parts, max_size=4), name=st.text(), extra=extras
)

_DETAIL = {"kind": "k", "title": "t"}

CHECKER = SchemaValidator(message_schema())


@frozen
class Poll(Part):
    """A part as a plugin brings it."""

    type = "poll"
    question: str
    options: tuple[str, ...] = ()


@frozen
class Node:
    name: str = ""
    child: Node | None = None


attrs.resolve_types(Node)


@frozen
class City:
    day: date


class Colour(enum.Enum):
    RED = "red"
    ONE = "1"


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    return value is None or type(value) in (str, int, float, bool)


@given(message=messages)
def test_a_message_survives_json_and_fits_its_schema(message: Message) -> None:
    codec = default_codec()
    written = codec.to_json(message)
    assert is_json(written)
    again = json.loads(json.dumps(written))
    assert again == written
    CHECKER.check(again)
    assert codec.from_json(again, Message) == message


@given(
    completion=st.builds(
        Completion,
        messages,
        st.sampled_from(["stop", "length", "tool_calls", "content_filter", "other"]),
        st.builds(Usage, st.integers(), st.integers(), st.integers(), st.integers()),
        finite_json,
        st.text(),
        st.none() | st.builds(RouteInfo, st.text(), st.text(), st.text()),
        st.floats(0, allow_nan=False, allow_infinity=False),
    )
)
def test_a_completion_survives_json(completion: Completion) -> None:
    codec = default_codec()
    written = json.loads(json.dumps(codec.to_json(completion)))
    assert codec.from_json(written, Completion) == completion


@pytest.mark.parametrize(("value", "written"), [
    (Text("hi"), {"type": "text", "text": "hi"}),
    (Image(b"a", "image/png"), {"type": "image", "data": "YQ==", "media_type": "image/png"}),
    (Image(url="http://x"), {"type": "image", "url": "http://x"}),
    (ToolCall("1", "f"), {"type": "tool_call", "id": "1", "name": "f"}),
    (ToolResult("1"), {"type": "tool_result", "id": "1"}),
    (Message("user", "hi"), {"role": "user", "content": [{"type": "text", "text": "hi"}]}),
    (Usage(), {}),
    (Usage(output_tokens=2), {"output_tokens": 2}),
    (Delta("a"), {"text": "a"}),
    (Delta(tool_call=ToolCall("1", "f")),
     {"tool_call": {"type": "tool_call", "id": "1", "name": "f"}}),
    (Answer("x", [Detail("k", "t")]), {"summary": "x", "details": [_DETAIL]}),
    (Embeddings(((1.0,),)), {"vectors": [[1.0]]}),
    (VendorPart("d", (1, b"a")), {"type": "opaque", "dialect": "d", "data": [1, "YQ=="]}),
    (ListedModel("x", None, frozenset("cab")), {"id": "x", "capabilities": ["a", "b", "c"]}),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_the_json_form_is_stable(value: Any, written: Any) -> None:
    form = default_codec().to_json(value)
    assert form == written
    assert is_json(form)
    assert default_codec().from_json(form, type(value)) is not value


def test_sets_are_written_in_order() -> None:
    assert default_codec().to_json({"a": frozenset(["c", "a", "b"])}) == {"a": ["a", "b", "c"]}
    assert default_codec().from_json(["b", "a", "b"], frozenset[str]) == frozenset("ab")


@pytest.mark.parametrize(("text", "expected"), [
    ("\ud800", "\ufffd"),
    ("a\udfffb", "a\ufffdb"),
    ("\ud83d\ude00", "\U0001f600"),  # the halves of one pair, which came apart
    ("Stra\udcdfe \U0001f600", "Stra\ufffde \U0001f600"),  # bytes that are not UTF-8
    ("Gr\udcc3\udcbc\udcc3\udc9fe", "Grüße"),  # bytes that are, taken for ASCII
], ids=ascii)  # fmt: skip
def test_half_a_surrogate_pair_is_replaced(text: str, expected: str) -> None:
    """Whoever gives it: no file takes it, and services refuse it."""
    assert Message("user", text).text == expected
    assert default_codec().from_json({"role": "user", "content": text}, Message).text == expected
    assert Reasoning(text).text == expected
    call = ToolCall("1", "f", {text: [text, {"a": (text,)}], "n": 1})
    assert call.arguments == {expected: [expected, {"a": [expected]}], "n": 1}


def test_what_is_well_formed_is_the_same_object() -> None:
    arguments = {"a": ["ä", {"b": "\U0001f600"}]}
    assert ToolCall("1", "f", arguments).arguments is arguments
    text = "\U0001f600" * 10
    assert Text(text).text is text


@pytest.mark.parametrize("value", [-1, -(2**70), 2**53, 2**63, 10**400, 1.5, True, None, "3", []])
def test_what_is_no_count_of_tokens_is_none(value: Any) -> None:
    """A negative one would give a budget back what was spent."""
    assert Usage(value, value, value, value, value, value) == Usage()
    assert Usage(MAX_TOKENS, 1) + Usage(1, 1) == Usage(MAX_TOKENS, 2)


def test_content_may_be_a_string_in_json() -> None:
    data = {"role": "user", "content": "hi"}
    CHECKER.check(data)
    assert default_codec().from_json(data, Message) == Message("user", "hi")
    assert default_codec().from_json([data], tuple[Message, ...]) == (Message("user", "hi"),)
    assert data == {"role": "user", "content": "hi"}


def test_a_part_of_a_plugin_is_known_where_it_is_named() -> None:
    message = Message("user", [Poll("why?", ("a",))])
    codec = Codec((*PARTS, Poll))
    written = codec.to_json(message)
    assert written["content"] == [{"type": "poll", "question": "why?", "options": ["a"]}]
    assert codec.from_json(written, Message) == message
    SchemaValidator(message_schema((*PARTS, Poll))).check(written)
    assert default_codec().to_json(message) == written  # whoever cannot read it can pass it on
    with pytest.raises(ValidationError, match="unknown part 'poll': known are text, image"):
        default_codec().from_json(written, Message)
    with pytest.raises(ValidationError):
        CHECKER.check(written)


def test_a_part_of_a_plugin_that_cannot_be_read_is_refused_before_its_first_value() -> None:
    @frozen
    class Broken(Part):
        type = "broken"
        at: Nowhere  # type: ignore[name-defined]  # noqa: F821 - it is what is wrong with it

    with pytest.raises(NameError, match="Nowhere"):
        Codec((*PARTS, Broken))


UNFIT: dict[Any, list[Any]] = {
    int: [3.7, True, "3"], bool: [1, "no"], str: [None, 5], float: [True, "1", 10**400],
    bytes: ["Y", 5, "é"], list[str]: ["abc", {"a": 1}], tuple[str, ...]: ["abc"],
    Sequence[str]: ["abc"], frozenset[str]: ["abc", {"a": 1}], set[str]: ["abc"], list: ["abc"],
    tuple[str, str]: ["ab", ["a"]], dict[str, int]: [[["a", 1]]], Mapping[str, int]: ["ab"],
    Literal["red"]: ["blue", ["red"]], Colour: ["blue", []],
    Usage: ["x", [["input", 1]], {"in": 1}], Text: [{"type": "image", "url": "x"}],
    GenaiError: [{"code": 1, "message": "x"}, {"code": "x", "message": 1}],
}  # fmt: skip
STRICT: Sequence[tuple[Any, Any, str]] = [
    *((value, form, "$") for form, values in UNFIT.items() for value in values),
    ([1, 2, "x"], list[int], "$[2]"),
    ({"a": "x"}, dict[str, int], "$['a']"),
    ({"a": "x"}, Mapping[str, int], "$['a']"),
    ({"input_tokens": 1.5}, Usage, "$.input_tokens"),
    ({}, RouteInfo, "$.model"),
    ({"id": "x", "capabilities": "stream"}, ListedModel, "$.capabilities"),
    ({"role": "user"}, Message, "$.content"),
    ({"role": "robot", "content": "x"}, Message, "$.role"),
    ({"role": [], "content": "x"}, Message, "$.role"),
    ({"role": "user", "content": "x", "remembered": {}}, Message, "$"),
    ({"role": "user", "content": None}, Message, "$.content"),
    ({"role": "user", "content": ["x"]}, Message, "$.content[0]"),
    ({"role": "user", "content": [{"text": "x"}]}, Message, "$.content[0]"),
    ({"role": "user", "content": [{"type": ["text"]}]}, Message, "$.content[0]"),
    ({"role": "user", "content": [{"type": "text"}]}, Message, "$.content[0].text"),
    ({"role": "user", "content": [{"type": "text", "text": None}]}, Message, "$.content[0].text"),
    ({"role": "user", "content": [{"type": "image"}]}, Message, "$.content[0]"),
    ({"type": "tool_result", "id": "1", "content": "x"}, Part, "$.content"),
    ({"type": "tool_result", "id": "1", "content": [{"type": "file"}]}, Part, "$.content[0]"),
    ({"type": "tool_call", "id": "1", "name": "x", "arguments": [1]}, Part, "$.arguments"),
    ({"tool_call": {"type": "text", "text": "x"}}, Delta, "$.tool_call"),
]


@pytest.mark.parametrize(("data", "form", "path"), STRICT, ids=lambda value: repr(value)[:60])
def test_what_does_not_fit_is_refused_with_its_place(data: Any, form: Any, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        default_codec().from_json(data, form)
    assert (caught.value.path or "$") == path
    assert caught.value.message.endswith(f"(at {path})" if path != "$" else "")
    assert not caught.value.message.startswith("unknown error")


@pytest.mark.parametrize(("data", "form", "message"), [
    (1.5, int | str, "expected an integer or a string, not a number"),
    ({}, list[str] | int | None, "expected a list or an integer or null, not an object"),
    (5, str | None, "expected a string, not an integer"),
    (5, Usage | str, "expected Usage or a string, not an integer"),
    ({"day": "x"}, City | str, "Invalid RFC3339 encoded date (at $.day)"),
    ({"x": 1}, Usage | RouteInfo | str, "expected Usage or RouteInfo or a string, not an object"),
    (5, dict[int, str], "expected an object, not an integer"),
    ({"x": "a"}, dict[int, str], "expected an integer as key, not 'x'"),
    ({"1.5": "a"}, dict[int, str], "expected an integer as key, not '1.5'"),
    ({"x": "a"}, dict[float, str], "expected a number as key, not 'x'"),
], ids=repr)  # fmt: skip
def test_an_error_names_the_members_of_a_union(data: Any, form: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        default_codec().from_json(data, form)
    assert caught.value.message == message


@pytest.mark.parametrize(("value", "form"), [
    (date(2026, 11, 28), date),
    (datetime(2026, 11, 28, 12, tzinfo=UTC), datetime),
    (time(12, 30), time | None),
    (timedelta(hours=1), timedelta),
    (Decimal("1.50"), Decimal),
    (UUID(int=1), list[UUID]),
    ({2026: ["a"]}, dict[int, list[str]]),
    ({0.5: 1}, Mapping[float, int]),
    ("text", Usage | str | None),
    (Usage(1), Usage | list[int]),
], ids=repr)  # fmt: skip
def test_what_has_a_schema_can_be_read(value: Any, form: Any) -> None:
    schema_of(form, "")
    codec = default_codec()
    made = [value] if form == list[UUID] else value
    assert codec.from_json(json.loads(json.dumps(codec.to_json(made))), form) == made


@pytest.mark.parametrize(
    ("data", "form"),
    [("yesterday", date), (5, date), ({"x": 1}, dict[int, int]), ({"1.5": 1}, dict[int, int])],
    ids=repr,
)
def test_what_is_no_date_or_number_is_refused(data: Any, form: Any) -> None:
    with pytest.raises(ValidationError):
        default_codec().from_json(data, form)


FORMS = [
    *PARTS, Part, Message, Completion, Delta, Embeddings, ListedModel, GenaiError, list[Message],
]  # fmt: skip


@given(data=finite_json, form=st.sampled_from(FORMS))
def test_no_json_breaks_the_codec(data: Any, form: Any) -> None:
    try:
        default_codec().from_json(data, form)
    except ValidationError as error:
        assert error.message


def test_an_error_of_a_class_that_is_gone_keeps_its_fields() -> None:
    data = {"code": "sold-out", "message": "nothing left", "seats": 0, "days": ["mon", "tue"]}
    error = default_codec().from_json(data, GenaiError)
    assert (type(error), error.message) == (GenaiError, "nothing left")
    assert (vars(error)["seats"], vars(error)["days"]) == (0, ("mon", "tue"))


@pytest.mark.parametrize("field", ["seats", "fields", "located"])
def test_an_error_has_only_the_fields_of_its_class(field: str) -> None:
    data = {"code": "rate_limited", "message": "later", "retry_after": 2.0}
    assert default_codec().from_json(data, GenaiError) == RateLimited("later", retry_after=2.0)
    with pytest.raises(ValidationError, match=f"has no field '{field}'"):
        default_codec().from_json({**data, field: 1}, GenaiError)


def test_a_number_may_be_whole_where_it_need_not_be() -> None:
    result = default_codec().from_json(5, float)
    assert (result, type(result)) == (5.0, float)
    assert default_codec().from_json(None, float | None) is None


@pytest.mark.parametrize("value", [3, 3.0])
@pytest.mark.parametrize("form", [int | float, float | int, str | int | float | None])
def test_a_number_keeps_its_type_in_a_union_of_both(value: float, form: Any) -> None:
    codec = Codec()  # a used one reads both orders as the earlier one
    result = codec.from_json(codec.to_json(value), form)
    assert (result, type(result)) == (value, type(value))


def test_any_depth_of_plain_json_passes() -> None:
    data = {"type": "opaque", "dialect": "d", "data": nested(DEEP)}
    assert default_codec().from_json(data, Part).data is data["data"]


@pytest.mark.parametrize("leaf", [{}, {"name": 5}], ids=["good", "bad"])
def test_objects_that_are_nested_too_deeply_are_refused(leaf: dict[str, Any]) -> None:
    data = leaf
    for _ in range(DEEP):
        data = {"child": data}
    with pytest.raises(ValidationError):
        default_codec().from_json(data, Node)


def test_a_form_that_is_no_type_is_refused() -> None:
    for form in (Secret, [int], object()):
        with pytest.raises(ValidationError):
            default_codec().from_json("x", form)


def test_a_secret_does_not_become_json() -> None:
    @frozen
    class Holder:
        key: Secret

    written = default_codec().to_json(Holder(Secret("sk-1")))
    assert "sk-1" not in repr(written)
    with pytest.raises(TypeError):
        json.dumps(written)


@pytest.mark.parametrize(("text", "form", "value"), [
    ("5", int, 5),
    ("5", float, 5.0),
    ("true", bool, True),
    ("null", int | None, None),
    ('["a", "b"]', list[str], ["a", "b"]),
    ('{"a": 1}', dict[str, int], {"a": 1}),
    ("5", str, "5"),
    ("null", str, "null"),
    ("null", str | None, "null"),
    ('"quoted"', str, '"quoted"'),
    ("", str, ""),
    ("red", Literal["red", "1"], "red"),
    ('"red"', Literal["red", "1"], "red"),
    ("red", Colour, Colour.RED),
    # JSON does not fit, the string itself does
    ("1", Literal["red", "1"], "1"),
    ("null", Literal["null"], "null"),
    ("1", Colour, Colour.ONE),
], ids=repr)  # fmt: skip
def test_text_is_json_where_that_fits(text: str, form: Any, value: Any) -> None:
    result = default_codec().from_text(text, form)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(("text", "form"), [
    ("x", int),
    ("", int),
    ("5.5", int),
    ("yes", bool),
    ("a,b", list[str]),
    ("null", list[str]),
    ("NaN", int),
    ("1" * 5000, int),
    ("[" * DEEP, list[int]),
    ("[" * DEEP + "]" * DEEP, list[int]),
], ids=lambda value: repr(value)[:20])  # fmt: skip
def test_text_that_fits_in_no_way_is_refused(text: str, form: Any) -> None:
    with pytest.raises(ValidationError):
        default_codec().from_text(text, form)


def test_the_usage_of_an_entry_of_before_is_read() -> None:
    former = {"input": 7, "output": 3, "cached_input": 2, "reasoning": 1, "cache_written": 4}
    usage = default_codec().from_json({**former, "cache_written_1h": 5}, Usage)
    assert usage == Usage(7, 3, 2, 1, 4, 5)

"""Tool calls assembled from the pieces of a stream, as services send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genai_host.api import ToolCall
from genai_host.api.tool_calls import ToolCallAssembler, distinct_calls, read_tool_call
from genai_host.errors import MalformedReply

UTC, CET = '{"tz":"UTC"}', '{"tz":"CET"}'


def assembled(*pieces: tuple[int | None, str, str, str]) -> list[tuple[str, str, Any]]:
    """The calls, as id, name and arguments."""
    assembler = ToolCallAssembler()
    for index, id, name, arguments in pieces:
        assembler.add(index=index, id=id, name=name, arguments=arguments)
    calls = assembler.calls()
    return [(call.id, call.name, call.malformed or call.arguments) for call in calls]


TWO = [("a", "f", {"tz": "UTC"}), ("b", "g", {"tz": "CET"})]
ONE = [("a", "f", {"tz": "UTC"})]


@pytest.mark.parametrize("index", [0, None])
def test_calls_that_share_an_index_are_told_apart_by_id(index: int | None) -> None:
    assert assembled((index, "a", "f", UTC), (index, "b", "g", CET)) == TWO
    assert assembled((index, "a", "f", '{"tz":'), (index, "b", "g", '{"tz":'),
                     (index, "a", "", '"UTC"}'), (index, "b", "", '"CET"}')) == TWO  # fmt: skip


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("name", ["f", "g"])
def test_a_name_after_whole_arguments_begins_a_call(index: int | None, name: str) -> None:
    calls = [("call_0", "f", {"tz": "UTC"}), ("call_1", name, {"tz": "CET"})]
    assert assembled((index, "", "f", UTC), (index, "", name, CET)) == calls
    assert assembled((index, "", "f", ""), (index, "", "", UTC),
                     (index, "", name, ""), (index, "", "", CET)) == calls  # fmt: skip


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("id", ["a", ""])
def test_an_id_and_a_name_may_be_repeated(index: int | None, id: str) -> None:
    pieces = [(index, id, "f", piece) for piece in ("", '{"tz":', '"UTC"}', "")]
    assert assembled((index, "a", "f", ""), *pieces) == ONE


def test_a_whole_call_may_be_repeated() -> None:
    assert assembled((0, "a", "f", UTC), (0, "a", "f", UTC)) == ONE
    assert assembled((0, "a", "f", UTC), (1, "a", "f", UTC)) == ONE


def test_a_piece_without_a_name_goes_on_whatever_its_id() -> None:
    assert assembled((0, "a", "f", ""), (0, "x", "", '{"tz":'), (0, "y", "", '"UTC"}')) == ONE


@pytest.mark.parametrize("name", ["null", "None"])
def test_a_word_for_a_missing_name_is_none(name: str) -> None:
    assert assembled((0, "a", "f", '{"tz":'), (0, "", name, '"UTC"}')) == ONE
    assert assembled((0, "a", name, UTC)) == [("a", name, {"tz": "UTC"})]


def test_a_name_may_come_in_pieces() -> None:
    assert assembled((0, "a", "get_", ""), (0, "", "time", UTC)) == [
        ("a", "get_time", {"tz": "UTC"})
    ]


def test_calls_stand_in_the_order_of_their_indexes() -> None:
    assert assembled((1, "b", "g", CET), (0, "a", "f", UTC)) == TWO


def test_a_call_with_two_names_is_malformed() -> None:
    with pytest.raises(MalformedReply, match="two names"):
        assembled((0, "a", "f", '{"tz":'), (0, "a", "g", '"UTC"}'))


def test_each_call_has_an_id_of_its_own() -> None:
    calls = [ToolCall("call_1", "f"), ToolCall("", "f"), ToolCall("call_1", "g")]
    assert [call.id for call in distinct_calls(calls)] == ["call_1", "call_2", "call_3"]
    assert distinct_calls([calls[0], calls[0]]) == calls[:1]


@given(st.dictionaries(st.text(), st.text() | st.lists(st.integers())), st.data())
def test_arguments_are_the_same_however_they_are_cut(
    arguments: dict[str, Any], data: st.DataObject
) -> None:
    """Braces, quotes and backslashes in strings end nothing."""
    text = json.dumps(arguments)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    again = [(0, "", "f", piece) for piece in pieces]
    assert assembled(*again, (0, "", "g", text)) == [
        ("call_0", "f", arguments), ("call_1", "g", arguments)
    ]  # fmt: skip


@pytest.mark.parametrize("id", ["a", ""])
def test_an_empty_object_before_the_arguments_is_ignored(id: str) -> None:
    assert assembled((0, "a", "f", "{}"), (0, id, "", '{"tz":'), (0, id, "", '"UTC"}')) == ONE
    assert assembled((0, "a", "f", "{}"), (0, "a", "f", UTC)) == ONE
    assert assembled((0, "a", "f", "{}")) == [("a", "f", {})]


def test_other_arguments_with_the_same_id_are_another_call() -> None:
    calls = [*ONE, ("call_1", "f", {"tz": "CET"})]
    assert assembled((0, "a", "f", UTC), (0, "a", "f", CET)) == calls


@pytest.mark.parametrize("given", [None, "", "  ", "null", [], "[]", "{}"])
def test_no_arguments_are_an_empty_object(given: Any) -> None:
    assert read_tool_call("a", "f", given) == ToolCall("a", "f", {})


@pytest.mark.parametrize("given", [UTC, {"tz": "UTC"}, json.dumps(UTC)])
def test_arguments_are_text_or_an_object(given: Any) -> None:
    assert read_tool_call("a", "f", given) == ToolCall("a", "f", {"tz": "UTC"})

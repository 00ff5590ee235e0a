"""The cases of function calling, and how calls are judged: as their leaderboard does."""

from __future__ import annotations

from typing import Any

import pytest

from genai_host.api import ToolCall
from genai_host.errors import LimitExceeded
from genai_host_testing.internal.function_calls import Case, Played, Score, read_cases

CASES = read_cases()
INTEGER = {"type": "integer"}
CASE = Case(
    "case",
    "Where is it?",
    [
        {"name": "near", "description": "d", "parameters": {"type": "object"}},
        {
            "name": "far",
            "description": "d",
            "parameters": {
                "type": "object",
                "properties": {"x": INTEGER, "name": {"type": "string"}},
                "required": ["x"],
            },
        },
    ],
    "far",
    {"x": [3], "name": ["St. John's", "Saint John"], "at": ["", [1, "A b"], {"deep": [True, ""]}]},
)
RIGHT = {"x": 3, "name": "St. John's"}


def played(arguments: Any, name: str = "far") -> Played:
    return Played(CASE, [ToolCall("1", name, arguments)])


def test_there_are_50_cases_of_three_tools_each() -> None:
    assert len(CASES) == len({case.id for case in CASES}) == 50
    for case in CASES:
        tools = [tool.name for tool in case.plugin().declared["tools"]]
        assert len(set(tools)) == 3
        assert case.name in tools


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_right_is_judged_so(case: Case) -> None:
    [call] = calls = [ToolCall("1", case.name, _first(case.possible))]
    assert case.accepts(call)
    assert Played(case, calls).right


def _first(possible: Any) -> dict[str, Any]:
    """The first possible value of each argument that may not be left out."""
    first = {name: values[0] for name, values in possible.items() if "" not in values}
    return {
        name: _first(value) if isinstance(value, dict) else value for name, value in first.items()
    }


@pytest.mark.parametrize("arguments", [
    RIGHT,
    {**RIGHT, "x": 3.0},
    {**RIGHT, "name": "saint  john"},
    {**RIGHT, "name": 'ST JOHN"S'},
    {**RIGHT, "at": [1, "a-B"]},
    {**RIGHT, "at": {"deep": True}},
    {**RIGHT, "at": {}},
])  # fmt: skip
def test_arguments_are_right_where_each_is_possible(arguments: dict[str, Any]) -> None:
    assert played(arguments).right


@pytest.mark.parametrize("arguments", [
    {"x": 3},
    {**RIGHT, "x": 4},
    {**RIGHT, "name": "John"},
    {**RIGHT, "more": 1},
    {**RIGHT, "at": [1]},
    {**RIGHT, "at": [True, "a b"]},
    {**RIGHT, "at": {"deep": 1}},
    {**RIGHT, "at": {"deeper": True}},
])  # fmt: skip
def test_others_are_wrong_though_the_tool_was_right(arguments: dict[str, Any]) -> None:
    each = played(arguments)
    assert (each.called, each.chosen, each.right) == (True, True, False)


@pytest.mark.parametrize(
    ("name", "arguments", "called"),
    [("near", RIGHT, True), ("nowhere", RIGHT, False), ("far", {"x": "3"}, False)],
)
def test_wrong_tool_and_arguments(name: str, arguments: dict[str, Any], called: bool) -> None:
    each = played(arguments, name)
    assert (each.called, each.chosen, each.right) == (called, False, False)


def test_what_was_never_json_is_no_call() -> None:
    assert not Played(CASE, [ToolCall("1", "far", malformed="{")]).called


def test_the_score_counts_them() -> None:
    none = Played(CASE)
    cut = Played(CASE, error=LimitExceeded("no more", limit="round_trips"))
    twice = Played(CASE, [ToolCall("1", "far", RIGHT), ToolCall("2", "far", RIGHT)])
    results = [none, cut, twice, played(RIGHT), played({"x": 3}), played({}, "near")]
    assert Score.of(results) == Score(cases=6, called=4, chosen=2, right=1, answered=5)

"""Reactions: as their schemas say, and as lines for a terminal, which they cannot drive."""

from __future__ import annotations

from typing import Any

import genai_tools_data
import pytest
from genai_tools_data.database import MOST_BYTES, kept
from genai_tools_data.reactions import SCHEMAS, chart_of, table_of
from genai_tools_data.terminal_view import _width, view
from hypothesis import example, given, strategies as st

from genai_host.api import SchemaValidator, Tool, ToolOutput, write_json
from genai_host.tools.reactions import ReactionViews
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

NAMES = ["region", "price"]
ROWS = [["north", 4], ["south", -2], ["øst", None]]


def chart(kind: Any, rows: Any = ROWS, names: Any = NAMES, title: str = "Sales") -> dict[str, Any]:
    return chart_of(kept(names, rows, 100), kind, title, names[0], names[1:])


def test_a_table() -> None:
    reaction = table_of(kept(["name", "n"], [["a", 1], ["東京", 10.5], [None, None]], 3))
    assert view(reaction) == ["name     n", "──────────", "a        1", "東京  10.5", "-        -"]
    assert view({**reaction, "more": True})[-1] == "(there are more)"


def test_bars() -> None:
    assert view(chart("bar"), 40) == [
        "Sales",
        "north  4           █████████████████████",
        "south -2 ██████████",
        "øst    -",
    ]
    assert view(chart("row"), 40) == view(chart("bar"), 40)


def test_bars_of_several_values_are_told_apart() -> None:
    lines = view(chart("bar", [["a", 1, 2]], ["x", "low", "high"], ""), 20)
    assert lines == ["a low  1 █████▌", "a high 2 ███████████"]


def test_a_pie() -> None:
    assert view(chart("pie", [["a", 3], ["b", 1], ["c", None]]), 29) == [
        "Sales",
        "a  75.0% ██████████████▎",
        "b  25.0% ████▊",
        "c   0.0%",
    ]


def test_a_line() -> None:
    lines = view(chart("line", [["mon", 0], ["tue", 5], ["wed", 10]]), 20)
    assert lines[:2] == ["Sales", "price"]
    assert lines[2] == "10           █████"
    assert lines[11] == " 0      ██████████"
    assert lines[-1] == "from mon to wed"
    assert len(lines) == 13


def test_a_scalar() -> None:
    assert view(chart_of(kept(["n"], [[5]], 1), "scalar", "", None, ["n"])) == ["n: 5"]


@pytest.mark.parametrize(
    "reaction",
    [table_of(kept(["n"], [[5]], 1)), chart_of(kept(["n"], [[5]], 1), "scalar", "", None, ["n"])],
)
def test_the_host_knows_them_and_shows_them(make_host: MakeHost, reaction: dict[str, Any]) -> None:
    given = [reaction]
    made = InlinePlugin(tools=[Tool("give", "gives", lambda *_: ToolOutput(reactions=given))])
    host = make_host(tools=genai_tools_data, made=made)
    [kept_there] = host.call_tool("give").reactions
    kinds = host.registry.reactions
    assert ReactionViews(kinds, host.clock).lines(kept_there, 80) == view(reaction)
    given[0] = {**reaction, "rows": 5}
    assert "its reaction" in host.call_tool("give").text
    given[0] = {**reaction, "mine": 5}
    assert host.call_tool("give").error


def test_what_it_does_not_know_is_no_line() -> None:
    assert view({"type": "message", "message": "hi"}) == []


NASTY = st.text(max_size=30) | st.sampled_from(
    [
        "\x1b[2J",
        "\x1b]52;c;eA==\x07",
        "a\r\nb",
        "\x9b1m",
        "\u202eabc",
        "\u2066x",
        "\u200b",
        "\udcff",
    ]
)
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
KINDS = st.sampled_from(["bar", "row", "line", "area"])


@example("line", [("a", None, -1e308), ("b", None, 1e308)], ["x", "y", "z"], "", 80)
@given(
    kind=KINDS,
    rows=st.lists(st.tuples(NASTY | NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=40),
    names=st.lists(NASTY, min_size=3, max_size=3),
    title=NASTY,
    width=st.integers(-5, 200),
)
def test_nothing_drives_a_terminal_and_nothing_is_wider(
    kind: Any, rows: Any, names: list[str], title: str, width: int
) -> None:
    finite = [[cell if not _is_infinite(cell) else None for cell in row] for row in rows]
    result = kept(names, finite, 100)
    clean = title.encode("utf-8", "replace").decode()
    for reaction in (
        chart_of(result, kind, clean, result.columns[0], result.columns[1:]),
        table_of(result),
    ):
        SchemaValidator(SCHEMAS[reaction["type"]]).check(reaction)
        for line in view(reaction, width):
            assert not [each for each in line if not each.isprintable()]
            assert _width(line) <= max(52, width), f"{line!r}"


def _is_infinite(cell: object) -> bool:
    return isinstance(cell, float) and abs(cell) == float("inf")


@given(rows=st.lists(st.tuples(NASTY | NUMBERS | st.binary(), st.text(max_size=2000)), max_size=20))
def test_what_is_kept_is_json(rows: Any) -> None:
    reaction = table_of(kept(["a", "a"], rows, 500))
    SchemaValidator(SCHEMAS["table"]).check(reaction)
    write_json(reaction)


def test_what_is_kept_is_bounded() -> None:
    rows = [["\U0001f600" * 500] * 100 for _ in range(200)]
    result = kept([str(number) for number in range(100)], rows, 500)
    assert result.more
    assert len(write_json(table_of(result))) <= MOST_BYTES + 2000


@pytest.mark.parametrize("kind", ["bar", "row", "line", "area", "pie"])
def test_nothing_but_nothing_can_be_drawn(kind: Any) -> None:
    reaction = chart(kind, [["a", None], ["b", 0]])
    SchemaValidator(SCHEMAS["chart"]).check(reaction)
    assert view(reaction)

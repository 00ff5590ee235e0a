"""Charts and other reactions: what is drawn, what cannot be, and as lines for a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import genai_tools_data
import pytest
from genai_tools_data.data_tools import Series
from genai_tools_data.database import MAX_BYTES, kept
from genai_tools_data.reactions import SCHEMAS, chart_of, table_of
from genai_tools_data.source import DataSource
from genai_tools_data.terminal_view import _width, safe, view
from hypothesis import example, given, strategies as st

from genai_host.api import Cancellation, SchemaValidator, Tool, ToolOutput, write_json
from genai_host.errors import Cancelled
from genai_host.tools.reactions import ReactionViews
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import Background, MakeHost

Draw = Callable[..., ToolOutput]

CSV = """day,region,price
2025-01-02,north,1
2025-01-01,south,5
2025-01-02,north,3
2025-01-01,east,
"""
SUM = {"function": "sum", "column": "price"}
MAX = [{"by": "price", "descending": True}]


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    file = tmp_path / "sales.csv"
    file.write_text(CSV)
    return file


@pytest.fixture
def draw(make_host: MakeHost, sales: Path, monkeypatch: pytest.MonkeyPatch) -> Draw:
    """The chart of a table, or of SQL."""
    monkeypatch.setenv("GENAI_TOOLS_DATA", str(sales))
    host = make_host(tools=genai_tools_data)

    def call(kind: str, **arguments: Any) -> ToolOutput:
        arguments = arguments if "sql" in arguments else {"table": "sales", **arguments}
        return host.call_tool("data__chart", {"display_type": kind, **arguments})

    return call


def drawn(output: ToolOutput) -> tuple[Any, list[str], list[list[Any]]]:
    assert not output.error, output.text
    [reaction] = output.reactions
    SchemaValidator(SCHEMAS["chart"]).check(reaction)
    assert view(reaction)
    return reaction["label"], reaction["values"], reaction["rows"]


@pytest.mark.parametrize(("kind", "arguments", "expected"), [
    # rows are counted, the most first
    ("bar", {"label": "region"}, ("region", ["count"], [["north", 2], ["east", 1], ["south", 1]])),
    # a line goes by its label
    ("line", {"label": "DAY", "values": [SUM, {"function": "count"}]},
     ("day", ["sum_price", "count"], [["2025-01-01", 5, 2], ["2025-01-02", 4, 2]])),
    # values as they are
    ("row", {"label": "region", "values": [{"column": "price"}], "order_by": MAX, "limit": 2},
     ("region", ["price"], [["south", 5], ["north", 3]])),
    ("scalar", {"values": [SUM]}, (None, ["sum_price"], [[9]])),
], ids=["bar", "line", "row", "scalar"])  # fmt: skip
def test_a_table_is_drawn(draw: Draw, kind: str, arguments: Any, expected: Any) -> None:
    assert drawn(draw(kind, **arguments)) == expected


@pytest.mark.smoke
@pytest.mark.process
def test_sql(draw: Draw) -> None:
    sql = "SELECT region, price, price * 2 AS twice FROM sales WHERE price > 2 ORDER BY 1"
    rows = [["north", 3, 6], ["south", 5, 10]]
    assert drawn(draw("area", sql=sql)) == ("region", ["price", "twice"], rows)
    assert drawn(draw("scalar", sql="SELECT 5 AS n")) == (None, ["n"], [[5]])
    assert draw("bar", sql="DELETE FROM sales").error


@pytest.mark.parametrize(("kind", "arguments", "message"), [
    ("bar", {"table": ""}, "use either table or sql"),
    ("bar", {"sql": "SELECT 1", "table": "sales"}, "use either table or sql"),
    ("bar", {}, "label is missing"),
    ("bar", {"label": "x"}, "unknown column of sales 'x'"),
    ("bar", {"label": "day", "table": "sale"}, "unknown table 'sale': did you mean sales?"),
    ("bar", {"label": "day", "values": [{"column": "region"}]},
     "that are not numbers, for example"),
    ("bar", {"label": "day", "values": [{"column": "day"}]}, "label is missing"),
    ("bar", {"label": "day", "values": [SUM, {"column": "price"}]}, "all values or none"),
    ("pie", {"label": "day", "values": [SUM, {"function": "count"}]}, "a pie shows one value"),
    ("scalar", {"label": "day"}, "a scalar is one number, but there are 2 rows of 1 values"),
    ("bar", {"label": "day", "limit": 0}, "limit must be at least 1"),
    ("bar", {"label": "day", "filters": [{"column": "day", "value": "x"}]}, "nothing to show"),
])  # fmt: skip
def test_what_cannot_be_drawn(draw: Draw, kind: str, arguments: Any, message: str) -> None:
    output = draw(kind, **arguments)
    assert output.error
    assert message in output.text


def test_a_pie_has_no_part_below_nothing(draw: Draw, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text(CSV + "2025-01-01,west,-5\n")
    assert "below 0, which a pie cannot show" in draw("pie", label="region", values=[SUM]).text


def test_a_series_is_what_it_says() -> None:
    assert Series("price") == Series("price", "value")


class TestWaiting:
    def test_waiting_ends_with_its_own_call(self, sales: Path, background: Background) -> None:
        source, waits = DataSource([str(sales)]), threading.Event()

        class Limits(Cancellation):
            def check(self) -> None:
                waits.set()
                super().check()

        def second(limits: Cancellation) -> None:
            with source.opened(limits):
                pass

        with source.opened(Cancellation()):
            limits = Limits()
            ended = background(second, limits)
            assert waits.wait(30)
            limits.cancel()
            assert isinstance(ended.exception(30), Cancelled)
        with source.opened(Cancellation()) as reader:
            assert reader.run("SELECT 1", Cancellation()).rows == ((1,),)

    def test_a_file_is_no_longer_read_when_its_call_is_over(self, sales: Path) -> None:
        source, over = DataSource([str(sales)]), Cancellation()
        over.cancel()
        with pytest.raises(Cancelled), source.opened(over):
            pass
        with source.opened(Cancellation()) as reader:
            assert reader.tables(Cancellation()) == {"sales": "table"}


NAMES = ["region", "price"]
ROWS = [["north", 4], ["south", -2], ["øst", None]]


def chart(kind: Any, rows: Any = ROWS, names: Any = NAMES, title: str = "Sales") -> dict[str, Any]:
    return chart_of(kept(names, rows, 100), kind, title, names[0], names[1:])


def test_a_table() -> None:
    reaction = table_of(kept(["name", "n"], [["a", 1], ["東京", 10.5], [None, None]], 3))
    assert view(reaction) == ["name     n", "──────────", "a        1", "東京  10.5", "-        -"]
    assert view({**reaction, "more": True})[-1] == "(there are more)"


SCALAR = chart_of(kept(["n"], [[5]], 1), "scalar", "", None, ["n"])


@pytest.mark.parametrize(("reaction", "width", "lines"), [
    (chart("bar"), 40, [
        "Sales", "north  4           █████████████████████", "south -2 ██████████",
        "øst    -"]),
    (chart("bar", [["a", 1, 2]], ["x", "low", "high"], ""), 20,
     ["a low  1 █████▌", "a high 2 ███████████"]),
    (chart("pie", [["a", 3], ["b", 1], ["c", None]]), 29,
     ["Sales", "a  75.0% ██████████████▎", "b  25.0% ████▊", "c   0.0%"]),
    (SCALAR, 80, ["n: 5"]),
], ids=["bar", "bars of several values", "pie", "scalar"])  # fmt: skip
def test_charts(reaction: dict[str, Any], width: int, lines: list[str]) -> None:
    assert view(reaction, width) == lines


def test_a_line() -> None:
    lines = view(chart("line", [["mon", 0], ["tue", 5], ["wed", 10]]), 20)
    assert lines[:2] == ["Sales", "price"]
    assert lines[2] == "10           █████"
    assert lines[11] == " 0      ██████████"
    assert lines[-1] == "from mon to wed"
    assert len(lines) == 13
    assert view(chart("row"), 40) == view(chart("bar"), 40)


@pytest.mark.parametrize(
    "reaction",
    [table_of(kept(["n"], [[5]], 1)), SCALAR],
)
def test_the_host_knows_them_and_shows_them(make_host: MakeHost, reaction: dict[str, Any]) -> None:
    reactions = [reaction]
    plugin = InlinePlugin(tools=[Tool("give", "gives", lambda *_: ToolOutput(reactions=reactions))])
    host = make_host(tools=genai_tools_data, made=plugin)
    [kept_there] = host.call_tool("give").reactions
    kinds = host.registry.reactions
    assert ReactionViews(kinds, host.clock).lines(kept_there, 80) == view(reaction)
    reactions[0] = {**reaction, "rows": 5}
    assert "its reaction" in host.call_tool("give").text
    reactions[0] = {**reaction, "mine": 5}
    assert host.call_tool("give").error


def test_what_it_does_not_know_is_no_line() -> None:
    assert view({"type": "message", "message": "hi"}) == []


NASTY = st.text(max_size=30) | st.sampled_from(
    [
        "\x1b[2J", "\x1b]52;c;eA==\x07", "a\r\nb", "\x9b1m", "\u202eabc", "\u2066x", "\u200b",
        "\udcff",
    ]
)  # fmt: skip
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
KINDS = st.sampled_from(["bar", "row", "line", "area"])


@pytest.mark.parametrize(("number", "shown"), [
    (1234567.89, "1234567.89"), (123456.7, "123456.7"), (5000.0, "5000"), (1 / 3, "0.333333"),
    (1e20, "1e+20"), (-98765.432, "-98765.43"),
])  # fmt: skip
def test_money_is_drawn_to_the_cent(number: float, shown: str) -> None:
    given = {"type": "table", "columns": ["sum"], "rows": [[number]], "more": False}
    assert view(given)[2].strip() == shown


def test_joiners_of_letters_are_drawn() -> None:
    word = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert safe(word) == word


@example("line", [("a", None, -1e308), ("b", None, 1e308)], ["x", "y", "z"], "", 80)
@given(
    kind=KINDS,
    rows=st.lists(st.tuples(NASTY | NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=40),
    names=st.lists(NASTY, min_size=3, max_size=3), title=NASTY, width=st.integers(-5, 200),
)  # fmt: skip
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
    assert len(write_json(table_of(result))) <= MAX_BYTES + 2000


@pytest.mark.parametrize("kind", ["bar", "row", "line", "area", "pie"])
def test_nothing_but_nothing_can_be_drawn(kind: Any) -> None:
    reaction = chart(kind, [["a", None], ["b", 0]])
    SchemaValidator(SCHEMAS["chart"]).check(reaction)
    assert view(reaction)

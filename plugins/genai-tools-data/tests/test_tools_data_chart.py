"""Charts: what is drawn, and what cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import genai_tools_data
import pytest
from genai_tools_data.data_tools import Series
from genai_tools_data.reactions import SCHEMAS
from genai_tools_data.source import DataSource
from genai_tools_data.terminal_view import view

from genai_host.api import Cancellation, SchemaValidator, ToolOutput
from genai_host.errors import Cancelled
from genai_host_testing.internal.fixtures import MakeHost

Draw = Callable[..., ToolOutput]

CSV = """day,region,price
2025-01-02,north,1
2025-01-01,south,5
2025-01-02,north,3
2025-01-01,east,
"""
SUM = {"function": "sum", "column": "price"}
MOST = [{"by": "price", "descending": True}]


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    made = tmp_path / "sales.csv"
    made.write_text(CSV)
    return made


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


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        # rows are counted, the most first
        (
            "bar",
            {"label": "region"},
            ("region", ["count"], [["north", 2], ["east", 1], ["south", 1]]),
        ),
        # a line goes by its label
        (
            "line",
            {"label": "DAY", "values": [SUM, {"function": "count"}]},
            ("day", ["sum_price", "count"], [["2025-01-01", 5, 2], ["2025-01-02", 4, 2]]),
        ),
        # values as they are
        (
            "row",
            {"label": "region", "values": [{"column": "price"}], "order_by": MOST, "limit": 2},
            ("region", ["price"], [["south", 5], ["north", 3]]),
        ),
        ("scalar", {"values": [SUM]}, (None, ["sum_price"], [[9]])),
    ],
    ids=["bar", "line", "row", "scalar"],
)
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


@pytest.mark.parametrize(
    ("kind", "arguments", "told"),
    [
        ("bar", {"table": ""}, "use either table or sql"),
        ("bar", {"sql": "SELECT 1", "table": "sales"}, "use either table or sql"),
        ("bar", {}, "label is missing"),
        ("bar", {"label": "x"}, "unknown column of sales 'x'"),
        ("bar", {"label": "day", "table": "sale"}, "unknown table 'sale': did you mean sales?"),
        (
            "bar",
            {"label": "day", "values": [{"column": "region"}]},
            "that are not numbers, for example",
        ),
        ("bar", {"label": "day", "values": [{"column": "day"}]}, "label is missing"),
        ("bar", {"label": "day", "values": [SUM, {"column": "price"}]}, "all values or none"),
        ("pie", {"label": "day", "values": [SUM, {"function": "count"}]}, "a pie shows one value"),
        ("scalar", {"label": "day"}, "a scalar is one number, but there are 2 rows of 1 values"),
        ("bar", {"label": "day", "limit": 0}, "limit must be at least 1"),
        ("bar", {"label": "day", "filters": [{"column": "day", "value": "x"}]}, "nothing to show"),
    ],
)
def test_what_cannot_be_drawn(draw: Draw, kind: str, arguments: Any, told: str) -> None:
    output = draw(kind, **arguments)
    assert output.error
    assert told in output.text


def test_a_pie_has_no_part_below_nothing(draw: Draw, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text(CSV + "2025-01-01,west,-5\n")
    output = draw("pie", label="region", values=[SUM])
    assert "below 0, which a pie cannot show" in output.text


def test_a_series_is_what_it_says() -> None:
    assert Series("price") == Series("price", "value")


class TestWaiting:
    def test_who_waits_for_another_call_ends_with_its_own(
        self, sales: Path, background: Callable[..., Future[Any]]
    ) -> None:
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

"""Each tool, by the suite that strangers' plugins run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import genai_tools_data
import pytest

from genai_host_testing.suites import ToolSourceSuite, ToolSuite

pytestmark = pytest.mark.usefixtures("warm_children")
warmed = ("genai_tools_data.database",)

TIME = "2025-01-02T03:04:05+01:00[Europe/Oslo]"
CSV = "region,price,sold\nnorth,1.5,3\nsouth,2.5,4\nnorth,3,\n"


class _Tools(ToolSuite):
    plugin = genai_tools_data

    @pytest.fixture(autouse=True)
    def _named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "notes.md").write_text("# Notes\n\none\ntwo\n")
        (tmp_path / "sales.csv").write_text(CSV)
        monkeypatch.setenv("GENAI_TOOLS_DATA", str(tmp_path / "sales.csv"))
        monkeypatch.setenv("GENAI_TOOLS_FILES", str(tmp_path / "files"))


class TestListTables(_Tools):
    tool = "data__list_tables"
    samples = [({}, "table | kind | columns\nsales | table | region, price, sold\n(1 row)")]


@pytest.mark.part
class TestListTablesOfADatabase(TestListTables):
    samples = [({}, "table | kind | columns\nseen | view | a\nthings | table | a\n(2 rows)")]

    @pytest.fixture(autouse=True)
    def _database(self, _named: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(sqlite3.connect(tmp_path / "data.db")) as connection:
            connection.executescript(
                "CREATE TABLE things (a); CREATE VIEW seen AS SELECT * FROM things"
            )
        monkeypatch.setenv("GENAI_TOOLS_DATA", str(tmp_path / "data.db"))


class TestDescribeTable(_Tools):
    tool = "data__describe_table"
    samples = [({"table": "sales"},), ({"table": "SALES"},)]


class TestQueryTable(_Tools):
    tool = "data__query_table"
    samples = [
        ({"table": "sales", "columns": ["price"]}, "price\n1.5\n2.5\n3\n(3 rows)"),
        (
            {
                "table": "sales",
                "filters": [{"column": "region", "operator": "in", "value": ["north", "x"]}],
                "group_by": ["region"],
                "aggregates": [{"function": "sum", "column": "price"}, {"function": "count"}],
                "order_by": [{"by": "sum_price", "descending": True}], "limit": 5, "offset": 0,
            },
            "region | sum_price | count\nnorth | 4.5 | 2\n(1 row)",
        ),
    ]  # fmt: skip


@pytest.mark.process
class TestQuerySql(_Tools):
    tool = "data__query_sql"
    samples = [
        (
            {"sql": "SELECT region, max(price) AS most FROM sales GROUP BY region", "limit": 1},
            "region | most\nnorth | 3\n(the first 1 row; there are more)",
        )
    ]


@pytest.mark.process
class TestChart(_Tools):
    tool = "data__chart"
    samples = [
        (
            {
                "display_type": "pie", "table": "sales", "label": "region",
                "values": [{"function": "sum", "column": "price"}],
                "filters": [{"column": "price", "operator": ">", "value": 1}], "title": "Sales",
            },
            "A pie chart of\nregion | sum_price\nnorth | 4.5\nsouth | 2.5\n(2 rows)",
        ),
        ({"display_type": "bar", "sql": "SELECT region, price FROM sales"},),
        ({"display_type": "scalar", "table": "sales"},),
        ({"display_type": "line", "table": "sales", "label": "region"},),
    ]  # fmt: skip


class TestListFiles(_Tools):
    tool = "files__list_files"
    samples = [
        ({}, "notes.md (17 bytes)"),
        ({"pattern": "*.txt", "deep": True, "folder": "."}, "no matching files"),
    ]


class TestReadFile(_Tools):
    tool = "files__read_file"
    samples = [
        ({"path": "notes.md"},),
        (
            {"path": "notes.md", "first_line": 3, "lines": 1},
            "notes.md, lines 3 to 3 (there are more):\none",
        ),
    ]


class TestCalculate(_Tools):
    tool = "calculate"
    samples = [({"expression": "2 * (3 + 4)"}, "14"), ({"expression": "sqrt(2)"},)]


class TestCurrentTime(_Tools):
    tool = "current_time"
    context = {"current_time_with_timezone": TIME}
    samples = [
        ({}, "Thursday, 2025-01-02T03:04:05+01:00 (Europe/Oslo)"),
        ({"zone": "Asia/Tokyo"}, "Thursday, 2025-01-02T11:04:05+09:00 (Asia/Tokyo)"),
    ]


class _Sets(ToolSourceSuite):
    plugin = genai_tools_data

    @pytest.fixture(autouse=True)
    def _unnamed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GENAI_TOOLS_DATA", raising=False)
        monkeypatch.delenv("GENAI_TOOLS_FILES", raising=False)


class TestData(_Sets):
    source = "data"
    unusable = {"path": 5}
    samples = {"list_tables": [({},)], "query_table": [({"table": "sales"},)]}

    @pytest.fixture(autouse=True)
    def _named(self, tmp_path: Path) -> None:
        (tmp_path / "sales.csv").write_text(CSV)
        self.settings = {"path": str(tmp_path / "sales.csv")}


class TestFiles(_Sets):
    source = "files"
    unusable = {"foldr": "/"}
    samples = {"list_files": [({}, "notes.md (3 bytes)")], "read_file": [({"path": "notes.md"},)]}

    @pytest.fixture(autouse=True)
    def _named(self, tmp_path: Path) -> None:
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "notes.md").write_text("one")
        self.settings = {"folder": str(tmp_path / "files")}

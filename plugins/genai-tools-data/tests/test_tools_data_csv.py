"""CSV files, however they are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import genai_tools_data
import pytest
from genai_tools_data import query, source
from genai_tools_data.database import DatabaseReader, QueryResult
from genai_tools_data.source import MAX_BYTES, MAX_COLUMNS
from hypothesis import given, strategies as st

from genai_host import Host
from genai_host.api import ToolOutput
from genai_host.errors import ValidationError
from genai_host_testing.internal.fixtures import MakeHost

Look = Callable[..., ToolOutput]


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    return make_host(tools=genai_tools_data)


@pytest.fixture
def look(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """All rows of a file with this in it."""

    def call(content: str | bytes, **query: Any) -> ToolOutput:
        file = tmp_path / "some.csv"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        monkeypatch.setenv("GENAI_TOOLS_DATA", str(file))
        return host.call_tool("data__query_table", {"table": "some", **query})

    return call


def table(output: ToolOutput) -> tuple[list[str], list[list[Any]]]:
    assert not output.error, output.text
    [reaction] = output.reactions
    return reaction["columns"], reaction["rows"]


@pytest.mark.parametrize(("content", "columns", "rows"), [
    ("a,b\n1,2\n", ["a", "b"], [[1, 2]]),
    ("a,b\r\n1,2\r\n", ["a", "b"], [[1, 2]]),
    ("a,b\r1,2", ["a", "b"], [[1, 2]]),
    ("a;b\n1,5;x, y\n2;z\n", ["a", "b"], [[1.5, "x, y"], [2.0, "z"]]),
    ("a\tb\n1\t2\n", ["a", "b"], [[1, 2]]), ("a|b\n1|2\n", ["a", "b"], [[1, 2]]),
    ("a\n1\n2\n", ["a"], [[1], [2]]), ('a,b\n"1\n2","x ""y"""\n', ["a", "b"], [["1\n2", 'x "y"']]),
    # letters
    (b"\xef\xbb\xbfname,b\n\xc3\xb8,2\n", ["name", "b"], [["ø", 2]]),
    ("name,b\nø,2\n".encode("utf-16"), ["name", "b"], [["ø", 2]]),
    ("name,b\nø,2\n".encode("utf-16-be"), ["name", "b"], [["ø", 2]]),
    (b"name,b\n\xf8 \x80,2\n", ["name", "b"], [["ø €", 2]]),
    (b"name,b\n\x81,2\n", ["name", "b"], [["\x81", 2]]),
    # as Excel has it
    ("sep=;\r\na;b\r\n1,5;2\r\n", ["a", "b"], [[1.5, 2]]),
    ('"sep=\t"\na\tb\n1\t2\n', ["a", "b"], [[1, 2]]),
    ("sep=;;\r\na;b\r\n1;2\r\n", ["a", "b"], [[1, 2]]),
    (b"\xef\xbb\xbfSEP=,\na,b\n1,2\n", ["a", "b"], [[1, 2]]),
    ("sep=,b\n1,2\n", ["sep=", "b"], [[1, 2]]),
    ('a, "b, c"\n1, "x, y"\n', ["a", "b, c"], [[1, "x, y"]]),
    # the first line
    ("Oslo,1\nRome,2\n", ["column_1", "column_2"], [["Oslo", 1], ["Rome", 2]]),
    ("a,,A\nx,y,z\n", ["a", "column_2", "A_2"], [["x", "y", "z"]]),
    (" a  b ,c\n1,2\n", ["a b", "c"], [[1, 2]]),
    ("a,b\n", ["a", "b"], []),
    ("a,2020,2021\nx,3,4\n", ["a", "2020", "2021"], [["x", 3, 4]]),
    ("Oslo,2020,2021\nRome,2021,2022\n", ["column_1", "column_2", "column_3"],
     [["Oslo", 2020, 2021], ["Rome", 2021, 2022]]),
    # lines of other lengths
    ("a,b\n1\n2,3,4\n\n5,6\n", ["a", "b", "column_3"], [[1, None, None], [2, 3, 4], [5, 6, None]]),
    # types
    ("a,b\n1,2\n,3.5\n", ["a", "b"], [[1, 2.0], [None, 3.5]]),
    ("code,b\n007,1\n12,2\n", ["code", "b"], [["007", 1], ["12", 2]]),
    ("phone,b\n+4712345678,1\n", ["phone", "b"], [["+4712345678", 1]]),
    ("a,b\n12345678901234567890,1\n", ["a", "b"], [["12345678901234567890", 1]]),
    ("a,b\n1_000,1\nnan,inf\n", ["a", "b"], [["1_000", 1], ["nan", "inf"]]),
    ("a,b\n-1,+2\n1e3,-.5\n", ["a", "b"], [[-1.0, 2.0], [1000.0, -0.5]]),
    ("a,b\n1,x\nn/a,y\n2,z\n", ["a", "b"], [[1, "x"], ["n/a", "y"], [2, "z"]]),
    ("a,b\n1.,.5\n2,1.5e2\n", ["a", "b"], [[1.0, 0.5], [2.0, 150.0]]),
    ("a;b\n1.234,5;1.000\n-2,5;3\n", ["a", "b"], [[1234.5, 1000], [-2.5, 3]]),
    ("a;b\n1.234;1.5\n2;3\n", ["a", "b"], [[1.234, 1.5], [2.0, 3.0]]),
    # almost a number, in time as its length
    (f"a,b\n{'1' * 130_000}x,2\n", ["a", "b"], [["1" * 499 + "…", 2]]),
    (f"a,b\n{'x' * 200_000},2\n", ["a", "b"], [["x" * 499 + "…", 2]]),
])  # fmt: skip
def test_it_is_read_as_it_is_meant(
    look: Look, content: str | bytes, columns: list[str], rows: list[list[Any]]
) -> None:
    assert table(look(content)) == (columns, rows)


def test_texts_among_numbers_count_for_nothing(look: Look) -> None:
    sums = [{"function": each, "column": "a"} for each in ("sum", "avg", "count")]
    output = look("a,b\n1,x\nn/a,y\n3,z\n", aggregates=sums)
    assert table(output)[1] == [[4, 2.0, 3]]
    assert output.text.endswith("(1 row; left out as not a number: 1 value of a, such as 'n/a')")


def test_text_that_is_no_number_is_told_of(look: Look) -> None:
    content = 'a,b\n"1,234.50",x\n$3,x\n7,y\n'
    sums = [{"function": "sum", "column": "a"}]
    output = look(content, aggregates=sums)
    assert table(output)[1] == [[7]]
    assert "2 values of a, such as '$3'" in output.text
    output = look(content, filters=[{"column": "a", "operator": ">", "value": 5}])
    assert table(output)[1] == [[7, "y"]]
    assert "2 values of a, such as '$3'" in output.text
    others = [{"column": "b", "value": "y"}]
    assert "left out" not in look(content, aggregates=sums, filters=others).text


def test_columns_of_numbers_are_not_searched_for_text(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = []
    run = DatabaseReader.run

    def logged(self: DatabaseReader, sql: str, *arguments: Any, **named: Any) -> QueryResult:
        statements.append(sql)
        return run(self, sql, *arguments, **named)

    monkeypatch.setattr(DatabaseReader, "run", logged)
    sums = [{"function": "sum", "column": each} for each in ("a", "b")]
    assert table(look("a,b\n1,2.5\n2,3\n", aggregates=sums))[1] == [[3, 5.5]]
    assert not [each for each in statements if "iif" in each]
    assert "left out" in look("a,b\n1,2.5\n2,x\n", aggregates=sums).text
    assert [each for each in statements if "iif" in each]


def test_the_search_for_text_is_bounded(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_SEARCHED", 2)
    sums = [{"function": "sum", "column": "a"}]
    output = look("a,b\n1,x\n$2,x\n$3,x\n", aggregates=sums)
    assert "left out as not a number: at least 1 value of a, such as '$2'" in output.text
    output = look("a,b\n1,x\n$2,x\n", aggregates=sums)
    assert "left out as not a number: 1 value of a, such as '$2'" in output.text


def test_result_is_kept_if_text_search_fails(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    run = DatabaseReader.run

    def failing(self: DatabaseReader, sql: str, *arguments: Any, **named: Any) -> QueryResult:
        if "iif" in sql:
            raise ValidationError("the query failed: interrupted")
        return run(self, sql, *arguments, **named)

    monkeypatch.setattr(DatabaseReader, "run", failing)
    output = look("a,b\n1,x\n$2,x\n", aggregates=[{"function": "sum", "column": "a"}])
    assert table(output)[1] == [[1]]


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is empty"), (b"\n\n", "is empty"), (b"sep=;\n", "is empty"),
    (b"a,b\n1,\x002\n", "neither a SQLite database nor a CSV file"),
    (b"a,b\n" + b"1,2\n" * 2000 + b"1,\x00\n", "line 2001: contains NUL"),
    (b"\x89PNG\r\n\x1a\n\x00\x00", "neither a SQLite database nor a CSV file"),
    (b'a,b\n1,2\n"3,4\n5,6\n', "line 4: unexpected end of data"),
    (b'a,b\n"1"2,3\n', "line 2: "),
    (b"," * MAX_COLUMNS + b"\n1\n", f"more than {MAX_COLUMNS} fields"),
])  # fmt: skip
def test_what_is_no_csv_is_told(look: Look, content: bytes, message: str) -> None:
    output = look(content)
    assert output.error
    assert message in output.text
    assert "some.csv" in output.text


def test_large_file_is_unread(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.csv"
    with file.open("wb") as stream:
        stream.write(b"a,b\n" * 5000)
        stream.truncate(100 * 10**6)
    monkeypatch.setenv("GENAI_TOOLS_DATA", str(file))
    output = host.call_tool("data__list_tables", {})
    assert output.error
    assert f"larger than {MAX_BYTES >> 20} MiB" in output.text


def test_growing_file_is_bounded(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BYTES", 1000)
    assert "is larger than" in look("a,b\n" + "1,2\n" * 1000).text


def test_changes_are_seen(look: Look, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look("").error
    assert table(look("a,b\n1,2\n"))[1] == [[1, 2]]
    assert table(look("a,b\n1,2\n3,4\n"))[1] == [[1, 2], [3, 4]]
    monkeypatch.setattr("genai_tools_data.source.load", None)
    assert not host.call_tool("data__list_tables", {}).error


def test_files_are_tables(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a b.csv", "A-b.csv", "sqlite_x.csv", "øl.tsv", "!.csv", "straße.csv", "strasse.csv"]
    for name in names:
        (tmp_path / name).write_text("a,b\n1,2\n")
    monkeypatch.setenv("GENAI_TOOLS_DATA", os.pathsep.join(str(tmp_path / each) for each in names))
    lines = host.call_tool("data__list_tables", {}).text.split("\n")
    assert [line.split(" | ")[0] for line in lines[1:-1]] == [
        "A_b_2", "a_b", "data", "strasse", "straße", "t_sqlite_x", "øl"
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such pipes")
def test_pipe_is_refused(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    monkeypatch.setenv("GENAI_TOOLS_DATA", str(tmp_path / "pipe.csv"))
    assert "is not a file" in host.call_tool("data__list_tables", {}).text


@pytest.mark.part  # the content may begin like an SQLite file
@given(content=st.binary(max_size=200))
def test_whatever_is_in_it_is_read_or_told(look: Look, content: bytes) -> None:
    output = look(content)
    assert "Error" not in output.text or b"Error" in content


# none of them a number, and without the spaces around them, which do not count
CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"])).map(lambda text: f"t{text}".strip())


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_texts_come_back_as_they_are(look: Look, rows: list[tuple[str, str]]) -> None:
    lines = ["first,second"]
    for row in rows:
        lines.append(",".join('"' + cell.replace('"', '""') + '"' for cell in row))
    columns, cells = table(look("\n".join(lines)))
    assert columns == ["first", "second"]
    assert cells == [list(row) for row in rows]

"""A database can be looked into, and that is all, whatever a model writes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import genai_tools_data
import pytest
from genai_tools_data.database import MAX_ROWS, MAX_TEXT, MAX_VALUE, opened_file

from genai_host import Host
from genai_host.api import Cancellation, ToolOutput
from genai_host.errors import Cancelled, ValidationError
from genai_host_testing.internal.fixtures import Background, MakeHost

pytestmark = [pytest.mark.part, pytest.mark.usefixtures("warm_children")]
warmed = ("genai_tools_data.database",)

NEVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

WRITES = [
    "INSERT INTO things VALUES (4, 'd', NULL)",
    "UPDATE things SET name = 'x'", "DELETE FROM things", "DELETE FROM things RETURNING id",
    "WITH x AS (SELECT 1) INSERT INTO things SELECT 9, 'z', 0 FROM x",
    "REPLACE INTO things VALUES (1, 'z', 0)", "DROP TABLE things", "CREATE TABLE more (a)",
    "CREATE TEMP TABLE more (a)", "CREATE VIEW more AS SELECT 1",
    "CREATE TEMP VIEW more AS SELECT 1", "CREATE VIRTUAL TABLE more USING fts5(a)",
    "CREATE INDEX more ON things (name)",
    "CREATE TRIGGER more AFTER INSERT ON things BEGIN SELECT 1; END",
    "ALTER TABLE things ADD COLUMN more", "ATTACH DATABASE 'other.db' AS other",
    "ATTACH ':memory:' AS other", "DETACH DATABASE main", "VACUUM", "VACUUM INTO 'other.db'",
    "REINDEX", "ANALYZE", "BEGIN IMMEDIATE", "SAVEPOINT a", "COMMIT", "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON", "PRAGMA journal_mode = DELETE", "PRAGMA user_version = 5",
    "PRAGMA temp_store_directory = '/'", "PRAGMA database_list",
    "SELECT * FROM pragma_database_list", "UPDATE sqlite_master SET sql = ''",
    "SELECT load_extension('other.so')", "EXPLAIN DELETE FROM things",
    "SELECT 1; DELETE FROM things", "", "-- nothing", ";", "no SQL", "SELECT \x00",
    "SELECT 'half \udcff' AS a FROM nothing",
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "a ?#%20 b.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, price REAL);"
            "INSERT INTO things VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, 'c', NULL);"
            "CREATE TABLE parts (thing REFERENCES things (id), other REFERENCES things);"
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENAI_TOOLS_DATA", str(file))
    return file


@pytest.fixture
def host(make_host: MakeHost, file: Path) -> Host:
    return make_host(tools=genai_tools_data)


def run_query(host: Host, sql: str, **arguments: Any) -> ToolOutput:
    return host.call_tool("data__query_sql", {"sql": sql, **arguments})


@pytest.mark.process
@pytest.mark.parametrize("sql", WRITES[::10])  # each starts processes; below, all are tried
def test_nothing_is_written_and_a_model_is_told(host: Host, file: Path, sql: str) -> None:
    before, beside = file.read_bytes(), set(file.parent.iterdir())
    output = run_query(host, sql)
    assert output.error, output.text
    assert "\n" not in output.text
    assert file.read_bytes() == before
    assert set(file.parent.iterdir()) == beside
    assert run_query(host, "SELECT count(*) AS n FROM things").text == "n\n3\n(1 row)"


def test_no_statement_is_run_that_does_more_than_look(file: Path) -> None:
    before, beside = file.read_bytes(), set(file.parent.iterdir())
    with opened_file(file) as reader:
        for sql in WRITES:
            with pytest.raises((ValidationError, UnicodeEncodeError)) as caught:
                reader.run(sql, Cancellation())
            assert "\n" not in str(caught.value)
    assert file.read_bytes() == before
    assert set(file.parent.iterdir()) == beside


def test_each_guard_holds_alone(file: Path) -> None:
    """What one of them lets through, another would not."""
    with opened_file(file) as reader:
        connection: sqlite3.Connection = reader._connection
        for sql in ("DELETE FROM things", "ATTACH 'other.db' AS other", "VACUUM INTO 'other.db'"):
            with pytest.raises(sqlite3.Error, match=r"not authorized|authorization denied"):
                connection.execute(sql)
        connection.set_authorizer(None)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM things")
        with pytest.raises(sqlite3.OperationalError, match="too many attached"):
            connection.execute("ATTACH 'other.db' AS other")
        connection.execute("PRAGMA query_only = OFF")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM things")


class TestBounds:
    def test_endless_query_ends(self, file: Path, background: Background) -> None:
        limits, running = Cancellation(), threading.Event()
        with opened_file(file) as reader:

            def step() -> int:
                running.set()
                return 1

            reader._connection.create_function("step", 0, step)
            ended = background(reader.run, NEVER.replace("SELECT 1 ", "SELECT step() "), limits)
            assert running.wait(30)
            limits.cancel()
            assert isinstance(ended.exception(30), Cancelled)
            assert reader.run("SELECT 1", Cancellation()).rows == ((1,),)

    @pytest.mark.process
    def test_rows_are_bounded_and_that_is_said(self, host: Host) -> None:
        many = NEVER.replace("max(i)", "i")
        output = run_query(host, many, limit=2)
        assert output.text == "i\n1\n2\n(the first 2 rows; there are more)"
        output = run_query(host, many, limit=2**70)
        [table] = output.reactions
        assert (len(table["rows"]), table["more"]) == (MAX_ROWS, True)
        assert run_query(host, many, limit=0).error

    @pytest.mark.process
    def test_values_are_bounded(self, host: Host) -> None:
        for huge in (f"zeroblob({MAX_VALUE + 1})", "hex(zeroblob(900000))"):
            output = run_query(host, f"SELECT length({huge}) AS n")
            assert output.error, output.text
            assert "omit its column" in output.text
        output = run_query(host, "SELECT printf('%.*c', 5000, 'x') AS a, x'00ff' AS b")
        assert len(output.text) < 600
        assert "(2 bytes)" in output.text

    @pytest.mark.process
    def test_a_doubling_text_is_stopped(self, host: Host) -> None:
        sql = "WITH RECURSIVE n(t) AS (SELECT 'ab' UNION ALL SELECT t || t FROM n) SELECT t FROM n"
        assert "omit its column" in run_query(host, sql, limit=400).text

    @pytest.mark.process
    def test_the_text_is_bounded_and_that_is_said(self, host: Host) -> None:
        output = run_query(host, NEVER.replace("max(i)", "printf('%.*c', 400, 'x')"), limit=300)
        assert len(output.text) < MAX_TEXT + 200
        assert "the text limit is reached" in output.text
        assert not output.error

    @pytest.mark.process
    def test_many_columns_are_refused(self, host: Host) -> None:
        output = run_query(host, f"SELECT {', '.join(['1'] * 500)}")
        assert output.error
        assert "select at most" in output.text

    def test_a_long_statement_is_refused(self, host: Host) -> None:
        assert "longer than" in run_query(host, f"SELECT {'1 + ' * 5000} 1").text


@pytest.mark.smoke
@pytest.mark.process
def test_odd_values_come_as_json(host: Host) -> None:
    output = run_query(
        host,
        "SELECT 9e999 AS a, -9e999 AS a, CAST(x'ff' AS TEXT) AS \"b\nc|d\", NULL AS e,"
        " 'one' || char(10) || 'two | three' AS f, 9223372036854775807 AS g, 1 << 52 AS h",
    )
    assert not output.error
    [table] = output.reactions
    assert table["columns"][:2] == ["a", "a (2)"]
    assert table["rows"] == [["inf", "-inf", "�", None, "one\ntwo | three", str(2**63 - 1), 2**52]]
    names, row, _ = output.text.split("\n")
    assert names == "a | a (2) | b c¦d | e | f | g | h"
    assert row == "inf | -inf | � |  | one two ¦ three | 9223372036854775807 | 4503599627370496"


@pytest.mark.process
def test_what_is_wrong_names_the_tables(host: Host) -> None:
    assert run_query(host, "SELECT * FROM thing").text == (
        "data__query_sql failed: the query failed: no such table: thing; the tables are: parts, "
        "things"
    )


def test_keys_are_told(host: Host) -> None:
    text = host.call_tool("data__describe_table", {"table": "parts"}).text
    assert "thing names rows of things (id)" in text
    assert "other names rows of things (its key)" in text
    assert (
        "id | INTEGER, key | 3 | 3 | 1 | 3"
        in host.call_tool("data__describe_table", {"table": "things"}).text
    )


class TestLogs:
    """Of databases that keep what is written in a file beside them."""

    @pytest.fixture
    def logged(self, file: Path) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("INSERT INTO things VALUES (4, 'd', 1)")
            connection.commit()
            yield connection

    def test_what_is_in_the_log_is_seen(self, host: Host, logged: sqlite3.Connection) -> None:
        query = {"table": "things", "aggregates": [{"function": "count"}]}
        assert host.call_tool("data__query_table", query).text == "count\n4\n(1 row)"

    def test_no_file_beside_it(self, host: Host, file: Path, logged: sqlite3.Connection) -> None:
        logged.close()
        beside = set(file.parent.iterdir())
        query = {"table": "things", "aggregates": [{"function": "count"}]}
        assert host.call_tool("data__query_table", query).text == "count\n4\n(1 row)"
        assert set(file.parent.iterdir()) == beside


class TestDamage:
    def test_a_damaged_database_is_told(self, host: Host, file: Path) -> None:
        data = file.read_bytes()
        for damaged in (data[:100], data[:1500], data[:100] + b"\xff" * (len(data) - 100)):
            file.write_bytes(damaged)
            for tool, arguments in (
                ("data__list_tables", {}),
                ("data__query_table", {"table": "things"}),
                ("data__describe_table", {"table": "things"}),
            ):
                output = host.call_tool(tool, arguments)
                assert output.error, output.text
                assert "Error" not in output.text, "it has no explanation"

    def test_each_cut_of_a_database_is_told(self, host: Host, file: Path) -> None:
        data = file.read_bytes()
        for length in range(0, len(data), 512):
            file.write_bytes(data[:length])
            output = host.call_tool("data__query_table", {"table": "things"})
            assert "Error" not in output.text, f"{length}: {output.text}"


class TestNaming:
    def test_nothing_is_named(self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GENAI_TOOLS_DATA", raising=False)
        monkeypatch.delenv("GENAI_TOOLS_FILES", raising=False)
        offered = make_host(tools=genai_tools_data).toolbox.offered({}, Cancellation())
        assert [each.name for each in offered] == ["calculate", "current_time"]

    def test_only_named_there(
        self, host: Host, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("GENAI_TOOLS_DATA")
        context = {"GENAI_TOOLS_DATA": str(file)}
        assert host.call_tool("data__list_tables", {}, context=context).error
        assert host.call_tool("data__list_tables", {"data": str(file)}).error

    @pytest.mark.parametrize("named", ["nothing.db", ".", "a\0b", "~nobody/x.csv"])
    def test_missing_file(self, host: Host, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
        monkeypatch.setattr("genai_tools_data.source.os.environ", {"GENAI_TOOLS_DATA": named})
        output = host.call_tool("data__list_tables", {})
        assert output.error
        assert "Error" not in output.text

    def test_one_database(self, host: Host, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("genai_tools_data.source.os.pathsep", "\t")
        monkeypatch.setenv("GENAI_TOOLS_DATA", f"{file}\t{file}")
        assert "cannot be combined with other files" in host.call_tool("data__list_tables", {}).text

"""A statement that takes more than there is ends, and the host goes on."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import genai_tools_data
import pytest
from genai_tools_data import database
from genai_tools_data.database import QueryResult, opened_file, run, run_apart

from genai_host import Host
from genai_host.api import Cancellation, child_process
from genai_host.errors import Cancelled, ValidationError
from genai_host_testing.internal.fixtures import Background, MakeHost

A = "printf('%.*c', 1000000, 'a')"
LONG = " + ".join([f"instr({A}, printf('%.*c', 500000, 'a') || 'b')"] * 100)
"""Hours of work, and no step of SQLite's between."""

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def doubling(times: int) -> str:
    """Each of its tables has twice what is in the one before."""
    tables = ["c0 AS (SELECT i AS x FROM things)"]
    tables += [f"c{n + 1} AS (SELECT x + x AS x FROM c{n})" for n in range(times)]
    return f"WITH {', '.join(tables)} SELECT x FROM c{times}"


@pytest.fixture(params=["things.db", "things.csv"])
def file(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file: Path = tmp_path / request.param
    if file.suffix == ".csv":
        file.write_text("i,name\n1,a\n2,b\n")
    else:
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(
                "CREATE TABLE things (i INTEGER, name TEXT);"
                "INSERT INTO things VALUES (1, 'a'), (2, 'b');"
            )
    monkeypatch.setenv("GENAI_TOOLS_DATA", str(file))
    return file


@pytest.fixture
def host(make_host: MakeHost, file: Path) -> Host:
    return make_host(tools=genai_tools_data)


@pytest.mark.process
@pytest.mark.parametrize(
    "sql",
    [doubling(60), f"{ENDLESS} SELECT zeroblob(1000000) FROM n ORDER BY random()"],
    ids=["doubling", "sort"],
)
def test_memory_is_bounded(host: Host, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    monkeypatch.setattr(database, "MAX_MEMORY", 64 * 2**20)
    output = host.call_tool("data__query_sql", {"sql": sql})
    assert output.error
    assert "exceeded its memory" in output.text
    assert "things" in output.text
    text = host.call_tool("data__query_sql", {"sql": "SELECT sum(i) AS n FROM things"}).text
    assert text == "n\n3\n(1 row)"


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_one_long_step_ends_with_its_call(
    tmp_path: Path, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE things (i)")
    begun, limits = tmp_path / "begun", Cancellation()
    os.mkfifo(begun)
    main = f"open({str(begun)!r}, 'w').close()\n{child_process._MAIN}"
    monkeypatch.setattr(child_process, "_MAIN", main)
    with opened_file(tmp_path / "x.db") as reader:
        ended = background(run_apart, reader, f"SELECT {LONG}", limits, 1)
        begun.read_bytes()  # which waits for the process
        limits.cancel()
        assert isinstance(ended.exception(30), Cancelled)


@pytest.mark.part
def test_a_database_is_read_from_a_file_or_from_bytes(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.executescript("CREATE TABLE things (i); INSERT INTO things VALUES (1), (2)")
        data = connection.serialize()
    expected = QueryResult(("i",), ((1,),), more=True)
    assert run((tmp_path / "x.db").as_uri(), "SELECT i FROM things", 1, b"") == expected
    assert run("", "SELECT i FROM things", 1, data) == expected
    with pytest.raises(ValidationError, match="write one SELECT"):
        run("", "DELETE FROM things", 1, data)

"""`genai-host usage` and `genai-host budgets`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host.cli.usage import bar


@pytest.fixture
def asked(terminal: Terminal, script: Any) -> Terminal:
    """Two calls were answered, one failed, and one is on no record."""
    script(["one", "two three", {"status": 401}])
    for _ in range(2):
        assert terminal("ask", "-p", "mock", "hi there")[0] == 0
    script([{"status": 401}])
    assert terminal("ask", "-p", "script", "hi")[0] == 1
    return terminal


def test_item_4_it_tells_what_calls_came_to(asked: Terminal) -> None:
    code, out, _ = asked("usage", "--by", "provider,feature", "--json")
    assert code == 0
    rows = {row["of"]["provider"]: row for row in json.loads(out)}
    assert {name: (row["calls"], row["failed"]) for name, row in rows.items()} == {
        "mock": (2, {}),
        "script": (1, {"authentication": 1}),
    }
    assert rows["mock"]["of"]["feature"] == "chat"
    assert rows["mock"]["input_tokens"] > 0
    assert rows["mock"]["slowest"] >= rows["mock"]["p50"] > 0
    assert rows["script"]["p50"] is None


def test_item_4_what_was_deleted_is_in_it(asked: Terminal) -> None:
    before = asked("usage")[1]
    assert asked("conversations", "delete", "--before", "2100-01-01", "--yes")[0] == 0
    assert asked("usage")[1] == before


def test_piped_it_is_lines_with_tabs(asked: Terminal) -> None:
    lines = asked("usage", "--by", "provider")[1].splitlines()
    assert [line.split("\t")[:3] for line in lines] == [["mock", "2", "0"], ["script", "1", "1"]]
    assert asked("usage", "--by", "provider", "--plot", "calls")[1] == "mock\t2\nscript\t1\n"


def test_item_4_it_is_drawn_at_a_terminal(asked: Terminal) -> None:
    out = asked.interactive("usage", "--by", "provider", "--plot", "calls")[1]
    assert out.splitlines() == [f"mock    {'█' * 40}  2", f"script  {'█' * 20}{' ' * 20}  1"]


def test_each_column_can_be_drawn(asked: Terminal) -> None:
    rows = json.loads(asked("usage", "--by", "provider", "--json")[1])
    tokens = [f"{row['input_tokens'] + row['output_tokens']:g}" for row in rows]
    for column, values in (("tokens", tokens), ("failed", ["0", "1"]), ("cost", ["0", "0"])):
        lines = asked("usage", "--by", "provider", "--plot", column)[1].splitlines()
        assert [line.split("\t")[1] for line in lines] == values, column


def test_days_and_wrong_names(asked: Terminal) -> None:
    assert asked("usage", "--since", "7d")[1] == asked("usage")[1]
    assert asked("usage", "--until", "2020-01-01")[1] == ""
    for wrong in (["--since", "soon"], ["--by", "weather"], ["--until", "0d"]):
        code, out, err = asked("usage", *wrong)
        assert (code, out) == (1, "")
        assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("value", "most", "length"), [(0, 10, 0), (10, 10, 40), (5, 10, 20), (0.13, 10, 1), (0, 0, 0)]
)
def test_a_bar_is_as_long_as_its_share(value: float, most: float, length: int) -> None:
    assert len(bar(value, most)) == length


def test_item_4_budgets_are_shown_and_stop_the_command(terminal: Terminal, home: Path) -> None:
    assert terminal("budgets")[1] == ""
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[budgets]\nper_turn = 0.5\nuser = { day_tokens = 3 }\n", encoding="utf-8")
    assert terminal("ask", "-p", "mock", "hi there")[0] == 0
    code, out, err = terminal("ask", "-p", "mock", "hi there")
    assert (code, out) == (1, "")
    assert err.startswith("error: the budget for a day is spent: ")
    assert terminal("ask", "--no-record", "-p", "mock", "hi there")[0] == 1
    told = json.loads(terminal("budgets", "--json")[1])
    assert told["run"] == 0.5
    [budget] = told["data"]
    assert (budget["name"], budget["user"], budget["most"]) == ("user.day_tokens", "", 3.0)
    assert budget["spent"] >= 3
    assert terminal("budgets")[1].startswith("user.day_tokens\t")
    assert "a turn may cost $0.5" in terminal("budgets")[2]


def test_what_is_on_no_record_is_counted_where_there_is_a_store(
    terminal: Terminal, home: Path
) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[budgets]\nuser = { day_tokens = 1000000 }\n", encoding="utf-8")
    assert terminal("ask", "--no-record", "-p", "mock", "hi there")[0] == 0
    assert terminal("conversations", "list")[1] == ""
    assert terminal("usage", "--by", "provider")[1].split("\t")[:2] == ["mock", "1"]

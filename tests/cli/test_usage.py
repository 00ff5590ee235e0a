"""`genai-host usage`, `budgets` and `tokens`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host.cli.usage import bar


@pytest.fixture
def recorded(terminal: Terminal, script: Any) -> Terminal:
    """Two calls were answered, one failed, and one is on no record."""
    script(["one", "two three", {"status": 401}])
    for _ in range(2):
        assert terminal("ask -p mock", "hi there")[0] == 0
    script([{"status": 401}])
    assert terminal("ask -p script hi")[0] == 1
    return terminal


def test_item_4_it_tells_what_calls_came_to(recorded: Terminal) -> None:
    out = recorded.out("usage --by provider,feature --json")
    rows = {row["of"]["provider"]: row for row in json.loads(out)}
    assert {name: (row["calls"], row["failed"]) for name, row in rows.items()} == {
        "mock": (2, {}),
        "script": (1, {"authentication": 1}),
    }
    assert rows["mock"]["of"]["feature"] == "chat"
    assert rows["mock"]["input_tokens"] > 0
    assert rows["mock"]["slowest"] >= rows["mock"]["p50"] > 0
    assert rows["script"]["p50"] is None


def test_item_4_what_was_deleted_is_in_it(recorded: Terminal) -> None:
    before = recorded("usage")[1]
    assert recorded("conversations delete --before 2100-01-01 --yes")[0] == 0
    assert recorded("usage")[1] == before


def test_piped_it_is_lines_with_tabs(recorded: Terminal) -> None:
    lines = recorded("usage --by provider")[1].splitlines()
    assert [line.split("\t")[:3] for line in lines] == [["mock", "2", "0"], ["script", "1", "1"]]


def test_each_column_can_be_drawn(recorded: Terminal) -> None:
    rows = recorded.json("usage --by provider")
    tokens = [f"{row['input_tokens'] + row['output_tokens']:g}" for row in rows]
    for column, values in (
        *(("tokens", tokens), ("calls", ["2", "1"])),
        *(("failed", ["0", "1"]), ("cost", ["0", "0"])),
    ):
        lines = recorded.out("usage --by provider --plot", column).splitlines()
        names = ("mock", "script")
        assert lines == [f"{name}\t{value}" for name, value in zip(names, values, strict=True)]
    out = recorded.interactive("usage --by provider --plot calls")[1]
    assert out.splitlines() == [f"mock    {'█' * 40}  2", f"script  {'█' * 20}{' ' * 20}  1"]


def test_days_and_wrong_names(recorded: Terminal) -> None:
    assert recorded("usage --since 7d")[1] == recorded("usage")[1]
    assert recorded("usage --until 2020-01-01")[1] == ""
    for wrong in (["--since", "soon"], ["--by", "weather"], ["--until", "0d"]):
        assert recorded.error("usage", *wrong).startswith("error: ")


@pytest.mark.parametrize(
    ("value", "most", "length"), [(0, 10, 0), (10, 10, 40), (5, 10, 20), (0.13, 10, 1), (0, 0, 0)]
)
def test_a_bar_is_as_long_as_its_share(value: float, most: float, length: int) -> None:
    assert len(bar(value, most)) == length


def test_item_4_budgets_are_shown_and_stop_the_command(terminal: Terminal) -> None:
    assert terminal("budgets")[1] == ""
    terminal.configure("[budgets]\nper_turn = 0.5\nuser = { day_tokens = 3 }\n")
    terminal.out("ask -p mock", "hi there")
    err = terminal.error("ask -p mock", "hi there")
    assert err.startswith("error: the daily budget is exhausted: ")
    terminal.error("ask --no-record -p mock", "hi there")
    result = terminal.json("budgets")
    [budget] = result["data"]
    assert (budget["name"], budget["user"], budget["most"]) == ("user.day_tokens", "", 3.0)
    assert (result["run"], budget["spent"] >= 3) == (0.5, True)
    _, out, err = terminal("budgets")
    assert out.startswith("user.day_tokens\t")
    assert "limit per turn: $0.5" in err


def test_unrecorded_calls_are_counted(terminal: Terminal) -> None:
    terminal.configure("[budgets]\nuser = { day_tokens = 1000000 }\n")
    terminal.out("ask --no-record -p mock", "hi there")
    assert terminal("conversations list")[1] == ""
    assert terminal("usage --by provider")[1].split("\t")[:2] == ["mock", "1"]


def counted(terminal: Terminal, *arguments: str) -> int:
    return int(terminal.out("tokens -m mock", *arguments))


def test_the_tokens_of_a_question_are_counted(terminal: Terminal) -> None:
    assert counted(terminal, "one two three") == counted(terminal, "one") + 2


def test_what_is_said_first_and_files_count_as_well(terminal: Terminal, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("three more words")
    one = counted(terminal, "one")
    assert counted(terminal, "one", "-s", "be brief") > one
    assert counted(terminal, "one", "-F", str(notes)) > one


def test_json_says_who_counted(terminal: Terminal) -> None:
    row = terminal.json("tokens one -m mock@mock")
    assert (row["model"], row["provider"], row["tokens"] > 0) == ("mock", "mock", True)
    assert "nothing to ask" in terminal.error("tokens -m mock", code=2)


@pytest.mark.part
def test_who_cannot_count_is_named(terminal: Terminal) -> None:
    (row,) = json.loads(terminal.out("routes explain smollm2@local --operation count --json"))
    assert (row["for"], row["runs"]) == ("count", False)
    err = terminal.error("tokens hi -m smollm2@local")
    assert err.startswith("error: smollm2@local cannot run:")


def test_the_model_is_the_one_that_would_be_asked(terminal: Terminal) -> None:
    terminal("config set defaults.remember=true")
    terminal("ask -m mock@mock hi")
    assert terminal.json("tokens one")["model"] == "mock"

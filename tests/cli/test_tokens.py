"""`genai-host tokens`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Terminal


def counted(terminal: Terminal, *arguments: str) -> int:
    code, out, err = terminal("tokens", *arguments, "-m", "mock")
    assert code == 0, err
    return int(out)


def test_the_tokens_of_a_question_are_counted(terminal: Terminal) -> None:
    assert counted(terminal, "one two three") == counted(terminal, "one") + 2


def test_what_is_said_first_and_files_count_as_well(terminal: Terminal, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("three more words")
    one = counted(terminal, "one")
    assert counted(terminal, "one", "-s", "be brief") > one
    assert counted(terminal, "one", "-F", str(notes)) > one


def test_json_says_who_counted(terminal: Terminal) -> None:
    code, out, err = terminal("tokens", "one", "-m", "mock@mock", "--json")
    assert code == 0, err
    row = json.loads(out)
    assert (row["model"], row["provider"]) == ("mock", "mock")
    assert row["tokens"] > 0


def test_nothing_to_count_is_a_wrong_use(terminal: Terminal) -> None:
    code, _, err = terminal("tokens", "-m", "mock")
    assert code == 2
    assert "nothing to ask" in err


@pytest.mark.part
def test_who_cannot_count_is_named(terminal: Terminal) -> None:
    code, out, _ = terminal("routes", "explain", "smollm2@local", "--operation", "count", "--json")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["for"], row["runs"]) == ("count", False)
    code, out, err = terminal("tokens", "hi", "-m", "smollm2@local")
    assert (code, out) == (1, "")
    assert err.startswith("error: smollm2@local cannot run:")


def test_the_model_is_the_one_that_would_be_asked(terminal: Terminal) -> None:
    terminal("config", "set", "defaults.remember=true")
    terminal("ask", "-m", "mock@mock", "hi")
    code, out, err = terminal("tokens", "one", "--json")
    assert code == 0, err
    assert json.loads(out)["model"] == "mock"

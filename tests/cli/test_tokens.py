"""`genai-host tokens`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Terminal


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
    out = terminal.out("routes explain smollm2@local --operation count --json")
    (row,) = json.loads(out)
    assert (row["for"], row["runs"]) == ("count", False)
    err = terminal.error("tokens hi -m smollm2@local")
    assert err.startswith("error: smollm2@local cannot run:")


def test_the_model_is_the_one_that_would_be_asked(terminal: Terminal) -> None:
    terminal("config set defaults.remember=true")
    terminal("ask -m mock@mock hi")
    assert terminal.json("tokens one")["model"] == "mock"

"""`genai-host chat`, piped: each line is a message or a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host.cli.ask import answered
from genai_host.cli.chat import Chat


def chat(terminal: Terminal, *lines: str, options: tuple[str, ...] = ()) -> tuple[str, str]:
    code, out, err = terminal("chat", "-p", "script", *options, stdin="\n".join(lines))
    assert code == 0
    return out, err


def test_each_line_is_answered(terminal: Terminal, script: Any) -> None:
    script(["one", "two"])
    assert chat(terminal, "a", "", "b")[0] == "one\ntwo\n"


def test_an_error_does_not_end_it(terminal: Terminal, script: Any) -> None:
    script(["one", {"status": 503}, "three"])
    out, err = chat(terminal, "a", "b", "c")
    assert out == "one\nthree\n"
    assert "status 503" in err


def test_quit_ends_it(terminal: Terminal, script: Any) -> None:
    script(["one", "two"])
    assert chat(terminal, "a", "/quit", "b")[0] == "one\n"


def test_help_lists_every_command(terminal: Terminal, script: Any) -> None:
    script([])
    _, err = chat(terminal, "/help")
    for command in ("/model", "/system", "/attach", "/edit", "/retry", "/save", "/quit"):
        assert command in err
    assert all(function.__doc__ for function in Chat(None).commands.values())  # type: ignore[arg-type]


def test_an_unknown_command_says_so_and_a_path_is_a_message(
    terminal: Terminal, script: Any
) -> None:
    script(["heard"])
    out, err = chat(terminal, "/nonsense", "/usr/bin/python is a path")
    assert "there is no command /nonsense" in err
    assert out == "heard\n"


def test_another_model_goes_on(terminal: Terminal, script: Any) -> None:
    script(["one"])
    out, err = chat(terminal, "a", "/model mock@mock", "b", "/model", "/model nonsense", "c")
    assert out == "one\nb\nc\n"
    assert err.count("chat with mock@mock") == 2
    assert "there is no model 'nonsense'" in err


def test_the_system_prompt_can_be_changed(terminal: Terminal, script: Any) -> None:
    script(["one"])
    _, err = chat(terminal, "/system Be brief.", "a", "/details")
    assert "Be brief." in err


def test_the_last_message_can_be_answered_again(terminal: Terminal, script: Any) -> None:
    script(["one", "again"])
    out, err = chat(terminal, "/retry", "a", "/retry")
    assert out == "one\nagain\n"
    assert "there is nothing to retry" in err


def test_the_last_message_can_be_edited(
    terminal: Terminal, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = iter(["better", None])
    monkeypatch.setattr("click.edit", lambda text: next(edits))
    script(["one", "two"])
    out, err = chat(terminal, "/edit", "a", "/edit", "/edit", "/details")
    assert out == "one\ntwo\n"
    assert "there is nothing to edit" in err
    assert "nothing was sent" in err
    assert "better" in err


def test_turns_can_be_taken_back_and_forgotten(
    terminal: Terminal, script: Any, tmp_path: Path
) -> None:
    script(["one", "two", "three"])
    file = tmp_path / "saved.json"
    chat(terminal, "a", "/undo", "b", "/reset", "c", "/undo", "/undo", f"/save {file}")
    assert json.loads(file.read_text()) == []


@pytest.mark.parametrize("suffix", ["md", "json"])
def test_it_can_be_saved(terminal: Terminal, script: Any, tmp_path: Path, suffix: str) -> None:
    script(["the answer"])
    file = tmp_path / f"saved.{suffix}"
    _, err = chat(terminal, "/save", "a question", f"/save {file}", "/save /no/such/place.md")
    text = file.read_text()
    assert "a question" in text
    assert "the answer" in text
    assert "/save FILE.md" in err
    assert "cannot be written" in err
    assert file.stat().st_mode & 0o077 == 0


def test_files_go_along_with_the_next_message(
    terminal: Terminal, script: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("content of a")
    script(["one", "two"])
    file = str(tmp_path / "a.txt")
    saved = tmp_path / "saved.json"
    _, err = chat(
        terminal, "x", f"/attach {file}", "y", "/attach", "/attach not-there", f"/save {saved}",
        options=("-a", file),
    )  # fmt: skip
    messages = json.loads(saved.read_text())
    assert [len(message["content"]) for message in messages] == [2, 1, 2, 1]
    assert "/attach FILE" in err
    assert "not-there cannot be read" in err


def test_what_was_attached_is_kept_if_the_message_fails(
    terminal: Terminal, script: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("content of a")
    script([{"status": 503}, "two"])
    saved = tmp_path / "saved.json"
    chat(terminal, "x", "y", f"/save {saved}", options=("-a", str(tmp_path / "a.txt")))
    assert len(json.loads(saved.read_text())[0]["content"]) == 2


def test_ctrl_c_stops_the_answer_and_not_the_chat(
    terminal: Terminal, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return answered(*arguments, **named)

    monkeypatch.setattr("genai_host.cli.chat.answered", interrupted)
    script(["one"])
    out, err = chat(terminal, "a", "b")
    assert out == "one\n"
    assert "stopped" in err

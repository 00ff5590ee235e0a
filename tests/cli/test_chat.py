"""`genai-host chat`, piped: each line is a message or a command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import Terminal

from genai_host import Host
from genai_host.api import Answer, Feature, FeatureSteps, Image, Message, NoSettings, Text, Turn
from genai_host.cli.ask import answered
from genai_host.cli.chat import Chat, _typed_text, _with_typed_text
from genai_host_testing import InlinePlugin

REFUSED = {"status": 400}


def chat(terminal: Terminal, *lines: str, options: tuple[str, ...] = ()) -> tuple[str, str]:
    code, out, err = terminal("chat -p script", *options, stdin="\n".join(lines))
    assert code == 0
    return out, err


@pytest.mark.parametrize(("replies", "lines", "out", "notes"), [
    (["one", "two"], ["a", "", "b"], "one\ntwo\n", []),
    (["one", REFUSED, "three"], ["a", "b", "c"], "one\nthree\n", ["status 400"]),
    ([{"status": 401}, "two"], ["a", "b"], "two\n", ["error: "]),
    ([{"status": 429, "retry_after": 90}, "two"], ["a", "b"], "two\n", ["error: "]),
    ([{"fault": "garbage"}, "two"], ["a", "b"], "two\n", ["error: "]),
    ([{"fault": "crash"}, "two"], ["a", "b"], "two\n", ["error: "]),
    ([{"text": "a b c", "fault": "cut", "pieces": 2}, "two"], ["a", "b"], "a b\ntwo\n",
     ["error: "]),
    (["one", "two"], ["a", "/quit", "b"], "one\n", []),
    (["heard"], ["/nonsense", "/usr/bin/x is a path"], "heard\n", ["unknown command /nonsense"]),
    (["one"], ["/system Be brief.", "a", "/details"], "one\n", ["Be brief."]),
    (["one"], ["/system Be kind.", "/system", "a", "/details"], "one\n",
     ["\nBe kind.\n", '"Be kind."']),
    (["one", "again"], ["/retry", "/details", "a", "/retry"], "one\nagain\n",
     ["nothing to retry", "no answer yet"]),
    (["one"], ["a", "/model mock@mock", "b", "/model", "/model nonsense", "c"], "one\nb\nc\n",
     ["chat with mock@mock", "chat with mock@mock", "unknown model 'nonsense'"]),
])  # fmt: skip
def test_each_line_has_its_answer_or_its_note(
    terminal: Terminal, script: Any, replies: list[Any], lines: list[str], out: str,
    notes: list[str],
) -> None:  # fmt: skip
    script(replies)
    output, err = chat(terminal, *lines)
    assert (output, "Traceback" in err) == (out, False)
    for each in notes:
        assert err.count(each) == notes.count(each)


def test_an_unrecorded_answer_can_be_retried(terminal: Terminal, script: Any) -> None:
    script(["one", "again"])
    options = ("--setting", "keep_history=false")
    assert chat(terminal, "a", "/retry", options=options)[0] == "one\nagain\n"


def test_feature_bug(make_host: Callable[..., Host], capsys: pytest.CaptureFixture[str]) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from ()
        return Answer(str(1 / int(turn.message.text)))

    feature = Feature("odd", NoSettings, respond, roles={})
    with make_host(odd=InlinePlugin(features=[feature])).open("odd") as conversation:
        lines = Chat(conversation)
        assert lines.take("0")
        assert lines.take("1")
    captured = capsys.readouterr()
    assert captured.out == "1.0\n"
    assert "ZeroDivisionError" in captured.err


def test_without_an_input_it_has_ended(terminal: Terminal, script: Any) -> None:
    script([])
    terminal.monkeypatch.setattr("genai_host.cli.terminal.sys", SimpleNamespace(stdin=None))
    terminal.monkeypatch.setattr("genai_host.cli.chat.sys", SimpleNamespace(stdin=None))
    assert chat(terminal, "a") == ("", "")


def test_an_input_that_is_no_text_is_an_error(terminal: Terminal, script: Any) -> None:
    script(["one"])
    code, out, err = terminal("chat -p script", stdin=b"a\n" + b"b" * 20_000 + b"\n\xff\0\n")
    assert (code, out) == (1, "one\n")
    assert "standard input is not text" in err


def test_help_lists_every_command(terminal: Terminal, script: Any) -> None:
    script([])
    _, err = chat(terminal, "/help")
    for command in ("/model", "/system", "/attach", "/edit", "/retry", "/save", "/quit"):
        assert command in err
    assert all(function.__doc__ for function in Chat(None).commands.values())  # type: ignore[arg-type]


def texts(file: Path) -> list[str]:
    return [message["content"][0]["text"] for message in json.loads(file.read_text())]


def test_failed_retry_keeps_the_history(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    script(["one", "two", REFUSED, REFUSED, "again"])
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    chat(terminal, "a", "b", "/retry", "/retry", f"/save {before}", "/retry", f"/save {after}")
    assert texts(before) == ["a", "one", "b", "two"]
    assert texts(after) == ["a", "one", "b", "again"]


def test_failed_message_can_be_retried(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    script(["one", REFUSED, REFUSED, "two", "three"])
    attached, file = tmp_path / "a.txt", tmp_path / "saved.json"
    attached.write_text("content of a")
    chat(terminal, "a", f"/attach {attached}", "b", "/retry", "/retry", "c", f"/save {file}")
    assert texts(file) == ["a", "one", "b", "two", "c", "three"]
    contents = [len(message["content"]) for message in json.loads(file.read_text())]
    assert contents == [1, 1, 2, 1, 1, 1]


def test_the_last_message_can_be_edited(terminal: Terminal, script: Any) -> None:
    edits = iter(["better", None, " "])
    terminal.monkeypatch.setattr("click.edit", lambda text: next(edits))
    script(["one", "two"])
    out, err = chat(terminal, "/edit", "a", "/edit", "/edit", "/edit", "/details")
    assert out == "one\ntwo\n"
    assert "nothing to edit" in err
    assert err.count("nothing was sent") == 2
    assert "better" in err


def test_failed_edit_keeps_the_history(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    edited: list[str] = []

    def edit(text: str) -> str:
        edited.append(text)
        return text + "!"

    terminal.monkeypatch.setattr("click.edit", edit)
    script(["one", "two", REFUSED, "again"])
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    chat(terminal, "a", "b", "/edit", f"/save {before}", "/edit", f"/save {after}")
    assert edited == ["b", "b!"]
    assert texts(before) == ["a", "one", "b", "two"]
    assert texts(after) == ["a", "one", "b!!", "again"]


def test_only_what_was_typed_is_edited(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    terminal.monkeypatch.setattr("click.edit", lambda text: f"not {text}")
    (tmp_path / "a.txt").write_text("content of a")
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    script(["one", "two"])
    file = tmp_path / "saved.json"
    files = [option for name in ("a.txt", "b.png") for option in ("-a", str(tmp_path / name))]
    chat(terminal, "this", "/edit", f"/save {file}", options=tuple(files))
    typed, text, image = json.loads(file.read_text())[0]["content"]
    assert typed["text"] == "not this"
    assert text["text"] == "a.txt:\n\ncontent of a"
    assert image["type"] == "image"


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="false is a program of POSIX")
def test_an_editor_that_fails_ends_nothing(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    terminal.monkeypatch.setenv("EDITOR", "false")
    terminal.monkeypatch.setenv("VISUAL", "false")
    script(["one", "two"])
    file = tmp_path / "saved.json"
    out, err = chat(terminal, "a", "/edit", "b", f"/save {file}")
    assert out == "one\ntwo\n"
    assert "nothing was sent: false: Editing failed" in err
    assert texts(file) == ["a", "one", "b", "two"]


@pytest.mark.parametrize(("message", "edited"), [
    (Message("user", "old"), Message("user", "new")),
    (Message("user", []), Message("user", "new")),
    (Message("user", [Image(b"x", "image/png")]),
     Message("user", ["new", Image(b"x", "image/png")])),
])  # fmt: skip
def test_a_message_without_words_can_get_some(message: Message, edited: Message) -> None:
    assert _with_typed_text(message, "new") == edited
    assert _typed_text(message) == message.text


def test_undo_and_reset(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    script(["one", "two", "three"])
    file = tmp_path / "saved.json"
    chat(terminal, "a", "/undo", "b", "/reset", "c", "/undo", "/undo", f"/save {file}")
    assert texts(file) == []


@pytest.mark.parametrize("suffix", ["md", "json"])
def test_it_can_be_saved(terminal: Terminal, script: Any, tmp_path: Path, suffix: str) -> None:
    script(["the answer"])
    file = tmp_path / f"saved.{suffix}"
    _, err = chat(terminal, "/save", "a question", f"/save {file}", "/save /no/such/place.md")
    text = file.read_text()
    assert "a question" in text
    assert "the answer" in text
    assert "/save FILE.md" in err
    assert "cannot write" in err
    assert file.stat().st_mode & 0o077 == 0


def test_existing_file_kept_unless_asked(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    script([])
    file = tmp_path / "saved.json"
    file.write_text("before")
    _, err = chat(terminal, f"/save {file}")
    assert (file.read_text(), "already exists" in err) == ("before", True)
    chat(terminal, f"/save --overwrite {file}")
    assert json.loads(file.read_text()) == []


def test_files_go_with_the_next_message(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content of a")
    script(["one", "two"])
    file = str(tmp_path / "a.txt")
    saved = tmp_path / "saved.json"
    _, err = chat(
        terminal, "x", f"/attach {file}", f"/attach {file}", "y", "/attach", "/attach not-there",
        f"/save {saved}", options=("-a", file),
    )  # fmt: skip
    assert [len(message["content"]) for message in json.loads(saved.read_text())] == [2, 1, 2, 1]
    assert "/attach FILE" in err
    assert "cannot read 'not-there'" in err


def test_standard_input_cannot_be_attached(terminal: Terminal, script: Any) -> None:
    script([])
    err = terminal.error("chat -p script -a -", stdin="a", code=2)
    assert "standard input contains the messages" in err
    assert "FILE|URL|-" not in terminal("chat --help")[1]


def test_no_secret_of_an_attached_address_is_shown(terminal: Terminal, script: Any) -> None:
    attachment = "genai_host.prompts.attachments.attachment"
    terminal.monkeypatch.setattr(attachment, lambda source: Text("content"))
    script([])
    _, err = chat(terminal, "/attach https://user:canary@host/a.txt?sig=canary")
    assert err == "attached to the next message: https://host/a.txt\n"


def test_failed_message_keeps_attachments(terminal: Terminal, script: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content of a")
    script([REFUSED, "two"])
    saved = tmp_path / "saved.json"
    chat(terminal, "x", "y", f"/save {saved}", options=("-a", str(tmp_path / "a.txt")))
    assert len(json.loads(saved.read_text())[0]["content"]) == 2


def test_ctrl_c_stops_the_answer_and_not_the_chat(terminal: Terminal, script: Any) -> None:
    prompts = []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        prompts.append(1)
        if len(prompts) == 1:
            raise KeyboardInterrupt
        return answered(*arguments, **named)

    terminal.monkeypatch.setattr("genai_host.cli.chat.answered", interrupted)
    script(["one"])
    out, err = chat(terminal, "a", "b")
    assert out == "one\n"
    assert "stopped" in err

"""`ask` and `chat` continue stored conversations, and work without a store that fails."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_conversations import append, beginning, interrupt, summaries, texts, waiting
from support import Terminal

from genai_host import Host
from genai_host.api import Answer
from genai_host.conversations.record import Changed, TurnEnded
from genai_host.errors import Conflict
from genai_host.store import Store
from genai_host_testing.internal.stores import CODEC


class TestAsk:
    def test_every_question_is_kept(self, terminal: Terminal) -> None:
        assert "no conversation is saved" in terminal.error("ask -c x")
        terminal.error("ask -p mock x --param temperatur=1")
        assert summaries() == []
        terminal("ask -p mock What is this?")
        out = terminal.json("ask -p mock another")
        assert [each.title for each in summaries()] == ["another", "What is this?"]
        assert [each.models for each in summaries()] == [{"main": "mock@mock"}] * 2
        assert out["conversation"] == summaries()[0].id
        with Store() as store, Host(store=store) as host:
            host.open("chat", provider="mock")
        assert "no turn to send again" in terminal.error("ask --regenerate")

    def test_it_continues_the_last_or_a_named_one(self, terminal: Terminal) -> None:
        terminal("ask -p mock first")
        [first] = summaries()
        terminal("ask -p mock second")
        assert terminal("ask -c third") == (0, "third\n", "")
        assert terminal("ask --conversation", first.id[:14], "fourth") == (0, "fourth\n", "")
        assert terminal("ask -c fifth")[0] == 0
        assert texts(first.id) == ["first", "first", "fourth", "fourth", "fifth", "fifth"]
        assert terminal("ask --conversation last sixth")[0] == 0
        assert sorted(each.turns for each in summaries()) == [2, 4]

    def test_later_options_hold_from_there(self, terminal: Terminal, script: Any) -> None:
        script(["one", "two", "three"])
        terminal("ask -p script a -s", "Be brief.", "--param", "temperature=0.5")
        terminal("ask -c b --param top_p=0.1 --setting history_turns=3")
        with Store() as store, Host(store=store) as host:
            assert host.conversation(summaries()[0].id).models == {"main": "mock@script"}
            entries = store.entries(summaries()[0].id, CODEC)
        *_, changed = [entry for entry in entries if isinstance(entry, Changed)]
        assert changed.parameters == {"temperature": 0.5, "top_p": 0.1}
        assert changed.settings == {"system_prompt": "Be brief.", "history_turns": 3}
        assert terminal("ask -c c -p mock") == (0, "c\n", "")
        assert terminal("ask -c d") == (0, "d\n", "")
        assert texts()[::2] == ["a", "b", "c", "d"]

    def test_the_model_is_gone(self, terminal: Terminal, script: Any) -> None:
        script(["one"])
        terminal("ask -p script a")
        terminal.config.unlink()
        assert "script" in terminal.error("ask -c b")
        assert terminal("ask -c -m mock@mock b") == (0, "b\n", "")

    @pytest.mark.parametrize(("arguments", "says"), [
        (["--conversation", "zzz"], "unknown conversation 'zzz'"),
        (["--conversation", "\x1b[2J"], "unknown conversation"),
        (["-c", "-f", "other"], "the conversation uses feature 'chat', not 'other'"),
        (["-c", "-m", "nonsense"], "unknown model 'nonsense'"),
        (["-c", "--param", "temperatur=1"], "did you mean temperature?"),
        (["-c", "--role", "judge=mock"], "unknown role 'judge'"),
    ])  # fmt: skip
    def test_wrong_value(self, terminal: Terminal, arguments: list[str], says: str) -> None:
        terminal("ask -p mock a")
        before = summaries()
        err = terminal.error("ask x", *arguments)
        assert says in err
        assert "\x1b[2J" not in err
        assert summaries() == before


class TestAgain:
    def test_the_last_turn_is_replaced(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")
        terminal("ask -c b")
        assert terminal("ask --regenerate") == (0, "b\n", "")
        assert terminal("ask --regenerate c") == (0, "c\n", "")
        assert texts() == ["a", "a", "c", "c"]

    def test_one_that_failed_is_said_again(self, terminal: Terminal, script: Any) -> None:
        script([{"status": 400}])
        assert terminal("ask -p script a")[0] == 1
        assert summaries()[0].status == "failed"
        assert terminal("ask --regenerate -p mock") == (0, "a\n", "")
        assert texts() == ["a", "a"]
        assert summaries()[0].status == "idle"

    def test_one_that_was_interrupted_is_said_again(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")
        interrupt()
        assert summaries()[0].status == "interrupted"
        assert terminal("ask --regenerate") == (0, "cut short\n", "")
        assert texts() == ["a", "a", "cut short", "cut short"]


class TestUnfinished:
    def test_interrupted_turn_is_skipped_by_the_next(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")
        interrupt()
        code, out, err = terminal("ask -c b")
        assert (code, out, err) == (0, "b\n", "the last turn was interrupted and is skipped\n")
        assert texts() == ["a", "a", "b", "b"]

    def test_one_that_another_process_is_at_is_left_alone(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")
        entries = beginning("cut short")
        with Store() as other:
            record, _ = other.record(summaries()[0].id, CODEC)
            for entry in entries:
                record.append(entry)
            for arguments in (["-c", "b"], ["--regenerate"], ["-c", "-m", "mock@mock", "b"]):
                err = terminal.error("ask", *arguments)
                assert "another process is using this conversation" in err
            record.append(TurnEnded(1, Answer("d")))
        assert texts() == ["a", "a", "cut short", "d"]

    def test_one_that_waits_is_not_left_out(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")
        append(*waiting(1, payload={"tool": "rm \x1b"}))
        err = terminal.error("ask -c b")
        assert 'the conversation waits for approval: {"tool": "rm \\u001b"}' in err
        id = terminal.json("conversations list")[0]["id"]
        assert f"answer it: genai-host conversations resume {id} VALUE; or " in err
        assert f": genai-host ask --regenerate --conversation {id}\n" in err
        assert terminal("ask --regenerate")[1] == "cut short\n"

    def test_conflict_hint_names_the_command(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")

        def overtaken(*_: Any, **__: Any) -> None:
            raise Conflict("another process has gone on with this conversation", hint="reopen")

        stream = "genai_host.conversations.conversation.Conversation.stream"
        terminal.monkeypatch.setattr(stream, overtaken)
        further = f"genai-host chat --conversation {summaries()[0].id}"
        for command, stdin in (("ask -c b", ""), ("chat -c", "b\nc\n")):
            assert terminal.error(command, stdin=stdin) == (
                "error: another process has gone on with this conversation\n"
                f"  continue from its current state: {further}\n"
            )


class TestChat:
    def test_it_goes_on_with_the_last_one(self, terminal: Terminal, script: Any) -> None:
        script(["one", "two", "three"])
        _, out, err = terminal("chat -p script", stdin="a\nb\n")
        id = summaries()[0].id
        assert (out, err) == ("one\ntwo\n", f"continue: genai-host chat --conversation {id}\n")
        script(["three", "four", "five"])
        _, out, err = terminal("chat -c", stdin="/retry\n/undo\nc\n/undo\n/undo\nd")
        assert out == "three\nfour\nfive\n"
        assert texts() == ["d", "five"]

    def test_one_in_which_nothing_is_said_is_not_kept(self, terminal: Terminal) -> None:
        assert terminal("chat -p mock", stdin="/help\n/quit\n")[0] == 0
        assert terminal("chat -p mock -a not-there")[0] == 1
        assert summaries() == []
        terminal("chat -p mock", stdin="a\n/undo\n")
        terminal("chat -c", stdin="")
        assert [each.turns for each in summaries()] == [1]

    def test_the_last_message_can_be_edited(self, terminal: Terminal) -> None:
        terminal.monkeypatch.setattr("click.edit", lambda text: f"{text}!")
        terminal("chat -p mock", stdin="a\nb\n")
        assert terminal("chat -c", stdin="/edit\n")[1] == "b!\n"
        interrupt()
        assert terminal("chat -c", stdin="/edit\n")[1] == "cut short!\n"
        assert texts()[-2:] == ["cut short!", "cut short!"]

    def test_one_that_was_interrupted_can_be_resumed_or_left_out(self, terminal: Terminal) -> None:
        terminal("chat -p mock", stdin="a\n")
        interrupt()
        _, out, err = terminal("chat -c", stdin="/resume\n/resume\n")
        assert out == "cut short\n"
        assert "no turn to resume" in err
        interrupt("dropped")
        _, out, err = terminal("chat -c", stdin="b\n")
        assert "is skipped" in err
        assert texts()[::2] == ["a", "cut short", "b"]

    def test_one_that_waits_says_for_what(self, terminal: Terminal) -> None:
        terminal("chat -p mock", stdin="a\n")
        append(*waiting(1))
        _, out, err = terminal("chat -c", stdin="b\n/resume\n/undo\nc\n")
        assert out == "c\n"
        assert err.count("waits for approval") == 2
        assert "answer it: /resume VALUE" in err
        assert "removed the last message" in err

    @pytest.mark.parametrize(("prepare", "shown"), [
        (lambda terminal: None, "> a\n  a\n"),
        (
            lambda terminal: interrupt("b" * 1000),
            (
                f"> a\n  a\ninterrupted: {'b' * 196} ...\n"
                "resume it: /resume; or send it again: /retry\n"
            ),
        ),
        (lambda terminal: append(*waiting(1, payload={"do": "rm"})),
         '> a\n  a\nit waits for approval: {"do": "rm"}; answer it: /resume VALUE\n'),
        (lambda terminal: terminal("ask -c -p script b"),
         "> a\n  a\nnot answered: b\nsend it again: /retry\n"),
    ])  # fmt: skip
    def test_at_a_terminal_its_end_is_shown_first(
        self, terminal: Terminal, script: Any, prepare: Callable[[Terminal], object], shown: str
    ) -> None:
        terminal.monkeypatch.setattr("genai_host.cli.chat.typed_lines", lambda commands: iter(()))
        script([{"status": 400}])
        terminal("chat -p mock", stdin="a\n")
        prepare(terminal)
        code, out, err = terminal.interactive("chat -c")
        first, _, rest = err.partition("\n")
        assert (code, out) == (0, "")
        assert first.endswith("/help lists the commands.")
        assert rest == f"{shown}continue: genai-host chat --conversation {summaries()[0].id}\n"


class TestNotRecorded:
    @pytest.mark.parametrize("command", ["ask hi", "chat"])
    @pytest.mark.parametrize("option", ["--no-record", ""])
    def test_answers_without_making_a_database(
        self, terminal: Terminal, home: Path, command: str, option: str
    ) -> None:
        if not option:
            terminal.configure("[conversations]\nrecord = false\n")
        stdin = "hi\n" if command == "chat" else ""
        assert terminal(f"{command} -p mock {option}", stdin=stdin) == (0, "hi\n", "")
        assert not list(home.rglob("*.db"))

    def test_a_copy_can_be_gone_on_with(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")
        before = summaries()
        assert terminal.json("ask -c --no-record b")["conversation"] == ""
        assert summaries() == before

    def test_answers_without_a_database(self, terminal: Terminal) -> None:
        with Store() as store:
            file = Path(store.location)
        file.parent.mkdir(parents=True)
        content = b"precious notes, and no database" * 100
        file.write_bytes(content)
        for command, stdin in (("ask -p mock hi", ""), ("chat -p mock", "hi\n")):
            code, out, err = terminal(command, stdin=stdin)
            assert (code, out, err.count("\n")) == (0, "hi\n", 1)
            assert err.startswith("warning: the conversation continues unrecorded: ")
            assert "move it, or use another file" in err
        assert file.read_bytes() == content
        assert "file is not a database" in terminal.error("ask -c hi")

    def test_answers_with_a_locked_database(self, terminal: Terminal) -> None:
        terminal("ask -p mock hi")
        with Store() as store:
            file = store.location
        terminal.monkeypatch.setattr("genai_host.cli.app.PATIENCE", 0.1)
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        code, out, err = terminal("ask -p mock hi")
        holder.close()
        assert (code, out, err.count("\n")) == (0, "hi\n", 1)
        assert "database is locked" in err

    @pytest.mark.process
    @pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX's")
    @pytest.mark.parametrize("kilobytes", [0, 8, 64])
    def test_full_disk(self, home: Path, kilobytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # it has no room for its file
        done = subprocess.run(
            ["bash", "-c", f'ulimit -f {kilobytes}; exec "$@"', "bash", sys.executable, "-m",
             "genai_host", "ask", "-p", "mock", "x" * 100_000],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "x" * 100_000 + "\n"), done.stderr
        assert "continues unrecorded" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")
def test_killed_process_leaves_an_interrupted_turn(terminal: Terminal, script: Any) -> None:
    script([{"text": "begun and stuck", "pace": 3600}])
    with subprocess.Popen(
        [sys.executable, "-m", "genai_host", "ask", "-p", "script", "what now?"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(5) == b"begun"
        assert [each.status for each in summaries()] == ["running"]
        process.kill()
    assert [each.status for each in summaries()] == ["interrupted"]
    script(["this"])
    assert terminal("ask --regenerate") == (0, "this\n", "")
    assert texts() == ["what now?", "this"]


@pytest.mark.slow
def test_processes_that_make_the_first_run_at_once_are_all_recorded(home: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "genai_host", "ask", "-p", "mock", f"number {number}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(8)
    ]  # fmt: skip
    for number, process in enumerate(processes):
        out, err = process.communicate()
        assert (process.returncode, out, err) == (0, f"number {number}\n", "")
    assert sorted(each.title for each in summaries()) == [f"number {number}" for number in range(8)]

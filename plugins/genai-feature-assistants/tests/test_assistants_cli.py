"""`genai-host assistants`: made, listed, shown, run and deleted at the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_feature_assistants.cli.run import Heard as Heard_
from genai_feature_assistants.service.shelf import Shelf

from genai_host.api import Completion, Message, Text, ToolCall
from genai_host.errors import BadRequest
from genai_host.testing.fake_model import RecordedPrompt
from genai_host.testing.fake_service import HANG
from genai_host_testing.fixtures import MakeHost

from .assistants_line import Line

HOSTILE = "\x1b]52;c;eA==\x07 tutor\u202e"


@pytest.fixture
def line(
    make_host: MakeHost,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Line]:
    made = Line(make_host, tmp_path, capsys, monkeypatch)
    yield made
    made.close()


def create(line: Line, *more: object) -> str:
    return line.done("create", "Tutor", "--model", "fake", *more).strip()


def shown(line: Line, id: str) -> Any:
    return json.loads(line.done("show", id, "--json"))


def left(line: Line, kind: str, within: str = "") -> list[Any]:
    return list(Shelf(line.host, "", kind, within).all())


class TestCreate:
    def test_one_is_made_with_what_is_given(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "told.md").write_text("\ufeffBe kind.\n", encoding="utf-8")
        id = create(line, "--instructions-file", tmp_path / "told.md")
        made = shown(line, id)
        assert (made["name"], made["model"]) == ("Tutor", "fake")
        assert (made["instructions"], made["tools"]) == ("Be kind.\n", [])

    @pytest.mark.part
    def test_its_files_are_searchable_before_it_is_done(self, line: Line, tmp_path: Path) -> None:
        for name in ("one.txt", "two.txt"):
            (tmp_path / name).write_text(f"the text of {name}")
        files = [part for name in ("one.txt", "two.txt") for part in ("--file", tmp_path / name)]
        made = shown(line, create(line, "--tool", "file_search", *files))
        [store] = made["tool_resources"]["file_search"]["vector_store_ids"]
        assert [each["status"] for each in left(line, "vector store file", store)] == [
            "completed",
            "completed",
        ]
        told = line.done("show", made["id"])
        assert "one.txt" in told
        assert "completed" in told

    @pytest.mark.part
    def test_files_that_cannot_be_searched_are_told(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "bad.pdf").write_bytes(b"%PDF no")
        code, out, err = line(
            *("create", "Tutor", "--model", "fake", "--tool", "file_search"),
            *("--file", tmp_path / "bad.pdf"),
        )
        assert (code, out[:5]) == (0, "asst_")
        assert "bad.pdf" in err
        assert "cannot be searched" in err

    def test_a_definition_is_taken_and_options_win_over_it(
        self, line: Line, tmp_path: Path
    ) -> None:
        definition = {
            "id": "asst_old",
            "object": "assistant",
            "created_at": 5,
            "name": "Old",
            "model": "gpt-4o",
            "instructions": "Count.",
            "tools": [{"type": "function", "function": {"name": "roll"}}],
            "temperature": 0.5,
        }
        file = tmp_path / "old.json"
        file.write_text(json.dumps(definition))
        id = line.done("create", "--json-file", file, "--model", "fake").strip()
        made = shown(line, id)
        assert id != "asst_old"
        assert (made["name"], made["model"], made["temperature"]) == ("Old", "fake", 0.5)
        assert made["instructions"] == "Count."
        assert made["created_at"] > 5

    @pytest.mark.parametrize(
        ("definition", "why"),
        [
            ("{", "is not JSON"),
            ("[]", "is not a definition"),
            ('{"object": "thread"}', "is not an assistant"),
            ('{"tools": [{"type": "rocket"}]}', "type"),
            ('{"tools": 5}', "tools"),
            ('{"temperature": 9}', "temperature"),
            ('{"colour": 9}', "colour"),
        ],
    )
    def test_a_wrong_definition_is_refused_in_one_line(
        self, line: Line, tmp_path: Path, definition: str, why: str
    ) -> None:
        file = tmp_path / "old.json"
        file.write_text(definition)
        code, out, err = line("create", "Tutor", "--model", "fake", "--json-file", file)
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert why in err
        assert left(line, "assistant") == []

    def test_what_cannot_be_made_leaves_no_files(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("a")
        code, _, err = line(
            *("create", "x" * 300, "--model", "fake", "--tool", "file_search"),
            *("--file", tmp_path / "a.txt"),
        )
        assert code == 1
        assert "256" in err
        assert left(line, "file") == left(line, "vector store") == []

    @pytest.mark.parametrize(
        "arguments",
        [
            ["Tutor"],
            ["--model", "fake"],
            ["Tutor", "--model", "fake", "--file", __file__],
            ["Tutor", "--model", "fake", "--tool", "rocket"],
            ["Tutor", "--model", "fake", "--instructions-file", "/nowhere"],
        ],
    )
    def test_a_wrong_use_is_told(self, line: Line, arguments: list[str]) -> None:
        code, out, err = line("create", *arguments)
        assert (code, out) == (2, "")
        assert "Error: " in err

    def test_what_nothing_can_run_is_made_with_a_warning(self, line: Line) -> None:
        code, _, err = line("create", "Tutor", "--model", "gpt-4o", "--tool", "code_interpreter")
        assert code == 0
        assert "genai-host config alias gpt-4o" in err
        assert "genai-tools-sandbox" in err


class TestLists:
    def test_the_last_is_first_and_piped_lines_have_tabs(self, line: Line) -> None:
        first = create(line)
        second = line.done("create", "Two", "--model", "fake", "--tool", "file_search").strip()
        rows = [row.split("\t") for row in line.done("list").splitlines()]
        assert [row[0] for row in rows] == [second, first]
        assert rows[0][1:4] == ["Two", "fake", "file_search"]
        assert [each["id"] for each in json.loads(line.done("list", "--json"))] == [second, first]

    def test_none_is_told_with_the_next_step(self, line: Line) -> None:
        assert line("list") == (
            0,
            "",
            "there is no assistant: genai-host assistants create NAME --model MODEL\n",
        )
        assert json.loads(line.done("list", "--json")) == []

    def test_at_a_terminal_it_has_a_head_and_nothing_drives_it(
        self, line: Line, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        id = line.done("create", HOSTILE, "--model", "fake").strip()
        for arguments in (["list"], ["show", id]):
            told = line.done(*arguments)
            assert "tutor" in told
            assert not {"\x07", "\u202e"} & set(told)
            assert "\x1b]" not in told
        assert "made" in line.done("list").splitlines()[0]

    def test_users_have_their_own(self, line: Line) -> None:
        create(line)
        assert line.done("--user", "ann", "list") == ""
        line.done("--user", "ann", "create", "Hers", "--model", "fake")
        assert line.done("--user", "ann", "list").split("\t")[1] == "Hers"

    def test_it_is_meant_by_its_id_its_beginning_or_its_name(self, line: Line) -> None:
        id = create(line)
        other = line.done("create", "Two", "--model", "fake").strip()
        for given in (id, "Tutor"):
            assert shown(line, given)["id"] == id
        short = next(id[:end] for end in range(len(id)) if not other.startswith(id[:end]))
        assert shown(line, short)["id"] == id

    @pytest.mark.parametrize("given", ["asst_", "Twin", "nobody", "", "../x", "a" * 500])
    def test_what_is_not_one_is_told(self, line: Line, given: str) -> None:
        for name in ("Twin", "Twin"):
            line.done("create", name, "--model", "fake")
        code, out, err = line("show", given)
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert len(err) < 500

    def test_one_is_deleted(self, line: Line) -> None:
        id = create(line)
        assert line("delete", id) == (0, "", f"deleted: {id}\n")
        code, _, err = line("delete", id)
        assert code == 1
        assert "genai-host assistants list" in err


class TestRun:
    def test_what_it_used_is_in_the_statistics_though_its_record_is_gone(self, line: Line) -> None:
        create(line)
        line.done("run", "Tutor", "hi")
        assert line.host.store is not None
        [row] = line.host.store.usage(by=["feature", "user", "model"])
        assert (row.calls, row.failed) == (1, {})
        assert row.of == {"feature": "assistant", "user": "", "model": "fake"}

    def test_the_answer_is_printed_and_the_thread_goes_on(self, line: Line) -> None:
        line.model.answer = lambda heard: f"{len(heard.messages)} messages, {heard.text}"
        id = create(line)
        code, out, err = line("run", "Tutor", "say", "hi")
        assert (code, out) == (0, "1 messages, say hi\n")
        thread = err.split("--thread ")[1].split()[0]
        assert id in err
        assert line.done("run", id, "again", "--thread", thread) == "3 messages, again\n"
        assert line.done("run", id, "more", "--thread", thread[:12]) == "5 messages, more\n"

    def test_what_is_piped_in_is_said(self, line: Line) -> None:
        create(line)
        assert line.done("run", "Tutor", stdin="hello\n") == "hello\n"
        assert line("run", "Tutor")[0] == 2

    def test_json_has_all_of_it(self, line: Line) -> None:
        id = create(line)
        told = json.loads(line.done("run", "Tutor", "--json", "hi"))
        assert (told["text"], told["status"], told["assistant"]) == ("hi", "completed", id)
        assert told["citations"] == told["files"] == []
        assert told["thread"].startswith("thread_")
        assert set(told["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}

    @pytest.mark.part
    def test_where_it_is_from_stands_below(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("whales sing")

        def answer(heard: RecordedPrompt) -> Any:
            if heard.messages[-1].role == "user":
                call = ToolCall("c1", "file_search", {"query": "whales sing"})
                return Completion(Message("assistant", [Text("Wait."), call]))
            return "They sing【0:0†notes.txt】."

        line.model.answer = answer
        create(line, "--tool", "file_search", "--file", tmp_path / "notes.txt")
        out = line.done("run", "Tutor", "what do whales do?")
        file = left(line, "file")[0]["id"]
        assert out == (
            f"Wait.\n\nThey sing【0:0†notes.txt】.\n\n【0:0†notes.txt】  notes.txt ({file})\n"
        )
        told = json.loads(line.done("run", "Tutor", "--json", "what do whales do?"))
        assert told["citations"] == [
            {"text": "【0:0†notes.txt】", "file_id": file, "filename": "notes.txt"}
        ]

    def test_a_function_is_told_and_the_run_cancelled(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "dice.json").write_text(
            '{"tools": [{"type": "function", "function": {"name": "roll"}}]}'
        )
        line.model.answer = lambda heard: Completion(Message("assistant", [ToolCall("c1", "roll")]))
        create(line, "--json-file", tmp_path / "dice.json")
        code, out, err = line("run", "Tutor", "roll")
        assert (code, out) == (1, "")
        assert "its function roll, which cannot be called from here" in err
        assert "base_url" in err
        [thread] = left(line, "thread")
        [run] = left(line, "run", thread["id"])
        assert run["status"] == "cancelled"

    def test_a_failure_is_told(self, line: Line) -> None:
        line.model.faults[0] = BadRequest("no such thing")
        create(line)
        code, out, err = line("run", "Tutor", "hi")
        assert (code, out) == (1, "")
        assert "error: the run failed: no such thing" in err
        assert "--thread" in err

    def test_ctrl_c_cancels_the_run(self, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(heard: Heard_, name: str, value: Any) -> None:
            if name.startswith("thread.run."):
                heard.run = value
            if name == "thread.run.in_progress":
                assert line.model.hanging.wait(30)
                raise KeyboardInterrupt

        line.model.faults[0] = HANG
        create(line)
        monkeypatch.setattr(Heard_, "take", interrupted)
        code, out, err = line("run", "Tutor", "hi")
        assert (code, out) == (130, "")
        assert "interrupted" in err
        assert "--thread" in err
        [thread] = left(line, "thread")
        [run] = left(line, "run", thread["id"])
        assert run["status"] == "cancelled"

    def test_what_cannot_run_leaves_nothing(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("a")
        line.done("create", "Old", "--model", "gpt-4o", "--tool", "file_search")
        code, out, err = line("run", "Old", "hi", "--file", tmp_path / "a.txt")
        assert (code, out) == (1, "")
        assert "gpt-4o" in err
        assert left(line, "thread") == left(line, "file") == []

    def test_files_go_along(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("whales sing")
        (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        create(line, "--tool", "file_search")
        line.done(
            *("run", "Tutor", "look", "--file", tmp_path / "notes.txt"),
            *("--file", tmp_path / "dot.png"),
        )
        heard = line.model.prompts[-1].messages[-1]
        assert "[attached: notes.txt]" in heard.text
        assert [each.type for each in heard.content].count("image") == 1

    def test_files_need_a_tool(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("whales sing")
        create(line)
        code, _, err = line("run", "Tutor", "look", "--file", tmp_path / "notes.txt")
        assert code == 1
        assert "--tool file_search" in err
        assert left(line, "file") == []

    def test_nothing_that_is_said_drives_a_terminal(
        self, line: Line, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        line.model.answer = lambda heard: f"a {HOSTILE}"
        create(line)
        out = line.done("run", "Tutor", "hi")
        assert "tutor" in out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)


def test_help_is_there(line: Line) -> None:
    for command in ("create", "list", "show", "delete", "run"):
        assert "Usage: genai-host assistants" in line.done(command, "--help")

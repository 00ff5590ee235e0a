"""`genai-host assistants`: assistants are listed, and run."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import genai_feature_assistants
import pytest
from genai_feature_assistants.cli import RunPrinter
from genai_feature_assistants.service import AssistantsService
from genai_wire_openai.server.objects import ObjectStore

from genai_host import Config, api
from genai_host.cli.app import App
from genai_host.cli.main import run
from genai_host.errors import BadRequest
from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.assistants_api import SEARCH, until
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part  # stores

HOSTILE = "\x1b]52;c;eA==\x07 tutor\u202e"


class Line:
    """`genai-host assistants` in this process, over a host with a fake model."""

    def __init__(
        self, make_host: MakeHost, store: Store, capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        self.model = FakeModel()
        config = Config(
            providers={"fake": provider_config("fake")}, models={"embed": "fake-embed@fake"}
        )
        self.host = make_host(
            config=config, store=store, fake=self.model, assistants=genai_feature_assistants
        )
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(App, "host", property(lambda app: self.host))
        monkeypatch.setattr(App, "store", property(lambda app: store))

    def __call__(self, *arguments: object, stdin: str = "") -> tuple[int, str, str]:
        """Return the exit code, the output and the errors."""
        piped = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
        self._monkeypatch.setattr("sys.stdin", piped)
        code = run(["assistants", *map(str, arguments)])
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def done(self, *arguments: object, stdin: str = "") -> str:
        """Return the output of a command that must succeed."""
        code, out, err = self(*arguments, stdin=stdin)
        assert code == 0, err
        return out


@pytest.fixture
def line(
    make_host: MakeHost, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Line]:  # fmt: skip
    with Store(tmp_path / "store.db") as store:
        yield Line(make_host, store, capsys, monkeypatch)


def create(line: Line, name: str = "Tutor", *, user: str = "", **fields: Any) -> str:
    """Return the id of a new assistant."""
    body = {"name": name, "model": "fake", **fields}
    with closing(AssistantsService(line.host)) as service:
        reply = service.assistants.create(
            api.RouteRequest(
                "POST", "/", body=api.write_json(body), user=user, limits=api.Cancellation()
            )
        )
    assert isinstance(reply.body, bytes)
    id: str = api.read_json(reply.body)["id"]
    return id


def searchable(line: Line, name: str, text: str) -> Mapping[str, Any]:
    """Return the fields of an assistant that searches a file."""
    with closing(AssistantsService(line.host)) as service:
        file = service.files.keep("", name, text.encode(), "assistants")["id"]
        store = service.vector_stores.make("", [file])["id"]
        until(lambda: service.vector_stores.is_ready("", store))
    return {"tools": [SEARCH], "tool_resources": {"file_search": {"vector_store_ids": [store]}}}


def left(line: Line, kind: str, within: str = "") -> list[Any]:
    return list(ObjectStore(line.host, "", kind, within).all())


class TestList:
    def test_the_last_is_first_and_piped_lines_have_tabs(self, line: Line) -> None:
        first = create(line)
        roll = {"type": "function", "function": {"name": "roll"}}
        second = create(line, "Two", tools=[SEARCH, roll])
        rows = [row.split("\t") for row in line.done("list").splitlines()]
        assert [row[0] for row in rows] == [second, first]
        assert rows[0][1:4] == ["Two", "fake", "file_search, roll"]
        assert [each["id"] for each in json.loads(line.done("list", "--json"))] == [second, first]

    def test_none_is_reported_with_the_next_step(self, line: Line) -> None:
        code, out, err = line("list")
        assert (code, out) == (0, "")
        assert "genai-host serve" in err
        assert json.loads(line.done("list", "--json")) == []

    def test_table_at_a_terminal(self, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        create(line, HOSTILE)
        printed = line.done("list")
        assert "tutor" in printed
        assert not {"\x07", "\u202e"} & set(printed)
        assert "\x1b]" not in printed
        assert "created" in printed.splitlines()[0]

    def test_users_have_their_own(self, line: Line) -> None:
        create(line)
        assert line.done("--user", "ann", "list") == ""
        create(line, "Hers", user="ann")
        assert line.done("--user", "ann", "list").split("\t")[1] == "Hers"


class TestRun:
    def test_what_it_used_is_in_the_statistics_though_its_record_is_gone(self, line: Line) -> None:
        create(line)
        line.done("run", "Tutor", "hi")
        assert line.host.store is not None
        [row] = line.host.store.usage(by=["feature", "user", "model"])
        assert (row.calls, row.failed) == (1, {})
        assert row.of == {"feature": "assistant", "user": "", "model": "fake"}

    def test_the_answer_is_printed_and_the_thread_goes_on(self, line: Line) -> None:
        line.model.answer = lambda prompt: f"{len(prompt.messages)} messages, {prompt.text}"
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
        result = json.loads(line.done("run", "Tutor", "--json", "hi"))
        assert (result["text"], result["status"], result["assistant"]) == ("hi", "completed", id)
        assert result["citations"] == result["files"] == []
        assert result["thread"].startswith("thread_")
        assert set(result["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}

    @pytest.mark.part
    def test_sources_are_printed_below_the_answer(self, line: Line) -> None:
        def answer(prompt: RecordedPrompt) -> Any:
            if prompt.messages[-1].role == "user":
                call = api.ToolCall("c1", "file_search", {"query": "whales sing"})
                return api.Completion(api.Message("assistant", [api.Text("Wait."), call]))
            return "They sing【0:0†notes.txt】."

        line.model.answer = answer
        create(line, **searchable(line, "notes.txt", "whales sing"))
        out = line.done("run", "Tutor", "what do whales do?")
        file = left(line, "file")[0]["id"]
        assert out == (
            f"Wait.\n\nThey sing【0:0†notes.txt】.\n\n【0:0†notes.txt】  notes.txt ({file})\n"
        )
        result = json.loads(line.done("run", "Tutor", "--json", "what do whales do?"))
        assert result["citations"] == [
            {"text": "【0:0†notes.txt】", "file_id": file, "filename": "notes.txt"}
        ]

    def test_a_function_is_reported_and_the_run_cancelled(self, line: Line) -> None:
        line.model.answer = lambda prompt: api.Completion(
            api.Message("assistant", [api.ToolCall("c1", "roll")])
        )
        create(line, tools=[{"type": "function", "function": {"name": "roll"}}])
        code, out, err = line("run", "Tutor", "roll")
        assert (code, out) == (1, "")
        assert "its function roll, which is unavailable here" in err
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
        def interrupted(printer: RunPrinter, name: str, value: Any) -> None:
            if name.startswith("thread.run."):
                printer.run = value
            if name == "thread.run.in_progress":
                assert line.model.hanging.wait(30)
                raise KeyboardInterrupt

        line.model.faults[0] = HANG
        create(line)
        monkeypatch.setattr(RunPrinter, "take", interrupted)
        code, out, err = line("run", "Tutor", "hi")
        assert (code, out) == (130, "")
        assert "interrupted" in err
        assert "--thread" in err
        [thread] = left(line, "thread")
        [run] = left(line, "run", thread["id"])
        assert run["status"] == "cancelled"

    def test_what_cannot_run_leaves_nothing(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("a")
        create(line, "Old", model="gpt-4o", tools=[SEARCH])
        code, out, err = line("run", "Old", "hi", "--attach", tmp_path / "a.txt")
        assert (code, out) == (1, "")
        assert "gpt-4o" in err
        assert left(line, "thread") == left(line, "file") == []

    def test_files_go_along(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("whales sing")
        (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        create(line, tools=[SEARCH])
        line.done(
            *("run", "Tutor", "look", "--attach", tmp_path / "notes.txt"),
            *("--attach", tmp_path / "dot.png"),
        )
        message = line.model.prompts[-1].messages[-1]
        assert "[attached: notes.txt]" in message.text
        assert [each.type for each in message.content].count("image") == 1

    def test_files_need_a_tool(self, line: Line, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("whales sing")
        create(line)
        code, _, err = line("run", "Tutor", "look", "--attach", tmp_path / "notes.txt")
        assert code == 1
        assert "the tool file_search" in err
        assert left(line, "file") == []

    def test_controls_are_escaped(self, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        line.model.answer = lambda prompt: f"a {HOSTILE}"
        create(line)
        out = line.done("run", "Tutor", "hi")
        assert "tutor" in out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)

    def test_it_is_found_by_its_id_a_prefix_or_its_name(self, line: Line) -> None:
        id, other = create(line), create(line, "Two")
        short = next(id[:end] for end in range(len(id)) if not other.startswith(id[:end]))
        for name in (id, "Tutor", short):
            assert json.loads(line.done("run", name, "--json", "hi"))["assistant"] == id

    @pytest.mark.parametrize("argument", ["asst_", "Twin", "nobody", "", "../x", "a" * 500])
    def test_unknown_or_ambiguous_assistant_is_an_error(self, line: Line, argument: str) -> None:
        for name in ("Twin", "Twin"):
            create(line, name)
        code, out, err = line("run", argument, "hi")
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert len(err) < 500


def test_help_names_both_commands(line: Line) -> None:
    for command in ("list", "run"):
        assert command in line.done("--help")
        assert "Usage: genai-host assistants" in line.done(command, "--help")

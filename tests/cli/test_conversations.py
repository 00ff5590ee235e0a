"""`genai-host conversations`: list, show, rename, delete and export."""

from __future__ import annotations

import json
import os
import stat
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_conversations import interrupt, texts, waiting
from support import Terminal

from genai_host import InMemoryRecord, Message
from genai_host.api import Answer, File
from genai_host.cli.terminal import local
from genai_host.conversations.record import (
    Entry,
    Opened,
    Rewound,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from genai_host.conversations.transcript import write_text
from genai_host.errors import ServiceUnavailable
from genai_host.store import Store
from genai_host_testing.internal.stores import CODEC

HOSTILE = "red \x1b[31m\x1b]52;c;eA==\x07 \u202e\ttab\nline"


def create(*entries: Entry, name: str = "", at: float | None = None, **opened: Any) -> str:
    """Return the id of a conversation whose process has ended."""
    with Store() if at is None else Store(now=lambda: at) as store:
        opening = {"feature": "chat", "version": "1", "models": {"main": "mock@mock"}, **opened}
        record = store.create(Opened(**opening), CODEC)
        for entry in entries:
            record.append(entry)
        if name:
            store.rename(record.id, name)
        return record.id


def turn(number: int, says: str = "q", answer: str = "a", *, again: bool = False) -> list[Entry]:
    message = Message("user", says)
    return [TurnStarted(number, message, "1", 0, again=again), TurnEnded(number, Answer(answer))]


class TestList:
    def test_json_is_an_object_for_each(self, terminal: Terminal) -> None:
        id = create(*turn(0, "What is this?"), at=1_700_000_000.25)
        when = "2023-11-14T22:13:20.250+00:00"
        [row] = terminal.json("conversations list")
        assert row == {
            "id": id, "title": "What is this?", "feature": "chat", "status": "idle",
            "models": {"main": "mock@mock"}, "turns": 1, "cost": None, "forked_from": None,
            "created": when, "updated": when,
        }  # fmt: skip

    def test_piped_it_is_a_line_with_tabs_for_each(self, terminal: Terminal) -> None:
        id = create(*turn(0, HOSTILE), models={"main": "m", "judge": "j"})
        [line] = terminal.out("conversations list").splitlines()
        listed, when, title, *rest = line.split("\t")
        assert listed == id
        assert datetime.strptime(when, "%Y-%m-%d %H:%M").year > 2000  # noqa: DTZ007 - a local one
        assert title == "red \x1b[31m\x1b]52;c;eA==\x07 \u202e tab line"
        assert rest == ["chat", "m, judge: j", "1", "idle"]

    def test_the_last_ones_are_listed_unless_all_are_wanted(self, terminal: Terminal) -> None:
        ids = [create(*turn(0, str(number)), at=1000.0 + number) for number in range(25)][::-1]
        for options, count in (("", 20), ("-n 3", 3), ("--all", 25)):
            rows = terminal.json(f"conversations list {options}")
            assert [row["id"] for row in rows] == ids[:count]
        assert terminal("conversations list")[2] == "more conversations: --all\n"
        assert terminal("conversations list --limit 25")[2] == ""
        assert terminal("conversations list --limit 0")[0] == 2

    def test_it_loads_no_plugin(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise AssertionError("a plugin was loaded")

        monkeypatch.setattr("genai_host.plugins.discovery.Plugins.__init__", broken)
        create(*turn(0))
        assert len(terminal.json("conversations list")) == 1
        assert terminal("conversations rename last x")[0] == 0
        assert terminal("conversations delete last --yes")[0] == 0

    def test_a_store_that_is_none_is_an_error_and_stays_as_it_is(self, terminal: Terminal) -> None:
        with Store() as store:
            file = Path(store.location)
        file.parent.mkdir(parents=True)
        file.write_bytes(b"no database at all, but dear to somebody" * 100)
        err = terminal.error("conversations list --json")
        assert err.startswith(f"error: {file}: file is not a database\n  ")
        assert file.read_bytes().startswith(b"no database at all")


class TestShow:
    def entries(self) -> list[Entry]:
        return [
            *turn(0, "one", "first"),
            *turn(1, "two", "second"),
            *turn(2, "two", "better", again=True),
            TurnStarted(3, Message("user", "three"), "1", 4),
            TurnEnded(3, error=ServiceUnavailable("nobody is there")),
            *turn(4, "four", "fourth"),
            Rewound(4, 2),
            TurnStarted(5, Message("user", "five"), "1", 4),
            StepStarted(5, (0,), "prompt", "digest"),
        ]

    def test_every_turn_is_there_with_what_became_of_it(self, terminal: Terminal) -> None:
        id = create(*self.entries(), history=(Message("user", "before"),), at=1_700_000_000.25)
        shown = terminal.json("conversations show", id[:15])
        assert {each["at"] for each in shown["turns"]} == {"2023-11-14T22:13:20.250+00:00"}
        assert shown["id"] == id
        assert shown["status"] == "interrupted"
        assert [each["content"][0]["text"] for each in shown["history"]] == [
            "before", "one", "first", "two", "better",
        ][:4]  # fmt: skip
        assert [(each["turn"], each["outcome"]) for each in shown["turns"]] == [
            (0, "answered"), (1, "replaced"), (2, "answered"),
            (3, "failed"), (4, "undone"), (5, "unfinished"),
        ]  # fmt: skip
        assert shown["turns"][0]["answer"]["text"] == "first"
        assert shown["turns"][3]["error"]["message"] == "nobody is there"
        assert shown["turns"][5]["answer"] is None

    def test_partial_answers_and_tries_are_there(self, terminal: Terminal, script: Any) -> None:
        script([{"text": "a b c", "fault": "cut", "pieces": 2}])
        assert terminal("ask -p script x")[0] == 1
        shown = terminal.json("conversations show", "last")
        assert shown["turns"][0]["partial"] == "a b"
        assert [each["code"] for each in shown["tries"]] == ["incomplete_reply"]
        out = terminal("conversations show last --details")[1]
        assert "\n## assistant (turn 0, failed)\n\na b\n\nerror: " in out
        assert "turn 0: mock@script, " in out

    def test_it_can_be_read(self, terminal: Terminal) -> None:
        create(*self.entries(), history=(Message("user", "before"),), name="my title", at=1000.0)
        when = local(1000.0)
        code, out, err = terminal("conversations show last")
        assert (code, err) == (0, "")
        assert "title:    my title\n" in out
        assert "\n## user\n\nbefore\n" in out
        assert f"\n## user, {when}\n\none\n\n## assistant\n\nfirst\n" in out
        assert "\n## assistant (turn 1, replaced)\n\nsecond\n" in out
        assert f"\n## user, {when} (turn 3, failed)\n\nthree\n\nerror: nobody is there\n" in out
        assert f"\n## user, {when} (turn 5, unfinished)\n\nfive\n" in out

    def test_what_is_behind_answers_can_be_seen(self, terminal: Terminal) -> None:
        terminal("ask -p mock hi")
        assert "prompt of main" not in terminal("conversations show last")[1]
        out = terminal("conversations show last --details")[1]
        assert "prompt: prompt of main to mock@mock\n" in out
        assert "tokens: " in out
        [shown] = terminal.json("conversations show", "last")["turns"]
        assert shown["answer"]["details"][0]["kind"] == "prompt"

    def test_an_answer_that_added_nothing_is_shown(self, terminal: Terminal) -> None:
        create(
            TurnStarted(0, Message("user", "q"), "1", 0), TurnEnded(0, Answer("a", new_messages=()))
        )
        assert "## assistant\n\na\n" in terminal("conversations show last")[1]

    def test_paused_turn_has_status_paused(self, terminal: Terminal) -> None:
        create(*waiting(0))
        shown = terminal.json("conversations show last")
        assert (shown["status"], shown["turns"][0]["outcome"]) == ("paused", "paused")

    @pytest.mark.parametrize("id", ["zzzz", "nothing", "%", "\x1b[2J", ""])
    def test_what_is_not_there_is_an_error(self, terminal: Terminal, id: str) -> None:
        create()
        for name in ("show", "export", "resume"):
            err = terminal.error("conversations", name, id)
            assert "unknown conversation" in err
            assert "\x1b" not in err


class TestSearch:
    def test_messages_with_all_the_words_are_found(self, terminal: Terminal) -> None:
        first = create(*turn(0, "The quick brown fox", "jumps over"), name="a name")
        second = create(*turn(0, "lazy", "A " + "dog " * 50 + "Fox in\tFOX socks" + " x" * 99))
        hits = terminal.json("conversations search", "fox")
        assert [(each["conversation"], each["role"]) for each in hits] == [
            (second, "assistant"), (first, "user"),
        ]  # fmt: skip
        assert hits[1] == {
            "conversation": first, "title": "a name", "turn": 0, "role": "user",
            "text": "The quick brown fox",
        }  # fmt: skip
        assert terminal.json("conversations search", "BRO*", "quick")[0]["conversation"] == first
        assert terminal.json("conversations search", "quick", "lazy") == []
        assert len(terminal.json("conversations search", "fox", "-n", "1")) == 1
        lines = terminal("conversations search fox")[1].splitlines()
        assert lines[1] == f"{first}\t0\tuser\tThe quick brown fox"
        assert lines[0].startswith(f"{second}\t0\tassistant\t... ")
        assert "dog Fox in FOX socks x" in lines[0]
        assert lines[0].endswith(" ...")

    @pytest.mark.parametrize("words", ["'", '"', "-x", "a OR", "NEAR(", "*", "\x1b[2J", "\ud800"])
    def test_no_word_is_more_than_one(self, terminal: Terminal, words: str) -> None:
        create(*turn(0))
        assert terminal("conversations search --", words) == (0, "", "")


def test_another_title_can_be_given_and_taken_away(terminal: Terminal) -> None:
    id = create(*turn(0, "q"))
    assert terminal("conversations rename", id[:14], "my\ntitle") == (0, "", f"{id}: my title\n")
    assert terminal.json("conversations list")[0]["title"] == "my\ntitle"
    terminal("conversations rename last", "")
    assert terminal.json("conversations list")[0]["title"] == "q"


class TestDelete:
    def test_those_that_are_named(self, terminal: Terminal) -> None:
        ids = [create(*turn(0)) for _ in range(3)]
        deleted = terminal("conversations delete -y", ids[0], ids[1], ids[0])
        assert deleted == (0, "", "deleted: 2\n")
        assert [row["id"] for row in terminal.json("conversations list")] == [ids[2]]

    @pytest.mark.parametrize(("number", "question"), [(1, "this one?"), (25, "these 25?")])
    def test_a_terminal_asks_first(self, terminal: Terminal, number: int, question: str) -> None:
        ids = [create(*turn(0, f"question {n}")) for n in range(number)]
        code, out, err = terminal.interactive("conversations delete", *ids, typed="n\n")
        left = len(terminal.json("conversations list", "--all"))
        assert (code, out.strip(), left) == (130, "", number)
        assert err.count("question") == min(number, 20)
        assert ("... and 5 more\n" in err) == (number > 20)
        assert f"Delete {question} [y/N]" in err
        code, _, err = terminal.interactive("conversations delete", *ids, typed="y\n")
        assert (code, f"deleted: {number}\n" in err) == (0, True)
        assert terminal.json("conversations list") == []

    def test_delete_before_and_older_than(self, terminal: Terminal) -> None:
        now = datetime.now().astimezone()
        old = [now - timedelta(days=days) for days in (40, 20, 3)]
        ids = [create(*turn(0), at=each.timestamp()) for each in old]
        date = (now - timedelta(days=30)).strftime("%Y-%m-%d")
        for option, left in ((f"before {date}", 2), ("older-than 1w", 1), ("older-than 4d", 1)):
            count = len(terminal.json("conversations list")) - left
            deleted = terminal(f"conversations delete --{option} --yes")
            assert deleted == (0, "", f"deleted: {count}\n")
            assert {row["id"] for row in terminal.json("conversations list")} == {*ids[-left:]}


class TestResume:
    def test_a_turn_that_was_interrupted(self, terminal: Terminal) -> None:
        terminal("ask -p mock a")
        interrupt()
        code, out, err = terminal("conversations resume last --details")
        assert (code, out) == (0, "cut short\n")
        assert "mock@mock" in err
        assert "no turn to resume" in terminal.error("conversations resume last")

    def test_a_turn_that_waits(self, terminal: Terminal, waiting_feature: None) -> None:
        code, _, err = terminal("ask -f careful rm")
        id = terminal.json("conversations list")[0]["id"]
        assert (code, f"resume {id} VALUE" in err) == (3, True)
        err = terminal.error("conversations resume", id, code=3)
        assert 'waits for approval: {"do": "rm"}' in err
        assert terminal("conversations resume", id, '{"ok": tr') == (0, 'rm: {"ok": tr\n', "")
        terminal("ask -f careful rm")
        data = terminal.json("conversations resume last false")
        assert data["text"] == "rm: False"
        assert data["conversation"] == terminal.json("conversations list")[0]["id"]
        terminal("ask -f careful rm")
        assert terminal("conversations resume last null")[1] == "rm: None\n"


@pytest.fixture
def waiting_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed plugin brings the feature `careful`, which asks before it answers."""
    from genai_host import StaticPlugins
    from genai_host.api import Feature, FeatureSteps, NoSettings, Pause, Turn
    from genai_host_testing import InlinePlugin

    def respond(turn: Turn[Any]) -> FeatureSteps:
        value = yield from Pause("approval", {"do": turn.message.text})
        return Answer(f"{turn.message.text}: {value}")

    plugin = InlinePlugin(features=[Feature("careful", NoSettings, respond, roles={})])
    monkeypatch.setattr(
        "genai_host.host.parts.InstalledPlugins", lambda: StaticPlugins({"careful": plugin})
    )


class TestExport:
    def test_json_has_all_that_is_on_record(self, terminal: Terminal) -> None:
        id = create(*turn(0, "é", HOSTILE))
        code, out, _ = terminal("conversations export last")
        data = json.loads(out)
        assert (code, data["form"], data["id"]) == (0, 2, id)
        assert all(entry.pop("at") > 0 for entry in data["entries"])
        with Store() as store:
            assert InMemoryRecord.from_json(data["entries"]).entries == store.entries(id, CODEC)

    def test_a_missing_file_is_noted(self, terminal: Terminal) -> None:
        paper = File(data=b"%PDF" * 5000, media_type="application/pdf", name="paper.pdf")
        create(TurnStarted(0, Message("user", ["read", paper]), "1", 0), TurnEnded(0, Answer("a")))
        with Store() as store:
            for file in Path(f"{store.location}.blobs").glob("*/*"):
                file.unlink()
        code, out, err = terminal("conversations export last")
        assert (code, list(json.loads(out)["attachments"].values())) == (0, [None])
        assert "missing images and files: 1" in err
        assert "[missing file paper.pdf: blob" in terminal("conversations show last")[1]

    def test_markdown_has_what_was_said(self, terminal: Terminal) -> None:
        turns = (*turn(0, "one", "first"), *turn(1, "two", "second"))
        create(*turns, Rewound(2, 1), history=(Message("user", "before"),), at=1000.0)
        out = terminal("conversations export last --format markdown")[1]
        assert out == ("# one\n\n## user\n\nbefore\n\n## user, 1970-01-01 00:16 UTC\n\none\n")

    @pytest.mark.parametrize(("name", "begins"), [("a.md", "# q"), ("a.json", "{"), ("a", "{")])
    def test_an_exported_file_is_for_the_user_alone(
        self, terminal: Terminal, tmp_path: Path, name: str, begins: str
    ) -> None:
        create(*turn(0))
        file = tmp_path / name
        assert terminal("conversations export last -o", str(file)) == (0, "", f"written: {file}\n")
        assert file.read_text().startswith(begins)
        if os.name == "posix":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        create(*turn(0, "another"))
        before = file.read_text()
        err = terminal.error("conversations export last -o", str(file))
        assert (file.read_text(), "--overwrite" in err) == (before, True)
        terminal.out("conversations export last --overwrite -o", str(file))
        assert "another" in file.read_text()

    def test_the_mode_of_a_device_stays(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe", 0o644)
        reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        write_text("x", tmp_path / "pipe")
        assert stat.S_IMODE((tmp_path / "pipe").stat().st_mode) == 0o644
        os.close(reading)


class TestImport:
    def test_import_of_an_export_has_another_id(self, terminal: Terminal, tmp_path: Path) -> None:
        id = create(*turn(0, "é"), *turn(1), name="a name")
        file = str(tmp_path / "x.json")
        terminal("conversations export", id, "-o", file)
        terminal("conversations delete", id, "--yes")
        code, out, err = terminal("conversations import", file)
        assert (code, err) == (0, "")
        [row] = terminal.json("conversations list")
        assert row["id"] == out.strip() != id
        assert (row["title"], row["turns"], row["status"]) == ("a name", 2, "idle")
        assert terminal("ask -c", "go on") == (0, "go on\n", "")

    @pytest.mark.parametrize("content", [
        b"", b"\xff", b"[]", b'{"form": 1, "name": 3}', b"[" * 100_000,
        b'{"form": 1, "name": "", "entries": [{"at": 1, "entry": "new"}]}',
    ])  # fmt: skip
    def test_other_content_fails(self, terminal: Terminal, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "x.json"
        file.write_bytes(content)
        err = terminal.error("conversations import", str(file))
        assert f"{file} is not an exported conversation" in err
        assert terminal.json("conversations list") == []


class TestFork:
    def test_it_goes_its_own_way(self, terminal: Terminal) -> None:
        for words in ("one", "two", "three"):
            terminal("ask -p mock", words, *["-c"] * (words != "one"))
        [row] = terminal.json("conversations list")
        interrupt()
        fork = terminal("conversations fork last")[1].strip()
        early = terminal("conversations fork", row["id"], "--turn", "0")[1].strip()
        assert terminal("ask --conversation", early, "else") == (0, "else\n", "")
        assert texts(early)[::2] == ["one", "else"]
        assert texts(fork)[::2] == texts(row["id"])[::2] == ["one", "two", "three"]

    def test_it_says_where_it_comes_from(self, terminal: Terminal) -> None:
        id = create(*turn(0), *waiting(1))
        code, out, err = terminal("conversations fork last --turn 1")
        assert (code, err) == (0, "")
        shown = terminal.json("conversations show", out.strip())
        assert (shown["forked_from"], shown["status"]) == (id, "idle")
        assert [each["turn"] for each in shown["turns"]] == [0]
        assert f"fork of:  {id}\n" in terminal("conversations show", out.strip())[1]


class TestErrors:
    @pytest.mark.parametrize(("command", "code", "says"), [
        ("search", 2, "Missing argument"),
        ("delete --yes", 2, "nothing to delete"),
        ("delete last zzz --yes", 1, "unknown conversation"),
        ("delete last", 2, "use --yes"),
        ("delete --before tomorrow --yes", 2, "invalid "),
        ("delete --older-than 30 --yes", 2, "invalid "),
        ("delete --older-than -1d --yes", 2, "invalid "),
        ("export last -o no/such/folder", 1, "cannot write"),
        ("fork last --turn 1", 2, "unknown turn 1"),
    ])  # fmt: skip
    def test_nothing_changes(self, terminal: Terminal, command: str, code: int, says: str) -> None:
        create(*turn(0))
        assert says in terminal.error(f"conversations {command}", code=code, stdin="y\n")
        assert len(terminal.json("conversations list")) == 1

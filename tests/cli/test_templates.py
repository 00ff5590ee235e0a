"""Templates and fragments on the command line: `ask`, `chat` and `templates`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host.cli.options import _template_names
from genai_host.prompts.templates import read_template
from genai_host_testing.fake_service import FakeService, reply


@pytest.fixture
def folder(home: Path) -> Path:
    folder = home / "config" / "templates"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def write(folder: Path) -> Any:
    def write(text: str, name: str = "mine") -> None:
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")

    return write


def sent(terminal: Terminal, *arguments: str, stdin: str = "") -> list[dict[str, Any]]:
    """The messages of the prompt that `ask` made of it."""
    code, out, err = terminal("ask", *arguments, "--json", stdin=stdin)
    assert code == 0, err
    [prompt] = json.loads(out)["details"]
    messages: list[dict[str, Any]] = prompt["data"]["added"]
    return messages


class TestAsk:
    def test_what_is_said_is_put_into_it(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "In $language: $input"\nprovider = "mock"')
        given = ("ask", "-t", "mine", "--var", "language=French", "good", "day")
        assert terminal(*given) == (0, "In French: good day\n", "")
        assert terminal(*given, stdin="sir\n")[1] == "In French: good day\n\nsir\n"

    def test_what_is_piped_in_may_be_all_that_is_said(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "Sum up:"\nprovider = "mock"')
        assert terminal("ask", "-t", "mine", stdin="text")[1] == "Sum up:\n\ntext\n"
        assert terminal("ask", "-t", "mine")[1] == "Sum up:\n"

    def test_all_that_it_says_is_used(self, terminal: Terminal, write: Any, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("fragment")
        (tmp_path / "b.txt").write_text("attached")
        write(f"""
            system = "Be $mood."
            prompt = "Go."
            model = "mock"
            feature = "chat"
            fragments = ["{tmp_path}/a.txt"]
            attachments = ["{tmp_path}/b.txt"]
            variables = {{ mood = "brief" }}
            settings = {{ history_turns = 3 }}
        """)
        system, user = sent(terminal, "-t", "mine")
        assert system["content"][0]["text"] == "Be brief."
        assert [part["text"] for part in user["content"]] == [
            "a.txt:\n\nfragment\n\nGo.",
            "b.txt:\n\nattached",
        ]

    def test_options_win_over_it(self, terminal: Terminal, write: Any) -> None:
        write("""
            system = "Be brief."
            model = "no-such-model"
            feature = "no-such-feature"
            parameters = { temperature = 9, no-such-parameter = 1 }
            settings = { history_turns = "no number" }
            roles = { no-such-role = "x" }
        """)
        given = ["-t", "mine", "x", "-m", "mock", "-f", "chat", "-s", "Be long."]
        assert "no-such-role" in terminal("ask", *given)[2]
        write("""
            system = "Be brief."
            model = "no-such-model"
            feature = "no-such-feature"
            settings = { history_turns = "no number" }
        """)
        system, _ = sent(terminal, *given, "--setting", "history_turns=3")
        assert system["content"][0]["text"] == "Be long."

    def test_a_schema_is_held_to(self, terminal: Terminal, write: Any, script: Any) -> None:
        script(['{"n": 1}'])
        write('provider = "script"\nschema = { type = "object", required = ["n"] }')
        code, out, _ = terminal("ask", "-t", "mine", "x")
        assert (code, json.loads(out)) == (0, {"n": 1})
        assert terminal("ask", "-t", "mine", "x", "--schema", '{"type": "string"}')[0] == 1

    def test_a_schema_that_is_none_is_told_with_its_file(
        self, terminal: Terminal, write: Any
    ) -> None:
        write('provider = "mock"\nschema = { type = "no such type" }')
        code, out, err = terminal("ask", "-t", "mine", "x")
        assert (code, out) == (2, "")
        assert "mine.toml" in err

    @pytest.mark.parametrize(
        ("arguments", "code", "says"),
        [
            (["-t", "none"], 1, "unknown template 'none'"),
            (["-t", "../config"], 1, "invalid template name"),
            (["-t", "mine", "x"], 1, "mine.toml: needs a value for language\n  --var language="),
            (["-t", "mine", "--var", "language=x"], 1, "needs a message"),
            (["-t", "mine", "x", "--var", "langage=x"], 1, "did you mean language?"),
            (["-t", "mine", "x", "--var", "language"], 2, "expected NAME=VALUE"),
            (["x", "--var", "language=x"], 2, "--var requires --template"),
        ],
    )
    def test_what_is_wrong_is_told(
        self, terminal: Terminal, write: Any, arguments: list[str], code: int, says: str
    ) -> None:
        write('prompt = "In $language: $input"')
        ended, out, err = terminal("ask", "-p", "mock", *arguments)
        assert (ended, out) == (code, "")
        assert says in err


class TestSave:
    def test_what_is_given_is_kept_and_nothing_is_asked(
        self, terminal: Terminal, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "schema.json").write_text('{"type": "string"}')
        code, out, err = terminal(
            "ask", "--save-template", "mine", "In $language:", "$input", "-s", "Be $mood.",
            "-m", "m", "-p", "p", "-f", "f", "--role", "support=5", "--param", "stop=[1]",
            "--setting", "n=3", "--var", "mood=brief", "--schema", "schema.json", "-F", "a.txt",
            "-F", "https://example.org/a", "-a", "b.png",
        )  # fmt: skip
        assert (code, out, err) == (0, "", f"saved: {folder / 'mine.toml'}\n")
        assert read_template("mine")._asdict() == {
            "prompt": "In $language: $input", "system": "Be $mood.", "model": "m",
            "provider": "p", "feature": "f", "variables": {"mood": "brief"},
            "roles": {"support": "5"}, "parameters": {"stop": [1]}, "settings": {"n": 3},
            "schema": {"type": "string"}, "attachments": (str(tmp_path / "b.png"),),
            "fragments": (str(tmp_path / "a.txt"), "https://example.org/a"),
            "file": str(folder / "mine.toml"),
        }  # fmt: skip

    def test_it_can_be_made_of_another(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "In $language: $input"\nprovider = "mock"\nmodel = "x"')
        given = (
            "--save-template",
            "french",
            "-t",
            "mine",
            "--var",
            "language=French",
            "-m",
            "mock",
        )
        assert terminal("ask", *given)[0] == 0
        assert terminal("ask", "-t", "french", "hi")[1] == "In French: hi\n"
        assert read_template("french").model == "mock"

    def test_a_prompt_can_be_piped_in(self, terminal: Terminal) -> None:
        assert terminal("ask", "--save-template", "mine", stdin="Sum up\n$input\n")[0] == 0
        assert read_template("mine").prompt == "Sum up\n$input"

    @pytest.mark.parametrize(
        ("arguments", "code", "says"),
        [
            ([], 2, "nothing to save"),
            (["for $5"], 1, "$$ is a dollar sign"),
            (["x", "-a", "-"], 1, "cannot have standard input"),
            (["x", "--var", "y=z"], 1, "variables.y is not used in"),
            (["x", "--param", "y=null"], 1, "TOML has no null"),
            (["x", "--schema", "["], 2, "--schema"),
        ],
    )
    def test_what_cannot_be_kept_is_told(
        self, terminal: Terminal, folder: Path, arguments: list[str], code: int, says: str
    ) -> None:
        ended, out, err = terminal("ask", "--save-template", "mine", *arguments)
        assert (ended, out) == (code, "")
        assert says in err
        assert list(folder.iterdir()) == []

    def test_one_that_is_there_stays(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "first"')
        code, _, err = terminal("ask", "--save-template", "mine", "second")
        assert code == 1
        assert "genai-host templates remove mine" in err
        assert read_template("mine").prompt == "first"


class TestChat:
    def test_each_message_is_put_into_it(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "In French: $input"\nprovider = "mock"')
        code, out, _ = terminal("chat", "-t", "mine", stdin="one\ntwo\n")
        assert (code, out) == (0, "In French: one\nIn French: two\n")

    def test_a_prompt_without_a_place_for_it_is_said_once(
        self, terminal: Terminal, write: Any
    ) -> None:
        write('prompt = "You are a pirate."\nprovider = "mock"')
        _, out, _ = terminal("chat", "-t", "mine", stdin="one\ntwo\n")
        assert out == "You are a pirate.\n\none\ntwo\n"

    def test_fragments_come_before_the_first_message(
        self, terminal: Terminal, write: Any, tmp_path: Path
    ) -> None:
        for name in "ab":
            (tmp_path / name).write_text(f"text of {name}")
        write(f'provider = "mock"\nfragments = ["{tmp_path}/a"]')
        _, out, _ = terminal("chat", "-t", "mine", "-F", str(tmp_path / "b"), stdin="one\ntwo\n")
        assert out == "a:\n\ntext of a\n\nb:\n\ntext of b\n\none\ntwo\n"

    def test_they_are_there_still_if_that_one_fails(
        self, terminal: Terminal, script: Any, tmp_path: Path
    ) -> None:
        (tmp_path / "a").write_text("text of a")
        script([{"status": 400}, "answer"])
        saved = tmp_path / "saved.json"
        given = ("chat", "-p", "script", "-F", str(tmp_path / "a"))
        terminal(*given, stdin=f"one\ntwo\n/save {saved}\n")
        assert "text of a\\n\\ntwo" in saved.read_text()

    def test_standard_input_is_what_is_said(self, terminal: Terminal) -> None:
        assert terminal("chat", "-p", "mock", "-F", "-")[0] == 2

    def test_a_schema_is_for_ask(self, terminal: Terminal, write: Any) -> None:
        write('provider = "mock"\nschema = {}')
        code, _, err = terminal("chat", "-t", "mine", stdin="x")
        assert code == 1
        assert "mine.toml: chat does not support templates with a schema" in err


class TestFragments:
    def test_they_come_before_the_question_each_once(
        self, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for name in "ab":
            (tmp_path / name).write_text(f"text of {name}\n")
        given = ("-F", "b", "-F", "a", "--fragment", "./b", "why?")
        assert terminal("ask", "-p", "mock", *given)[1] == (
            "b:\n\ntext of b\n\na:\n\ntext of a\n\nwhy?\n"
        )
        assert terminal("ask", "-p", "mock", "-F", "a")[1] == "a:\n\ntext of a\n"

    @pytest.mark.part
    def test_standard_input_and_addresses(
        self, terminal: Terminal, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        service.replies.append(reply(b"page", headers={"Content-Type": "text/plain"}))
        given = ("-F", "-", "-F", f"{service.url}/a?sig=canary", "why?")
        [_, message] = sent(terminal, "-p", "mock", *given, stdin="piped\n")
        text = f"piped\n\n{service.url}/a:\n\npage\n\nwhy?"
        assert message["content"] == [{"type": "text", "text": text}]

    def test_standard_input_is_there_once(self, terminal: Terminal) -> None:
        for given in (("-F", "-", "-a", "-"), ("-F", "-", "-F", "-")):
            code, _, err = terminal("ask", "-p", "mock", "x", *given, stdin="y")
            assert code == 2
            assert "only one option can read standard input" in err

    def test_what_is_no_text_is_for_attach(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
        code, out, err = terminal("ask", "-p", "mock", "x", "-F", str(tmp_path / "a.png"))
        assert (code, out) == (1, "")
        assert "is not text" in err
        assert "--attach" in err


class TestTemplates:
    def test_they_are_listed_and_one_that_is_not_in_order_is_told(
        self, terminal: Terminal, write: Any, folder: Path
    ) -> None:
        write('prompt = "\\nIn $language: $input\\nmore"\nmodel = "m"')
        write("promt = 1", "other")
        code, out, err = terminal("templates", "list")
        assert (code, out) == (0, "mine\tlanguage\tm\tIn $language: $input\nother\t\t\t\n")
        assert f"warning: {folder}/other.toml:1: unknown key 'promt'" in err
        rows = json.loads(terminal("templates", "list", "--json")[1])
        assert rows[0] == {
            "name": "mine", "file": str(folder / "mine.toml"), "variables": ["language"],
            "model": "m", "says": "In $language: $input", "problem": "",
        }  # fmt: skip
        assert "promt" in rows[1]["problem"]

    def test_there_may_be_none(self, terminal: Terminal) -> None:
        assert terminal("templates", "list") == (0, "", "")
        assert terminal("templates", "list", "--json") == (0, "[]\n", "")

    def test_one_is_shown(self, terminal: Terminal, write: Any) -> None:
        write("# mine\nprompt = 'x'\n")
        assert terminal("templates", "show", "mine") == (0, "# mine\nprompt = 'x'\n", "")
        shown = json.loads(terminal("templates", "show", "mine", "--json")[1])
        assert (shown["name"], shown["prompt"], shown["schema"]) == ("mine", "x", None)
        write("no = 1")
        assert terminal("templates", "show", "mine")[0] == 0
        assert terminal("templates", "show", "mine", "--json")[0] == 1

    def test_one_is_removed(self, terminal: Terminal, write: Any) -> None:
        write("")
        assert terminal("templates", "remove", "mine") == (0, "", "removed: mine\n")
        assert terminal("templates", "remove", "mine")[0] == 1

    def test_item_6_no_other_one_is_suggested_for_removal(
        self, terminal: Terminal, write: Any
    ) -> None:
        write("")
        code, _, err = terminal("templates", "remove", "mime")
        assert (code, "mine" in err) == (1, False)

    def test_where_they_are(self, terminal: Terminal, home: Path) -> None:
        folder = home / "config" / "templates"
        assert terminal("templates", "path") == (0, f"{folder}\n", "")
        assert terminal("templates", "path", "mine") == (0, f"{folder}/mine.toml\n", "")
        assert terminal("templates", "path", "../a")[0] == 1

    def test_names_are_completed(self, write: Any) -> None:
        write("")
        write("", "other")
        nothing: Any = None
        assert [each.value for each in _template_names(nothing, nothing, "m")] == ["mine"]

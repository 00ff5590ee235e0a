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
    [prompt] = json.loads(terminal.out("ask", *arguments, "--json", stdin=stdin))["details"]
    messages: list[dict[str, Any]] = prompt["data"]["added"]
    return messages


class TestAsk:
    def test_what_is_said_is_put_into_it(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "In $language: $input"\nprovider = "mock"')
        command = ("ask", "-t", "mine", "--var", "language=French", "good", "day")
        assert terminal(*command) == (0, "In French: good day\n", "")
        assert terminal(*command, stdin="sir\n")[1] == "In French: good day\n\nsir\n"

    def test_what_is_piped_in_may_be_all_that_is_said(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "Sum up:"\nprovider = "mock"')
        assert terminal("ask -t mine", stdin="text")[1] == "Sum up:\n\ntext\n"
        assert terminal("ask -t mine")[1] == "Sum up:\n"

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
        text = """
            system = "Be brief."
            model = "no-such-model"
            feature = "no-such-feature"
            settings = { history_turns = "no number" }
        """
        write(text + "parameters = { no-such-parameter = 1 }\nroles = { no-such-role = 'x' }")
        options = ["-t", "mine", "x", "-m", "mock", "-f", "chat", "-s", "Be long."]
        assert "no-such-role" in terminal("ask", *options)[2]
        write(text)
        system, _ = sent(terminal, *options, "--setting", "history_turns=3")
        assert system["content"][0]["text"] == "Be long."

    def test_a_schema_is_held_to(self, terminal: Terminal, write: Any, script: Any) -> None:
        script(['{"n": 1}'])
        write('provider = "script"\nschema = { type = "object", required = ["n"] }')
        code, out, _ = terminal("ask -t mine x")
        assert (code, json.loads(out)) == (0, {"n": 1})
        assert terminal("ask -t mine x --schema", '{"type": "string"}')[0] == 1

    @pytest.mark.parametrize(("command", "code", "says"), [
        ("ask -t none", 1, "unknown template 'none'"),
        ("ask -t ../config", 1, "invalid template name"),
        ("ask -t mine x", 1, "mine.toml: needs a value for language\n  --var language="),
        ("ask -t mine --var language=x", 1, "needs a message"),
        ("ask -t mine x --var langage=x", 1, "did you mean language?"),
        ("ask -t mine x --var language", 2, "expected NAME=VALUE"),
        ("ask x --var language=x", 2, "--var requires --template"),
        ("ask -t schema x", 2, "schema.toml"),
        ("chat -t schema", 1, "schema.toml: chat does not support templates with a schema"),
        ("chat -F -", 2, "standard input contains the messages of the chat"),
        ("ask x -F - -a -", 2, "only one option can read standard input"),
        ("ask x -F - -F -", 2, "only one option can read standard input"),
    ])  # fmt: skip
    def test_what_is_wrong_is_told(
        self, terminal: Terminal, write: Any, command: str, code: int, says: str
    ) -> None:
        write('prompt = "In $language: $input"')
        write('schema = { type = "no such type" }', "schema")
        assert says in terminal.error(f"{command} -p mock", code=code)


class TestSave:
    def test_all_options_are_kept(self, terminal: Terminal, folder: Path, tmp_path: Path) -> None:
        terminal.monkeypatch.chdir(tmp_path)
        (tmp_path / "schema.json").write_text('{"type": "string"}')
        code, out, err = terminal(
            "ask --save-template mine 'In $language:' $input -s 'Be $mood.' -m m -p p -f f"
            " --role support=5 --param stop=[1] --setting n=3 --var mood=brief"
            " --schema schema.json -F a.txt -F https://example.org/a -a b.png"
        )
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
        terminal.out("ask --save-template french -t mine --var language=French -m mock")
        assert terminal.out("ask -t french hi") == "In French: hi\n"
        assert read_template("french").model == "mock"
        err = terminal.error("ask --save-template french second")
        assert "genai-host templates remove french" in err
        assert read_template("french").model == "mock"

    def test_a_prompt_can_be_piped_in(self, terminal: Terminal) -> None:
        assert terminal("ask --save-template mine", stdin="Sum up\n$input\n")[0] == 0
        assert read_template("mine").prompt == "Sum up\n$input"

    @pytest.mark.parametrize(("arguments", "code", "says"), [
        ("", 2, "nothing to save"),
        ("'for $5'", 1, "write $$ for a dollar sign"),
        ("x -a -", 1, "cannot read from standard input"),
        ("x --var y=z", 1, "variables.y is not used in"),
        ("x --param y=null", 1, "is null, which TOML does not support"),
        ("x --schema [", 2, "--schema"),
    ])  # fmt: skip
    def test_what_cannot_be_kept_is_told(
        self, terminal: Terminal, folder: Path, arguments: str, code: int, says: str
    ) -> None:
        assert says in terminal.error(f"ask --save-template mine {arguments}", code=code)
        assert list(folder.iterdir()) == []


class TestChat:
    def test_each_message_is_put_into_it(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "In French: $input"\nprovider = "mock"')
        code, out, _ = terminal("chat -t mine", stdin="one\ntwo\n")
        assert (code, out) == (0, "In French: one\nIn French: two\n")

    def test_prompt_without_input_is_said_once(self, terminal: Terminal, write: Any) -> None:
        write('prompt = "You are a pirate."\nprovider = "mock"')
        _, out, _ = terminal("chat -t mine", stdin="one\ntwo\n")
        assert out == "You are a pirate.\n\none\ntwo\n"

    def test_fragments_come_first(self, terminal: Terminal, write: Any, tmp_path: Path) -> None:
        for name in "ab":
            (tmp_path / name).write_text(f"text of {name}")
        write(f'provider = "mock"\nfragments = ["{tmp_path}/a"]')
        _, out, _ = terminal("chat -t mine -F", str(tmp_path / "b"), stdin="one\ntwo\n")
        assert out == "a:\n\ntext of a\n\nb:\n\ntext of b\n\none\ntwo\n"

    def test_failure_keeps_fragments(self, terminal: Terminal, script: Any, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("text of a")
        script([{"status": 400}, "answer"])
        saved = tmp_path / "saved.json"
        command = ("chat", "-p", "script", "-F", str(tmp_path / "a"))
        terminal(*command, stdin=f"one\ntwo\n/save {saved}\n")
        assert "text of a\\n\\ntwo" in saved.read_text()


class TestFragments:
    def test_they_come_first_each_once(self, terminal: Terminal, tmp_path: Path) -> None:
        terminal.monkeypatch.chdir(tmp_path)
        for name in "ab":
            (tmp_path / name).write_text(f"text of {name}\n")
        out = terminal.out("ask -p mock -F b -F a --fragment ./b why?")
        assert out == "b:\n\ntext of b\n\na:\n\ntext of a\n\nwhy?\n"
        assert terminal.out("ask -p mock -F a") == "a:\n\ntext of a\n"
        (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
        err = terminal.error("ask -p mock x -F a.png")
        assert ("is not text" in err, "--attach" in err) == (True, True)

    @pytest.mark.part
    def test_standard_input_and_addresses(self, terminal: Terminal, service: FakeService) -> None:
        terminal.monkeypatch.setenv("no_proxy", "127.0.0.1")
        service.replies.append(reply(b"page", headers={"Content-Type": "text/plain"}))
        options = ("-F", "-", "-F", f"{service.url}/a?sig=canary", "why?")
        [_, message] = sent(terminal, "-p", "mock", *options, stdin="piped\n")
        text = f"piped\n\n{service.url}/a:\n\npage\n\nwhy?"
        assert message["content"] == [{"type": "text", "text": text}]


class TestTemplates:
    def test_list_warns_of_invalid_ones(self, terminal: Terminal, write: Any, folder: Path) -> None:
        write('prompt = "\\nIn $language: $input\\nmore"\nmodel = "m"')
        write("promt = 1", "other")
        code, out, err = terminal("templates list")
        assert (code, out) == (0, "mine\tlanguage\tm\tIn $language: $input\nother\t\t\t\n")
        assert f"warning: {folder}/other.toml:1: unknown key 'promt'" in err
        rows = terminal.json("templates list")
        assert rows[0] == {
            "name": "mine", "file": str(folder / "mine.toml"), "variables": ["language"],
            "model": "m", "says": "In $language: $input", "problem": "",
        }  # fmt: skip
        assert "promt" in rows[1]["problem"]

    def test_one_is_shown(self, terminal: Terminal, write: Any) -> None:
        write("# mine\nprompt = 'x'\n")
        assert terminal("templates show mine") == (0, "# mine\nprompt = 'x'\n", "")
        shown = terminal.json("templates show mine")
        assert (shown["name"], shown["prompt"], shown["schema"]) == ("mine", "x", None)
        write("no = 1")
        assert terminal("templates show mine")[0] == 0
        assert terminal("templates show mine --json")[0] == 1

    def test_one_is_removed(self, terminal: Terminal, write: Any) -> None:
        write("")
        assert "mine" not in terminal.error("templates remove mime")  # item 6
        assert terminal("templates remove mine") == (0, "", "removed: mine\n")
        assert terminal("templates remove mine")[0] == 1
        assert terminal("templates list") == (0, "", "")
        assert terminal("templates list --json") == (0, "[]\n", "")

    def test_where_they_are(self, terminal: Terminal, home: Path) -> None:
        folder = home / "config" / "templates"
        assert terminal("templates path") == (0, f"{folder}\n", "")
        assert terminal("templates path mine") == (0, f"{folder}/mine.toml\n", "")
        assert terminal("templates path ../a")[0] == 1

    def test_names_are_completed(self, write: Any) -> None:
        write("")
        write("", "other")
        nothing: Any = None
        assert [each.value for each in _template_names(nothing, nothing, "m")] == ["mine"]

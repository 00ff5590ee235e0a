"""Templates: what is read, what is refused, and what is written."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as some

from genai_host.errors import ConfigurationError
from genai_host.prompts import templates
from genai_host.prompts.templates import (
    NO_TEMPLATE,
    Template,
    read_template,
    remove_template,
    save_template,
    template_file,
    template_names,
)

FULL = '''
prompt = """
Sum up in $language:
$input"""
system = "You are ${mood}. It costs $$5."
model = "smollm2"
provider = "local"
feature = "chat"
fragments = ["a.md"]
attachments = ["https://example.org/a.png"]
schema = '{"enum": [null]}'
[variables]
mood = "brief"
[roles]
support = "other"
[parameters]
temperature = 0.2
stop = ["a", "b"]
[settings]
history_turns = 3
'''


@pytest.fixture
def folder(home: Path) -> Path:
    folder = home / "config" / "templates"
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, text: str, name: str = "mine") -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


class TestReading:
    def test_all_that_it_can_say(self, folder: Path) -> None:
        file = write(folder, FULL)
        assert read_template("mine") == Template(
            prompt="Sum up in $language:\n$input",
            system="You are ${mood}. It costs $$5.",
            model="smollm2",
            provider="local",
            feature="chat",
            fragments=("a.md",),
            attachments=("https://example.org/a.png",),
            schema={"enum": [None]},
            variables={"mood": "brief"},
            roles={"support": "other"},
            parameters={"temperature": 0.2, "stop": ["a", "b"]},
            settings={"history_turns": 3},
            file=str(file),
        )

    def test_it_need_say_nothing_and_a_schema_can_be_a_table(self, folder: Path) -> None:
        file = write(folder, "")
        assert read_template("mine") == NO_TEMPLATE._replace(file=str(file))
        write(folder, 'schema = { type = "object" }')
        assert read_template("mine").schema == {"type": "object"}

    @pytest.mark.parametrize(("text", "says", "hint"), [
        ("promt = 'x'", "unknown key 'promt'", "did you mean prompt?"),
        ("zzz = 1", "unknown key 'zzz'", "choose from prompt"),
        ("file = 'x'", "unknown key 'file'", ""),
        ("prompt = 1", "prompt must be a string", ""),
        ("roles = 1", "roles must be a table", ""),
        ("roles = { a = 1 }", "roles.a must be a string", ""),
        ("fragments = 'x'", "fragments must be a list", ""),
        ("attachments = ['a', 1]", "attachments must be a list of strings", ""),
        ("attachments = ['-']", "attachments cannot read from standard input", "name a file"),
        ("schema = '{'", "schema is not JSON", ""),
        ("schema = '[]'", "schema must be an object", ""),
        ("schema = { a = nan }", "schema: ", ""),
        ("parameters = { a = inf }", "parameters: ", ""),
        ("parameters = { a = [{ b = 1979-05-27 }] }", "parameters.a[0].b is a date", ""),
        ("prompt = 'for $5'", "prompt: a $ is not", "write $$ for a dollar sign"),
        ("system = '$'", "system: a $ is not", "write $$ for a dollar sign"),
        ("system = '$input'", "$input is allowed only in the prompt", ""),
        ("prompt = '$name'\nvariables = { nam = 'x' }", "variables.nam is not used in",
         "did you mean"),
        ("prompt = ", "invalid TOML", ""),
        ("a = " + "[" * 5_000, "is nested too deeply", ""),
    ])  # fmt: skip
    def test_what_is_wrong_is_told(self, folder: Path, text: str, says: str, hint: str) -> None:
        file = write(folder, text)
        with pytest.raises(ConfigurationError) as caught:
            read_template("mine")
        assert caught.value.message.startswith(str(file))
        assert caught.value.file == str(file)
        assert says in caught.value.message
        assert hint in caught.value.hint

    def test_one_that_is_not_there_is_told_with_the_nearest(self, folder: Path) -> None:
        write(folder, "")
        with pytest.raises(ConfigurationError, match="unknown template 'mime'") as caught:
            read_template("mime")
        assert caught.value.hint == "did you mean mine?"

    def test_bytes_that_are_no_text(self, folder: Path) -> None:
        write(folder, "").write_bytes(b"\xff")
        with pytest.raises(ConfigurationError, match="cannot read"):
            read_template("mine")


def test_the_one_in_the_document_is_in_order(folder: Path) -> None:
    document = Path(__file__).parents[2] / "docs" / "templates.md"
    _, _, rest = document.read_text(encoding="utf-8").partition("```toml\n")
    write(folder, rest.partition("```")[0])
    template = read_template("mine")
    assert template.needs == ["mood", "language"]
    assert {key for key, value in template._asdict().items() if not value} == set()


class TestFolder:
    """Nothing outside of it is read or written."""

    @pytest.mark.parametrize(
        "name",
        ["", "..", "../config", "/etc/passwd", "a/b", "a\\b", "a\0", "a\n", "A", "a.b", "-", "a--b",
         "\u00e9", "x" * 5_000, "con:", "~", "a "],
    )  # fmt: skip
    @pytest.mark.parametrize("use", [read_template, remove_template, template_file])
    def test_what_leads_out_of_it_is_no_name(self, use: Any, name: str) -> None:
        with pytest.raises(ConfigurationError, match="invalid template name") as caught:
            use(name)
        assert len(caught.value.message) < 200
        with pytest.raises(ConfigurationError, match="invalid template name"):
            save_template(name, Template("x"))

    def test_a_link_is_not_followed(self, folder: Path, tmp_path: Path) -> None:
        outside = tmp_path / "outside.toml"
        outside.write_text('prompt = "secret"')
        (folder / "mine.toml").symlink_to(outside)
        with pytest.raises(ConfigurationError, match="it is a link"):
            read_template("mine")
        with pytest.raises(ConfigurationError, match="template 'mine' already exists"):
            save_template("mine", Template("x"))
        remove_template("mine")
        assert outside.read_text() == 'prompt = "secret"'
        (folder / "mine.toml").symlink_to(tmp_path / "nowhere.toml")
        with pytest.raises(ConfigurationError, match="already"):
            save_template("mine", Template("x"))
        assert not (tmp_path / "nowhere.toml").exists()

    def test_what_is_no_file_is_not_waited_for(self, folder: Path) -> None:
        os.mkfifo(folder / "pipe.toml")
        (folder / "folder.toml").mkdir()
        for name in ("pipe", "folder"):
            with pytest.raises(ConfigurationError, match="cannot read"):
                read_template(name)

    def test_a_file_may_not_be_endless(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(templates, "MAX_BYTES", 10)
        write(folder, "#" * 10)
        assert read_template("mine")
        write(folder, "#" * 11)
        with pytest.raises(ConfigurationError, match="it is larger"):
            read_template("mine")

    def test_names_are_those_of_its_files(self, folder: Path) -> None:
        assert template_names() == []
        for name in ("b.toml", "a-1.toml", "A.toml", "c.txt", ".toml", "a..toml"):
            (folder / name).touch()
        assert template_names() == ["a-1", "b"]


class TestFilling:
    def test_each_variable_has_a_value(self) -> None:
        template = Template("In $language: $input", "Be $mood.", variables={"mood": "brief"})
        assert template.needs == ["mood", "language"]
        filled = template.with_variables({"language": "French"})
        assert filled.prompt_text("hi") == "In French: hi"
        assert filled.system_text() == "Be brief."
        filled = template.with_variables({"language": "French", "mood": "kind"})
        assert filled.system_text() == "Be kind."

    def test_what_is_missing_is_named(self) -> None:
        template = Template("$a $b $c", variables={"b": "x"}, file="mine.toml")
        with pytest.raises(ConfigurationError, match="needs a value for a, c") as caught:
            template.with_variables({})
        assert caught.value.hint == "--var a=... --var c=..."
        assert caught.value.file == "mine.toml"

    @pytest.mark.parametrize("name", ["langage", "input"])
    def test_what_there_is_none_of_is_named(self, name: str) -> None:
        with pytest.raises(ConfigurationError, match=f"unknown variable '{name}'"):
            Template("$language $input").with_variables({"language": "x", name: "y"})

    def test_values_are_taken_as_they_are(self) -> None:
        filled = Template("$a|$input|$$").with_variables({"a": "$input $b $$"})
        assert filled.prompt_text("$a ${b} $") == "$input $b $$|$a ${b} $|$"

    def test_what_is_said_has_its_place_or_stands_last(self) -> None:
        assert Template("Sum up:").prompt_text("text") == "Sum up:\n\ntext"
        assert Template("Sum up:").prompt_text("") == "Sum up:"
        assert Template().prompt_text("text $a") == "text $a"
        assert Template("$input").takes_input
        assert not Template("$$input").takes_input
        with pytest.raises(ConfigurationError, match="needs a message"):
            Template("Sum up: $input").prompt_text("")


class TestSaving:
    def test_it_can_be_read_again(self, folder: Path) -> None:
        template = read_template(write(folder, FULL).stem)
        file = save_template("copy", template)
        assert file == str(folder / "copy.toml")
        assert read_template("copy") == template._replace(file=file)
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600

    def test_the_folder_is_made_and_text_of_several_lines_can_be_edited(self, home: Path) -> None:
        assert template_names() == []
        save_template("mine", Template("a\nb"))
        folder = home / "config" / "templates"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert (folder / "mine.toml").read_text() == 'prompt = """a\nb"""\n'

    def test_one_that_is_there_stays(self, folder: Path) -> None:
        file = write(folder, "# mine")
        with pytest.raises(ConfigurationError, match="already exists") as caught:
            save_template("mine", Template("x"))
        assert "templates remove mine" in caught.value.hint
        assert file.read_text() == "# mine"

    @pytest.mark.parametrize(("template", "says"), [
        (Template("for $5"), "not followed by a variable name"),
        (Template("x", parameters={"a": {"b": None}}), "parameters.a.b is null"),
        (Template("\ud800"), "lone surrogate"),
        (Template("x", variables={"y": "z"}), "variables.y"),
        (Template("x", attachments=["-"]), "standard input"),
    ])  # fmt: skip
    def test_what_is_wrong_is_not_saved(self, folder: Path, template: Template, says: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            save_template("mine", template)
        assert says in caught.value.message
        assert list(folder.iterdir()) == []

    def test_a_folder_that_takes_nothing_is_told(self, home: Path) -> None:
        home.mkdir()
        (home / "config").touch()
        with pytest.raises(ConfigurationError, match="cannot write"):
            save_template("mine", Template("x"))

    _texts = some.text(max_size=20).map(lambda text: text.replace("$", "$$"))
    _json = some.recursive(
        some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
        | some.text(max_size=9),
        lambda inner: some.lists(inner, max_size=3)
        | some.dictionaries(some.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )  # fmt: skip

    @example(prompt="\n", system="\nx", fragments=[], schema=None, parameters={})
    @given(
        prompt=_texts,
        system=_texts,
        fragments=some.lists(some.text(max_size=9).filter(lambda each: each != "-"), max_size=2),
        schema=some.none() | some.dictionaries(some.text(max_size=5), _json, max_size=3),
        parameters=some.dictionaries(some.text(max_size=5), _json, max_size=3),
    )
    def test_whatever_it_says_can_be_read_again(self, folder: Path, **fields: Any) -> None:
        template = Template(**{**fields, "fragments": tuple(fields["fragments"])})
        file = save_template("mine", template)
        try:
            assert read_template("mine") == template._replace(file=file)
        finally:
            remove_template("mine")


def test_removing(folder: Path) -> None:
    write(folder, "not in order")
    remove_template("mine")
    assert template_names() == []
    with pytest.raises(ConfigurationError, match="unknown template 'mine'"):
        remove_template("mine")
    (folder / "mine.toml").mkdir()
    with pytest.raises(ConfigurationError, match="cannot remove"):
        remove_template("mine")

"""What the documents say is what the code does."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
import pytest

from genai_host import Config, Host, StaticPlugins
from genai_host.api import hooks
from genai_host.api.schema import message_schema
from genai_host.cli.main import cli, commands
from genai_host.config import read_config
from genai_host.config.schema import KEYS

if TYPE_CHECKING:
    from support import Terminal

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def hooks_document() -> str:
    """Each hook with its exact signature and what it says of itself."""
    lines = [
        "# Hooks",
        "",
        inspect.cleandoc(hooks.__doc__ or ""),
        "",
    ]
    for name, hook in vars(hooks).items():
        if name.startswith("genai_"):
            signature = str(inspect.signature(hook)).replace("'", "")
            lines += [f"## {name}", "", f"```python\ndef {name}{signature}\n```", ""]
            lines += [inspect.getdoc(hook) or "", ""]
    return "\n".join(lines).rstrip() + "\n"


def commands_document() -> str:
    """The help of every command."""
    lines = ["# Commands", "", "What `genai-host COMMAND --help` prints.", ""]
    for name, help in _helps():
        lines += [f"## {name}", "", "```text", help.rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _helps() -> Iterator[tuple[str, str]]:
    parent = click.Context(cli, info_name="genai-host", terminal_width=88, **cli.context_settings)
    for name, command in commands():
        yield from _helps_of(f"genai-host {name}", command, name, parent)


def _helps_of(title: str, command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=88)
    yield title, command.get_help(context)
    for inner, subcommand in getattr(command, "commands", {}).items():
        yield from _helps_of(f"{title} {inner}", subcommand, inner, context)


def message_schema_document() -> str:
    return json.dumps(message_schema(), indent=2) + "\n"


DOCUMENTS = {
    "docs/hooks.md": hooks_document,
    "docs/commands.md": commands_document,
    "docs/message.schema.json": message_schema_document,
}


@pytest.mark.parametrize("path", DOCUMENTS)
def test_documents_are_up_to_date(path: str) -> None:
    """`python tests/project/test_docs.py` writes them."""
    assert (ROOT / path).read_text(encoding="utf-8") == DOCUMENTS[path]()


def test_every_hook_says_what_it_is() -> None:
    for name, hook in vars(hooks).items():
        if name.startswith("genai_"):
            assert inspect.getdoc(hook), name


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def module_of(comment: str) -> ModuleType:
    """The example of a plugin in the README, as the module that its comment names."""
    [source] = [block for block in blocks("python") if block.startswith(f"# {comment}")]
    module = ModuleType(comment.partition(".")[0])
    exec(compile(source, comment, "exec"), vars(module))
    return module


def test_the_plugins_in_the_readme_work(make_host: Any) -> None:
    host = make_host(
        poet=module_of("genai_feature_poet.py"), shout=module_of("genai_vendor_shout.py")
    )
    assert host.open("chat", "loud").say("hi there").text == "HI THERE"
    assert host.open("poet", "loud").say("hi").text == "MAKE IT RHYME: HI"


@pytest.mark.weights
@pytest.mark.parametrize("number", [0, 1])
def test_the_python_examples_in_the_readme_run(number: int, weights: Path, home: Path) -> None:
    """As they stand, on the embedded model, in a process of their own."""
    data = home / "data" / "local"
    data.parent.mkdir(parents=True)
    data.symlink_to(weights, target_is_directory=True)
    source = [block for block in blocks("python") if not block.startswith("# genai_")][number]
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_configuration_in_the_readme_is_in_order(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    [block] = blocks("toml")
    file.write_text(block, encoding="utf-8")
    config = read_config(file)
    assert config.providers["big-window"].settings == {"window": 8192}


class TestConfiguration:
    """docs/configuration.md: its examples are in order, and it has every key."""

    TEXT = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"```{language}\n(.*?)```", self.TEXT, re.DOTALL)

    def test_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "config.toml"
        [block] = self.blocks("toml")
        file.write_text(block, encoding="utf-8")
        config = read_config(file)
        assert config.providers["groq"].settings["api_key"] == {"env": "GROQ_API_KEY"}
        for key in KEYS:
            assert f"| `{key}` |" in self.TEXT

    def test_the_variables(self) -> None:
        environ = dict(re.findall(r"^\$ export (\w+)=(\S+)", self.TEXT, re.MULTILINE))
        config = read_config(environ=environ)
        assert config.models == {"chat": "smollm2"}
        assert set(config.providers["groq"].overrides) == {"base_url", "calls.first_token"}

    def test_the_commands(self, terminal: Terminal) -> None:
        """As they stand, one after the other."""
        ran = 0
        for line in "\n".join(self.blocks("console")).splitlines():
            words = line.partition("#")[0].split()
            if words[1:2] == ["genai-host"]:
                code, _, err = terminal(*words[2:], stdin="sk-12345678")
                assert code == 0, (line, err)
                ran += 1
        assert ran > 8

    def test_the_program(self) -> None:
        [source] = self.blocks("python")
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_in_the_readme_exist() -> None:
    """Each option that they use is one of the command's."""
    known = dict(commands())
    with Host(config=Config(), discovery=StaticPlugins({})):
        pass
    for line in re.findall(r"genai-host ([a-z].*)", "\n".join(blocks("console"))):
        words = line.partition("#")[0].partition("|")[0].split()
        if words[0] in known:
            command = known[words.pop(0)]
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            options = {option for each in command.params for option in each.opts}
            assert {word for word in words if word.startswith("--")} <= options, line


def test_the_python_versions_are_those_that_tox_runs() -> None:
    from configparser import ConfigParser

    setup, tox = ConfigParser(), ConfigParser()
    setup.read(ROOT / "setup.cfg")
    tox.read(ROOT / "tox.ini")
    claimed = set(re.findall(r":: (3\.\d+)", setup["metadata"]["classifiers"]))
    named = tox["tox"]["labels"] + tox["testenv:lowest"]["base_python"]
    runs = {f"3.{minor}" for minor in re.findall(r"py3(\d+)", named)}
    assert runs < claimed
    # 3.12 lies between two that are run; tests/bare runs 3.14 where Debian has it
    assert claimed - runs == {"3.12", "3.14"}
    assert "Python 3.11 to 3.14" in README


if __name__ == "__main__":
    for path, make in DOCUMENTS.items():
        (ROOT / path).write_text(make(), encoding="utf-8")

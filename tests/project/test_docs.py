"""What the documents say is what the code does."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from documents import blocks

from genai_host import Host
from genai_host.api import hooks
from genai_host.api.schema import message_schema
from genai_host.cli.main import cli, commands
from genai_host.config import read_config
from genai_host.config.schema import KEYS

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


def module_of(file: str) -> ModuleType:
    """The example of a plugin in the README, as the module of that name."""
    [source] = [block.text for block in blocks("README.md", "python") if block.file == file]
    module = ModuleType(file.partition(".")[0])
    exec(compile(source, file, "exec"), vars(module))
    return module


def test_the_plugins_in_the_readme_work(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "sk-example")
    host = make_host(
        acme=module_of("genai_vendor_acme.py"), letters=module_of("genai_tools_letters.py")
    )
    assert [each.provider for each in host.explain("acme-1") if each.runs] == ["acme"]
    arguments = {"word": "strawberry", "letter": "r"}
    assert host.call_tool("count_letters", arguments).text == "3"


class TestConfiguration:
    """docs/configuration.md: its examples are in order, and it has every key."""

    TEXT = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")

    def test_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "config.toml"
        [block] = blocks("docs/configuration.md", "toml")
        file.write_text(block.text, encoding="utf-8")
        config = read_config(file)
        assert config.providers["groq"].settings["api_key"] == {"env": "GROQ_API_KEY"}
        for key in KEYS:
            assert f"| `{key}` |" in self.TEXT

    def test_item_8_the_file_blocks_nothing_that_it_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GROQ_API_KEY", "sk-example")
        file = tmp_path / "config.toml"
        [block] = blocks("docs/configuration.md", "toml")
        file.write_text(block.text, encoding="utf-8")
        with Host(config=read_config(file)) as host:
            for operation, name in host.config.models.items():
                assert any(each.provider for each in host.explain(name, None, operation))
            assert host.explain("fast")[0].runs
            assert host.explain("llama-3.3-70b@groq")[0].runs

    def test_the_variables(self) -> None:
        environ = dict(re.findall(r"^\$ export (\w+)=(\S+)", self.TEXT, re.MULTILINE))
        config = read_config(environ=environ)
        assert config.models == {"chat": "smollm2"}
        assert set(config.providers["groq"].overrides) == {"base_url", "calls.first_token"}


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

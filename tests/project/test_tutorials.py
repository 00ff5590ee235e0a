"""The tutorials, as somebody walks through them who types what they show."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import frozen
from documents import Typed, blocks, matches
from environments import Environment

from genai_host.cli.scaffold import Scaffold
from genai_host_testing.fake_service import FakeService, json_reply

DOCS = Path(__file__).resolve().parents[2] / "docs"


@frozen
class Tutorial:
    """A document, and the scaffold that it begins with."""

    path: Path
    scaffold: Scaffold

    def blocks(self, language: str) -> list[str]:
        return [block.text for block in blocks(f"docs/{self.path.name}", language)]

    def typed(self) -> list[Typed]:
        """The commands that it shows, each with the output that it shows of it."""
        return [
            typed
            for block in blocks(f"docs/{self.path.name}", "console")
            for typed in block.typed()
        ]

    @property
    def module(self) -> str:
        return next(path for path in self.scaffold.files() if path.startswith("genai_"))

    @property
    def tests(self) -> str:
        return next(path for path in self.scaffold.files() if path.startswith("tests/"))

    def edit(self, folder: Path) -> None:
        """The second step: what it shows of the module, and then of the tests, in place
        of what goes by the same names."""
        _, *edits = self.blocks("python")
        assert edits
        for path, edit in zip((self.module, self.tests), edits, strict=False):
            file = folder / path
            file.write_text(edited(file.read_text(encoding="utf-8"), edit), encoding="utf-8")


VENDOR = Tutorial(DOCS / "first-vendor.md", Scaffold("vendor", "acme"))
FEATURE = Tutorial(DOCS / "first-feature.md", Scaffold("feature", "poet"))
TOOL = Tutorial(DOCS / "first-tool.md", Scaffold("tool", "letters"))
each = pytest.mark.parametrize(
    "tutorial", [VENDOR, FEATURE, TOOL], ids=["vendor", "feature", "tool"]
)


def edited(source: str, edit: str) -> str:
    """A source with other definitions in place of its own of the same names."""
    lines = source.splitlines()
    changed = dict(_definitions(edit))
    definitions = dict(_definitions(source))
    assert changed.keys() <= definitions.keys()
    for name in reversed(definitions):
        if name in changed:
            first, last = definitions[name]
            begin, end = changed[name]
            lines[first:last] = edit.splitlines()[begin:end]
    return "\n".join(lines) + "\n"


def _definitions(source: str) -> list[tuple[str, tuple[int, int]]]:
    """The name of each, and where its lines begin and end, decorators and all."""
    return [
        (node.name, (_first_line(node) - 1, node.end_lineno or 0))
        for node in ast.parse(source).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


@each
def test_it_has_three_steps(tutorial: Tutorial) -> None:
    heads = re.findall(r"^## (\d)", tutorial.path.read_text(encoding="utf-8"), re.M)
    assert heads == ["1", "2", "3"]


@each
def test_it_shows_what_is_written(tutorial: Tutorial) -> None:
    files = tutorial.scaffold.files()
    first = tutorial.typed()[0]
    scaffold = tutorial.scaffold
    assert first.command == f"genai-host plugins new {scaffold.kind} {scaffold.name}"
    assert first.output.splitlines() == [f"{scaffold.distribution}/{path}" for path in files]
    assert tutorial.blocks("python")[0] == files[tutorial.module]
    assert tutorial.blocks("toml")[0] in files["pyproject.toml"]


@each
def test_the_next_steps_are_those_that_are_printed(tutorial: Tutorial) -> None:
    printed = tutorial.scaffold.next_steps(Path(tutorial.scaffold.distribution)).splitlines()
    commands = [shlex.split(typed.command) for typed in tutorial.typed()]
    for line in printed[1:]:
        words = shlex.split(line)
        if words[0] != "genai-host":  # the tutorial asks what it has edited
            assert words in commands


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestWalks:
    """In an environment in which the wheels of the host are installed."""

    def test_the_first_vendor(self, environment: Environment, tmp_path: Path) -> None:
        message = {"role": "assistant", "content": "Because air scatters blue light more than red."}
        reply = json_reply({"choices": [{"message": message, "finish_reason": "stop"}]})
        with FakeService([reply]) as service:
            _configure(environment.home, "acme", f"{service.url}/api/v2")
            _walk(VENDOR, environment, tmp_path)
        [sent] = service.requests
        assert (sent.path, sent.headers["x-api-key"]) == ("/api/v2/chat/completions", "...")
        assert sent.json()["model"] == "acme-large-v3"
        assert sent.json()["stream"] is True
        assert "stream_options" not in sent.json()

    def test_the_first_feature(self, environment: Environment, tmp_path: Path) -> None:
        _walk(FEATURE, environment, tmp_path)

    def test_the_first_tool(self, environment: Environment, tmp_path: Path) -> None:
        _walk(TOOL, environment, tmp_path)


def _configure(home: Path, provider: str, base_url: str) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    lines = [f"[providers.{provider}]", f'type = "{provider}"', f'base_url = "{base_url}"']
    file.write_text("\n".join(lines), encoding="utf-8")


def _walk(tutorial: Tutorial, environment: Environment, folder: Path) -> None:
    """Type each command, and edit the plugin after the first."""
    first, *others = tutorial.typed()
    variables = _variables(environment)
    assert matches(first.output, _run(first.command, folder, variables))
    tutorial.edit(folder / tutorial.scaffold.distribution)
    for typed in others:
        words = shlex.split(typed.command)
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            variables[name] = value
        elif words[:3] == ["pip", "install", "-e"]:
            environment.install("-e", str(folder / words[3]))
        else:
            assert matches(typed.output, _run(typed.command, folder, variables)) or not typed.output


def _variables(environment: Environment) -> dict[str, str]:
    """Those of a shell in which the environment is active."""
    programs = os.pathsep.join([str(environment.python.parent), os.environ["PATH"]])
    own = {"PATH": programs, "GENAI_HOST_HOME": str(environment.home), "NO_PROXY": "*"}
    return {**os.environ, **own}


def _run(command: str, folder: Path, variables: Mapping[str, str]) -> str:
    done = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout

"""Item 4: the tests of a plugin need the plugin, the host, the testing kit, and what it says."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import changed
import pytest
from environments import ROOT
from importlib_metadata import packages_distributions
from packaging.requirements import Requirement

KIT = "plugins/genai-host-testing/genai_host_testing"
PLUGINS = sorted(ROOT.glob("plugins/*/setup.cfg"))
_OURS = {file.parent.name: file for file in PLUGINS} | {"genai-host": ROOT / "setup.cfg"}


def _requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    setup = ConfigParser(interpolation=None)
    setup.read(_OURS[name], encoding="utf-8")
    lists = [setup["options"]["install_requires"]]
    if "options.extras_require" in setup:
        lists += [setup["options.extras_require"][each] for each in sorted(extras)]
    for line in "\n".join(lists).splitlines():
        if line and not line.startswith("#"):
            yield Requirement(line)


def _needed(name: str, extra: str) -> set[str]:
    """All distributions that one requires with an extra, as far as our files say it."""
    names = set[str]()
    pending = [(name, frozenset({extra}))]
    while pending:
        for required in _requirements(*pending.pop()):
            further = (required.name, frozenset(required.extras))
            if required.name in _OURS and (required.name not in names or further[1]):
                pending.append(further)
            names.add(required.name)
    return names | {name}


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@cache
def _distributions() -> dict[str, list[str]]:
    """By package; the names as PyPI has them."""
    return {
        package: [each.lower().replace("_", "-") for each in names]
        for package, names in packages_distributions().items()
    }


@pytest.mark.parametrize("plugin", [file.parent.name for file in PLUGINS])
def test_item_4_what_its_tests_import_is_required(plugin: str) -> None:
    needed = _needed(plugin, "test")
    files = sorted((ROOT / "plugins" / plugin / "tests").rglob("*.py"))
    used = {name for file in files for name in _imported(file)} - sys.stdlib_module_names
    missing = {
        name for name in used if needed.isdisjoint(_distributions().get(name, ["not installed"]))
    }
    assert not missing


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_item_4_they_pass_in_an_environment_of_their_own() -> None:
    """As somebody runs them who works on one plugin."""
    command = [sys.executable, "make.py", "test", "genai-vendor-wordlist"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
class TestChanged:
    """`python3 make.py test --changed` runs what a change may break."""

    @staticmethod
    def _tests_of(*files: str) -> list[str]:
        tests = changed.tests_of(files)
        assert tests is not None
        return tests

    def test_item_4_a_plugin_runs_its_tests_and_those_that_import_it(self) -> None:
        tests = self._tests_of("plugins/genai-wire-ollama/genai_wire_ollama/dialect/operations.py")
        own = sorted((ROOT / "plugins/genai-vendor-ollama/tests").glob("test_ollama_[cr]*.py"))
        assert {str(file.relative_to(ROOT)) for file in own} <= {*tests}
        assert "tests/acceptance/test_routes.py" in tests
        assert "plugins/genai-models-open/tests/test_open_models_conformance.py" in tests
        assert not any("genai-vendor-gemini" in each for each in tests)

    def test_item_4_a_helper_runs_what_imports_it(self) -> None:
        assert self._tests_of("tests/helpers/stepping.py") == ["tests/store/test_crashes.py"]
        tests = self._tests_of(f"{KIT}/services/assistants_events.py")
        assert "plugins/genai-feature-assistants/tests/test_assistants_agents_host.py" in tests

    @pytest.mark.parametrize(("file", "test"), [
        (f"{KIT}/internal/stores.py", "tests/server/test_proxy.py"),
        ("tests/helpers/environments.py", "tests/project/test_blocks.py"),
    ])  # fmt: skip
    def test_a_fixture_runs_what_uses_it(self, file: str, test: str) -> None:
        assert test in self._tests_of(file)

    @pytest.mark.parametrize(
        "file", ["genai_host/host/host.py", f"{KIT}/fake_model.py", "setup.cfg", "conftest.py"]
    )
    def test_item_4_the_host_and_the_settings_run_all(self, file: str) -> None:
        assert changed.tests_of(["README.md", file]) is None

    def test_item_4_a_document_runs_the_tests_of_the_project(self) -> None:
        tests = self._tests_of("docs/plugins.md")
        assert "tests/project/test_docs.py" in tests
        assert {each.split("/")[1] for each in tests} == {"project"}

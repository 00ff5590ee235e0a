"""What the documents say is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from documents import blocks, documents

from genai_host import Host
from genai_host.api import Operation
from genai_host.config import read_config

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


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
    assert host.call_tool("count_letters", {"word": "strawberry", "letter": "r"}).text == "3"


_PROJECT = "https://github.com/genai-host/genai-host/"
_LINK = re.compile(r"(?:\]\(|^\[[^\]]+\]: )([^)\s]+)", re.MULTILINE)


@pytest.mark.parametrize("path", [*documents(), "CONTRIBUTING.md"])
def test_links_within_the_project_lead_somewhere(path: str) -> None:
    file = ROOT / path
    for link in _LINK.findall(
        re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.S)
    ):
        place, _, anchor = link.partition("#")
        if place.startswith(_PROJECT):
            target = ROOT / re.sub(r"^(blob|tree|raw)/main/", "", place.removeprefix(_PROJECT))
        elif ":" in place:
            continue
        else:
            target = (file.parent / place).resolve() if place else file
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {_anchor(head) for head in heads}, link


def _anchor(head: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-")


_OPERATIONS: tuple[Operation, ...] = ("chat", "embed", "moderate")


class TestConfiguration:
    """docs/configuration.md: its examples are in order."""

    TEXT = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")

    def test_item_8_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It blocks nothing that it names."""
        monkeypatch.setenv("GROQ_API_KEY", "sk-example")
        file = tmp_path / "config.toml"
        [block] = blocks("docs/configuration.md", "toml")
        file.write_text(block.text, encoding="utf-8")
        config = read_config(file)
        assert config.providers["groq"].settings["api_key"] == {"env": "GROQ_API_KEY"}
        with Host(config=config) as host:
            for operation in _OPERATIONS:
                name = host.config.models[operation]
                assert any(each.provider for each in host.explain(name, None, operation))
            assert host.explain("fast")[0].runs
            assert host.explain("llama-3.3-70b@groq")[0].runs

    def test_the_variables(self) -> None:
        environ = dict(re.findall(r"^\$ export (\w+)=(\S+)", self.TEXT, re.MULTILINE))
        config = read_config(environ=environ)
        assert config.models == {"chat": "smollm2"}
        assert set(config.providers["groq"].overrides) == {"base_url", "limits.first_token_timeout"}


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


TESTING = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    """The block of code of docs/testing.md whose first line names it."""
    [text] = [each.text for each in blocks("docs/testing.md", "python") if each.file == name]
    return text


@pytest.mark.process
def test_the_examples_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("conftest", "genai_feature_poet", "test_acme", "test_own", "test_poet")
    pytester.makepyfile(**{name: example(f"{name}.py") for name in names})
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    outcomes = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q").parseoutcomes()
    assert set(outcomes) == {"passed", "skipped"}
    assert outcomes["skipped"] == 1  # the made plugin is no module


def test_what_it_names_is_there() -> None:
    import genai_host_testing as testing
    from genai_host_testing import pytest_plugin, suites

    there = {*suites.__all__, *testing.__all__, *vars(pytest_plugin)}
    for name in re.findall(r"`([A-Z]\w+|make_\w+|replay_\w+)`", TESTING):
        assert name in there
    for name in suites.__all__:
        if name.endswith("Suite") and name not in ("Suite", "PluginSuite"):
            assert f"`{name}`" in TESTING
    for fixture in ("home", "make_host", "clock", "service"):
        assert f"| `{fixture}` |" in TESTING


def test_the_deviations_that_it_shows_are_from_tests_that_there_are() -> None:
    from genai_host_testing import suites

    for suite, names in re.findall(
        r"\((\w+Suite)\):\n    deviations = \{\n(.*?)\}", TESTING, re.DOTALL
    ):
        for name in re.findall(r'"(test_\w+)"', names):
            assert hasattr(getattr(suites, suite), name)

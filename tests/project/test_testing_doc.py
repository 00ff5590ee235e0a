"""What docs/testing.md shows works as it stands, in a pytest of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    """The block of code whose first line names it."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    [found] = [block for block in blocks if block.startswith(f"# {name}")]
    return found


@pytest.mark.process
def test_the_examples_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("conftest", "genai_feature_poet", "test_acme", "test_own", "test_poet")
    pytester.makepyfile(**{name: example(f"{name}.py") for name in names})
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q")
    outcomes = outcome.parseoutcomes()
    assert set(outcomes) == {"passed", "skipped"}
    assert outcomes["skipped"] == 1  # the made plugin is no module


def test_what_it_names_is_there() -> None:
    import genai_host_testing as testing
    from genai_host_testing import pytest_plugin, suites

    there = {*suites.__all__, *testing.__all__, *vars(pytest_plugin)}
    for name in re.findall(r"`([A-Z]\w+|make_\w+|replay_\w+)`", TEXT):
        assert name in there
    for name in suites.__all__:
        if name.endswith("Suite") and name not in ("Suite", "PluginSuite"):
            assert f"`{name}`" in TEXT
    for fixture in ("home", "make_host", "clock", "service"):
        assert f"| `{fixture}` |" in TEXT


def test_the_departures_that_it_shows_are_from_tests_that_there_are() -> None:
    from genai_host_testing import suites

    for suite, names in re.findall(
        r"\((\w+Suite)\):\n    departures = \{\n(.*?)\}", TEXT, re.DOTALL
    ):
        for name in re.findall(r'"(test_\w+)"', names):
            assert hasattr(getattr(suites, suite), name)

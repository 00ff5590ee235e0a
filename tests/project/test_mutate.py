"""Item 5 of the tests: what `tests/mutate.py` changes, and what it says of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from environments import ROOT


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "tests" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mutate = _loaded()

_SOURCE = '''\
"""One < two."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import decimal

__all__ = ["a" + "b"]
MOST = 3


def at(x: int = 1, é: "bool | True" = False) -> int | None:
    """Not < this."""
    while x is not (
        None
    ):
        x += 2
        if not é and x:
            break
    print(
        f"{x + 1}",
    )
    return (
        x,
    )
'''
_CHANGES = [
    (12, "def at(x: int = 2, é"),
    (12, '"bool | True" = True)'),
    (14, "while x is ("),
    (17, "x -= 2"),
    (17, "x += 3"),
    (18, "if not not é and x:"),
    (18, "if not (not é and x):"),
    (18, "if not é or x:"),
    (19, "continue"),
    (20, "pass"),
    (23, "return None"),
]


def changed_lines() -> list[tuple[int, str]]:
    """Number and text of the line that each mutant changes first."""
    source = _SOURCE.encode()
    changed = []
    for mutant in mutate.mutants(source):
        lines = mutant.apply(source).decode().split("\n")
        olds = _SOURCE.split("\n")
        at = next(at for at, (old, new) in enumerate(zip(olds, lines, strict=True)) if old != new)
        assert at == mutant.line - 1
        changed.append((at + 1, lines[at].strip()))
    return changed


def test_item_5_what_is_run_is_changed_and_nothing_else() -> None:
    changed = changed_lines()
    assert len(changed) == len(_CHANGES)
    for (line, text), (number, part) in zip(changed, _CHANGES, strict=True):
        assert (line, part in text) == (number, True), text


def test_item_5_each_mutant_compiles_and_tells_what_it_is() -> None:
    source = _SOURCE.encode()
    for mutant in mutate.mutants(source):
        compile(mutant.apply(source), "mutant", "exec")
        old, new = mutant.tell(source).split("  ->  ")
        assert old != new


@pytest.mark.process
class TestRun:
    """On a project of one module and one test."""

    @pytest.fixture
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for folder in ("genai_host/store", "tests/store"):
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / "genai_host" / "__init__.py").touch()
        (tmp_path / "genai_host" / "store" / "__init__.py").touch()
        (tmp_path / "conftest.py").write_text(
            "def pytest_addoption(parser):\n    parser.addoption('--rings')\n"
        )
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
        monkeypatch.setattr(mutate, "ROOT", tmp_path)
        monkeypatch.setattr(mutate, "_FURTHER", ())
        return tmp_path

    def run(self, project: Path, source: str, test: str) -> int:
        module = project / "genai_host" / "store" / "x.py"
        module.write_text(source)
        (project / "tests" / "store" / "test_x.py").write_text(
            f"from genai_host.store.x import f\n\ndef test_it():\n    {test}\n"
        )
        code: int = mutate.main([str(module)])
        assert module.read_text() == source
        return code

    def test_item_5_what_a_test_is_against_is_killed(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = "def f(x):\n    return x < 2\n"
        test = "assert [f(1), f(2), f(3)] == [True, False, False]"
        assert self.run(project, source, test) == 0
        output = capsys.readouterr().out
        assert "genai_host/store/x.py:2: return x < 2  ->  return x <= 2\n" in output
        assert output.endswith("3 of 3 mutants were killed: 100.0 % (least: 95 %)\n")

    def test_item_5_what_no_test_is_against_survives(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(project, "def f(x):\n    return x < 2\n", "assert f(1)") == 1
        output = capsys.readouterr().out
        assert "SURVIVED  genai_host/store/x.py:2: return x < 2  ->  return x <= 2\n" in output
        assert "killed    genai_host/store/x.py:2: return x < 2  ->  return None\n" in output

    def test_item_5_tests_that_fail_anyhow_say_nothing(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(project, "def f(x):\n    return x < 2\n", "assert f(2)") == 1
        assert capsys.readouterr().out == "without any mutant, a test of tests/store fails\n"

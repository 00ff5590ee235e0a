"""Item 5 of the tests: what `tests/mutate.py` changes, and what it says of it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import mutate
import pytest

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
        code = mutate.main([str(module)])
        assert module.read_text() == source
        return code

    def test_item_5_killed(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = "def f(x):\n    return x < 2\n"
        assert self.run(project, source, "assert [f(1), f(2), f(3)] == [True, False, False]") == 0
        output = capsys.readouterr().out
        assert "genai_host/store/x.py:2: return x < 2  ->  return x <= 2\n" in output
        assert output.endswith("3 of 3 mutants were killed: 100.0 % (least: 95 %)\n")

    def test_item_5_survives(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(project, "def f(x):\n    return x < 2\n", "assert f(1)") == 1
        output = capsys.readouterr().out
        assert "SURVIVED  genai_host/store/x.py:2: return x < 2  ->  return x <= 2\n" in output
        assert "killed    genai_host/store/x.py:2: return x < 2  ->  return None\n" in output

    def test_item_5_failing_test(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(project, "def f(x):\n    return x < 2\n", "assert f(2)") == 1
        assert capsys.readouterr().out == (
            "a test fails without a mutant:\nFAILED tests/store/test_x.py::test_it - assert False\n"
        )


@pytest.mark.parametrize("part", mutate._CORE)
def test_item_5_each_part_of_the_core_exists(part: str) -> None:
    assert any((mutate.ROOT / "genai_host").glob(part))


_ALL = [f"{each}.py::t" for each in ("store/test_x", "host/test_x", "store/test_a")]
_ALL.append("store/test_a.py::u")


class TestReached:
    SOURCE = b"""\
class A:
    b: int = 1

    def f(self, x=2):
        if x:
            return 3
        return (
            4 +
            5
        )

def g():
    return 6
"""
    # by line; the import of the module has no test
    LINES: ClassVar = {
        "1": [""], "2": [""], "4": [""],
        "5": ["tests/store/test_a.py::t", "tests/store/test_x.py::t", "tests/host/test_x.py::t"],
        "6": ["tests/store/test_x.py::t"], "7": ["tests/store/test_a.py::t"],
        "8": ["tests/store/test_a.py::u"], "12": [""],
    }  # fmt: skip

    @pytest.mark.parametrize(("line", "tests"), [
        (6, ["store/test_x.py::t"]),
        # the own tests of a module come first, then those of its room
        (5, ["store/test_x.py::t", "host/test_x.py::t", "store/test_a.py::t"]),
        # a statement of several lines
        (9, ["store/test_a.py::t", "store/test_a.py::u"]),
        # what runs at import has the tests of the function or class around it
        (4, _ALL),
        (2, _ALL),
        (13, []),
    ])  # fmt: skip
    def test_item_5_the_tests_of_a_line(self, line: int, tests: list[str]) -> None:
        durations = {each: 1.0 for ran in self.LINES.values() for each in ran}
        reached = mutate.Reached({"genai_host/store/x.py": self.LINES}, durations)
        names = reached.tests_of(Path("genai_host/store/x.py"), self.SOURCE, line)
        assert list(names) == [f"tests/{each}" for each in tests]

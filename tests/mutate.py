"""How well the tests detect faults: change the source of the host's core, one place at a time.

    python tests/mutate.py [--count N] [--seed S] [MODULE.py ...]

A mutant is one small change, such as `<` to `<=`. N of all possible ones are tried, the same ones
for the same seed. First, all tests run without a mutant under coverage.py, which records the tests
that run each line. Then the tests that run the changed line run for each mutant: those of the
module first, then those of its room, then the others, only of the rings `unit` and `part`. If all
pass, all tests of the room run: the code of a cached value runs in one of its tests alone. A mutant
is killed if a test fails or does not end. The run fails if fewer than 95 % are killed, or if a test
fails without a mutant.

The changes are made in a copy of genai_host, which the tests import: the sources do not change.
pytest loads this module as a plugin, for the option `--reached`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
_GATE = 95.0
_CORE = (
    *("calls/*.py", "catalog/*.py", "conversations/*.py", "http/*.py", "store/*.py", "usage/*.py"),
    *("api/codec.py", "api/http_provider.py", "api/json_text.py", "api/stream_parsers.py"),
)
_FURTHER = tuple(f"tests/{each}" for each in ("conversations", "host", "providers", "acceptance"))
_PYTEST = ("-m", "pytest", "-n0", "-xq", "--no-header", "--rings=unit,part", "--hypothesis-seed=0")
_PLUGIN = ("-p", "mutate")
_PASSED = (0, 5)  # pytest.ExitCode.OK and NO_TESTS_COLLECTED: all may be of other rings
_PAIRS = (
    *(("<", "<="), (">", ">="), ("==", "!="), ("+", "-"), ("+=", "-=")),
    *(("is", "is not"), ("in", "not in"), ("and", "or")),
)
_OPERATORS = {old: new for pair in _PAIRS for old, new in (pair, pair[::-1])}
_NOTHING = ("None", "False")  # None instead of these is hardly a change
_OPERATOR = re.compile(rb"[\s()]*(is\s+not|not\s+in|is|in|and|or|[-+<>=!]=?)[\s()]*")


def main(arguments: list[str]) -> int:
    """The exit code: 1 if too many mutants survive."""
    parser = argparse.ArgumentParser(prog="mutate.py", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE.py")
    options = parser.parse_args(arguments)
    modules = [each.resolve() for each in options.modules]
    modules = modules or [each for part in _CORE for each in (ROOT / "genai_host").glob(part)]
    sources = {each.relative_to(ROOT): each.read_bytes() for each in sorted(modules)}
    possible = [(file, each) for file, source in sources.items() for each in mutants(source)]
    chosen = random.Random(options.seed).sample(possible, min(options.count, len(possible)))
    killed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "genai_host", copy / "genai_host", ignore=ignored)
        rooms = [each for file in sources for each in (_room(file), *_FURTHER)]
        reached = _reached(copy, {file for file, _ in chosen}, list(dict.fromkeys(rooms)))
        if reached is None:
            return 1
        for file, mutant in sorted(chosen):
            tests = reached.tests_of(file, sources[file], mutant.line)
            verdict = _try(copy, file, mutant.apply(sources[file]), tests)
            killed += verdict != "SURVIVED"
            print(f"{verdict:8}  {file}:{mutant.line}: {mutant.tell(sources[file])}", flush=True)
    score = 100 * killed / (len(chosen) or 1)
    print(f"{killed} of {len(chosen)} mutants were killed: {score:.1f} % (least: {_GATE:.0f} %)")
    return int(score < _GATE)


class Reached(NamedTuple):
    """The tests that run each line, and their durations in seconds."""

    lines: dict[str, dict[str, list[str]]]
    durations: dict[str, float]

    def tests_of(self, file: Path, source: bytes, line: int) -> dict[str, float]:
        """The tests that run the statement of a line, and their durations.

        A statement that runs at import has those of the class or module around it.
        """
        lines = self.lines.get(str(file), {})
        stem, room = file.stem, f"{_room(file)}/"
        for first, last in _around(ast.parse(source), line):
            ran = {each for at in range(first, last + 1) for each in lines.get(str(at), ())}
            if not ran or ran != {""}:
                break
        order = sorted(
            ran - {""},
            key=lambda each: (
                f"/test_{stem}.py" not in each,
                not each.startswith(room),
                each.partition("::")[0],
                self.durations[each],
                each,
            ),
        )
        return {each: self.durations[each] for each in order}


def _around(module: ast.Module, line: int) -> list[tuple[int, int]]:
    """First and last lines of the statements around a line, the innermost first, and of the module.

    A compound statement has the lines before its body, a function all its lines.
    """
    found = []
    for node in ast.walk(module):  # outer nodes come before inner ones
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            if body and not isinstance(node, ast.FunctionDef) and line < body[0].lineno:
                found.append((node.lineno, body[0].lineno - 1))
            else:
                found.append((node.lineno, node.end_lineno or 0))
    return [*reversed(found), (1, module.body[-1].end_lineno or 0)]


def _reached(copy: Path, files: set[Path], tests: list[str]) -> Reached | None:
    """Run the tests without a mutant; None if one fails."""
    record = copy / "reached.json"
    record.write_text(json.dumps([str(copy / each) for each in sorted(files)]), encoding="utf-8")
    existing = [each for each in tests if (ROOT / each).exists()]
    done = _pytest(copy, [*_PLUGIN, f"--reached={record}", *existing], None)
    if done.returncode not in _PASSED:
        failed = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE)
        print("\n".join(["a test fails without a mutant:", *(failed or [done.stdout])]))
        return None
    saved = json.loads(record.read_text("utf-8"))
    lines = {str(Path(each).relative_to(copy)): ran for each, ran in saved["lines"].items()}
    return Reached(lines, saved["durations"])


def _try(copy: Path, file: Path, source: bytes, tests: dict[str, float]) -> str:
    """Run the tests on a mutant, and return the verdict; then restore the module."""
    before, arguments, room = (copy / file).read_bytes(), copy / "tests.txt", _room(file)
    arguments.write_text("\n".join(tests), encoding="utf-8")
    stages = [([f"@{arguments}"], 60 + 5 * sum(tests.values()))] if tests else []
    stages += [([room], 1200)] if (ROOT / room).exists() else []
    try:
        _write(copy / file, source)
        for selected, limit in stages:
            if _pytest(copy, selected, limit).returncode not in _PASSED:
                return "killed"
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        _write(copy / file, before)
    return "SURVIVED"


def _write(file: Path, source: bytes) -> None:
    """Change a file. What was compiled of it before may be of the same second and size."""
    file.write_bytes(source)
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()


def _pytest(
    copy: Path, arguments: list[str], limit: float | None
) -> subprocess.CompletedProcess[str]:
    """Run pytest on the copy of the sources."""
    path = os.pathsep.join([str(copy), str(Path(__file__).parent)])
    variables = {"PYTHONPATH": path, "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis")}
    # -P: genai_host is not that of this folder
    command = [sys.executable, "-P", *_PYTEST, "-p", "no:cacheprovider", *arguments]
    environ = {**os.environ, **variables}
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=limit
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `_reached`."""
    parser.addoption("--reached", metavar="FILE", help="record which tests run each line")


def pytest_configure(config: pytest.Config) -> None:
    """Record the tests of each line if the option is set."""
    if file := config.getoption("--reached"):
        config.pluginmanager.register(Recorder(Path(file)))


class Recorder:
    """A pytest plugin that replaces the module names in a file with the tests of their lines."""

    def __init__(self, file: Path) -> None:
        from coverage import Coverage

        self._file = file
        modules = json.loads(file.read_text("utf-8"))
        self._coverage = Coverage(data_file=None, config_file=False, include=modules)
        self._durations = dict[str, float]()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._coverage.switch_context(item.nodeid)
        began = time.monotonic()
        done = yield
        self._durations[item.nodeid] = time.monotonic() - began
        self._coverage.switch_context("")
        return done

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {each: data.contexts_by_lineno(each) for each in data.measured_files()}
        saved = {"lines": lines, "durations": self._durations}
        self._file.write_text(json.dumps(saved), encoding="utf-8")


def _room(file: Path) -> str:
    """The folder of the tests of a module of genai_host."""
    return f"tests/{Path(file.parts[1]).stem}"


class Mutant(NamedTuple):
    """A change: `text` in place of the bytes of a source from `start` to `end`."""

    line: int
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """The source with the change; its lines keep their numbers."""
        lost = source[self.start : self.end].count(b"\n") - self.text.count("\n")
        return source[: self.start] + self.text.encode() + b"\n" * lost + source[self.end :]

    def tell(self, source: bytes) -> str:
        """The line as it was, and as it is."""
        lines = (each.split(b"\n")[self.line - 1] for each in (source, self.apply(source)))
        return "  ->  ".join(each.decode().strip() for each in lines)


def mutants(source: bytes) -> list[Mutant]:
    """All that are possible, in the order of the source."""
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)

    def place(node: Any) -> tuple[int, int]:
        first, last = starts[node.lineno - 1], starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    changes = set[tuple[int, int, str]]()
    for node in _code(ast.parse(source)):
        for left, right in pairwise(_operands(node)):
            match = _OPERATOR.fullmatch(source, place(left)[1], place(right)[0])
            if match and (new := _OPERATORS.get(" ".join(match[1].decode().split()))):
                changes.add((*match.span(1), new))
        for part, new in _replaced(node):
            start, end = place(part)
            changes.add((start, end, new.format(source[start:end].decode())))
    return [Mutant(source.count(b"\n", 0, each[0]) + 1, *each) for each in sorted(changes)]


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """What is run of it: no annotations, nothing for type checkers, no `__all__`. Constants are
    left out too: that one is 64, and not 65, is what it says, and no test says it again. What is in
    f-strings has no places in Python 3.11."""
    match node:
        case ast.JoinedStr() | ast.If(test=ast.Name("TYPE_CHECKING")):
            return
        case ast.Assign(targets=[ast.Name(name)]) if name.isupper() or name == "__all__":
            return
    yield node
    for name, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and name not in ("annotation", "returns"):
                yield from _code(each)


def _operands(node: ast.AST) -> list[ast.expr]:
    """What the operators of a node stand between."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.BoolOp():
            return node.values
        case ast.BinOp():
            return [node.left, node.right]
        case ast.AugAssign():
            return [node.target, node.value]
    return []


def _replaced(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Parts of a node, and what may stand in their place; `{}` is the part itself."""
    match node:
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(number) | float(number)):
            yield node, repr(number + 1)
        case ast.UnaryOp(op=ast.Not()):
            yield node, "not {}"  # drops it, and it stays a boolean
        case ast.Expr(value=ast.Call()):
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in _NOTHING:
            yield value, "None"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.UnaryOp):
                yield test, "not ({})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

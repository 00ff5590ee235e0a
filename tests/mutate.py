"""How well the tests catch: change the source of the host's core a little, and see who notices.

    python tests/mutate.py [--count N] [--seed S] [MODULE.py ...]

A mutant is one small change, such as `<` to `<=`. N of all that are possible are tried, the same
ones for the same seed. Each is killed if a test fails, or does not end. The tests of the module
run first, then those of its room, then those that use all rooms, such as the acceptance tests; only
those of the rings `unit` and `part`. The run fails if fewer than 95 % are killed, or if a test
fails without any mutant.

The changes are made in a copy of genai_host, which the tests import: the sources stay as they are.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_GATE = 95.0
_CORE = (
    *("calls/*.py", "catalog/*.py", "conversations/*.py", "http/*.py", "store/*.py", "usage/*.py"),
    *("api/codec.py", "api/http_provider.py", "api/json_text.py"),
)
_FURTHER = tuple(f"tests/{each}" for each in ("conversations", "host", "providers", "acceptance"))
_PYTEST = ("-m", "pytest", "-n0", "-xq", "--rings=unit,part", "--hypothesis-seed=0")
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
        copy, limits = Path(folder), dict[str, float]()
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "genai_host", copy / "genai_host", ignore=ignored)
        for tests in sorted({each for file, _ in chosen for each in (_room(file), *_FURTHER)}):
            began = time.monotonic()
            if _run(copy, [tests], 1200):
                print(f"without any mutant, a test of {tests} fails")
                return 1
            limits[tests] = 10 + 3 * (time.monotonic() - began)
        for file, mutant in sorted(chosen):
            verdict = _try(copy, file, mutant.apply(sources[file]), limits)
            killed += verdict != "SURVIVED"
            print(f"{verdict:8}  {file}:{mutant.line}: {mutant.tell(sources[file])}", flush=True)
    score = 100 * killed / (len(chosen) or 1)
    print(f"{killed} of {len(chosen)} mutants were killed: {score:.1f} % (least: {_GATE:.0f} %)")
    return int(score < _GATE)


def _try(copy: Path, file: Path, source: bytes, limits: dict[str, float]) -> str:
    """What the tests say to a module that is so; the copy is then as it was."""
    before = (copy / file).read_bytes()
    room = _room(file)
    own = [
        f"{folder}/test_{file.stem}.py"
        for folder in (room, *_FURTHER)
        if (ROOT / folder / f"test_{file.stem}.py").exists()
    ]
    try:
        _write(copy / file, source)
        stages = [(own, limits[room])] if own else []
        stages += [([each], limits[each]) for each in dict.fromkeys((room, *_FURTHER))]
        for tests, limit in stages:
            if verdict := _run(copy, tests, limit):
                return verdict
        return "SURVIVED"
    finally:
        _write(copy / file, before)


def _write(file: Path, source: bytes) -> None:
    """Change a file. What was compiled of it before may be of the same second and size."""
    file.write_bytes(source)
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()


def _run(copy: Path, tests: list[str], limit: float) -> str:
    """Run tests on a copy of the sources: how a mutant is killed by them, or nothing."""
    variables = {"PYTHONPATH": str(copy), "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis")}
    # -P: genai_host is not that of this folder
    command = [sys.executable, "-P", *_PYTEST, "-p", "no:cacheprovider", *tests]
    environ = {**os.environ, **variables}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "" if done.returncode in _PASSED else "killed"


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

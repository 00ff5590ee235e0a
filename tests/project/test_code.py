"""Rules for the code that no linter checks."""

from __future__ import annotations

import ast
import inspect
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ROOT = Path(__file__).resolve().parents[2]

MAX_POSITIONAL = 7
"""Maximum number of arguments that a caller may pass by position, without `self`."""

PRIVATE = {
    "genai_host/http/connections.py": (
        (urllib3.HTTPConnectionPool, "_get_conn", ["self", "timeout"]),
        (urllib3.HTTPConnectionPool, "_put_conn", ["self", "conn"]),
        (urllib3.HTTPSConnectionPool, "_prepare_proxy", ["self", "conn"]),
    ),
    "plugins/genai-server/genai_server/connection.py": (
        (HttpToolsProtocol, "_unset_keepalive_if_required", ["self"]),
    ),
}
"""Private methods of other libraries that a module uses, with their parameters."""

REAL_TIME = {
    "genai_host/cli/terminal.py": "an age in an option counts from the start of the command",
    "genai_host/store/store.py": "the default of `Store(now=...)`",
    "genai_host/util/clock.py": "the clock itself",
}
"""Modules of the host that read the time without a `Clock`, and why."""


def _modules() -> Iterator[Path]:
    """The modules of the host and of bundled plugins, without tests."""
    for package in (ROOT / "genai_host", *sorted(ROOT.glob("plugins/*/genai_*"))):
        yield from sorted(package.rglob("*.py"))


def _hook(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is a hook: pluggy passes arguments by name, but supports no keyword-only ones."""
    names = {ast.unparse(each).split("(")[0] for each in function.decorator_list}
    return bool(names & {"hookspec", "hookimpl"})


def test_no_function_takes_more_than_7_arguments_by_position() -> None:
    long = []
    for file in _modules():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _hook(node):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                count = len(names) - (names[:1] in (["self"], ["cls"]))
                if count > MAX_POSITIONAL:
                    long.append(
                        f"{file.relative_to(ROOT)}:{node.lineno}: {node.name} takes {count}"
                    )
    assert not long


def test_item_2_no_name_in_the_host_is_that_of_a_vendor() -> None:
    vendors = ("anthropic", "azure", "bedrock", "claude", "gemini", "ollama", "openai", "vertex")
    problems = []
    for file in sorted((ROOT / "genai_host").rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        with file.open("rb") as source:
            names = {
                each.string
                for each in tokenize.tokenize(source.readline)
                if each.type == tokenize.NAME
            }
        wrong = sorted(name for name in names if any(each in name.lower() for each in vendors))
        if wrong:
            problems.append((path, wrong))
    assert not problems


def test_the_host_reads_the_time_from_a_clock() -> None:
    names = {"monotonic", "perf_counter", "sleep", "time"}
    reading = {f"time.{name}" for name in names}
    problems = set()
    for file in (ROOT / "genai_host").rglob("*.py"):
        path = file.relative_to(ROOT).as_posix()
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if any(each in text for each in reading) else "")):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in names
                and ast.unparse(node) in reading
            ):
                problems.add(path)
    assert problems == REAL_TIME.keys()


@pytest.mark.parametrize(
    ("owner", "name", "parameters"), [each for used in PRIVATE.values() for each in used]
)
def test_private_methods_are_unchanged(owner: type, name: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(owner, name)).parameters) == parameters


@pytest.mark.parametrize("file", PRIVATE)
def test_no_other_private_method_of_a_library_is_used(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    used = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    bases = [*{owner for owner, _, _ in PRIVATE[file]}, urllib3.HTTPSConnectionPool]
    theirs = {
        name
        for base in bases
        for owner in base.__mro__
        for name in vars(owner)
        if name.startswith("_") and not name.startswith("__")
    }
    assert used & theirs == {name for _, name, _ in PRIVATE[file]}

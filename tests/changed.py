"""The tests that a change may break, by what they import.

A change of the host or of the testing kit may break all. One of a plugin may break its own tests
and those of whatever imports it; one of a test, a helper or a part of the testing kit that few
import, the tests that import it; one of a document, tests/project.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_KIT = "plugins/genai-host-testing"
_PARTS_OF_KIT = tuple(f"{_KIT}/genai_host_testing/{each}/" for each in ("internal", "services"))
_FIXTURES = (f"{_KIT}/genai_host_testing/internal/stores.py", "tests/helpers/environments.py")
_IMPORTED_FROM = ("tests/helpers", _KIT, "tests")  # as `pythonpath` of setup.cfg
_ENVIRONMENTS = tuple(
    f"tests/{folder}/" for folder in ("assistants_peers", "bare", "npm", "page", "peers")
)


def changed_since(revision: str) -> list[str]:
    """Paths of the files that are not as in this revision, those that git does not know too."""
    return [
        *_git("diff", "--name-only", revision),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]


def smoke_tests() -> list[str]:
    """Paths of the files that have tests marked `smoke`."""
    return _git("grep", "--name-only", "mark.smoke", "--", "tests/**/test_*.py")


def tests_of(changed: Iterable[str]) -> list[str] | None:
    """Paths of the test files that these changes may break; None for all that there are."""
    left = {_unit(path) for path in changed}
    if None in left:
        return None
    users = _users()
    found = set[str]()
    while left:
        unit = str(left.pop())
        if unit not in found:
            found.add(unit)
            left |= users.get(unit, set())
    tests = {each for each in found if _is_test(each)}
    plugins = {each for each in found if each.startswith("plugins/") and not each.endswith(".py")}
    tests |= {
        each for each in _git("ls-files", "plugins") if _is_test(each) and _plugin(each) in plugins
    }
    if "documents" in found:
        tests |= {each for each in _git("ls-files", "tests/project") if _is_test(each)}
    return sorted(each for each in tests if not each.startswith(_ENVIRONMENTS))


def _unit(path: str) -> str | None:
    """What is changed with a file: itself if it is of tests, its plugin, or `documents`; None for
    everything."""
    if path.startswith(f"{_KIT}/genai_host_testing/"):
        return path if path.startswith(_PARTS_OF_KIT) and path.endswith(".py") else None
    if path.startswith("plugins/") and path.count("/") > 1:
        return path if "/tests/" in path and path.endswith(".py") else _plugin(path)
    if path.startswith("tests/") and path.endswith(".py") and not path.endswith("conftest.py"):
        return path
    return (
        "documents" if path.endswith(".md") or path.startswith(("docs/", "benchmarks/")) else None
    )


def _plugin(path: str) -> str:
    return "/".join(path.split("/")[:2])


def _is_test(path: str) -> bool:
    return Path(path).name.startswith("test_") and path.endswith(".py")


@cache  # it parses all tests
def _users() -> dict[str, set[str | None]]:
    """What imports each test file, helper and plugin: paths, by path."""
    files = _git("ls-files", "--cached", "--others", "--exclude-standard", "tests", "plugins")
    users: dict[str, set[str | None]] = {}
    for path in files:
        if path.endswith(".py") and (ROOT / path).exists():
            for used in _imported(path):
                users.setdefault(used, set()).add(_unit(path))
    return users


def _imported(path: str) -> Iterator[str]:
    """Paths of the helpers, test files and plugins that a file imports, or the fixtures of which it
    uses."""
    fixtures = _fixtures()
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.arg) and node.arg in fixtures:
            yield fixtures[node.arg]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
        else:
            continue
        is_relative = isinstance(node, ast.ImportFrom) and node.level == 1
        places = [str(Path(path).parent)] if is_relative else _IMPORTED_FROM
        for name in filter(None, names):
            plugin = "plugins/" + name.partition(".")[0].replace("_", "-")
            if not is_relative and plugin != _KIT and (ROOT / plugin).is_dir():
                yield plugin
            for place in places:
                file = f"{place}/{name.replace('.', '/')}.py"
                if (ROOT / file).exists():
                    yield file


@cache
def _fixtures() -> dict[str, str]:
    """Paths of the modules that define fixtures for all tests, by name of the fixture."""
    return {
        node.name: path
        for path in _FIXTURES
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any("fixture" in ast.unparse(each) for each in node.decorator_list)
    }


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()

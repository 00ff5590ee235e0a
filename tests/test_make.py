"""The first command of the README, as a stranger runs it: a copy, no environment, no
home. Slow: it installs everything and fetches the weights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = 'python3 make.py ask "What is the capital of France?"'
DEBIAN = "/usr/bin/python3"


def _is_managed(python: str) -> bool:
    """Whether a Python is its system's, which pip may not install into (PEP 668)."""
    code = (
        "import sys, sysconfig, pathlib; print(sys.version_info >= (3, 10) and "
        "(pathlib.Path(sysconfig.get_path('stdlib')) / 'EXTERNALLY-MANAGED').exists())"
    )
    if not os.path.exists(python):
        return False
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


def _pythons() -> list[object]:
    base = os.path.join(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    managed = pytest.mark.skipif(
        not _is_managed(DEBIAN), reason=f"{DEBIAN} is no externally managed Python 3.10 or newer"
    )
    return [pytest.param(base, id="own"), pytest.param(DEBIAN, id="debian", marks=managed)]


def test_the_readme_has_the_commands() -> None:
    assert f"$ {COMMAND}\n" in README
    assert "$ python3 make.py test\n" in README
    assert "make.py test --all" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", _pythons())
def test_a_stranger_gets_an_answer_of_a_real_model(python: str, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    unwanted = shutil.ignore_patterns(".git", ".tox", ".venv", ".cache", "build", "*.egg-info")
    shutil.copytree(ROOT, clone, ignore=unwanted)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "GENAI_HOST_HOME")
    }
    variables["HOME"] = str(tmp_path)
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        variables.pop(f"XDG_{name}_HOME", None)
    command = [python, "make.py", "ask", "What is the capital of France?"]
    done = subprocess.run(
        command, cwd=clone, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert list(tmp_path.glob(".local/share/genai-host/local/*.gguf"))

"""Items 2 and 7 of the tests: what `tests/run.py` says of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from environments import ROOT

pytestmark = pytest.mark.process

_FLAKY = """
import pathlib

def test_flaky():
    seen = pathlib.Path("seen")
    was_there = seen.exists()
    seen.touch()
    assert was_there

def test_good(): pass
"""
_BAD = "def test_bad(): assert False\n"


def run(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code, and the output."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "run.py"), *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_item_3_what_passes_alone_is_named_as_flaky(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_FLAKY)
    code, output = run(tmp_path)
    assert code == 0
    assert "FLAKY test_it.py::test_flaky: it failed, and passed alone\n" in output


def test_item_3_what_fails_twice_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_FLAKY + _BAD)
    code, output = run(tmp_path)
    assert code == 1
    assert "FLAKY test_it.py::test_flaky" in output
    assert "FLAKY test_it.py::test_bad" not in output


def test_item_3_many_failures_are_no_bad_luck(tmp_path: Path) -> None:
    bad = "".join(f"def test_{number}(): assert False\n" for number in range(6))
    (tmp_path / "test_it.py").write_text(bad)
    code, output = run(tmp_path)
    assert (code, "once more" in output) == (1, False)


def test_item_3_a_run_without_tests_is_no_success(tmp_path: Path) -> None:
    assert run(tmp_path)[0] == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_item_7_a_process_that_is_left_behind_is_named_and_ended(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import subprocess, sys\n"
        "def test_leaves():\n"
        "    command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "    with open('pid', 'w') as file:\n"
        "        started = subprocess.Popen(command, start_new_session=True)\n"
        "        file.write(str(started.pid))\n"
        "    started.returncode = 0  # nobody waits for it\n"
    )
    code, output = run(tmp_path)
    pid = (tmp_path / "pid").read_text()
    assert code == 1
    assert f"LEFT BEHIND process {pid}: " in output
    assert not Path("/proc", pid, "cmdline").exists() or _is_zombie(pid)


def test_item_7_a_file_that_is_left_behind_is_named_and_fails_in_ci(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    (tmp_path / "test_it.py").write_text("def test_it(): open('left.txt', 'w').close()\n")
    code, output = run(tmp_path, "-p", "no:cacheprovider", CI="true")
    assert code == 1
    assert "LEFT BEHIND file left.txt\n" in output
    (tmp_path / "left.txt").unlink()
    assert run(tmp_path, "-p", "no:cacheprovider", CI="")[0] == 0


def _is_zombie(pid: str) -> bool:
    return " Z " in Path("/proc", pid, "stat").read_text()


def test_item_3_under_stress_each_run_counts(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_FLAKY)
    code, output = run(tmp_path, "--stress", TESTS_TIMES="3")
    assert code == 1
    assert "2 of 3 runs passed with every core busy\n" in output

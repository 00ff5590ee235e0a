#!/usr/bin/env python3
"""Compare instructions and CPU time of commands and calls with another revision.

    python benchmarks/revisions.py [--base REVISION] [--python PYTHON]

The time of a short command varies more between runs than most changes affect it; the number of
instructions hardly varies. Each revision is checked out and installed with all plugins into a
separate environment. Commands are run until their index and bytecode exist, and then counted with
callgrind (valgrind must be installed). Calls are those of `calls.py` of the same revision; their
count is the difference between many and few calls in one process, without garbage collection.

Instructions do not include the effects of caches and of the kernel. So the CPU time of the calling
thread is measured, too, in alternating processes of both revisions; the result is the minimum.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from service import Service

ROOT = Path(__file__).resolve().parent.parent
_COMMANDS = (
    ("--help",),
    ("plugins",),
    ("ask", "--model", "mock", "--no-record", "hi"),
    ("ask", "--model", "mock", "hi"),
)
_CALLS = (  # class and method of calls.py, few and many calls, chunks per call
    ("Host", "short", 20, 120, 1),
    ("Host", "history", 10, 110, 1),
    ("Host", "stream", 1, 2, 2000),
    ("Recorded", "short", 20, 120, 1),
)
_TIMED = (  # class and method of calls.py, calls, chunks per call
    ("Host", "short", 1000, 1),
    ("Host", "history", 500, 1),
    ("Host", "rebuilt", 200, 1),
    ("Host", "stream", 6, 2000),
    ("Recorded", "short", 1000, 1),
    ("Recorded", "history", 500, 1),
    ("Stored", "short", 1000, 1),
    ("Stored", "history", 500, 1),
)
_ROUNDS = 5
_SETTLE_SECONDS = 2.5  # until the index accepts the last installation as complete
_CALL = """
import gc, os, sys
sys.path.insert(0, sys.argv[1])
import calls
call = getattr(getattr(calls, sys.argv[2])(sys.argv[5]), sys.argv[3])
gc.disable()
for _ in range(int(sys.argv[4])):
    call()
os._exit(0)
"""
_TIMES = """
import sys, time
sys.path.insert(0, sys.argv[1])
import calls
call = getattr(getattr(calls, sys.argv[2])(sys.argv[5]), sys.argv[3])
times = []
for _ in range(int(sys.argv[4])):
    started = time.thread_time_ns()
    call()
    times.append(time.thread_time_ns() - started)
times.sort()
print(times[len(times) // 20])  # ignore outliers
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--base", metavar="REVISION", default="HEAD~1", help="revision to compare with"
    )
    parser.add_argument("--python", default=sys.executable, help="Python interpreter")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, Service() as service:
        base = _Revision(options.base, Path(scratch) / "base", options.python)
        head = _Revision("HEAD", Path(scratch) / "head", options.python)
        time.sleep(_SETTLE_SECONDS)
        print(f"{'instructions':36} {options.base:>14} {'HEAD':>14}  ratio")
        for command in _COMMANDS:
            _print_row(" ".join(command), *(revision.command(command) for revision in (base, head)))
        for kind, method, few, many, chunks in _CALLS:
            counts = [
                (
                    revision.calls(kind, method, many, service)
                    - revision.calls(kind, method, few, service)
                )
                // ((many - few) * chunks)
                for revision in (base, head)
            ]
            _print_row(f"{kind}.{method}", *counts)
        print(f"\n{'CPU time in ns':36} {options.base:>14} {'HEAD':>14}  ratio")
        for kind, method, times, chunks in _TIMED:
            rounds = [
                [revision.nanoseconds(kind, method, times, service) for revision in (base, head)]
                for _ in range(_ROUNDS)
            ]
            _print_row(
                f"{kind}.{method}", *(min(times) // chunks for times in zip(*rounds, strict=True))
            )


def _print_row(name: str, base: int, head: int) -> None:
    print(f"{name:36} {base:14,} {head:14,}  {head / base:.3f}", flush=True)


class _Revision:
    """A revision, checked out and installed in a separate directory."""

    def __init__(self, revision: str, directory: Path, python: str) -> None:
        self._tree = directory / "tree"
        clone = ["git", "clone", "--quiet", str(ROOT), str(self._tree)]
        subprocess.run(clone, check=True)
        checkout = ["git", "-C", str(self._tree), "checkout", "--quiet"]
        commit = ["git", "-C", str(ROOT), "rev-parse", revision]
        commit_id = subprocess.run(
            commit, check=True, capture_output=True, text=True
        ).stdout.strip()
        subprocess.run([*checkout, commit_id], check=True)
        self._bin = directory / "venv" / "bin"
        subprocess.run([python, "-m", "venv", str(directory / "venv")], check=True)
        plugins = [str(path) for path in sorted((self._tree / "plugins").glob("genai-*"))]
        pip = [str(self._bin / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"{self._tree}[prices]", *plugins], check=True)
        self._variables = {
            **os.environ,
            "GENAI_HOST_HOME": str(directory / "home"),
            "NO_PROXY": "*",
            "PYTHONHASHSEED": "0",
        }

    def command(self, command: tuple[str, ...]) -> int:
        """Count the instructions of a command of genai-host."""
        program = [str(self._bin / "python"), str(self._bin / "genai-host"), *command]
        for _ in range(3):
            self._run(program)
        return self._count_instructions(program)

    def calls(self, kind: str, method: str, times: int, service: Service) -> int:
        """Count the instructions of a process with a number of calls."""
        directory = str(self._tree / "benchmarks")
        start = [str(self._bin / "python"), "-c", _CALL, directory, kind, method]
        self._run([*start, "1", service.url])
        return self._count_instructions([*start, str(times), service.url])

    def nanoseconds(self, kind: str, method: str, times: int, service: Service) -> int:
        """Measure the CPU time of a call in its thread."""
        directory = str(self._tree / "benchmarks")
        start = [str(self._bin / "python"), "-c", _TIMES, directory, kind, method]
        return int(self._run([*start, str(times), service.url]).stdout)

    def _count_instructions(self, program: list[str]) -> int:
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
        return int(re.findall(r"Collected : (\d+)", self._run([*valgrind, *program]).stderr)[-1])

    def _run(self, program: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            program, env=self._variables, cwd=os.sep, check=True, capture_output=True, text=True
        )


if __name__ == "__main__":
    main()

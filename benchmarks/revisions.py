#!/usr/bin/env python3
"""Instructions and CPU time of commands and calls, beside those of another revision.

    python benchmarks/revisions.py [--base REVISION] [--python PYTHON]

The time of a short command varies by more than most changes make, also on an idle machine; the
number of instructions hardly varies, on any. Each revision is checked out and installed with all
plugins into an environment of its own. The commands are run until their index and bytecode exist,
and counted by callgrind of valgrind, which must be installed. Calls are those of `calls.py` of the
revision itself: the difference between many and few in one process, without garbage collection.

Instructions say nothing of caches and of the system. So the calls are timed, too: the CPU time of
their thread, in processes of both revisions in turn, of which the least counts.
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
_CALLS = (  # class of calls.py, its method, few and many of them, and parts of each
    ("Host", "short", 20, 120, 1),
    ("Host", "history", 10, 110, 1),
    ("Host", "stream", 1, 2, 2000),
    ("Recorded", "short", 20, 120, 1),
)
_TIMED = (  # class of calls.py, its method, repetitions, and parts of each
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
_SETTLED = 2.5  # seconds until the index takes the last install for settled
_CALL = """
import gc, os, sys
sys.path.insert(0, sys.argv[1])
import calls
act = getattr(getattr(calls, sys.argv[2])(sys.argv[5]), sys.argv[3])
gc.disable()
for _ in range(int(sys.argv[4])):
    act()
os._exit(0)
"""
_TIMES = """
import sys, time
sys.path.insert(0, sys.argv[1])
import calls
act = getattr(getattr(calls, sys.argv[2])(sys.argv[5]), sys.argv[3])
times = []
for _ in range(int(sys.argv[4])):
    started = time.thread_time_ns()
    act()
    times.append(time.thread_time_ns() - started)
times.sort()
print(times[len(times) // 20])  # the very least is luck
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--base", metavar="REVISION", default="HEAD~1")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, Service() as service:
        base = _Revision(options.base, Path(scratch) / "base", options.python)
        now = _Revision("HEAD", Path(scratch) / "now", options.python)
        time.sleep(_SETTLED)
        print(f"{'instructions':36} {options.base:>14} {'HEAD':>14}  ratio")
        for command in _COMMANDS:
            _show(" ".join(command), *(each.command(command) for each in (base, now)))
        for kind, method, few, many, parts in _CALLS:
            counts = [
                (each.calls(kind, method, many, service) - each.calls(kind, method, few, service))
                // ((many - few) * parts)
                for each in (base, now)
            ]
            _show(f"{kind}.{method}", *counts)
        print(f"\n{'CPU time in ns':36} {options.base:>14} {'HEAD':>14}  ratio")
        for kind, method, times, parts in _TIMED:
            rounds = [
                [each.nanoseconds(kind, method, times, service) for each in (base, now)]
                for _ in range(_ROUNDS)
            ]
            _show(f"{kind}.{method}", *(min(each) // parts for each in zip(*rounds, strict=True)))


def _show(name: str, base: int, now: int) -> None:
    print(f"{name:36} {base:14,} {now:14,}  {now / base:.3f}", flush=True)


class _Revision:
    """A revision in a folder of its own, with an environment."""

    def __init__(self, revision: str, folder: Path, python: str) -> None:
        self._tree = folder / "tree"
        clone = ["git", "clone", "--quiet", str(ROOT), str(self._tree)]
        subprocess.run(clone, check=True)
        checkout = ["git", "-C", str(self._tree), "checkout", "--quiet"]
        commit = ["git", "-C", str(ROOT), "rev-parse", revision]
        found = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run([*checkout, found], check=True)
        self._bin = folder / "venv" / "bin"
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
        plugins = [str(each) for each in sorted((self._tree / "plugins").glob("genai-*"))]
        pip = [str(self._bin / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"{self._tree}[prices]", *plugins], check=True)
        self._variables = {
            **os.environ,
            "GENAI_HOST_HOME": str(folder / "home"),
            "NO_PROXY": "*",
            "PYTHONHASHSEED": "0",
        }

    def command(self, command: tuple[str, ...]) -> int:
        """Instructions of a command of genai-host."""
        program = [str(self._bin / "python"), str(self._bin / "genai-host"), *command]
        for _ in range(3):
            self._run(program)
        return self._counted(program)

    def calls(self, kind: str, method: str, times: int, service: Service) -> int:
        """Instructions of a process that makes a number of calls."""
        where = str(self._tree / "benchmarks")
        start = [str(self._bin / "python"), "-c", _CALL, where, kind, method]
        self._run([*start, "1", service.url])
        return self._counted([*start, str(times), service.url])

    def nanoseconds(self, kind: str, method: str, times: int, service: Service) -> int:
        """CPU time of a call, of the thread that makes it."""
        where = str(self._tree / "benchmarks")
        start = [str(self._bin / "python"), "-c", _TIMES, where, kind, method]
        return int(self._run([*start, str(times), service.url]).stdout)

    def _counted(self, program: list[str]) -> int:
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
        return int(re.findall(r"Collected : (\d+)", self._run([*valgrind, *program]).stderr)[-1])

    def _run(self, program: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            program, env=self._variables, cwd=os.sep, check=True, capture_output=True, text=True
        )


if __name__ == "__main__":
    main()

"""Run pytest, then rerun failed tests once, alone.

    python tests/run.py [ARGUMENTS OF PYTEST]
    python tests/run.py --changed [REVISION] [ARGUMENTS OF PYTEST]
    python tests/run.py --stress [ARGUMENTS OF PYTEST]
    python tests/run.py --mutate [ARGUMENTS OF mutate.py]

A test that passes the second time is flaky: it is listed at the end, and the run passes. More than
five failed tests are not rerun. A run that leaves a process running fails; in CI, so does one that
leaves a file in the working tree.

`--changed` runs the tests that changes since a revision (default: HEAD) may affect, and those
marked `smoke`: see changed.py.

`--stress` runs the tests fifty times (or `TESTS_TIMES` times) while all cores are busy, and fails
if any run fails.

`--mutate` measures how well the tests detect small changes of the host's core: see mutate.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import changed
import mutate

_MAX_RERUN = 5
_STRESS_RUNS = 50
_SLOWEST = ("--durations=20", "--durations-min=1")
_TESTS_FAILED = 1  # pytest.ExitCode.TESTS_FAILED
_NO_TESTS = 5  # pytest.ExitCode.NO_TESTS_COLLECTED
_RUN = "TESTS_RUN"  # environment variable that identifies the processes of a run


def main(arguments: list[str]) -> int:
    """Run the tests, and return the exit code of the last pytest run."""
    match arguments:
        case ["--stress", *further]:
            return stress(further)
        case ["--changed", *further]:
            return run_changed(further)
        case ["--mutate", *further]:
            return mutate.main(further)
    return run_once(arguments)


def run_changed(arguments: list[str]) -> int:
    """Run the tests that changes since a revision may affect, and the smoke tests."""
    is_named = bool(arguments) and not arguments[0].startswith("-")
    revision, further = (arguments[0], arguments[1:]) if is_named else ("HEAD", arguments)
    tests = changed.tests_of(changed.changed_since(revision))
    if tests is None:
        return run_once(further)
    print(f"{len(tests)} files of tests may be broken by what is changed since {revision}")
    codes = [run_once([*tests, *further])] if tests else []
    codes.append(run_once([*changed.smoke_tests(), *further, "--rings=smoke"]))
    return max((code for code in codes if code != _NO_TESTS), default=0)


def stress(arguments: list[str]) -> int:
    """Run the tests many times on a busy machine."""
    times = int(os.environ.get("TESTS_TIMES", _STRESS_RUNS))
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        codes = [
            subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments]).returncode
            for _ in range(times)
        ]
    finally:
        for each in busy:
            each.kill()
    failed = [code for code in codes if code]
    print(f"{times - len(failed)} of {times} runs passed with every core busy", flush=True)
    return failed[0] if failed else 0


def run_once(arguments: list[str]) -> int:
    """Run the tests, and rerun failed ones once, alone."""
    run = uuid.uuid4().hex
    began, files = time.monotonic(), _untracked()
    flaky: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tests-cache-") as cache:
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}"]
        environ = {**os.environ, _RUN: run}
        code = subprocess.run([*pytest, *_SLOWEST, *arguments], env=environ).returncode
        failed = _last_failed(Path(cache)) if code == _TESTS_FAILED else []
        if 0 < len(failed) <= _MAX_RERUN:
            print(f"\nonce more, alone: {', '.join(failed)}", flush=True)
            again = [*pytest, *arguments, "-n", "0", "--last-failed"]
            code = subprocess.run(again, env=environ).returncode
            flaky = sorted({*failed} - {*(_last_failed(Path(cache)) if code else [])})
    left = list(_left_behind(run))
    new_files = sorted(_untracked() - files)
    for test in flaky:
        print(f"FLAKY {test}: it failed, and passed alone")
    for pid, command in left:
        print(f"LEFT BEHIND process {pid}: {command}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for file in new_files:
        print(f"LEFT BEHIND file {file}")
    print(f"the tests took {time.monotonic() - began:.0f} s", flush=True)
    # only in CI, because a developer may be changing files in this directory
    return code or int(bool(left or (new_files and os.environ.get("CI"))))


def _last_failed(cache: Path) -> list[str]:
    file = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text("utf-8"))) if file.exists() else []


def _untracked() -> set[str]:
    """Files in the working tree that git neither tracks nor ignores."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    with contextlib.suppress(FileNotFoundError):
        return {*subprocess.run(command, capture_output=True, text=True).stdout.splitlines()}
    return set()


def _left_behind(run: str) -> Iterator[tuple[int, str]]:
    """Running processes of this run, on systems with /proc."""
    mark = f"{_RUN}={run}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                yield int(folder.name), command.decode(errors="replace")[:200]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

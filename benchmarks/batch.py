#!/usr/bin/env python3
"""Compare `genai-host batch run` with a loop of plain requests.

    python benchmarks/batch.py [--rows 400] [--concurrency 16] [--rounds 3]

The service on this machine answers in 50 ms, so the maximum is `concurrency` / 0.05 rows per
second. The subjects alternate in each round:

- loop: `ThreadPoolExecutor` with a session of requests in each thread
- threads: `batch run`
- record: `batch run --record`, each row is a conversation in SQLite
- dask: `batch run` on two Dask workers, if genai-dask is installed

The time of a command is the duration that it reports, without the start: one second, and about
three for a Dask cluster. Needs the environment of the tests.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests
from serve_command import MODEL, serve_command

from genai_host_testing.fake_service import FakeService, Received, Reply, json_reply

_ANSWER_SECONDS = 0.05
_ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=400, help="number of rows")
    parser.add_argument("--concurrency", type=int, default=16, help="concurrent requests")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, FakeService(answer=_answer) as service:
        directory = Path(name)
        source = directory / "in.jsonl"
        source.write_text("".join(f'"row {n}"\n' for n in range(options.rows)), encoding="utf-8")
        _, environment = serve_command(0, f"{service.url}/v1", directory)
        command = _BatchCommand(directory, source, options.concurrency, environment)
        subjects: dict[str, Callable[[], float]] = {
            "loop": lambda: _loop(service.url, options.rows, options.concurrency),
            "threads": command.run,
            "record": lambda: command.run("--record"),
        }
        if importlib.util.find_spec("genai_dask"):
            threads = f"threads={-(-options.concurrency // 2)}"
            subjects["dask"] = lambda: command.run(
                "--executor", "dask", "--executor-setting", threads
            )
        seconds: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(options.rounds):
            for name, run in subjects.items():
                seconds[name].append(run())
    maximum = options.concurrency / _ANSWER_SECONDS
    baseline = statistics.median(seconds["loop"])
    for name, durations in seconds.items():
        duration = statistics.median(durations)
        rate = options.rows / duration
        print(
            f"{name:8} {rate:7.1f} rows/s  {rate / maximum:5.2f} of maximum  "
            f"{baseline / duration:5.2f} x loop"
        )


def _answer(received: Received) -> Reply:
    time.sleep(_ANSWER_SECONDS)
    return json_reply(_ANSWER)


def _loop(url: str, rows: int, concurrency: int) -> float:
    local = threading.local()

    def send_request(number: int) -> None:
        if not hasattr(local, "session"):
            local.session = requests.Session()
            local.session.trust_env = False
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"row {number}"}]}
        local.session.post(f"{url}/v1/chat/completions", json=body, timeout=30).raise_for_status()

    started = time.monotonic()
    with ThreadPoolExecutor(concurrency) as threads:
        for future in [threads.submit(send_request, number) for number in range(rows)]:
            future.result()
    return time.monotonic() - started


class _BatchCommand:
    """The command `genai-host batch run`."""

    def __init__(
        self, directory: Path, source: Path, concurrency: int, environment: Mapping[str, str]
    ) -> None:
        self._command = [
            *(str(Path(sys.executable).with_name("genai-host")), "batch", "run", str(source)),
            *("--output", str(directory / "out.jsonl"), "--overwrite", "--json", "--quiet"),
            *("--model", f"service/{MODEL}", "--concurrency", str(concurrency)),
        ]
        self._environ = {**os.environ, **environment, "NO_PROXY": "*"}

    def run(self, *options: str) -> float:
        """Run the command with further options; returns its duration in seconds."""
        command = [*self._command, *options]
        process = subprocess.run(
            command, env=self._environ, capture_output=True, text=True, check=True
        )
        report = json.loads(process.stdout)
        assert report["failed"] == 0, report
        return float(report["seconds"])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Rows a second of `genai-host batch run`, beside a loop of plain requests.

    python benchmarks/batch.py [--rows 400] [--concurrency 16] [--rounds 3]

The service is on this machine, and takes 50 ms for an answer, so that what can be had at most is
`concurrency` / 0.05 rows a second. The ways take turns in each round:

loop      a `ThreadPoolExecutor` of as many threads, each with a session of `requests`
threads   `batch run`: journal, order, costs
record    the same, each row a conversation in a SQLite file
dask      the same as threads, by two workers of Dask, where genai-dask is installed

The time of a command is that of its rows as it tells them, without that to begin: a second, and
some three for a cluster. Needs the environment of the tests.
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

_TAKES = 0.05  # seconds of an answer
_ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, FakeService(answer=_answer) as service:
        folder = Path(name)
        source = folder / "in.jsonl"
        source.write_text("".join(f'"row {n}"\n' for n in range(given.rows)), encoding="utf-8")
        _, environment = serve_command(0, f"{service.url}/v1", folder)
        asking = _Asking(folder, source, given.concurrency, environment)
        ways: dict[str, Callable[[], float]] = {
            "loop": lambda: _loop(service.url, given.rows, given.concurrency),
            "threads": asking,
            "record": lambda: asking("--record"),
        }
        if importlib.util.find_spec("genai_dask"):
            threads = f"threads={-(-given.concurrency // 2)}"
            ways["dask"] = lambda: asking("--executor", "dask", "--executor-setting", threads)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(given.rounds):
            for way, run in ways.items():
                seconds[way].append(run())
    best = given.concurrency / _TAKES
    first = statistics.median(seconds["loop"])
    for way, each in seconds.items():
        took = statistics.median(each)
        rate = given.rows / took
        print(f"{way:8} {rate:7.1f} rows/s  {rate / best:5.2f} of most  {first / took:5.2f} x loop")


def _answer(received: Received) -> Reply:
    time.sleep(_TAKES)
    return json_reply(_ANSWER)


def _loop(url: str, rows: int, at_once: int) -> float:
    own = threading.local()

    def ask(number: int) -> None:
        if not hasattr(own, "session"):
            own.session = requests.Session()
            own.session.trust_env = False
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"row {number}"}]}
        own.session.post(f"{url}/v1/chat/completions", json=body, timeout=30).raise_for_status()

    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as threads:
        for done in [threads.submit(ask, number) for number in range(rows)]:
            done.result()
    return time.monotonic() - began


class _Asking:
    """By the command."""

    def __init__(
        self, folder: Path, source: Path, at_once: int, environment: Mapping[str, str]
    ) -> None:
        self._command = [
            *(str(Path(sys.executable).with_name("genai-host")), "batch", "run", str(source)),
            *("--output", str(folder / "out.jsonl"), "--overwrite", "--json", "--quiet"),
            *("--model", f"service/{MODEL}", "--concurrency", str(at_once)),
        ]
        self._environ = {**os.environ, **environment, "NO_PROXY": "*"}

    def __call__(self, *options: str) -> float:
        command = [*self._command, *options]
        done = subprocess.run(
            command, env=self._environ, capture_output=True, text=True, check=True
        )
        told = json.loads(done.stdout)
        assert told["failed"] == 0, told
        return float(told["seconds"])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measure runs and searches of assistants with growing threads and vector stores.

    python benchmarks/assistants.py [--rounds 20]

A run is compared with the same turn over the Responses API of the same server, and a search with
numpy alone. Concurrent runs per second are measured, too. A fake model in this process answers
immediately; the store is a SQLite database. Prints medians in milliseconds, and the median of the
ratios of all rounds. Needs the environment of the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import genai_feature_assistants
import genai_vendor_mock
from genai_feature_assistants.service.indexing import Passages, nearest, unit_rows
from genai_server import Server
from timing import Comparison, compare

from genai_host import Host, StaticPlugins
from genai_host.store import Store
from genai_host_testing import FakeModel, installed_wires
from genai_host_testing.internal.assistants_api import CONFIG, Api

_MESSAGES = (1, 100, 1000)
_PASSAGES = (100, 1000, 10_000, 100_000)
_DIMENSIONS = 384
_RUNS = 200
_CONCURRENCY = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="number of rounds")
    options = parser.parse_args()
    fake = FakeModel(lambda prompt: "ok")
    plugins = {
        **installed_wires(),
        "mock": genai_vendor_mock,
        "fake": fake,
        "assistants": genai_feature_assistants,
    }
    with (
        tempfile.TemporaryDirectory() as directory,
        Store(Path(directory) / "store.db") as store,
        Host(config=CONFIG, discovery=StaticPlugins(plugins), store=store) as host,
        Server(host, port=0, graceful_timeout=0.0) as server,
    ):
        api = Api(server.url, fake)
        for messages in _MESSAGES:
            _measure_runs(api, messages, options.rounds)
        _measure_concurrent_runs(api)
        api.close()
    for passages in _PASSAGES:
        _measure_search(passages, options.rounds)


def _measure_runs(api: Api, messages: int, rounds: int) -> None:
    assistant = api.assistant()
    thread = api.thread(*["a message of a few words"] * messages)
    items = [{"role": "user", "content": [{"type": "input_text", "text": "a few words"}]}] * 20
    conversation = api.post("/conversations", {"items": items[: min(20, messages)]})["id"]
    for _ in range(max(0, messages // 20 - 1)):
        api.post(f"/conversations/{conversation}/items", {"items": items})
    run = {"assistant_id": assistant, "additional_messages": [{"role": "user", "content": "hi"}]}
    turn = {"model": "fake", "input": "hi", "conversation": conversation, "stream": True}
    result = compare(
        lambda: api.events(f"/threads/{thread}/runs", run),
        lambda: api.ask("POST", "/responses", turn),
        rounds,
    )
    _print(f"run, {messages} messages", result, "response")


def _measure_concurrent_runs(api: Api) -> None:
    assistant = api.assistant()
    threads = [api.thread("hi") for _ in range(_RUNS)]

    def run(thread: str) -> str:
        events = dict(api.events(f"/threads/{thread}/runs", {"assistant_id": assistant}))
        return str(events["thread.run.completed"]["status"])

    started = time.perf_counter()
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        assert set(pool.map(run, threads)) == {"completed"}
    rate = _RUNS / (time.perf_counter() - started)
    print(f"{_RUNS} runs, {_CONCURRENCY} concurrent: {rate:.0f} per second")


def _measure_search(count: int, rounds: int) -> None:
    vectors = np.random.default_rng(0).random((count, _DIMENSIONS), dtype=np.float32)
    passages = Passages("m", [f"passage {n}" for n in range(count)], unit_rows(vectors))
    query = unit_rows(np.ones((1, _DIMENSIONS)))
    result = compare(
        lambda: nearest([("file", passages)], lambda embedder: query, 20),
        lambda: np.argpartition(-(passages.vectors @ query[0]), 19)[:20],
        rounds,
    )
    _print(f"search, {count} passages", result, "numpy")


def _print(title: str, result: Comparison, baseline: str) -> None:
    times = f"{result.subject:8.2f} ms, {baseline} {result.baseline:8.2f} ms"
    print(f"{title:28}: {times}, {result.ratio:.2f} x")


if __name__ == "__main__":
    main()

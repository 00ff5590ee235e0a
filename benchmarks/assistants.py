#!/usr/bin/env python3
"""What a run of an assistant costs as its thread grows, beside the same turn over the successor
API of the same server (Responses with a conversation); how many runs a server does at once; and
what a search costs as its vector store grows, beside numpy alone.

    python benchmarks/assistants.py [--rounds 20]

The model, in this process, answers at once; all is kept in a SQLite database. Prints medians of
milliseconds, and the median of the ratios round by round. Needs the environment of the tests.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import genai_feature_assistants
import genai_vendor_mock
from genai_feature_assistants.service.indexing import Passages, nearest, unit_rows
from genai_server import Server

from genai_host import Host, StaticPlugins
from genai_host.store import Store
from genai_host_testing import FakeModel, installed_wires
from genai_host_testing.internal.assistants_api import CONFIG, Api

_MESSAGES = (1, 100, 1000)
_PASSAGES = (100, 1000, 10_000, 100_000)
_SIZE = 384
_RUNS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    fake = FakeModel(lambda heard: "ok")
    plugins = {
        **installed_wires(),
        "mock": genai_vendor_mock,
        "fake": fake,
        "assistants": genai_feature_assistants,
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "store.db") as store,
        Host(config=CONFIG, discovery=StaticPlugins(plugins), store=store) as host,
        Server(host, port=0, graceful_timeout=0.0) as server,
    ):
        api = Api(server.url, fake)
        for messages in _MESSAGES:
            _measure_runs(api, messages, options.rounds)
        _measure_at_once(api)
        api.close()
    for passages in _PASSAGES:
        _measure_search(passages, options.rounds)


def _measure_runs(api: Api, messages: int, rounds: int) -> None:
    assistant = api.assistant()
    thread = api.thread(*["a message of a few words"] * messages)
    said = [{"role": "user", "content": [{"type": "input_text", "text": "a few words"}]}] * 20
    conversation = api.post("/conversations", {"items": said[: min(20, messages)]})["id"]
    for _ in range(max(0, messages // 20 - 1)):
        api.post(f"/conversations/{conversation}/items", {"items": said})
    run = {"assistant_id": assistant, "additional_messages": [{"role": "user", "content": "hi"}]}
    turn = {"model": "fake", "input": "hi", "conversation": conversation, "stream": True}
    own, peer = [], []
    for _ in range(rounds + 1):
        own.append(_ms(lambda: api.events(f"/threads/{thread}/runs", run)))
        peer.append(_ms(lambda: api.ask("POST", "/responses", turn)))
    _tell(f"a run on {messages} messages", own, peer, "a response")


def _measure_at_once(api: Api) -> None:
    assistant = api.assistant()
    threads = [api.thread("hi") for _ in range(_RUNS)]

    def run(thread: str) -> str:
        events = dict(api.events(f"/threads/{thread}/runs", {"assistant_id": assistant}))
        return str(events["thread.run.completed"]["status"])

    began = time.perf_counter()
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(run, threads)) == {"completed"}
    print(f"{_RUNS} runs, 16 at once: {_RUNS / (time.perf_counter() - began):.0f} a second")


def _measure_search(count: int, rounds: int) -> None:
    vectors = np.random.default_rng(0).random((count, _SIZE), dtype=np.float32)
    made = Passages("m", [f"passage {n}" for n in range(count)], unit_rows(vectors))
    asked = unit_rows(np.ones((1, _SIZE)))
    own, bare = [], []
    for _ in range(rounds + 1):
        own.append(_ms(lambda: nearest([("file", made)], lambda embedder: asked, 20)))
        bare.append(_ms(lambda: np.argpartition(-(made.vectors @ asked[0]), 19)[:20]))
    _tell(f"a search in {count} passages", own, bare, "numpy")


def _tell(what: str, own: list[float], peer: list[float], name: str) -> None:
    ratio = statistics.median(a / b for a, b in list(zip(own, peer, strict=True))[1:])
    told = f"{statistics.median(own[1:]):8.2f} ms, {name} {statistics.median(peer[1:]):8.2f} ms"
    print(f"{what:28}: {told}, {ratio:.2f} x")


def _ms(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    main()

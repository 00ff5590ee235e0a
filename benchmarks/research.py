#!/usr/bin/env python3
"""What a request to the research assistant costs as its tables grow, beside what anybody would
have to do: read the vectors of both DataFrames, and compare them with one.

    python benchmarks/research.py [--rounds 5] [--size 64]

A scripted model and an embedder in this process answer at once, and nothing is searched for.
Prints medians of CPU milliseconds, and the median of the ratios round by round. Needs the
environment of the tests: it has pandas.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import genai_vendor_mock

from genai_host import Config, Host, StaticPlugins
from genai_host_testing import installed_wires
from genai_host_testing.internal.research_engine import Scene

_ROWS = (100, 1000, 10_000, 100_000)
_SAID = "where do rivers run to"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=64, choices=(16, 64))
    options = parser.parse_args()
    hosts: list[Host] = []

    def make_host(**given: Any) -> Host:
        usual = {**installed_wires(), "mock": genai_vendor_mock}
        hosts.append(Host(config=Config(), discovery=StaticPlugins({**usual, **given})))
        return hosts[-1]

    assistant = Scene(make_host).assistant(models={"embed": f"words-{options.size}"})
    try:
        for rows in _ROWS:
            _measure(assistant, rows, options.size, options.rounds)
    finally:
        for host in hosts:
            host.close()


def _measure(assistant: Any, rows: int, size: int, rounds: int) -> None:
    history, facts = _tables(rows, size)
    request = {
        "input_text": _SAID,
        "conversation_history": history,
        "search_history": facts,
        "settings": {"answer_with_search": False},
    }
    own, bare = [], []
    for _ in range(rounds + 1):
        own.append(_cpu(lambda: assistant.answer(request)))
        bare.append(_cpu(lambda: _compared(history, facts, size)))
    ratio = statistics.median(a / b for a, b in list(zip(own, bare, strict=True))[1:])
    told = f"{statistics.median(own[1:]):9.1f} ms, bare {statistics.median(bare[1:]):8.1f} ms"
    print(f"{rows:7} rows in each table: {told}, {ratio:.1f} x")


def _tables(rows: int, size: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    vectors = np.random.default_rng(0).random((rows, size), dtype=np.float32)
    texts = [f"text {number}" for number in range(rows)]
    common = {
        "text": texts,
        "text_length": [len(text) for text in texts],
        "ada_search": [row.tolist() for row in vectors],
    }
    names = [f"fact {number}" for number in range(rows)]
    links = [f"https://facts.example/{number}" for number in range(rows)]
    return pd.DataFrame(common), pd.DataFrame(
        {**common, "title": names, "link": links, "query": names}
    )


def _compared(history: pd.DataFrame, facts: pd.DataFrame, size: int) -> None:
    wanted = np.ones(size, dtype=np.float32)
    for table in (history, facts):
        matrix = np.array(table["ada_search"].tolist(), dtype=np.float32)
        likeness = matrix @ wanted / np.linalg.norm(matrix, axis=1)
        table.iloc[np.argsort(-likeness)[:5]]["text"].tolist()


def _cpu(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return 1000 * (time.process_time() - began)


if __name__ == "__main__":
    main()

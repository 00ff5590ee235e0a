#!/usr/bin/env python3
"""Measure requests to the research assistant with growing tables.

    python benchmarks/research.py [--rounds 5] [--dimensions 64]

The baseline reads the vectors of both DataFrames and compares them with one vector, with numpy. A
fake model and an embedder in this process answer immediately; the search is disabled. Prints
medians of the CPU time in milliseconds, and the median of the ratios of all rounds. Needs the
environment of the tests, for pandas.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import genai_vendor_mock
from timing import compare

from genai_host import Config, Host, StaticPlugins
from genai_host_testing import installed_wires
from genai_host_testing.internal.research_engine import Scene

_ROWS = (100, 1000, 10_000, 100_000)
_QUESTION = "where do rivers run to"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    parser.add_argument(
        "--dimensions", type=int, default=64, choices=(16, 64), help="size of the vectors"
    )
    options = parser.parse_args()
    hosts: list[Host] = []

    def make_host(**plugins: Any) -> Host:
        plugins = {**installed_wires(), "mock": genai_vendor_mock, **plugins}
        hosts.append(Host(config=Config(), discovery=StaticPlugins(plugins)))
        return hosts[-1]

    assistant = Scene(make_host).assistant(models={"embed": f"words-{options.dimensions}"})
    try:
        for rows in _ROWS:
            _measure(assistant, rows, options.dimensions, options.rounds)
    finally:
        for host in hosts:
            host.close()


def _measure(assistant: Any, rows: int, dimensions: int, rounds: int) -> None:
    history, facts = _tables(rows, dimensions)
    request = {
        "input_text": _QUESTION,
        "conversation_history": history,
        "search_history": facts,
        "settings": {"answer_with_search": False},
    }
    result = compare(
        lambda: assistant.answer(request),
        lambda: _find_nearest(history, facts, dimensions),
        rounds,
        time.process_time,
    )
    print(
        f"{rows:7} rows per table: {result.subject:9.1f} ms, baseline {result.baseline:8.1f} ms, "
        f"{result.ratio:.1f} x"
    )


def _tables(rows: int, dimensions: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    vectors = np.random.default_rng(0).random((rows, dimensions), dtype=np.float32)
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


def _find_nearest(history: pd.DataFrame, facts: pd.DataFrame, dimensions: int) -> None:
    query = np.ones(dimensions, dtype=np.float32)
    for table in (history, facts):
        matrix = np.array(table["ada_search"].tolist(), dtype=np.float32)
        similarity = matrix @ query / np.linalg.norm(matrix, axis=1)
        table.iloc[np.argsort(-similarity)[:5]]["text"].tolist()


if __name__ == "__main__":
    main()

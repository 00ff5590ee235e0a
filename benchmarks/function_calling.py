#!/usr/bin/env python3
"""Measure how well the embedded model chooses among three tools, in 50 cases.

    python benchmarks/function_calling.py [--cases N] [--threads N] [--json] [--details]

The cases are from the Berkeley Function-Calling Leaderboard. Each case runs the feature `agent` in
a new host with three tools. The script counts calls with valid arguments, calls of the right tool
(by chance, a third), and calls with the right arguments. The weights of the model are in
GENAI_HOST_TEST_WEIGHTS, by default `.cache/weights`, and are downloaded if they are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import genai_feature_agent
import genai_models_open
import genai_vendor_local
from genai_vendor_local.downloads import pull
from genai_vendor_local.weights import DEFAULT

from genai_host import Config, Host, StaticPlugins
from genai_host.config import InstanceConfig
from genai_host_testing import installed_wires

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT / "tests"))

from genai_host_testing.internal.function_calls import WINDOW, Case, Played, Score, play, read_cases  # noqa: E402 - see above


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--file", type=Path, help="file with other cases")
    parser.add_argument("--cases", type=int, metavar="N", help="number of cases; by default all")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--details", action="store_true", help="print the result of each case")
    options = parser.parse_args()
    cases = (read_cases(options.file) if options.file else read_cases())[: options.cases]
    started = time.perf_counter()
    played = []
    for result in _play_all(cases, options.threads):
        played.append(result)
        if options.details:
            print(result.line, file=sys.stderr, flush=True)
    score, seconds = Score.of(played), time.perf_counter() - started
    if options.json:
        print(json.dumps({**score.to_json(), "seconds": round(seconds, 1)}))
        return
    for title, count in score.counts.items():
        print(f"{title:24} {count:3} of {score.cases}   {count / score.cases:4.0%}")
    print(f"{'seconds per case':24} {seconds / score.cases:6.1f}")


def _play_all(cases: list[Case], threads: int) -> Iterator[Played]:
    directory = os.environ.get("GENAI_HOST_TEST_WEIGHTS")
    weights = Path(directory) if directory else _ROOT / ".cache" / "weights"
    pull(DEFAULT, weights)
    with tempfile.TemporaryDirectory() as home:
        os.environ["GENAI_HOST_HOME"] = home
        link = DEFAULT.file(Path(home, "data", "local"))
        link.parent.mkdir(parents=True)
        link.symlink_to(DEFAULT.file(weights))
        for case in cases:
            with _host(case, threads) as host:
                yield play(host, case, "smollm2")


@contextmanager
def _host(case: Case, threads: int) -> Iterator[Host]:
    settings = {"threads": threads, "window": WINDOW}
    plugins = {
        **installed_wires(),
        "agent": genai_feature_agent,
        "models": genai_models_open,
        "local": genai_vendor_local,
        "case": case.plugin(),
    }
    config = Config(providers={"local": InstanceConfig("local", settings=settings)})
    with Host(config=config, discovery=StaticPlugins(plugins)) as host:
        yield host


if __name__ == "__main__":
    main()

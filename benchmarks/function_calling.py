#!/usr/bin/env python3
"""How well the embedded model chooses among three tools, in 50 cases of a public benchmark.

    python benchmarks/function_calling.py [--cases N] [--threads N] [--json] [--details]

Each case is a host of its own, whose feature `agent` is asked the question, with three tools
of a plugin. Counted is how often it called a tool with arguments that its schema takes, how
often that was the right tool, and how often its arguments were right as well; chance is a
third of the second. The weights are those of the tests: in GENAI_HOST_TEST_WEIGHTS, else in
`.cache/weights`, fetched when they are not there.
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
    parser.add_argument("--file", type=Path, help="other cases of the same form")
    parser.add_argument("--cases", type=int, metavar="N", help="the first so many")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--details", action="store_true", help="a line for each case")
    given = parser.parse_args()
    cases = (read_cases(given.file) if given.file else read_cases())[: given.cases]
    started = time.perf_counter()
    played = []
    for each in _played(cases, given.threads):
        played.append(each)
        if given.details:
            print(each.line, file=sys.stderr, flush=True)
    score, seconds = Score.of(played), time.perf_counter() - started
    if given.json:
        print(json.dumps({**score.to_json(), "seconds": round(seconds, 1)}))
        return
    for what, count in score.counts.items():
        print(f"{what:24} {count:3} of {score.cases}   {count / score.cases:4.0%}")
    print(f"{'seconds per case':24} {seconds / score.cases:6.1f}")


def _played(cases: list[Case], threads: int) -> Iterator[Played]:
    named = os.environ.get("GENAI_HOST_TEST_WEIGHTS")
    weights = Path(named) if named else _ROOT / ".cache" / "weights"
    pull(DEFAULT, weights)
    with tempfile.TemporaryDirectory() as home:
        os.environ["GENAI_HOST_HOME"] = home
        own = DEFAULT.file(Path(home, "data", "local"))
        own.parent.mkdir(parents=True)
        own.symlink_to(DEFAULT.file(weights))
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

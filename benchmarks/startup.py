#!/usr/bin/env python3
"""How long looking takes: `genai-host plugins` and others beside `import click`; what keeping a
conversation adds to a question; and what plugins that a question does not need add to it.

    python benchmarks/startup.py [--rounds 21] [--python PYTHON]

Installs the host and few plugins into a temporary environment, and all plugins into another, then
starts each command in turn, its output piped. Prints medians of CPU seconds (user + system), and
the median of the ratios round by round. The index is warm, as in every run but the first after an
install.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PLUGINS = ("genai-vendor-mock", "genai-feature-chat")
_SIZES = (0, 100, 1000)
_IMPORTS = ("genai_host", "attrs, pluggy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        environment = _install(Path(scratch, "few"), options.python, _PLUGINS)
        every = [each.name for each in ROOT.glob("plugins/genai-*")]
        full = _install(Path(scratch, "all"), options.python, every)
        sites = {size: _distributions(Path(scratch) / f"site{size}", size) for size in _SIZES}
        time.sleep(2.5)  # until the index takes the last install for settled
        _measure(environment, full, sites, Path(scratch) / "home", options.rounds)


def _install(folder: Path, python: str, names: Sequence[str]) -> Path:
    """An environment's folder of programs."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    plugins = [str(ROOT / "plugins" / name) for name in names]
    subprocess.run([*pip, str(ROOT), *plugins], check=True)
    return folder / "bin"


def _distributions(folder: Path, size: int) -> Path:
    """A folder with the metadata of so many distributions that are none of ours."""
    folder.mkdir()
    for number in range(size):
        info = folder / f"other{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: other{number}\nVersion: 1.0\n" + "Long text.\n" * 200
        )
        (info / "entry_points.txt").write_text(f"[console_scripts]\nx{number} = x:main\n")
    return folder


def _measure(programs: Path, full: Path, sites: dict[int, Path], home: Path, rounds: int) -> None:
    python, host = str(programs / "python"), str(programs / "genai-host")
    subjects: dict[str, tuple[list[str], int]] = {
        "import click": ([python, "-c", "import click"], 0),
        "import attrs, pluggy": ([python, "-c", "import attrs, pluggy"], 0),
        "import requests": ([python, "-c", "import requests"], 0),
        "import genai_host": ([python, "-c", "import genai_host"], 0),
        "--version": ([host, "--version"], 0),
        "--help": ([host, "--help"], 0),
        "ask, no record": ([host, "ask", "--provider", "mock", "--no-record", "hi"], 0),
        "ask": ([host, "ask", "--provider", "mock", "hi"], 0),
        "ask, few plugins": ([host, "ask", "--model", "mock", "hi"], 0),
        "ask, all plugins": ([str(full / "genai-host"), "ask", "--model", "mock", "hi"], 0),
    }
    for size in sites:
        subjects[f"plugins, {size} others"] = ([host, "plugins"], size)
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds + 2):
        for name, (command, size) in subjects.items():
            seconds = _cpu_seconds(command, sites[size], home)
            if number >= 2:  # the first rounds make the index and warm the caches
                times[name].append(seconds)
    floor = times["import click"]
    print(f"{'command':24} {'ms, median':>10} {'x import click':>15}")
    for name, taken in times.items():
        ratio = statistics.median(mine / click for mine, click in zip(taken, floor, strict=True))
        print(f"{name:24} {statistics.median(taken) * 1000:10.1f} {ratio:15.2f}")
    ours, parts = (statistics.median(times[f"import {name}"]) for name in _IMPORTS)
    print(f"import genai_host is {ours / parts:.2f} x import attrs, pluggy")
    kept, lost = (statistics.median(times[f"ask{more}"]) for more in ("", ", no record"))
    print(f"a recorded question is {kept / lost:.2f} x one that is not")
    all_plugins, few_plugins, requests = (
        statistics.median(times[name])
        for name in ("ask, all plugins", "ask, few plugins", "import requests")
    )
    print(f"a question with all plugins is {all_plugins / few_plugins:.2f} x one with few plugins,")
    print(f"and {all_plugins / requests:.2f} x import requests")
    few, many = (statistics.median(times[f"plugins, {size} others"]) for size in (0, 1000))
    print(f"1,000 distributions add {(many - few) * 1000:.1f} ms")


def _cpu_seconds(command: list[str], site: Path, home: Path) -> float:
    variables = {**os.environ, "PYTHONPATH": str(site), "GENAI_HOST_HOME": str(home)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=variables, stdout=subprocess.PIPE, cwd=os.sep, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


if __name__ == "__main__":
    main()

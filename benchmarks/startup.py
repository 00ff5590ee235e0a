#!/usr/bin/env python3
"""Measure the CPU time of commands, compared with `import click`.

    python benchmarks/startup.py [--rounds 21] [--python PYTHON]

Installs the host with two plugins into a temporary environment, and with all plugins into another.
Commands alternate, with piped output. Prints medians of user and system time, and the median of
the ratios of all rounds. The index of plugins is warm, as in every run except the first after an
installation.
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

from timing import median_ratio

ROOT = Path(__file__).resolve().parent.parent
_PLUGINS = ("genai-vendor-mock", "genai-feature-chat")
_SIZES = (0, 100, 1000)  # further distributions
_SETTLE_SECONDS = 2.5  # until the index accepts the last installation as complete


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=21, help="number of rounds")
    parser.add_argument("--python", default=sys.executable, help="Python interpreter")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        few = _install(Path(scratch, "few"), options.python, _PLUGINS)
        names = [plugin.name for plugin in ROOT.glob("plugins/genai-*")]
        full = _install(Path(scratch, "all"), options.python, names)
        sites = {
            size: _create_distributions(Path(scratch) / f"site{size}", size) for size in _SIZES
        }
        time.sleep(_SETTLE_SECONDS)
        _measure(few, full, sites, Path(scratch) / "home", options.rounds)


def _install(directory: Path, python: str, names: Sequence[str]) -> Path:
    """Create an environment with plugins; returns its directory of programs."""
    subprocess.run([python, "-m", "venv", str(directory)], check=True)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    plugins = [str(ROOT / "plugins" / name) for name in names]
    subprocess.run([*pip, str(ROOT), *plugins], check=True)
    return directory / "bin"


def _create_distributions(directory: Path, size: int) -> Path:
    """Create a directory with metadata of distributions that are not plugins."""
    directory.mkdir()
    for number in range(size):
        info = directory / f"other{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: other{number}\nVersion: 1.0\n" + "Long text.\n" * 200
        )
        (info / "entry_points.txt").write_text(f"[console_scripts]\nx{number} = x:main\n")
    return directory


def _measure(few: Path, full: Path, sites: dict[int, Path], home: Path, rounds: int) -> None:
    python, host = str(few / "python"), str(few / "genai-host")
    subjects: dict[str, tuple[list[str], int]] = {
        "import click": ([python, "-c", "import click"], 0),
        "import attrs, pluggy": ([python, "-c", "import attrs, pluggy"], 0),
        "import requests": ([python, "-c", "import requests"], 0),
        "import genai_host": ([python, "-c", "import genai_host"], 0),
        "--version": ([host, "--version"], 0),
        "--help": ([host, "--help"], 0),
        "ask, not saved": ([host, "ask", "--provider", "mock", "--no-record", "hi"], 0),
        "ask": ([host, "ask", "--provider", "mock", "hi"], 0),
        "ask, two plugins": ([host, "ask", "--model", "mock", "hi"], 0),
        "ask, all plugins": ([str(full / "genai-host"), "ask", "--model", "mock", "hi"], 0),
    }
    for size in sites:
        subjects[f"plugins, {size} more"] = ([host, "plugins"], size)
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds + 2):
        for name, (command, size) in subjects.items():
            cpu = _cpu_seconds(command, sites[size], home)
            if number >= 2:  # the first rounds create the index and warm up
                times[name].append(cpu)
    baseline = times["import click"]
    print(f"{'command':24} {'ms, median':>10} {'x import click':>15}")
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in times.items():
        print(f"{name:24} {medians[name] * 1000:10.1f} {median_ratio(seconds, baseline):15.2f}")
    for subject, base in (
        ("import genai_host", "import attrs, pluggy"),
        ("ask", "ask, not saved"),
        ("ask, all plugins", "ask, two plugins"),
        ("ask, all plugins", "import requests"),
    ):
        print(f"{subject} / {base}: {medians[subject] / medians[base]:.2f}")
    added = medians["plugins, 1000 more"] - medians["plugins, 0 more"]
    print(f"1,000 distributions add {added * 1000:.1f} ms")


def _cpu_seconds(command: list[str], site: Path, home: Path) -> float:
    variables = {**os.environ, "PYTHONPATH": str(site), "GENAI_HOST_HOME": str(home)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=variables, stdout=subprocess.PIPE, cwd=os.sep, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


if __name__ == "__main__":
    main()

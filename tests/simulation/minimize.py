"""Runs of many seeds, and the smallest run that fails in the same way."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve

from simulation.plan import KINDS, Plan, plan_of
from simulation.simulation import Simulation


def run(plan: Plan, server: str = "") -> Simulation:
    """Run a plan, and check for threads and files that it leaves open.

    Args:
        plan: The plan.
        server: Address of a PostgreSQL server; empty for SQLite.
    """
    threads, files = threading.active_count(), _open_files()
    simulation = Simulation(plan, server)
    with _quiet():
        simulation.run()
    deadline = time.monotonic() + 2.0
    while threading.active_count() > threads and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    if threading.active_count() > threads:
        names = [each.name for each in threading.enumerate()][threads:]
        simulation.fail("threads", str(names))
    if _open_files() > files:
        gc.collect()  # caught errors refer to connections
        if _open_files() > files:
            simulation.fail("files", f"{_open_files() - files} are open")
    return simulation


def run_seeds(
    first: int, turns: int, kinds: tuple[str, ...] = KINDS, server: str = ""
) -> Iterator[Simulation]:
    """Run seeds from `first` on, until there are enough turns."""
    for seed in itertools.count(first):
        simulation = run(plan_of(seed, kinds), server)
        yield simulation
        turns -= simulation.turns
        if turns <= 0:
            return


def minimized(plan: Plan, kind: str, seconds: float, server: str = "") -> Plan:
    """Return the same failure with fewer operations and faults."""
    until = time.monotonic() + seconds

    def fails(candidate: Plan) -> bool:
        is_in_time = time.monotonic() < until
        return is_in_time and any(each.kind == kind for each in run(candidate, server).failures)

    names = [f"c{client}.{n}" for client in range(plan.clients) for n in range(plan.operations)]
    size = len(names) // 2
    while size and time.monotonic() < until:
        remaining = [name for name in names if name not in plan.skip]
        has_changed = False
        for start in range(0, len(remaining), size):
            candidate = evolve(plan, skip=plan.skip | set(remaining[start : start + size]))
            if fails(candidate):
                plan, has_changed = candidate, True
        if size == 1 and not has_changed:
            break
        size = max(1, size // 2)
    for fault in run(plan, server).faults:
        candidate = evolve(plan, quiet=plan.quiet | {fault})
        if fails(candidate):
            plan = candidate
    calm = evolve(plan, trouble=0.0)
    return calm if fails(calm) else plan


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable the log, which would report each fault."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

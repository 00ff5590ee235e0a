"""Run the simulation: `python3 make.py simulate --turns 1000 --seed 1`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from contextlib import nullcontext, suppress

from genai_host_testing.internal.stores import postgres
from simulation.minimize import minimized, run, run_seeds
from simulation.plan import KINDS, Plan, plan_of
from simulation.simulation import Simulation


def main() -> int:
    """Run seeds; return 1 if an invariant is violated."""
    parser = argparse.ArgumentParser(
        prog="make.py simulate", description="Run whole hosts with faults, decided by a seed."
    )
    parser.add_argument("--turns", type=int, default=1000, help="run seeds until so many turns")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: 1)")
    parser.add_argument("--one", action="store_true", help="run this seed only, and show its trace")
    parser.add_argument(
        "--minimize", type=float, default=0.0, metavar="SECONDS", help="make failures smaller"
    )
    parser.add_argument(
        "--faults", nargs="*", default=KINDS, choices=KINDS, help="faults of writes (default: all)"
    )
    parser.add_argument(
        "--engine", choices=("sqlite", "postgresql"), default="sqlite", help="default: sqlite"
    )
    options = parser.parse_args()
    with postgres() if options.engine == "postgresql" else nullcontext("") as server:
        return _run(options, server)


def _run(options: argparse.Namespace, server: str) -> int:
    if options.one:
        simulation = run(plan_of(options.seed, tuple(options.faults)), server)
        print(*simulation.trace, sep="\n")
        return _show(simulation)
    seeds, turns, failed, began = 0, 0, Counter[str](), time.process_time()
    outcomes = Counter[str]()
    with suppress(KeyboardInterrupt):
        for simulation in run_seeds(options.seed, options.turns, tuple(options.faults), server):
            seeds, turns = seeds + 1, turns + simulation.turns
            outcomes += simulation.outcomes
            _show(simulation)
            kinds = {failure.kind for failure in simulation.failures}
            for kind in kinds - failed.keys() if options.minimize else ():
                _show_smaller(simulation.plan, kind, options.minimize, server)
            failed.update(kinds)
    rate = turns / max(time.process_time() - began, 0.001)
    print(f"{seeds} seeds from {options.seed}, {turns} turns, {rate:.0f} per second of CPU")
    for outcome, count in sorted(outcomes.items()):
        print(f"  {count:6d} {outcome}")
    for kind, count in failed.items():
        print(f"FAIL {kind}: {count} seeds")
    return 1 if failed else 0


def _show(simulation: Simulation) -> int:
    for failure in simulation.failures:
        print(f"\nFAIL {failure.kind}, seed {simulation.plan.seed}\n{failure.what}", flush=True)
    return 1 if simulation.failures else 0


def _show_smaller(plan: Plan, kind: str, seconds: float, server: str) -> None:
    small = minimized(plan, kind, seconds, server)
    print(f"  {small}")
    failures = [each for each in run(small, server).failures if each.kind == kind]
    print(*(failures[0].trace if failures else ["it does not fail again"]), sep="\n  ", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

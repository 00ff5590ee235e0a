"""The parameters of a run, and its result."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from attrs import define, field, frozen

from genai_host import TurnLimits

OWNERS = ("ann", "bob")
RUN_OWNERS = tuple(f"assistants/{owner}" for owner in OWNERS)
"""Owners of the event logs of Assistants' runs."""
STRANGER = "eve"
"""Owner of conversations that come from mutated exports."""
LIMITS = TurnLimits(parallel=3)
KINDS = ("kill", "interrupt", "database")


@frozen
class Plan:
    """Parameters of a run; equal plans give equal runs.

    Attributes:
        seed: Determines everything else.
        clients: Number of clients.
        operations: Number of operations of each client.
        skip: Operations that are omitted, as `client.number`.
        quiet: Faults that are omitted, as `Failure.faults` names them.
        rate: Share of the writes that have a fault.
        trouble: Share of the model calls that fail.
        processes: Number of processes that share the store.
        has_budgets: Whether users have a budget.
        has_jobs: Whether clients start background jobs.
        has_assistants: Whether clients use the Assistants API.
        has_http: Whether clients use the native HTTP API.
        kinds: Kinds of faults of writes, by the beginnings of their names.
    """

    seed: int
    clients: int = 3
    operations: int = 12
    skip: frozenset[str] = frozenset()
    quiet: frozenset[str] = frozenset()
    rate: float = 0.01
    trouble: float = 0.08
    processes: int = 2
    has_budgets: bool = False
    has_jobs: bool = False
    has_assistants: bool = False
    has_http: bool = False
    kinds: tuple[str, ...] = KINDS


def plan_of(seed: int, kinds: tuple[str, ...] = KINDS) -> Plan:
    """Return the plan of a seed."""
    return Plan(
        seed,
        clients=2 + seed % 3,
        rate=(0.0, 0.01, 0.03)[seed % 3],
        trouble=(0.0, 0.08, 0.2)[seed // 3 % 3],
        processes=1 + seed % 2,
        has_budgets=seed % 4 == 0,
        has_jobs=seed % 5 == 0,
        has_assistants=seed % 7 in (3, 5),
        has_http=seed % 11 in (2, 4, 7),
        kinds=kinds,
    )


@define
class Failure:
    """A violated invariant.

    Attributes:
        kind: The invariant.
        what: The violation.
        trace: The events before it.
        faults: The faults of writes before it.
    """

    kind: str
    what: str
    trace: list[str] = field(factory=list)
    faults: list[str] = field(factory=list)


class Broken(Exception):
    """An invariant is violated."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(kind, what)
        self.kind, self.what = kind, what


class Operation:
    """One operation of a client.

    Each draw has a generator named after it. So omitting other operations changes only the
    order, and failures can be minimized.

    Attributes:
        talk: The conversation that it uses.
        used: Id of the thread or run that it uses.
        has_failed: Whether a write of it had a fault.
    """

    def __init__(self, plan: Plan, name: str) -> None:
        self.name = name
        self.rng = random.Random(f"{plan.seed}/{name}")
        self.talk: Any = None
        self.used = ""
        self.has_failed = False
        self._seed = plan.seed
        self._counts: Counter[str] = Counter()

    def draw(self, what: str) -> tuple[str, random.Random]:
        """Return the name of a draw, and its generator."""
        self._counts[what] += 1
        name = f"{self.name}.{what}{self._counts[what]}"
        return name, random.Random(f"{self._seed}/{name}")

"""One machine as it was measured, calculated: what says how far `capacity_model.py` may be
believed.

Clients that ask one request after another, workers, service and database share its cores, and with
them whatever else is running there: in slices of a scheduler, which others wait for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from deployment import Database
from queueing import Clock, Process, Station, Together

_SLICE = 0.003  # seconds that a task of others has a core for
_WRITES = 3


@frozen
class Seen:
    """Requests a second, and seconds."""

    a_second: float
    p50: float
    p99: float


@frozen
class Case:
    """A load that was measured.

    flush   seconds until a commit is on disk; None without a record
    """

    load: Mapping[str, Any]
    cores: int
    reads: int = 0
    flush: float | None = None

    @property
    def seen(self) -> Seen:
        return Seen(self.load["a_second"], self.load["p50"], self.load["p99"])

    def calculated(self, seconds: float = 20.0) -> Seen:
        machine = _Machine(self)
        machine.clock.run(seconds)
        took = sorted(machine.took)
        times = took[len(took) // 2], took[len(took) * 99 // 100]
        return Seen(len(took) / seconds, *times)


class _Machine:
    def __init__(self, case: Case) -> None:
        self.clock = Clock()
        self.took: list[float] = []
        self._case = case
        self._random = random.Random(1)  # noqa: S311 - nothing is kept secret by it
        load = case.load
        self._cores = Station(self.clock, case.cores)
        self._workers = [Station(self.clock, 1) for _ in range(round(load["workers"]))]
        transaction = load["database"] / max(case.reads + _WRITES, 1)
        self._database = Database(self.clock, case.cores, case.flush or 0.0, transaction)
        self._database.cores = self._cores
        self._writers = [Together(self.clock, self._database.commit) for _ in self._workers]
        for number in range(round(load["clients"])):
            self.clock.start(self._client(number % len(self._workers)))
        if load["others"] > 0:
            self.clock.start(self._others(min(load["others"], 0.95 * case.cores)))

    def _client(self, number: int) -> Process:
        load, worker = self._case.load, self._workers[number]
        cpu = load["cpu"] / (self._case.reads + 2)  # before each of what it waits for, and at last
        while True:
            begun = self.clock.now
            yield from self._cores.use(load["client"])
            for _ in range(self._case.reads):
                yield from self._at(worker, cpu)
                yield from self._database.read(1)
            yield from self._at(worker, cpu)
            if self._case.flush is not None:
                yield self._writers[number]
            yield from self._cores.use(load["service"])
            yield from self._at(worker, cpu)
            if self._case.flush is not None:
                yield self._writers[number]
                yield self._writers[number]
            self.took.append(self.clock.now - begun)

    def _at(self, worker: Station, seconds: float) -> Process:
        yield from worker.use_with(self._cores.use(seconds * self._random.gammavariate(4, 0.25)))

    def _others(self, cores: float) -> Process:
        while True:
            yield self._random.expovariate(cores / _SLICE)
            self.clock.start(self._cores.use(_SLICE))

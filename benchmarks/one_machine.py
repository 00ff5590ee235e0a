"""Simulation of the machine that was measured, to check the accuracy of `capacity_model.py`.

Clients, each with one request at a time, workers, service and database share the cores of the
machine with other processes, which run in time slices of a scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from deployment import Database
from queueing import BatchServer, Environment, Process, Resource

_TIME_SLICE = 0.003  # seconds that another process holds a core
_WRITES = 3


@frozen
class Result:
    """Throughput in requests per second, and latencies in seconds."""

    rate: float
    p50: float
    p99: float


@frozen
class Case:
    """A measured load.

    Attributes:
        load: The measurement, an item of `gateway` or `turns` in the output of `capacity.py`.
        cores: Cores of the machine.
        reads: Read-only transactions of a request.
        flush: Seconds to flush a commit to disk; None if nothing is saved.
    """

    load: Mapping[str, Any]
    cores: int
    reads: int = 0
    flush: float | None = None

    @property
    def measured(self) -> Result:
        return Result(self.load["rate"], self.load["p50"], self.load["p99"])

    def simulate(self, seconds: float = 20.0) -> Result:
        """Simulate the load for a time."""
        machine = _Machine(self)
        machine.env.run(seconds)
        latencies = sorted(machine.latencies)
        p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
        return Result(len(latencies) / seconds, p50, p99)


class _Machine:
    def __init__(self, case: Case) -> None:
        self.env = Environment()
        self.latencies: list[float] = []
        self._case = case
        self._random = random.Random(1)  # noqa: S311 - a simulation, no secret
        load = case.load
        self._cores = Resource(self.env, case.cores)
        self._workers = [Resource(self.env, 1) for _ in range(round(load["workers"]))]
        transaction_cpu = load["database"] / max(case.reads + _WRITES, 1)
        self._database = Database(self.env, case.cores, case.flush or 0.0, transaction_cpu)
        self._database.cores = self._cores
        self._writers = [BatchServer(self.env, self._database.commit) for _ in self._workers]
        for number in range(round(load["clients"])):
            self.env.start(self._client(number % len(self._workers)))
        if load["other_cores"] > 0:
            cores = min(load["other_cores"], 0.95 * case.cores)
            self.env.start(self._other_processes(cores))

    def _client(self, number: int) -> Process:
        load, worker = self._case.load, self._workers[number]
        # the CPU time is spread over the parts before each read and the service, and after it
        cpu = load["cpu"] / (self._case.reads + 2)
        while True:
            started = self.env.now
            yield from self._cores.use(load["client"])
            for _ in range(self._case.reads):
                yield from self._run_on(worker, cpu)
                yield from self._database.read(1)
            yield from self._run_on(worker, cpu)
            if self._case.flush is not None:
                yield self._writers[number]
            yield from self._cores.use(load["service"])
            yield from self._run_on(worker, cpu)
            if self._case.flush is not None:
                yield self._writers[number]
                yield self._writers[number]
            self.latencies.append(self.env.now - started)

    def _run_on(self, worker: Resource, mean: float) -> Process:
        yield from worker.use_during(self._cores.use(mean * self._random.gammavariate(4, 0.25)))

    def _other_processes(self, cores: float) -> Process:
        while True:
            yield self._random.expovariate(cores / _TIME_SLICE)
            self.env.start(self._cores.use(_TIME_SLICE))

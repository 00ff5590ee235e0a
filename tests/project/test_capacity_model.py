"""The simulation behind docs/scaling.md agrees with queueing theory and loses no conversation."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from capacity_model import Plan, quantile
from capacity_parameters import Costs, Deployment, Load
from deployment import Cell
from one_machine import Case
from queueing import BatchServer, Environment, Process, RequestFailed, Resource, Task, erlang_c

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
COSTS = Costs(
    open_cpu=0.007,
    open_database=0.003,
    open_reads=18,
    turn_cpu=0.004,
    turn_database=0.002,
    turn_reads=6,
    chunk_cpu=20e-6,
    flush=0.001,
    turn_wal=2500,
    chunk_wal=6,
    stream_bytes=76_000,
    stream_descriptors=2,
    connections=16,
    proxy_chunk_cpu=20e-6,
)
LOAD = Load(5.0, turns=3, think_time=2.0, tokens=60.0)


def simulate_queue(
    capacity: int, arrival_rate: float, service_time: float, until: float
) -> tuple[Resource, list[float]]:
    """Simulate an M/M/c queue; returns the resource and the waiting times."""
    env, draw = Environment(), random.Random(7)
    resource, waiting_times = Resource(env, capacity), list[float]()

    def customer() -> Process:
        arrival = env.now
        yield resource
        waiting_times.append(env.now - arrival)
        try:
            yield draw.expovariate(1 / service_time)
        finally:
            resource.release()

    def arrivals() -> Process:
        while True:
            yield draw.expovariate(arrival_rate)
            env.start(customer())

    env.start(arrivals())
    env.run(until)
    return resource, waiting_times


class TestResource:
    @pytest.mark.parametrize(("capacity", "load"), [(1, 0.5), (2, 1.4), (4, 3.2), (8, 6.0)])
    def test_waiting_times_follow_erlang_c(self, capacity: int, load: float) -> None:
        resource, waiting_times = simulate_queue(
            capacity, arrival_rate=load, service_time=1.0, until=10_000 / load
        )
        probability = erlang_c(capacity, load)
        waited = sum(seconds > 0 for seconds in waiting_times) / len(waiting_times)
        assert waited == pytest.approx(probability, rel=0.08)
        mean = probability / (capacity - load)
        assert sum(waiting_times) / len(waiting_times) == pytest.approx(mean, rel=0.15)
        assert resource.utilization == pytest.approx(load / capacity, rel=0.05)

    def test_queue_length_follows_littles_law(self) -> None:
        resource, waiting_times = simulate_queue(
            2, arrival_rate=1.5, service_time=1.0, until=20_000
        )
        mean_wait = sum(waiting_times) / len(waiting_times)
        assert resource.mean_queue_length == pytest.approx(1.5 * mean_wait, rel=0.05)

    def test_erlang_c_of_known_cases(self) -> None:
        assert erlang_c(1, 0.5) == pytest.approx(0.5)
        assert erlang_c(2, 1.0) == pytest.approx(1 / 3)

    def test_interrupted_task_releases_the_resource(self) -> None:
        env = Environment()
        resource, outcomes, tasks = Resource(env, 1), list[str](), list[Task]()

        def process(name: str) -> Process:
            assert env.current_task is not None
            tasks.append(env.current_task)
            try:
                yield from resource.use(1.0)
                outcomes.append(name)
            except RequestFailed:
                outcomes.append(f"{name} failed")

        for name in "abc":
            env.start(process(name))
        env.schedule(0.5, lambda: tasks[0].interrupt(RequestFailed()))
        env.schedule(0.6, lambda: tasks[2].interrupt(RequestFailed()))
        env.run()
        assert outcomes == ["a failed", "c failed", "b"]
        assert env.now == 1.5
        assert resource.utilization == pytest.approx(1.0)


class TestBatchServer:
    def test_waiting_requests_share_the_next_batch(self) -> None:
        env, completed_at = Environment(), list[float]()

        def flush(_: int) -> Process:
            yield 1.0

        log = BatchServer(env, flush)

        def request() -> Process:
            yield log
            completed_at.append(env.now)

        for when in (0.0, 0.1, 0.2):
            env.start(request(), when)
        env.run()
        assert completed_at == [1.0, 2.0, 2.0]
        assert (log.batches, log.requests) == (2, 3)

    def test_failed_batch_fails_its_requests(self) -> None:
        env, outcomes = Environment(), list[str]()

        def fail(_: int) -> Process:
            yield 1.0
            raise RequestFailed

        log = BatchServer(env, fail)

        def request() -> Process:
            try:
                yield log
            except RequestFailed:
                outcomes.append("failed")

        env.start(request())
        env.start(request(), 0.5)
        env.run()
        assert outcomes == ["failed", "failed"]


def make_cell(**options: Any) -> Cell:
    return Cell(LOAD, evolve(Deployment(3, workers=2), **options), COSTS)


def first_token_p99(cell: Cell) -> float:
    return quantile(sorted(turn.first_token_overhead for turn in cell.completed), 0.99)


class TestCell:
    def test_completes_all_conversations(self) -> None:
        cell = make_cell()
        cell.run(5.0, 20.0)
        cell.drain()
        assert cell.conversations_started == cell.conversations_completed > 100
        assert (cell.conversations_lost, cell.failed_attempts) == (0, 0)

    @pytest.mark.parametrize("failure", ["unreachable", "down", "restart", "failover"])
    def test_completes_or_counts_as_lost_all_conversations(self, failure: str) -> None:
        cell = make_cell(recovery_time=5.0, drain_time=1.0, restart_time=1.0, failover_time=10.0)
        if failure == "restart":
            cell.restart_hosts(8.0)
        elif failure == "failover":
            cell.fail_over_database(8.0)
        else:
            cell.fail_host(8.0, unreachable=failure == "unreachable")
        cell.run(5.0, 20.0)
        cell.drain()
        assert cell.conversations_started == cell.conversations_completed + cell.conversations_lost
        assert cell.failed_attempts > 0
        assert (cell.conversations_lost > 0) == (failure == "failover")
        assert all(not host.tasks for host in cell.hosts)

    def test_open_streams_and_busy_cores_follow_littles_law(self) -> None:
        load = evolve(LOAD, arrival_rate=20.0)
        cell = Cell(load, Deployment(3), COSTS)
        cell.run(15.0, 20.0)
        expected = 20.0 * load.turns * load.mean_stream_seconds
        assert cell.streams.mean_in_use == pytest.approx(expected, rel=0.08)
        turn_cpu = COSTS.turn_cpu + COSTS.chunk_cpu * load.mean_tokens
        expected = 20.0 * (COSTS.open_cpu + load.turns * turn_cpu)
        busy_cores = sum(worker.core.utilization for worker in cell.workers)
        assert busy_cores == pytest.approx(expected, rel=0.1)

    def test_latency_increases_with_load(self) -> None:
        p99 = []
        for rate in (5.0, 40.0):
            cell = Cell(evolve(LOAD, arrival_rate=rate), Deployment(1, workers=2), COSTS)
            cell.run(5.0, 20.0)
            p99.append(first_token_p99(cell))
        assert p99[1] > 2 * p99[0]

    def test_shared_budget_row_is_a_bottleneck(self) -> None:
        costs = evolve(COSTS, flush=0.05)
        cells = [Cell(LOAD, Deployment(3, shared_budget=shared), costs) for shared in (False, True)]
        for cell in cells:
            cell.run(5.0, 20.0)
        separate, shared = (sum(turn.total_overhead for turn in cell.completed) for cell in cells)
        assert cells[1].budget.utilization > 0.5
        assert shared > 1.2 * separate

    def test_is_deterministic(self) -> None:
        first, second = make_cell(), make_cell()
        first.run(5.0, 5.0)
        second.run(5.0, 5.0)
        assert first.completed == second.completed


class TestPlan:
    MEASURED = json.loads((BENCHMARKS / "capacity.json").read_text(encoding="utf-8"))

    def test_minimum_meets_the_bound_with_one_host_less(self) -> None:
        deployment = Plan(self.MEASURED, seconds=2.0, bound=0.05).minimum(10.0)
        assert deployment.hosts == 2
        remaining = evolve(deployment, hosts=1)
        cell = Cell(Load(10.0), remaining, Costs.from_measurements(self.MEASURED))
        cell.run(5.0, 2.0)
        assert first_token_p99(cell) < 0.05

    def test_totals_follow_littles_law(self) -> None:
        totals = Plan(self.MEASURED, seconds=2.0, bound=0.05).totals(40.0, 4)
        assert totals["turns per second"] == 160
        assert totals["open streams"] == pytest.approx(160 * Load(1.0).mean_stream_seconds)
        assert totals["hosts of 8 cores"] == 8

    def test_totals_include_proxies_for_all_chunks(self) -> None:
        load, costs = Load(1000.0), Costs.from_measurements(self.MEASURED)
        cores = 4000 * (costs.proxy_turn_cpu + costs.proxy_chunk_cpu * load.mean_tokens)
        totals = Plan(self.MEASURED, seconds=2.0, bound=0.05).totals(1000.0, 100)
        assert totals["busy proxy cores"] == pytest.approx(cores)
        assert totals["proxies of 8 cores"] * 8 * 0.6 >= cores
        assert totals["proxies of 8 cores"] * 25_000 >= totals["open streams"]

    @pytest.mark.parametrize("kind", ["gateway", "turns"])
    def test_simulated_rates_are_close_to_measured_rates(self, kind: str) -> None:
        costs = Costs.from_measurements(self.MEASURED)
        stored = (costs.turn_reads, costs.flush) if kind == "turns" else ()
        for load in self.MEASURED[kind]:
            if load["clients"] > 1:
                case = Case(load, self.MEASURED["cores"], *stored)
                assert case.simulate(seconds=3.0).rate == pytest.approx(
                    case.measured.rate, rel=0.35
                )

"""The simulation behind docs/scaling.md: what it calculates is what is known of queues, and
nothing that comes is forgotten."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from capacity_model import Plan
from deployment import Cell
from one_machine import Case
from planned import Costs, Deployment, Load
from queueing import Clock, Lost, Process, Station, Task, Together, erlang_c

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
COSTS = Costs(
    open_cpu=0.007,
    open_database=0.003,
    open_reads=18,
    turn_cpu=0.004,
    turn_database=0.002,
    turn_reads=6,
    piece_cpu=20e-6,
    flush=0.001,
    turn_wal=2500,
    piece_wal=6,
    stream_bytes=76_000,
    stream_descriptors=2,
    connections=16,
    proxy_piece=20e-6,
)
LOAD = Load(5.0, turns=3, think=2.0, tokens=60.0)


def queue(places: int, rate: float, seconds: float, until: float) -> tuple[Station, list[float]]:
    """One with random arrivals and random times, and how long each has waited."""
    clock, draw = Clock(), random.Random(7)
    station, waited = Station(clock, places), list[float]()

    def one() -> Process:
        begun = clock.now
        yield station
        waited.append(clock.now - begun)
        try:
            yield draw.expovariate(1 / seconds)
        finally:
            station.release()

    def arrivals() -> Process:
        while True:
            yield draw.expovariate(rate)
            clock.start(one())

    clock.start(arrivals())
    clock.run(until)
    return station, waited


class TestAQueue:
    @pytest.mark.parametrize(("places", "load"), [(1, 0.5), (2, 1.4), (4, 3.2), (8, 6.0)])
    def test_has_those_wait_whom_erlang_has_wait(self, places: int, load: float) -> None:
        station, waited = queue(places, rate=load, seconds=1.0, until=10_000 / load)
        expected = erlang_c(places, load)
        assert sum(each > 0 for each in waited) / len(waited) == pytest.approx(expected, rel=0.08)
        mean = expected / (places - load)
        assert sum(waited) / len(waited) == pytest.approx(mean, rel=0.15)
        assert station.utilisation == pytest.approx(load / places, rel=0.05)

    def test_is_as_long_as_little_says(self) -> None:
        station, waited = queue(2, rate=1.5, seconds=1.0, until=20_000)
        assert station.waiting == pytest.approx(1.5 * sum(waited) / len(waited), rel=0.05)

    def test_serves_one_at_one_place_half_of_the_time(self) -> None:
        assert erlang_c(1, 0.5) == pytest.approx(0.5)
        assert erlang_c(2, 1.0) == pytest.approx(1 / 3)

    def test_goes_on_where_one_was_interrupted(self) -> None:
        clock = Clock()
        station, served, tasks = Station(clock, 1), list[str](), list[Task]()

        def one(name: str) -> Process:
            assert clock.running is not None
            tasks.append(clock.running)
            try:
                yield from station.use(1.0)
                served.append(name)
            except Lost:
                served.append(f"{name} lost")

        for name in "abc":
            clock.start(one(name))
        clock.at(0.5, lambda: tasks[0].interrupt(Lost()))
        clock.at(0.6, lambda: tasks[2].interrupt(Lost()))
        clock.run()
        assert served == ["a lost", "c lost", "b"]
        assert clock.now == 1.5
        assert station.utilisation == pytest.approx(1.0)


class TestTogether:
    def test_all_who_wait_share_what_is_done_next(self) -> None:
        clock, ended = Clock(), list[float]()

        def flush(_: int) -> Process:
            yield 1.0

        log = Together(clock, flush)

        def one() -> Process:
            yield log
            ended.append(clock.now)

        for when in (0.0, 0.1, 0.2):
            clock.start(one(), when)
        clock.run()
        assert ended == [1.0, 2.0, 2.0]
        assert (log.times, log.done) == (2, 3)

    def test_who_waits_is_told_that_it_failed(self) -> None:
        clock, ended = Clock(), list[str]()

        def fails(_: int) -> Process:
            yield 1.0
            raise Lost

        log = Together(clock, fails)

        def one() -> Process:
            try:
                yield log
            except Lost:
                ended.append("lost")

        clock.start(one())
        clock.start(one(), 0.5)
        clock.run()
        assert ended == ["lost", "lost"]


def cell(**options: Any) -> Cell:
    return Cell(LOAD, evolve(Deployment(3, workers=2), **options), COSTS)


class TestACell:
    def test_ends_each_conversation(self) -> None:
        simulation = cell()
        simulation.run(5.0, 20.0)
        simulation.finish()
        assert simulation.begun == simulation.ended > 100
        assert (simulation.lost, simulation.cut) == (0, 0)

    @pytest.mark.parametrize("misfortune", ["silent", "refuses", "rolls", "primary"])
    def test_ends_each_conversation_or_counts_it_lost(self, misfortune: str) -> None:
        hurt = cell(away=5.0, drain=1.0, start=1.0, failover=10.0)
        if misfortune == "rolls":
            hurt.roll(8.0)
        elif misfortune == "primary":
            hurt.fail_over(8.0)
        else:
            hurt.kill(8.0, silent=misfortune == "silent")
        hurt.run(5.0, 20.0)
        hurt.finish()
        assert hurt.begun == hurt.ended + hurt.lost
        assert hurt.cut > 0
        assert (hurt.lost > 0) == (misfortune == "primary")
        assert all(not host.tasks for host in hurt.hosts)

    def test_has_streams_open_and_busy_cores_as_little_says(self) -> None:
        load = evolve(LOAD, conversations=20.0)
        simulation = Cell(load, Deployment(3), COSTS)
        simulation.run(15.0, 20.0)
        streams = simulation.streams.utilisation * simulation.streams.places
        expected = 20.0 * load.turns * load.mean_stream
        assert streams == pytest.approx(expected, rel=0.08)
        turn = COSTS.turn_cpu + COSTS.piece_cpu * load.mean_tokens
        expected = 20.0 * (COSTS.open_cpu + load.turns * turn)
        busy = sum(worker.core.utilisation for worker in simulation.workers)
        assert busy == pytest.approx(expected, rel=0.1)

    def test_adds_more_where_more_come(self) -> None:
        late = []
        for conversations in (5.0, 40.0):
            each = Cell(evolve(LOAD, conversations=conversations), Deployment(1, workers=2), COSTS)
            each.run(5.0, 20.0)
            first = sorted(turn.first for turn in each.taken)
            late.append(first[len(first) * 99 // 100])
        assert late[1] > 2 * late[0]

    def test_with_one_row_for_all_waits_at_that_row(self) -> None:
        slow = evolve(COSTS, flush=0.05)
        both = [Cell(LOAD, Deployment(3, budget=budget), slow) for budget in (False, True)]
        for each in both:
            each.run(5.0, 20.0)
        alone, shared = (sum(turn.whole for turn in each.taken) for each in both)
        assert both[1].budget.utilisation > 0.5
        assert shared > 1.2 * alone

    def test_is_the_same_again(self) -> None:
        one, other = cell(), cell()
        one.run(5.0, 5.0)
        other.run(5.0, 5.0)
        assert one.taken == other.taken


class TestThePlan:
    MEASURED = json.loads((BENCHMARKS / "capacity.json").read_text(encoding="utf-8"))

    def test_has_a_host_more_than_holds_the_bound(self) -> None:
        plan = Plan(self.MEASURED, seconds=2.0, bound=0.05)
        chosen = plan.smallest(10.0)
        assert chosen.hosts == 2
        left = Cell(Load(10.0), evolve(chosen, hosts=1), Costs.of(self.MEASURED))
        left.run(5.0, 2.0)
        first = sorted(turn.first for turn in left.taken)
        assert first[len(first) * 99 // 100] < 0.05

    def test_counts_streams_as_little_does(self) -> None:
        plan = Plan(self.MEASURED, seconds=2.0, bound=0.05).whole(40.0, 4)
        assert plan["turns a second"] == 160
        assert plan["streams open"] == pytest.approx(160 * Load(1.0).mean_stream)
        assert plan["hosts of 8 cores"] == 8

    def test_has_proxies_for_each_piece_that_they_pass_on(self) -> None:
        load, costs = Load(1000.0), Costs.of(self.MEASURED)
        busy = 4000 * (costs.proxy_cpu + costs.proxy_piece * load.mean_tokens)
        plan = Plan(self.MEASURED, seconds=2.0, bound=0.05).whole(1000.0, 100)
        assert plan["cores of proxies that are busy"] == pytest.approx(busy)
        assert plan["proxies of 8 cores"] * 8 * 0.6 >= busy
        assert plan["proxies of 8 cores"] * 25_000 >= plan["streams open"]

    @pytest.mark.parametrize("kind", ["gateway", "turns"])
    def test_is_not_far_from_what_was_measured(self, kind: str) -> None:
        """For one machine, as described in docs/scaling.md."""
        costs = Costs.of(self.MEASURED)
        stored = (costs.turn_reads, costs.flush) if kind == "turns" else ()
        for load in self.MEASURED[kind]:
            if load["clients"] > 1:
                case = Case(load, self.MEASURED["cores"], *stored)
                rate = case.calculated(seconds=3.0).a_second
                assert rate == pytest.approx(case.seen.a_second, rel=0.35)

#!/usr/bin/env python3
"""Simulate a deployment on many machines from measurements of one machine.

    python benchmarks/capacity_model.py [--conversations 10000] [--cells 50] [--bound 0.05]
                                        [--measured FILE] [--seconds 20] [--json]

    python benchmarks/capacity.py --json > here.json          # measures
    python benchmarks/capacity_model.py --measured here.json

Without `--measured`, the simulation uses `capacity.json`; docs/scaling.md explains the results,
which are the same on every machine. Cells share nothing, so one cell is simulated, and totals are
multiples of it. Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen
from capacity_parameters import Costs, Deployment, Load
from deployment import Cell
from one_machine import Case, Result
from queueing import BatchServer, Environment, Process, Resource

_WARM_UP = 15.0  # seconds until the number of open streams is stable
_SMALL_RATES = (2, 20, 100)  # conversations per second, less than in a cell
_MAX_EXTRA_HOSTS = 12  # more than the number required without queues
_EVENT_BYTES = 250  # of a chunk sent to a client
_MAX_UTILIZATION = 0.6  # of the cores of a database or a proxy
_PROXY_CORES, _PROXY_STREAMS = 8, 25_000  # of one proxy; ports and memory limit its streams


@frozen
class Results:
    """Results of a simulation. Times are in seconds.

    Attributes:
        turns: Number of turns completed.
        p50: Median latency added before the first token.
        p99: 99th percentile of that latency.
        total_p99: 99th percentile of the latency added to the whole answer.
        utilization: Mean utilization of the workers.
        max_utilization: Utilization of the busiest worker.
        database_utilization: Utilization of the cores of the database.
        max_queue: Maximum queue length of a worker.
        streams: Mean number of open streams.
        failed: Number of requests that were interrupted or refused.
        lost: Number of conversations lost.
    """

    turns: int
    p50: float
    p99: float
    total_p99: float
    utilization: float
    max_utilization: float
    database_utilization: float
    max_queue: int
    streams: float
    failed: int
    lost: int

    @classmethod
    def of(cls, cell: Cell) -> Results:
        turns = [turn for turn in cell.completed if turn.requested_at >= _WARM_UP]
        first_token = sorted(turn.first_token_overhead for turn in turns)
        utilization = [worker.core.utilization for worker in cell.workers]
        return cls(
            turns=len(turns),
            p50=quantile(first_token, 0.5),
            p99=quantile(first_token, 0.99),
            total_p99=quantile(sorted(turn.total_overhead for turn in turns), 0.99),
            utilization=sum(utilization) / len(utilization),
            max_utilization=max(utilization),
            database_utilization=cell.database.cores.utilization,
            max_queue=max(worker.core.max_queue_length for worker in cell.workers),
            streams=cell.streams.mean_in_use,
            failed=cell.failed_attempts,
            lost=cell.conversations_lost,
        )

    def row(self) -> dict[str, Any]:
        """Columns of a printed table."""
        columns = asdict(self)
        del columns["turns"]
        return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--conversations", type=float, default=10_000, help="conversations started per second"
    )
    parser.add_argument("--cells", type=int, default=50, help="number of cells")
    parser.add_argument(
        "--bound",
        type=float,
        default=0.05,
        help="maximum p99 of the latency added before the first token, in seconds, "
        "when one host has failed",
    )
    parser.add_argument("--measured", type=Path, help="output of capacity.py --json")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="simulated time of each simulation"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    file = options.measured or Path(__file__).with_name("capacity.json")
    measured = json.loads(file.read_text(encoding="utf-8"))
    plan = Plan(measured, options.seconds, options.bound)
    conversations, cells = options.conversations, options.cells
    sections: list[tuple[str, Callable[[], Any]]] = [
        ("one machine, measured and simulated", plan.accuracy),
        ("one host of 8 cores", plan.one_host),
        ("minimum deployments", lambda: plan.minimum_deployments(conversations, cells)),
        ("failures in a cell", lambda: plan.failures(conversations / cells)),
        ("totals", lambda: plan.totals(conversations, cells)),
        ("one row of a budget for all turns", plan.shared_budget),
        ("index check, not simulated", lambda: plan.index_check(conversations / cells)),
    ]
    results = {}
    for title, section in sections:
        results[title] = section()
        if not options.json:
            _print_section(title, results[title])
    if options.json:
        print(json.dumps(results, indent=1))


class Plan:
    """Simulations based on measurements."""

    def __init__(self, measured: Mapping[str, Any], seconds: float, bound: float) -> None:
        """Create a plan.

        Args:
            measured: Output of `capacity.py --json`.
            seconds: Simulated time of each simulation.
            bound: Maximum p99 of the latency added before the first token, in seconds, when one
                host has failed.
        """
        self._measured = measured
        self._costs = Costs.from_measurements(measured)
        self._seconds = seconds
        self._bound = bound
        self._minimum: dict[float, Deployment] = {}

    def accuracy(self) -> list[dict[str, Any]]:
        """Compare measured with simulated rates and latencies on one machine."""
        cores, costs = self._measured["cores"], self._costs
        cases = [("chat", Case(load, cores)) for load in self._measured["gateway"]]
        for load in self._measured["turns"]:
            cases.append(("turn", Case(load, cores, costs.turn_reads, costs.flush)))
        rows = [_accuracy_row(kind, case) for kind, case in cases]
        return [*rows, *(self._commits(load) for load in self._measured["commit"][1:])]

    def one_host(self) -> list[dict[str, Any]]:
        """Simulate one host under increasing load."""
        rows = []
        for rate in (10.0, 20.0, 30.0, 35.0, 40.0):
            cell = Cell(Load(rate), Deployment(1, database_cores=4), self._costs)
            rows.append({"conversations/s": rate, **self._run(cell).row()})
        return rows

    def minimum_deployments(self, conversations: float, cells: int) -> list[dict[str, Any]]:
        """Find the minimum number of hosts for several arrival rates."""
        rates = sorted({*_SMALL_RATES, conversations / cells})
        return [self._minimum_row(rate) for rate in rates]

    def failures(self, rate: float) -> list[dict[str, Any]]:
        """Simulate a cell in normal operation and during failures.

        The p99 is that of all turns that started in the simulated time.
        """
        deployment = evolve(self.minimum(rate), drain_time=10.0)
        restart = deployment.hosts * (deployment.drain_time + deployment.restart_time)
        load, when = Load(rate), _WARM_UP + 2
        burst, patient = evolve(load, burst=(2.0, when, 5.0)), evolve(load, attempts=7)
        events: list[tuple[str, Load, Callable[[Cell], None], float]] = [
            ("normal operation", load, lambda cell: None, 0),
            ("double load for 5 s", burst, lambda cell: None, 0),
            (
                "processes of a host end",
                load,
                lambda cell: cell.fail_host(when, unreachable=False),
                0,
            ),
            ("machine of a host fails", load, lambda cell: cell.fail_host(when), 0),
            ("rolling restart", load, lambda cell: cell.restart_hosts(when), restart),
            ("failover of the database", load, lambda cell: cell.fail_over_database(when), 30),
            ("the same, 7 attempts", patient, lambda cell: cell.fail_over_database(when), 30),
        ]
        rows = []
        for title, event_load, schedule, extra_seconds in events:
            cell = Cell(event_load, deployment, self._costs)
            schedule(cell)
            rows.append({"event": title, **self._run(cell, extra_seconds).row()})
        return rows

    def totals(self, conversations: float, cells: int) -> dict[str, float]:
        """Calculate totals from Little's law and the resources of one cell."""
        load, costs = Load(conversations), self._costs
        deployment = self.minimum(conversations / cells)
        turns = conversations * load.turns
        streams, tokens = turns * load.mean_stream_seconds, turns * load.mean_tokens
        hosts = deployment.hosts * cells
        wal = costs.turn_wal + costs.chunk_wal * load.mean_tokens
        duration = load.turns * (load.mean_stream_seconds + load.think_time)
        proxy_cores = turns * costs.proxy_turn_cpu + tokens * costs.proxy_chunk_cpu
        transactions = load.turns * (costs.turn_reads + costs.turn_writes) + costs.open_reads + 1
        worker_streams = streams / hosts / deployment.workers
        return {
            "turns per second": turns,
            "conversations in progress": conversations * duration,
            "open streams": streams,
            "tokens per second": tokens,
            "CPU of a turn, ms": 1e3 * (costs.turn_cpu + costs.chunk_cpu * load.mean_tokens),
            "hosts of 8 cores": hosts,
            "PostgreSQL primaries": cells,
            "connections to a primary": (deployment.hosts * deployment.workers * costs.connections),
            "streams of a worker": worker_streams,
            "memory of streams of a host, GB": streams / hosts * costs.stream_bytes / 1e9,
            "descriptors of a worker": worker_streams * costs.stream_descriptors,
            "sockets at proxies": 2 * streams,
            "busy proxy cores": proxy_cores,
            "proxies of 8 cores": _proxies(streams, proxy_cores),
            "chunks to clients, Gbit/s": tokens * _EVENT_BYTES * 8 / 1e9,
            "transactions per second and primary": conversations / cells * transactions,
            "WAL per primary, MB/s": turns / cells * wal / 1e6,
            "WAL in total, TB/day": turns * wal * 86_400 / 1e12,
            "streams longer than 10 s, %": 100 * _fraction_longer(load, 10.0),
        }

    def index_check(self, rate: float) -> dict[str, float]:
        """Calculate the cost of checking all conversations of a user for missing index entries.

        Lists and searches do this check; it is not part of the simulation.
        """
        smallest, largest = (
            self._measured["opening_by_store"][0],
            self._measured["opening_by_store"][-1],
        )
        added = largest["conversations"] - smallest["conversations"]
        seconds = max(0.0, largest["seconds"] - smallest["seconds"]) / added
        saturated_at = self.minimum(rate).database_cores / (seconds * rate)
        return {
            "opening with 100,000 in the store, ms": 1e3 * largest["seconds"],
            "per stored conversation, us": 1e6 * seconds,
            "conversations that saturate a primary": saturated_at,
            "seconds until then": saturated_at / rate,
        }

    def shared_budget(self) -> list[dict[str, Any]]:
        """Simulate turns that all update the same row."""
        rows = []
        for rate in (10.0, 50.0, 100.0, 200.0):
            hosts = max(2, math.ceil(rate / 20))
            cell = Cell(Load(rate), Deployment(hosts, shared_budget=True), self._costs)
            results = self._run(cell)
            rows.append(
                {
                    "conversations/s": rate,
                    "total p99": results.total_p99,
                    "row utilization": cell.budget.utilization,
                    "max queue": cell.budget.max_queue_length,
                }
            )
        return rows

    def minimum(self, rate: float) -> Deployment:
        """Find the smallest deployment that meets the bound when one host has failed.

        Args:
            rate: Conversations started per second.

        Returns:
            The deployment, with the host that may fail.
        """
        if rate not in self._minimum:
            self._minimum[rate] = self._find_minimum(rate)
        return self._minimum[rate]

    def _find_minimum(self, rate: float) -> Deployment:
        load, costs = Load(rate), self._costs
        turn_cpu = costs.turn_cpu + costs.chunk_cpu * load.mean_tokens
        busy_cores = rate * (costs.open_cpu + load.turns * turn_cpu)
        busy_database_cores = rate * (costs.open_database + load.turns * costs.turn_database)
        least = math.floor(busy_cores / Deployment(1).workers) + 1
        database_cores = max(4, math.ceil(busy_database_cores / _MAX_UTILIZATION))
        for hosts in range(least, least + _MAX_EXTRA_HOSTS):
            remaining = Deployment(hosts, database_cores=database_cores)
            if self._run(Cell(load, remaining, costs)).p99 < self._bound:
                return evolve(remaining, hosts=hosts + 1)
        raise SystemExit(f"{rate:g} conversations per second are too many for one cell")

    def _minimum_row(self, rate: float) -> dict[str, Any]:
        deployment = self.minimum(rate)
        load, costs = Load(rate), self._costs
        remaining = evolve(deployment, hosts=deployment.hosts - 1)
        normal = self._run(Cell(load, deployment, costs))
        failed = self._run(Cell(load, remaining, costs))
        return {
            "conversations/s": rate,
            "hosts": deployment.hosts,
            "database cores": deployment.database_cores,
            **normal.row(),
            "p99, one failed": failed.p99,
            "utilization, one failed": failed.utilization,
        }

    def _run(self, cell: Cell, extra_seconds: float = 0.0) -> Results:
        cell.run(_WARM_UP, self._seconds + extra_seconds)
        return Results.of(cell)

    def _commits(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Compare the commits of clients that commit one row after another."""
        env, single, latencies = Environment(), self._measured["commit"][0], list[float]()
        cores = Resource(env, self._measured["cores"])

        def flush(_: int) -> Process:
            yield self._costs.flush

        log = BatchServer(env, flush)

        def client() -> Process:
            while True:
                started = env.now
                yield from cores.use(load["client"])
                yield from cores.use(single["cpu"])
                yield log
                latencies.append(env.now - started)

        clients = round(load["clients"])
        for _ in range(clients):
            env.start(client())
        env.run(5.0)
        latencies.sort()
        p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
        simulated = Result(len(latencies) / 5.0, p50, p99)
        measured = Result(load["rate"], load["p50"], load["p99"])
        return _comparison("commit", 0, clients, measured, simulated)


def _accuracy_row(kind: str, case: Case) -> dict[str, Any]:
    workers, clients = round(case.load["workers"]), round(case.load["clients"])
    return _comparison(kind, workers, clients, case.measured, case.simulate())


def _comparison(
    kind: str, workers: int, clients: int, measured: Result, simulated: Result
) -> dict[str, Any]:
    return {
        "case": kind,
        "workers": workers,
        "clients": clients,
        "measured/s": measured.rate,
        "simulated/s": simulated.rate,
        "error, %": 100 * (simulated.rate / measured.rate - 1),
        "measured p99": measured.p99,
        "simulated p99": simulated.p99,
    }


def _proxies(streams: float, busy_cores: float) -> int:
    """Number of proxies, limited by streams or by CPU time."""
    return math.ceil(max(streams / _PROXY_STREAMS, busy_cores / _PROXY_CORES / _MAX_UTILIZATION))


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """Quantile of sorted values; NaN if there are none."""
    return ordered[min(int(len(ordered) * fraction), len(ordered) - 1)] if ordered else math.nan


def _fraction_longer(load: Load, seconds: float) -> float:
    """Fraction of the streams that are open for longer, with the median time to the first token."""
    tokens = (seconds - load.first_token) * load.token_rate
    return 0.5 * math.erfc(math.log(tokens / load.tokens) / load.tokens_sigma / math.sqrt(2))


def _print_section(title: str, results: Any) -> None:
    print(f"\n{title}")
    lines = _table(results) if isinstance(results, list) else _list(results)
    print("\n".join(lines), flush=True)


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    texts = [list(rows[0]), *([_format(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))


def _list(figures: Mapping[str, float]) -> Iterator[str]:
    for name, figure in figures.items():
        yield f"{name:44}{_format(figure):>16}"


def _format(figure: Any) -> str:
    if not isinstance(figure, float):
        return str(figure)
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


if __name__ == "__main__":
    main()

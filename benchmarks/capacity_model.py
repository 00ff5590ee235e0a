#!/usr/bin/env python3
"""What it takes to serve so many conversations a second: a simulation of many machines, from what
one has been measured to do.

    python benchmarks/capacity_model.py [--conversations 10000] [--cells 50] [--bound 0.05]
                                        [--measured FILE] [--seconds 20] [--json]

    python benchmarks/capacity.py --json > here.json          # measures
    python benchmarks/capacity_model.py --measured here.json

Without `--measured` it calculates with `capacity.json`, so that it says the same everywhere, which
docs/scaling.md explains. Cells share nothing, so that one of them is simulated, turn by turn, and
the whole is so many of it. `--bound` is of the seconds that are added to a model's first token, at
p99, with one host lost. Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen
from deployment import Cell
from one_machine import Case
from planned import Costs, Deployment, Load
from queueing import Clock, Process, Station, Together

_WARM = 15.0  # seconds until streams end as often as they begin
_SIZES = (2, 20, 100)  # conversations a second, of what is less than a cell
_MOST = 12  # hosts more than it takes without queues, that are tried
_EVENT = 250  # bytes of a piece, as it is sent on
_USERS_ALLOWED = 0.6  # of its processors, what a database or a proxy may have busy
_PROXY = (8, 25_000)  # cores of a proxy, and the streams that it has ports and memory for


@frozen
class Figures:
    """What came of a simulation. Times in seconds; `first` is what was added before the first
    token.

    cores, database, proxy   parts of them that were busy, on average
    busiest                  worker
    line                     the longest in front of a worker
    streams                  open at once, on average
    cut, lost                turns that were cut off or refused; conversations that were given up
    """

    turns: int
    p50: float
    p99: float
    whole_p99: float
    cores: float
    busiest: float
    database: float
    proxy: float
    line: int
    streams: float
    cut: int
    lost: int


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--conversations", type=float, default=10_000, help="begun in a second")
    parser.add_argument("--cells", type=int, default=50)
    parser.add_argument("--bound", type=float, default=0.05, help="seconds")
    parser.add_argument("--measured", type=Path, help="what capacity.py --json has printed")
    parser.add_argument("--seconds", type=float, default=20.0, help="that are simulated")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    file = given.measured or Path(__file__).with_name("capacity.json")
    measured = json.loads(file.read_text(encoding="utf-8"))
    plan = Plan(measured, given.seconds, given.bound)
    parts: list[tuple[str, Callable[[], Any]]] = [
        ("one machine, measured and calculated", plan.compared),
        ("one host of eight cores", plan.knee),
        ("smallest deployments", lambda: plan.sizes(given.conversations, given.cells)),
        ("what happens to a cell", lambda: plan.cell(given.conversations / given.cells)),
        ("the whole", lambda: plan.whole(given.conversations, given.cells)),
        ("one row for all: a budget", plan.rows),
        ("what is not simulated", lambda: plan.looking(given.conversations / given.cells)),
    ]
    told = {}
    for title, part in parts:
        told[title] = part()
        if not given.json:
            _show(title, told[title])
    if given.json:
        print(json.dumps(told, indent=1))


class Plan:
    """
    seconds   that are simulated each time
    bound     seconds that may be added before the first token, at p99, with one host lost
    """

    def __init__(self, measured: Mapping[str, Any], seconds: float, bound: float) -> None:
        self._measured = measured
        self._costs = Costs.of(measured)
        self._seconds = seconds
        self._bound = bound
        self._found: dict[float, Deployment] = {}

    def compared(self) -> list[dict[str, Any]]:
        """Rates and times as they were measured, and as they come of the model."""
        cores, costs = self._measured["cores"], self._costs
        cases = [("chat", Case(each, cores)) for each in self._measured["gateway"]]
        for each in self._measured["turns"]:
            cases.append(("turn", Case(each, cores, costs.turn_reads, costs.flush)))
        rows = [_row_of(kind, case) for kind, case in cases]
        return [*rows, *(self._commits(each) for each in self._measured["commit"][1:])]

    def knee(self) -> list[dict[str, Any]]:
        """What becomes of one host as more come."""
        rows = []
        for conversations in (10.0, 20.0, 30.0, 35.0, 40.0):
            cell = Cell(Load(conversations), Deployment(1, database_cores=4), self._costs)
            rows.append({"conversations/s": conversations, **_times(self._run(cell))})
        return rows

    def sizes(self, conversations: float, cells: int) -> list[dict[str, Any]]:
        """The fewest hosts of eight workers that hold the bound with one of them lost."""
        sizes = sorted({*_SIZES, conversations / cells})
        return [self._size(each) for each in sizes]

    def cell(self, conversations: float) -> list[dict[str, Any]]:
        """One, in good times and in bad ones; p99 is of all turns that began meanwhile."""
        chosen, load = self.smallest(conversations), Load(conversations)
        when, patient = _WARM + 2, evolve(load, tries=7)
        stories: list[tuple[str, Load, Callable[[Cell], object], float]] = [
            ("all is well", load, lambda cell: None, 0),
            ("twice as many for 5 s", evolve(load, burst=(2.0, when, 5.0)), lambda cell: None, 0),
            ("a host's processes die", load, lambda cell: cell.kill(when, silent=False), 0),
            ("a host's machine dies", load, lambda cell: cell.kill(when), 0),
            ("all are begun anew, one by one", load, lambda cell: cell.roll(when), 1),
            ("the primary dies", load, lambda cell: cell.fail_over(when), 30),
            ("the same, asked 7 times", patient, lambda cell: cell.fail_over(when), 30),
        ]
        rows = []
        for title, each, befall, longer in stories:
            deployment = evolve(chosen, drain=10.0)
            if longer == 1:
                longer = chosen.hosts * (deployment.drain + deployment.start)
            cell = Cell(each, deployment, self._costs)
            befall(cell)
            rows.append({"what": title, **_times(self._run(cell, longer))})
        return rows

    def whole(self, conversations: float, cells: int) -> dict[str, float]:
        """What all of it comes to, by Little's law and by what one cell takes."""
        load, costs = Load(conversations), self._costs
        chosen = self.smallest(conversations / cells)
        turns, streams = conversations * load.turns, conversations * load.turns * load.mean_stream
        hosts, tokens = chosen.hosts * cells, turns * load.mean_tokens
        wal = costs.turn_wal + costs.piece_wal * load.mean_tokens
        each = load.turns * (load.mean_stream + load.think)
        passing = turns * costs.proxy_cpu + tokens * costs.proxy_piece
        transactions = load.turns * (costs.turn_reads + costs.writes) + costs.open_reads + 1
        return {
            "turns a second": turns,
            "conversations under way": conversations * each,
            "streams open": streams,
            "tokens a second": tokens,
            "CPU of a turn, ms": 1e3 * (costs.turn_cpu + costs.piece_cpu * load.mean_tokens),
            "hosts of 8 cores": hosts,
            "PostgreSQL primaries": cells,
            "connections to a primary": chosen.hosts * chosen.workers * costs.connections,
            "streams of a worker": streams / hosts / chosen.workers,
            "memory of streams of a host, GB": streams / hosts * costs.stream_bytes / 1e9,
            "descriptors of a worker": streams / hosts / chosen.workers * costs.stream_descriptors,
            "sockets at proxies": 2 * streams,
            "cores of proxies that are busy": passing,
            "proxies of 8 cores": _proxies(streams, passing),
            "pieces to clients, Gbit/s": tokens * _EVENT * 8 / 1e9,
            "transactions a second and primary": conversations / cells * transactions,
            "WAL, MB a second and primary": turns / cells * wal / 1e6,
            "WAL, TB a day, of all": turns * wal * 86_400 / 1e12,
            "turns whose stream is longer than 10 s, %": 100 * _longer(load, 10.0),
        }

    def looking(self, conversations: float) -> dict[str, float]:
        """What it takes that a list, and whoever opens a conversation, has the store look
        through all conversations for what is not in it yet: nothing of that is simulated."""
        few, many = self._measured["listed"][0], self._measured["listed"][-1]
        more = many["conversations"] - few["conversations"]
        each = max(0.0, many["seconds"] - few["seconds"]) / more
        most = self.smallest(conversations).database_cores / (each * conversations)
        return {
            "opening with 100,000 in the store, ms": 1e3 * many["seconds"],
            "for each that is there, us": 1e6 * each,
            "all of a primary's cores busy with it at": most,
            "which are there after, s": most / conversations,
        }

    def rows(self) -> list[dict[str, Any]]:
        """How many turns a second one row takes, which each of them adds to."""
        rows = []
        for conversations in (10.0, 50.0, 100.0, 200.0):
            hosts = max(2, math.ceil(conversations / 20))
            cell = Cell(Load(conversations), Deployment(hosts, budget=True), self._costs)
            figures = self._run(cell)
            kept = {"row busy": cell.budget.utilisation, "line": cell.budget.longest}
            rows.append({"conversations/s": conversations, "p99 whole": figures.whole_p99, **kept})
        return rows

    def smallest(self, conversations: float) -> Deployment:
        if conversations not in self._found:
            self._found[conversations] = self._smallest(conversations)
        return self._found[conversations]

    def _smallest(self, conversations: float) -> Deployment:
        load, costs = Load(conversations), self._costs
        turn = costs.turn_cpu + costs.piece_cpu * load.mean_tokens
        busy = conversations * (costs.open_cpu + load.turns * turn)
        stored = conversations * (costs.open_database + load.turns * costs.turn_database)
        least = math.floor(busy / Deployment(1).workers) + 1
        database_cores = max(4, math.ceil(stored / _USERS_ALLOWED))
        for hosts in range(least, least + _MOST):
            left = Deployment(hosts, database_cores=database_cores)
            if self._run(Cell(load, left, costs)).p99 < self._bound:
                return evolve(left, hosts=hosts + 1)
        raise SystemExit(f"{conversations:g} conversations a second are too many for one cell")

    def _size(self, conversations: float) -> dict[str, Any]:
        chosen = self.smallest(conversations)
        load, costs = Load(conversations), self._costs
        well = self._run(Cell(load, chosen, costs))
        lost = self._run(Cell(load, evolve(chosen, hosts=chosen.hosts - 1), costs))
        return {
            "conversations/s": conversations,
            "hosts": chosen.hosts,
            "database cores": chosen.database_cores,
            **_times(well),
            "p99, one lost": lost.p99,
            "cores, one lost": lost.cores,
        }

    def _run(self, cell: Cell, longer: float = 0.0) -> Figures:
        cell.run(_WARM, self._seconds + longer)
        return _figures(cell)

    def _commits(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Clients that commit one row after another."""
        clock, alone, done = Clock(), self._measured["commit"][0], []
        cores = Station(clock, self._measured["cores"])

        def flush(_: int) -> Process:
            yield self._costs.flush

        log = Together(clock, flush)

        def client() -> Process:
            while True:
                begun = clock.now
                yield from cores.use(load["client"])
                yield from cores.use(alone["cpu"])
                yield log
                done.append(clock.now - begun)

        for _ in range(round(load["clients"])):
            clock.start(client())
        clock.run(5.0)
        done.sort()
        rate = len(done) / 5.0
        return {
            "what": "commit",
            "workers": 0,
            "clients": round(load["clients"]),
            "measured/s": load["a_second"],
            "calculated/s": rate,
            "error, %": _percent(rate, load["a_second"]),
            "measured p99": load["p99"],
            "calculated p99": done[len(done) * 99 // 100],
        }


def _row_of(kind: str, case: Case) -> dict[str, Any]:
    seen, calculated = case.seen, case.calculated()
    return {
        "what": kind,
        "workers": round(case.load["workers"]),
        "clients": round(case.load["clients"]),
        "measured/s": seen.a_second,
        "calculated/s": calculated.a_second,
        "error, %": _percent(calculated.a_second, seen.a_second),
        "measured p99": seen.p99,
        "calculated p99": calculated.p99,
    }


def _figures(cell: Cell) -> Figures:
    taken = [each for each in cell.taken if each.begun >= _WARM]
    first, whole = (sorted(getattr(each, name) for each in taken) for name in ("first", "whole"))
    busy = [worker.core.utilisation for worker in cell.workers]
    return Figures(
        turns=len(taken),
        p50=quantile(first, 0.5),
        p99=quantile(first, 0.99),
        whole_p99=quantile(whole, 0.99),
        cores=sum(busy) / len(busy),
        busiest=max(busy),
        database=cell.database.cores.utilisation,
        proxy=cell.proxy.utilisation,
        line=max(worker.core.longest for worker in cell.workers),
        streams=cell.streams.utilisation * cell.streams.places,
        cut=cell.cut,
        lost=cell.lost,
    )


def _proxies(streams: float, busy: float) -> int:
    """How many it takes, of what they run out of first."""
    cores, most = _PROXY
    return math.ceil(max(streams / most, busy / cores / _USERS_ALLOWED))


def quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else math.nan


def _longer(load: Load, seconds: float) -> float:
    """The part of all streams that are open for longer; half of them have their first token by
    the median."""
    tokens = (seconds - load.first) * load.pace
    return 0.5 * math.erfc(math.log(tokens / load.tokens) / load.tokens_sigma / math.sqrt(2))


def _times(figures: Figures) -> dict[str, Any]:
    chosen = ("p50", "p99", "whole_p99", "cores", "busiest", "database", "line", "streams")
    return {name: asdict(figures)[name] for name in (*chosen, "cut", "lost")}


def _percent(calculated: float, measured: float) -> float:
    return 100 * (calculated / measured - 1)


def _show(title: str, told: Any) -> None:
    print(f"\n{title}")
    lines = _table(told) if isinstance(told, list) else _listed(told)
    print("\n".join(lines), flush=True)


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    texts = [list(rows[0]), *([_text(each) for each in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield "  ".join(each.rjust(width) for each, width in zip(row, widths, strict=True))


def _listed(figures: Mapping[str, float]) -> Iterator[str]:
    for name, figure in figures.items():
        yield f"{name:44}{_text(figure):>16}"


def _text(figure: Any) -> str:
    if not isinstance(figure, float):
        return str(figure)
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


if __name__ == "__main__":
    main()

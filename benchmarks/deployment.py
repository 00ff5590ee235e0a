"""A deployment as `capacity_model.py` calculates it: proxies, hosts with their workers, and one
PostgreSQL, with conversations that come at random.

A turn goes by a proxy to a worker, which has a core of its own; reads its conversation;
is put on record; waits for the model; passes pieces on as they come; is put on record again. One
that is cut off is sent again, with its key, some times; then its conversation is lost.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from attrs import frozen
from planned import Costs, Deployment, Load
from queueing import Clock, Lost, Process, Station, Task, Together

_PARTS = 20  # in which the pieces of an answer are passed on: one after another takes too long
_SIGMA = 0.5  # of times of CPU, which are spread as a lognormal


@frozen
class Taken:
    """A turn that was answered.

    begun   when it was asked for
    first   seconds that were added to the model's time before its first token came
    whole   the same, of the whole answer
    again   how many times it had been cut off
    """

    begun: float
    first: float
    whole: float
    again: int


class Host:
    """
    state   `up`, `silent` (its machine is gone), `refuses` (its processes are) or `drains`
    """

    def __init__(self, cell: Cell, workers: int) -> None:
        self.workers = [Worker(cell) for _ in range(workers)]
        self.tasks: dict[Task, None] = {}
        self.state = "up"
        self.since = 0.0

    def cut(self) -> None:
        """All that is under way."""
        for task in list(self.tasks):
            task.interrupt(Lost())


class Worker:
    """A process: a core, the connection that writes, and those that read."""

    def __init__(self, cell: Cell) -> None:
        self.core = Station(cell.clock, 1)
        self.pool = Station(cell.clock, cell.deployment.pool)
        self.writer = Together(cell.clock, cell.database.commit)


class Database:
    """A primary: cores, and a log that is flushed for all commits that wait."""

    def __init__(self, clock: Clock, cores: int, flush: float, transaction: float) -> None:
        self.cores = Station(clock, cores)
        self.log = Together(clock, self._flush)
        self.is_down = False
        self._flush_seconds = flush
        self._transaction = transaction

    def read(self, transactions: int) -> Process:
        self._must_be_up()
        yield from self.cores.use(transactions * self._transaction)

    def commit(self, additions: int) -> Process:
        self._must_be_up()
        yield from self.cores.use(self._transaction)
        yield self.log
        self._must_be_up()

    def _flush(self, _: int) -> Process:
        yield self._flush_seconds

    def _must_be_up(self) -> None:
        if self.is_down:
            raise Lost


class Cell:
    """Some hosts with one PostgreSQL, and all conversations of some users.

    taken    the turns that were answered
    begun, ended, lost   conversations
    cut      how many turns were cut off or refused
    """

    def __init__(self, load: Load, deployment: Deployment, costs: Costs, seed: int = 1) -> None:
        self.load = load
        self.deployment = deployment
        self.clock = Clock()
        self.taken: list[Taken] = []
        self.begun = self.ended = self.lost = self.cut = 0
        self.streams = Station(self.clock, 10**9)
        self._costs = costs
        self._random = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
        transactions = costs.turn_reads + costs.writes
        self.database = Database(
            self.clock, deployment.database_cores, costs.flush, costs.turn_database / transactions
        )
        self.proxy = Station(self.clock, deployment.proxy_cores)
        self.budget = Station(self.clock, 1)
        self.hosts = [Host(self, deployment.workers) for _ in range(deployment.hosts)]
        self._next_host = itertools.cycle(self.hosts)

    def run(self, warm: float, seconds: float) -> None:
        """Have them come for that time after the first, of which no figures are kept. There
        are those who began before."""
        for begun, times in self._arrivals(warm + seconds):
            self._begin(begun, times)
        self.clock.run(warm)
        self._forget()
        self.clock.run(warm + seconds)

    def finish(self) -> None:
        """Until all conversations have ended; nobody comes any more."""
        self.clock.run()

    def kill(self, when: float, number: int = 0, *, silent: bool = True) -> None:
        """A host dies, and is back later."""
        host = self.hosts[number]

        def die() -> None:
            host.state, host.since = "silent" if silent else "refuses", self.clock.now
            host.cut()

        self.clock.at(when, die)
        self._back(host, when + self.deployment.away)

    def roll(self, when: float) -> float:
        """Hosts are ended and started anew, one after another; when that is over."""
        for host in self.hosts:
            self.clock.at(when, partial(setattr, host, "state", "drains"))
            when += self.deployment.drain
            self.clock.at(when, host.cut)
            when += self.deployment.start
            self._back(host, when)
        return when

    def fail_over(self, when: float) -> None:
        """The primary dies; another takes its place."""
        self.clock.at(when, partial(setattr, self.database, "is_down", True))
        until = when + self.deployment.failover
        self.clock.at(until, partial(setattr, self.database, "is_down", False))

    def _back(self, host: Host, when: float) -> None:
        self.clock.at(when, partial(setattr, host, "state", "up"))

    def _forget(self) -> None:
        for station in (self.streams, self.database.cores, self.proxy, self.budget):
            station.forget()
        for worker in self.workers:
            worker.core.forget()
            worker.pool.forget()

    @property
    def workers(self) -> list[Worker]:
        return [worker for host in self.hosts for worker in host.workers]

    def _arrivals(self, until: float) -> Iterator[tuple[float, list[tuple[float, float, float]]]]:
        """When each conversation begins, and for each of its turns how long who asks thinks
        before, the model takes to its first token, and how many tokens come."""
        load = self.load
        mean = load.turns * (load.mean_stream + load.think)
        when, (more, since, lasting) = -4 * mean, load.burst
        while True:
            burst = more if since <= when < since + lasting else 1.0
            when += self._random.expovariate(load.conversations * burst)
            if when >= until:
                return
            yield when, [self._turn_drawn(number) for number in range(load.turns)]

    def _turn_drawn(self, number: int) -> tuple[float, float, float]:
        load, draw = self.load, self._random
        think = draw.expovariate(1 / load.think) if number else 0.0
        first = load.first * draw.lognormvariate(0, load.first_sigma)
        return think, first, max(1.0, load.tokens * draw.lognormvariate(0, load.tokens_sigma))

    def _begin(self, when: float, turns: list[tuple[float, float, float]]) -> None:
        """What was over before the beginning of time is left out."""
        if when >= 0:
            self.clock.start(self._conversation(turns, is_new=True), when)
            return
        while turns:
            think, first, tokens = turns[0]
            if when + think >= 0:
                turns[0] = (0.0, first, tokens)
                self.clock.start(self._conversation(turns, is_new=False), when + think)
                return
            when += think + first + tokens / self.load.pace
            del turns[0]

    def _conversation(self, turns: list[tuple[float, float, float]], *, is_new: bool) -> Process:
        self.begun += 1
        if is_new and not (yield from self._tried(self._open)):
            self.lost += 1
            return
        for think, first, tokens in turns:
            yield think
            if not (yield from self._tried(partial(self._turn, first, tokens))):
                self.lost += 1
                return
        self.ended += 1

    def _tried(self, attempt: Any) -> Process:
        """Whether it was done, at last."""
        begun = self.clock.now
        for again in range(self.load.tries):
            try:
                added = yield from self._at_a_host(attempt())
            except Lost:
                self.cut += 1
                yield self._random.uniform(0.5, 1.5) * 2**again
                continue
            if added is not None:
                first, whole, alone = added
                late = self.clock.now - begun - alone
                self.taken.append(Taken(begun, late - whole + first, late, again))
            return True
        return False

    def _at_a_host(self, work: Any) -> Process:
        task = self.clock.running
        assert task is not None
        yield from self.proxy.use(self._costs.proxy_cpu)
        host = yield from self._chosen()
        host.tasks[task] = None
        try:
            return (yield from work(self._random.choice(host.workers)))
        finally:
            host.tasks.pop(task, None)

    def _chosen(self) -> Process:
        """The next host that is not known to be away, of which a proxy finds out."""
        for host in itertools.islice(self._next_host, len(self.hosts)):
            if host.state == "up":
                return host
            if host.state == "silent" and self.clock.now < host.since + self.deployment.noticed:
                yield self.deployment.connect
        raise Lost

    def _open(self) -> Any:
        costs = self._costs

        def work(worker: Worker) -> Process:
            yield from worker.core.use(costs.open_cpu * self._spread())
            yield from worker.pool.use_with(self.database.read(costs.open_reads))
            yield worker.writer

        return work

    def _turn(self, first: float, tokens: float) -> Any:
        """What gives the seconds that were added before the first token, those of the whole, and
        those of the model."""
        costs, clock = self._costs, self.clock

        def work(worker: Worker) -> Process:
            begun, lasting = clock.now, tokens / self.load.pace
            half = costs.turn_cpu / 2
            yield from worker.core.use(half * self._spread())
            yield from worker.pool.use_with(self.database.read(costs.turn_reads))
            yield worker.writer
            yield self.streams
            try:
                yield first
                came = clock.now
                yield from worker.core.use(costs.piece_cpu)
                late = clock.now - begun - first
                for part in range(1, _PARTS + 1):
                    yield max(0.0, came + lasting * part / _PARTS - clock.now)
                    yield from worker.core.use(costs.piece_cpu * tokens / _PARTS)
            finally:
                self.streams.release()
            yield worker.writer
            if self.deployment.budget:
                yield from self.budget.use_with(self.database.commit(1))
            yield from worker.core.use(half * self._spread())
            yield worker.writer
            return late, clock.now - begun - first - lasting, first + lasting

        return work

    def _spread(self) -> float:
        return self._random.lognormvariate(-(_SIGMA**2) / 2, _SIGMA)

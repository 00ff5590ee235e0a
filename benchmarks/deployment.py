"""Simulation of a cell: proxies, hosts with their workers, and one PostgreSQL server.

Conversations start at random times. A turn passes through a proxy to a worker, which reads the
conversation, saves the start of the turn, waits for the model, passes on the chunks and saves the
answer. An interrupted turn is retried; when all attempts fail, the conversation is lost.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple

from attrs import frozen
from capacity_parameters import Costs, Deployment, Load
from queueing import BatchServer, Environment, Process, RequestFailed, Resource, Task

_SLICES = 20  # of an answer; simulating each chunk would be too slow
_CPU_SIGMA = 0.5  # of the lognormal distribution of CPU times


class TurnDraw(NamedTuple):
    """Random values of a turn.

    Attributes:
        think_time: Seconds before the turn is requested.
        first_token: Seconds to the first token of the model.
        tokens: Number of tokens of the answer.
    """

    think_time: float
    first_token: float
    tokens: float


@frozen
class CompletedTurn:
    """A turn that was answered. Times are in seconds.

    Attributes:
        requested_at: Time of the first request.
        first_token_overhead: Latency added to the time to the first token of the model.
        total_overhead: Latency added to the duration of the whole answer.
        retries: Number of failed attempts.
    """

    requested_at: float
    first_token_overhead: float
    total_overhead: float
    retries: int


class Host:
    """A host and its workers.

    Attributes:
        state: `unreachable`: the machine failed. `down`: its processes ended, and it refuses
            connections.
        failed_at: Time of the last failure.
    """

    def __init__(self, cell: Cell, workers: int) -> None:
        self.workers = [Worker(cell) for _ in range(workers)]
        self.tasks: dict[Task, None] = {}
        self.state: Literal["up", "unreachable", "down", "draining"] = "up"
        self.failed_at = 0.0

    def interrupt_all(self) -> None:
        """Interrupt all requests in progress."""
        for task in list(self.tasks):
            task.interrupt(RequestFailed())


class Worker:
    """A process with one core, one connection for writing, and several for reading."""

    def __init__(self, cell: Cell) -> None:
        self.core = Resource(cell.env, 1)
        self.read_connections = Resource(cell.env, cell.deployment.read_connections)
        self.writer = BatchServer(cell.env, cell.database.commit)


class Database:
    """A PostgreSQL primary; one flush of its log serves all waiting commits."""

    def __init__(
        self, env: Environment, cores: int, flush_seconds: float, transaction_cpu: float
    ) -> None:
        self.cores = Resource(env, cores)
        self.log = BatchServer(env, self._flush)
        self.is_down = False
        self._flush_seconds = flush_seconds
        self._transaction_cpu = transaction_cpu

    def read(self, transactions: int) -> Process:
        self._check_is_up()
        yield from self.cores.use(transactions * self._transaction_cpu)

    def commit(self, requests: int) -> Process:
        """Commit one transaction for any number of requests."""
        self._check_is_up()
        yield from self.cores.use(self._transaction_cpu)
        yield self.log
        self._check_is_up()

    def _flush(self, _: int) -> Process:
        yield self._flush_seconds

    def _check_is_up(self) -> None:
        if self.is_down:
            raise RequestFailed


class Cell:
    """Hosts that share a PostgreSQL server.

    Attributes:
        completed: Turns that were answered.
        conversations_started: Number of conversations started.
        conversations_completed: Number of conversations completed.
        conversations_lost: Number of conversations with a turn of which all attempts failed.
        failed_attempts: Number of requests that were interrupted or refused.
    """

    def __init__(self, load: Load, deployment: Deployment, costs: Costs, seed: int = 1) -> None:
        self.load = load
        self.deployment = deployment
        self.env = Environment()
        self.completed: list[CompletedTurn] = []
        self.conversations_started = self.conversations_completed = self.conversations_lost = 0
        self.failed_attempts = 0
        self.streams = Resource(self.env, 10**9)
        self._costs = costs
        self._random = random.Random(seed)  # noqa: S311 - a simulation, no secret
        transactions = costs.turn_reads + costs.turn_writes
        self.database = Database(
            self.env, deployment.database_cores, costs.flush, costs.turn_database / transactions
        )
        self.proxy = Resource(self.env, deployment.proxy_cores)
        self.budget = Resource(self.env, 1)
        self.hosts = [Host(self, deployment.workers) for _ in range(deployment.hosts)]
        self._next_host = itertools.cycle(self.hosts)

    def run(self, warm_up: float, seconds: float) -> None:
        """Simulate arrivals, and collect statistics after the warm-up.

        Conversations that started earlier are in progress at the start.
        """
        for start, turns in self._arrivals(warm_up + seconds):
            self._start_conversation(start, turns)
        self.env.run(warm_up)
        self._reset_statistics()
        self.env.run(warm_up + seconds)

    def drain(self) -> None:
        """Run until all conversations have ended, without further arrivals."""
        self.env.run()

    def fail_host(self, when: float, number: int = 0, *, unreachable: bool = True) -> None:
        """Let a host fail at a time, and recover later.

        Args:
            when: Time in seconds.
            number: Index of the host.
            unreachable: Whether the host does not respond, or refuses connections.
        """
        host = self.hosts[number]

        def fail() -> None:
            host.state, host.failed_at = "unreachable" if unreachable else "down", self.env.now
            host.interrupt_all()

        self.env.schedule(when, fail)
        self._recover(host, when + self.deployment.recovery_time)

    def restart_hosts(self, when: float) -> None:
        """Restart the hosts one after another, from a time on."""
        for host in self.hosts:
            self.env.schedule(when, partial(setattr, host, "state", "draining"))
            when += self.deployment.drain_time
            self.env.schedule(when, host.interrupt_all)
            when += self.deployment.restart_time
            self._recover(host, when)

    def fail_over_database(self, when: float) -> None:
        """Let the primary fail at a time; a standby replaces it later."""
        self.env.schedule(when, partial(setattr, self.database, "is_down", True))
        until = when + self.deployment.failover_time
        self.env.schedule(until, partial(setattr, self.database, "is_down", False))

    def _recover(self, host: Host, when: float) -> None:
        self.env.schedule(when, partial(setattr, host, "state", "up"))

    def _reset_statistics(self) -> None:
        for resource in (self.streams, self.database.cores, self.proxy, self.budget):
            resource.reset_statistics()
        for worker in self.workers:
            worker.core.reset_statistics()
            worker.read_connections.reset_statistics()

    @property
    def workers(self) -> list[Worker]:
        return [worker for host in self.hosts for worker in host.workers]

    def _arrivals(self, until: float) -> Iterator[tuple[float, list[TurnDraw]]]:
        """Draw the start time and the turns of each conversation.

        Starts before time 0, with conversations that may still be in progress then.
        """
        load = self.load
        mean = load.turns * (load.mean_stream_seconds + load.think_time)
        when, (factor, burst_start, duration) = -4 * mean, load.burst
        while True:
            burst = factor if burst_start <= when < burst_start + duration else 1.0
            when += self._random.expovariate(load.arrival_rate * burst)
            if when >= until:
                return
            yield when, [self._draw_turn(number) for number in range(load.turns)]

    def _draw_turn(self, number: int) -> TurnDraw:
        load, draw = self.load, self._random
        think_time = draw.expovariate(1 / load.think_time) if number else 0.0
        first_token = load.first_token * draw.lognormvariate(0, load.first_token_sigma)
        tokens = max(1.0, load.tokens * draw.lognormvariate(0, load.tokens_sigma))
        return TurnDraw(think_time, first_token, tokens)

    def _start_conversation(self, when: float, turns: list[TurnDraw]) -> None:
        """Start a conversation, without the turns requested before time 0."""
        if when >= 0:
            self.env.start(self._conversation(turns, is_new=True), when)
            return
        for number, turn in enumerate(turns):
            if when + turn.think_time >= 0:
                rest = [turn._replace(think_time=0.0), *turns[number + 1 :]]
                self.env.start(self._conversation(rest, is_new=False), when + turn.think_time)
                return
            when += turn.think_time + turn.first_token + turn.tokens / self.load.token_rate

    def _conversation(self, turns: list[TurnDraw], *, is_new: bool) -> Process:
        self.conversations_started += 1
        if is_new and not (yield from self._with_retries(self._open)):
            self.conversations_lost += 1
            return
        for turn in turns:
            yield turn.think_time
            if not (yield from self._with_retries(partial(self._turn, turn))):
                self.conversations_lost += 1
                return
        self.conversations_completed += 1

    def _with_retries(self, request: Callable[[Worker], Process]) -> Process:
        """Send a request until an attempt succeeds; returns whether one did."""
        requested_at = self.env.now
        for retries in range(self.load.attempts):
            try:
                times = yield from self._send(request)
            except RequestFailed:
                self.failed_attempts += 1
                yield self._random.uniform(0.5, 1.5) * 2**retries
                continue
            if times is not None:
                first_token, total, model = times
                overhead = self.env.now - requested_at - model
                completed = CompletedTurn(
                    requested_at, overhead - total + first_token, overhead, retries
                )
                self.completed.append(completed)
            return True
        return False

    def _send(self, request: Callable[[Worker], Process]) -> Process:
        """Send a request through a proxy to a random worker of the next host."""
        task = self.env.current_task
        assert task is not None
        yield from self.proxy.use(self._costs.proxy_turn_cpu)
        host = yield from self._select_host()
        host.tasks[task] = None
        try:
            return (yield from request(self._random.choice(host.workers)))
        finally:
            host.tasks.pop(task, None)

    def _select_host(self) -> Process:
        """Return the next host that accepts a connection, in round-robin order."""
        for host in itertools.islice(self._next_host, len(self.hosts)):
            if host.state == "up":
                return host
            detected_at = host.failed_at + self.deployment.detection_time
            if host.state == "unreachable" and self.env.now < detected_at:
                yield self.deployment.connect_timeout
        raise RequestFailed

    def _open(self, worker: Worker) -> Process:
        """Open a conversation."""
        costs = self._costs
        yield from worker.core.use(self._cpu_time(costs.open_cpu))
        yield from worker.read_connections.use_during(self.database.read(costs.open_reads))
        yield worker.writer

    def _turn(self, turn: TurnDraw, worker: Worker) -> Process:
        """Process a turn.

        Returns:
            Seconds added before the first token, seconds added in total, and seconds of the model.
        """
        costs, env = self._costs, self.env
        started, duration = env.now, turn.tokens / self.load.token_rate
        half = costs.turn_cpu / 2
        yield from worker.core.use(self._cpu_time(half))
        yield from worker.read_connections.use_during(self.database.read(costs.turn_reads))
        yield worker.writer
        yield self.streams
        try:
            yield turn.first_token
            streaming_since = env.now
            yield from worker.core.use(costs.chunk_cpu)
            first_token_overhead = env.now - started - turn.first_token
            for number in range(1, _SLICES + 1):
                yield max(0.0, streaming_since + duration * number / _SLICES - env.now)
                yield from worker.core.use(costs.chunk_cpu * turn.tokens / _SLICES)
        finally:
            self.streams.release()
        yield worker.writer
        if self.deployment.shared_budget:
            yield from self.budget.use_during(self.database.commit(1))
        yield from worker.core.use(self._cpu_time(half))
        yield worker.writer
        total_overhead = env.now - started - turn.first_token - duration
        return first_token_overhead, total_overhead, turn.first_token + duration

    def _cpu_time(self, mean: float) -> float:
        return mean * self._random.lognormvariate(-(_CPU_SIGMA**2) / 2, _CPU_SIGMA)

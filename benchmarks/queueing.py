"""Discrete-event simulation of queues, the basis of `capacity_model.py`.

A process is a generator. It yields a number of seconds to wait, a `Resource` to acquire, or a
`BatchServer` to submit a request to. An interrupt raises an exception where the process waits.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol


class Waitable(Protocol):
    """An object that resumes waiting tasks."""

    def add(self, task: Task, wait_id: int) -> None: ...


Process = Generator["float | Waitable", None, Any]


class RequestFailed(Exception):
    """The host or the database that processes a request is unavailable."""


class Environment:
    """Clock and event queue of a simulation.

    Attributes:
        now: Simulated time in seconds.
        current_task: The task that is running.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.current_task: Task | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0

    def schedule(self, when: float, action: Callable[[], None]) -> None:
        """Call a function at a time."""
        self._scheduled += 1  # events of the same time run in the order of scheduling
        heapq.heappush(self._events, (when, self._scheduled, action))

    def start(self, process: Process, when: float = 0.0) -> None:
        """Start a process at a time, or now if that time has passed."""
        task = Task(self, process)
        self.schedule(max(when, self.now), lambda: task.resume(0))

    def run(self, until: float = math.inf) -> None:
        """Run until a time, or until there are no more events."""
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        if until < math.inf:
            self.now = until


class Task:
    """A running process.

    Attributes:
        wait_id: Number of the current wait. A wake-up for an earlier wait is ignored.
    """

    __slots__ = ("_env", "_process", "wait_id")

    def __init__(self, env: Environment, process: Process) -> None:
        self._env = env
        self._process = process
        self.wait_id = 0

    def resume(self, wait_id: int, error: Exception | None = None) -> None:
        """End a wait, with an exception if one is given."""
        if wait_id != self.wait_id:
            return
        self.wait_id = wait_id = wait_id + 1
        previous, self._env.current_task = self._env.current_task, self
        try:
            process = self._process
            target = process.send(None) if error is None else process.throw(error)
        except StopIteration:
            return
        finally:
            self._env.current_task = previous
        if isinstance(target, float):
            self._env.schedule(self._env.now + target, lambda: self.resume(wait_id))
        else:
            target.add(self, wait_id)

    def interrupt(self, error: Exception) -> None:
        """Raise an exception in the process."""
        self.resume(self.wait_id, error)


class Resource:
    """A resource with limited capacity and a first-in, first-out queue.

    Attributes:
        capacity: Number of tasks that can hold the resource at the same time.
        max_queue_length: Maximum length of the queue.
    """

    def __init__(self, env: Environment, capacity: int) -> None:
        self._env = env
        self.capacity = capacity
        self._in_use = 0
        self._queue: deque[tuple[Task, int]] = deque()
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Restart the statistics at the current time."""
        self._started = self._updated = self._env.now
        self._busy_seconds = self._waiting_seconds = 0.0
        self.max_queue_length = 0

    def use(self, seconds: float) -> Process:
        """Hold the resource for a time."""
        yield self
        try:
            yield seconds
        finally:
            self.release()

    def use_during(self, process: Process) -> Process:
        """Hold the resource while a process runs."""
        yield self
        try:
            return (yield from process)
        finally:
            self.release()

    def add(self, task: Task, wait_id: int) -> None:
        self._update_statistics()
        if self._in_use < self.capacity:
            self._in_use += 1
            task.resume(wait_id)
            return
        self._queue.append((task, wait_id))
        self.max_queue_length = max(self.max_queue_length, len(self._queue))

    def release(self) -> None:
        """Pass the resource to the next task in the queue."""
        self._update_statistics()
        while self._queue:
            task, wait_id = self._queue.popleft()
            if task.wait_id == wait_id:  # not interrupted
                task.resume(wait_id)
                return
        self._in_use -= 1

    @property
    def utilization(self) -> float:
        """Mean fraction of the capacity in use."""
        return self.mean_in_use / self.capacity

    @property
    def mean_in_use(self) -> float:
        self._update_statistics()
        return self._busy_seconds / self._elapsed

    @property
    def mean_queue_length(self) -> float:
        self._update_statistics()
        return self._waiting_seconds / self._elapsed

    @property
    def _elapsed(self) -> float:
        return max(self._updated - self._started, 1e-9)

    def _update_statistics(self) -> None:
        elapsed = self._env.now - self._updated
        self._busy_seconds += self._in_use * elapsed
        self._waiting_seconds += len(self._queue) * elapsed
        self._updated = self._env.now


class BatchServer:
    """A server that processes all waiting requests as one batch.

    Models a disk flush, or the one thread of a process that writes for all other threads.

    Attributes:
        batches: Number of batches processed.
        requests: Number of requests processed.
    """

    def __init__(self, env: Environment, process_batch: Callable[[int], Process]) -> None:
        """Create an idle server.

        Args:
            env: The simulation.
            process_batch: Processes a batch; its argument is the number of requests.
        """
        self._env = env
        self._process_batch = process_batch
        self._queue: list[tuple[Task, int]] = []
        self._is_busy = False
        self.batches = self.requests = 0

    def add(self, task: Task, wait_id: int) -> None:
        self._queue.append((task, wait_id))
        if not self._is_busy:
            self._is_busy = True
            self._env.start(self._serve())

    def _serve(self) -> Process:
        while self._queue:
            batch, self._queue = self._queue, []
            error: Exception | None = None
            try:
                yield from self._process_batch(len(batch))
            except RequestFailed as failure:
                error = failure
            self.batches += 1
            self.requests += len(batch)
            for task, wait_id in batch:
                task.resume(wait_id, error)
        self._is_busy = False


def erlang_c(servers: int, offered_load: float) -> float:
    """Probability that an arrival has to wait in an M/M/c queue (A. K. Erlang, 1917).

    Args:
        servers: Number of servers.
        offered_load: Arrival rate times mean service time; less than `servers`.
    """
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered_load * blocked / (server + offered_load * blocked)
    return blocked / (1 - offered_load / servers * (1 - blocked))

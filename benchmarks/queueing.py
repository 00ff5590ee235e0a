"""Queues, in time that is counted and not waited for: what `capacity_model.py` is made of.

A process is a generator. It yields seconds to let them pass, a `Station` to have one of its places,
or a `Together` to take part in what is done next there. Whoever interrupts it has an error raised
where it waits.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol


class Queue(Protocol):
    """What a task waits for that does not end by itself."""

    def add(self, task: Task, turn: int) -> None: ...


Process = Generator["float | Queue", None, Any]


class Lost(Exception):
    """What was to be done is not, since who was at it is gone."""


class Clock:
    """
    now       seconds
    running   the task that goes on at this moment
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.running: Task | None = None
        self._coming: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._count += 1  # those of one moment come in the order in which they were told
        heapq.heappush(self._coming, (when, self._count, action))

    def start(self, process: Process, when: float = 0.0) -> None:
        """At that time, or now if it has passed."""
        task = Task(self, process)
        self.at(max(when, self.now), lambda: task.go_on(0))

    def run(self, until: float = math.inf) -> None:
        while self._coming and self._coming[0][0] <= until:
            self.now, _, action = heapq.heappop(self._coming)
            action()
        if until < math.inf:
            self.now = until


class Task:
    """A process on its way. `turn` counts what it has waited for: what comes late is for none."""

    __slots__ = ("_clock", "_process", "turn")

    def __init__(self, clock: Clock, process: Process) -> None:
        self._clock = clock
        self._process = process
        self.turn = 0

    def go_on(self, turn: int, error: Exception | None = None) -> None:
        if turn != self.turn:
            return
        self.turn = turn = turn + 1
        before, self._clock.running = self._clock.running, self
        try:
            process = self._process
            wanted = process.send(None) if error is None else process.throw(error)
        except StopIteration:
            return
        finally:
            self._clock.running = before
        if isinstance(wanted, float):
            self._clock.at(self._clock.now + wanted, lambda: self.go_on(turn))
        else:
            wanted.add(self, turn)

    def interrupt(self, error: Exception) -> None:
        self.go_on(self.turn, error)


class Station:
    """Places, and a line in front of them: who comes first is served first.

    places    how many there are
    longest   the line has been
    """

    def __init__(self, clock: Clock, places: int) -> None:
        self._clock = clock
        self.places = places
        self._taken = 0
        self._line: deque[tuple[Task, int]] = deque()
        self.forget()

    def forget(self) -> None:
        """What has been so far: figures begin here."""
        self._begun = self._seen = self._clock.now
        self._busy = self._waited = 0.0
        self.longest = 0

    def use(self, seconds: float) -> Process:
        """Have a place for that time."""
        yield self
        try:
            yield seconds
        finally:
            self.release()

    def use_with(self, process: Process) -> Process:
        """Have a place for as long as that takes."""
        yield self
        try:
            return (yield from process)
        finally:
            self.release()

    def add(self, task: Task, turn: int) -> None:
        self._look()
        if self._taken < self.places:
            self._taken += 1
            task.go_on(turn)
            return
        self._line.append((task, turn))
        self.longest = max(self.longest, len(self._line))

    def release(self) -> None:
        self._look()
        while self._line:
            task, turn = self._line.popleft()
            if task.turn == turn:  # it has not gone meanwhile
                task.go_on(turn)
                return
        self._taken -= 1

    @property
    def utilisation(self) -> float:
        self._look()
        return self._busy / max(self._seen - self._begun, 1e-9) / self.places

    @property
    def waiting(self) -> float:
        """The mean length of the line."""
        self._look()
        return self._waited / max(self._seen - self._begun, 1e-9)

    def _look(self) -> None:
        passed = self._clock.now - self._seen
        self._busy += self._taken * passed
        self._waited += len(self._line) * passed
        self._seen = self._clock.now


class Together:
    """What is done for all who wait, one time after another: as a flush to a disk, or the one
    writer of a process, which writes for all of its threads.

    work   does it for so many
    """

    def __init__(self, clock: Clock, work: Callable[[int], Process]) -> None:
        self._clock = clock
        self._work = work
        self._waiting: list[tuple[Task, int]] = []
        self._is_at_it = False
        self.times = self.done = 0

    def add(self, task: Task, turn: int) -> None:
        self._waiting.append((task, turn))
        if not self._is_at_it:
            self._is_at_it = True
            self._clock.start(self._go_on())

    def _go_on(self) -> Process:
        while self._waiting:
            those, self._waiting = self._waiting, []
            error: Exception | None = None
            try:
                yield from self._work(len(those))
            except Lost as lost:
                error = lost
            self.times += 1
            self.done += len(those)
            for task, turn in those:
                task.go_on(turn, error)
        self._is_at_it = False


def erlang_c(places: int, load: float) -> float:
    """The part of all who come that has to wait, where they come at random, and are served for a
    random time: Erlang's second formula (A. K. Erlang, 1917).

    load   who comes in the time that one is served, on average; less than there are places
    """
    blocked = 1.0
    for place in range(1, places + 1):
        blocked = load * blocked / (place + load * blocked)
    return blocked / (1 - load / places * (1 - blocked))

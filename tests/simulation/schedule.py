"""Tasks are real threads of which one runs at a time, in an order determined by a seed.

A task is parked in `Schedule.pause`, `until` and `sleep`, and wherever the host waits: `installed`
replaces the functions of `genai_host.util.concurrency`. When all tasks wait, the simulated time
advances to the next alarm.
"""

from __future__ import annotations

import datetime
import heapq
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from genai_host.util import concurrency
from genai_host.util.clock import Alarm

BEGINNING = datetime.datetime(2026, 3, 31, 23, 50, tzinfo=datetime.UTC)
"""Ten minutes before the end of a month."""


class Killed(BaseException):
    """The process of this task was killed; the task must have no further effect."""


class Stuck(Exception):
    """All tasks wait, and no alarm is set."""


class SimulatedClock:
    """The host's `Clock`.

    Attributes:
        offset: Seconds by which the time of day was set forward or back.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self.offset = 0.0
        self._order = itertools.count()
        self._alarms: list[tuple[float, int, Alarm]] = []

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime.datetime:
        return BEGINNING + datetime.timedelta(seconds=self.time + self.offset)

    def timestamp(self) -> float:
        """Seconds since 1970."""
        return self.now().timestamp()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(callback, lambda: None)
        heapq.heappush(self._alarms, (self.time + seconds, next(self._order), alarm))
        return alarm

    def advance(self) -> bool:
        """Advance to the next alarm; return False if there is none."""
        while self._alarms:
            due, _, alarm = heapq.heappop(self._alarms)
            if alarm.is_set():
                self.time = max(self.time, due)
                alarm.ring()
                return True
        return False


class Task:
    """A thread.

    Attributes:
        process: Its process; None for the simulation's own tasks.
        operation: The operation that it works for, which determines its faults.
    """

    def __init__(self, name: str, process: Any, operation: Any) -> None:
        self.name = name
        self.process = process
        self.operation = operation
        self.ready: Callable[[], bool] | None = None
        self.gate = _closed_gate()


class Schedule:
    """Runs tasks in turn.

    Args:
        rng: Chooses the next task.
        clock: Advances when all tasks wait.
    """

    def __init__(self, rng: random.Random, clock: SimulatedClock) -> None:
        self.clock = clock
        self.current: Task | None = None
        self._rng = rng
        self._tasks: list[Task] = []
        self._main = _closed_gate()
        self._is_stuck = False

    def spawn(
        self, name: str, work: Callable[[], object], process: Any = None, operation: Any = None
    ) -> None:
        """Start a task, which first runs when it is selected."""
        task = Task(name, process, operation)

        def run() -> None:
            task.gate.acquire()
            try:
                self._check(task)
                work()
            except BaseException:  # noqa: BLE001 - the waiting task receives the error
                pass
            finally:
                self._tasks.remove(task)
                self._switch()

        self._tasks.append(task)
        threading.Thread(target=run, name=f"simulated {name}", daemon=True).start()

    def spawn_child(self, name: str, work: Callable[[], object]) -> None:
        """Start a task for the process and the operation of the current task."""
        task = self.current
        self.spawn(name, work, task and task.process, task and task.operation)

    def run(self) -> None:
        """Run until all tasks have ended.

        Raises:
            Stuck: All tasks wait for an event that cannot happen.
        """
        self._switch()
        self._main.acquire()
        self.current = None
        if self._is_stuck:
            raise Stuck(", ".join(task.name for task in self._tasks))

    def pause(self) -> None:
        """Let another task run."""
        if self.current is not None:
            self._park(self.current, None)

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait for a change by another task or an alarm."""
        if self.current is None:
            while not ready():
                if not self.clock.advance():
                    raise Stuck("the simulation itself")
        elif not ready():
            self._park(self.current, ready)
        else:
            self._check(self.current)

    def sleep(self, seconds: float, woken: Callable[[], bool] = lambda: False) -> None:
        """Wait for simulated seconds, or until `woken`."""
        over: list[bool] = []
        with self.clock.call_later(seconds, lambda: over.append(True)):
            self.until(lambda: bool(over) or woken())

    def _park(self, task: Task, ready: Callable[[], bool] | None) -> None:
        self._check(task)
        task.ready = ready
        self._switch()
        task.gate.acquire()
        self._check(task)

    def _switch(self) -> None:
        while True:
            tasks = [each for each in self._tasks if _may_run(each)]
            if tasks:
                chosen = tasks[self._rng.randrange(len(tasks))]
                chosen.ready = None
                self.current = chosen
                chosen.gate.release()
                return
            if not self._tasks or not self.clock.advance():
                self._is_stuck = bool(self._tasks)
                self._main.release()
                return

    def _check(self, task: Task) -> None:
        if task.process is not None and not task.process.is_alive:
            raise Killed


def _closed_gate() -> threading.Lock:
    """Return an acquired lock: a semaphore would take several times as long."""
    gate = threading.Lock()
    gate.acquire()
    return gate


def _may_run(task: Task) -> bool:
    is_dead = task.process is not None and not task.process.is_alive
    return task.ready is None or is_dead or task.ready()


class Event:
    """Replacement for `threading.Event`."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            self._schedule.until(self.is_set)
        else:
            self._schedule.sleep(timeout, self.is_set)
        return self._is_set


class Lock:
    """Replacement for `threading.Lock`."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._is_held = False

    def __enter__(self) -> None:
        self._schedule.until(lambda: not self._is_held)
        self._is_held = True

    def __exit__(self, *exc: object) -> None:
        self._is_held = False


class Thread:
    """Replacement for `threading.Thread`, and for the `Future` of a pool."""

    def __init__(self, schedule: Schedule, name: str, work: Callable[[], object]) -> None:
        self._schedule = schedule
        self._name = name
        self._work = work
        self._has_ended = False
        self._value: object = None
        self._error: BaseException | None = None
        self.ident: int | None = None

    def start(self) -> None:
        self.ident = id(self)
        self._schedule.spawn_child(self._name, self._run)

    def join(self, timeout: float | None = None) -> None:
        if timeout is None:
            self._schedule.until(lambda: self._has_ended)
        else:
            self._schedule.sleep(timeout, lambda: self._has_ended)

    def result(self) -> object:
        self.join()
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._has_ended = True


class Pool:
    """Replacement for `ThreadPoolExecutor`."""

    def __init__(self, schedule: Schedule, name: str, workers: int) -> None:
        self._schedule = schedule
        self._name = name
        self._free = workers
        self._threads: list[Thread] = []

    def submit(self, work: Callable[..., object], *arguments: Any) -> Thread:
        def run() -> object:
            self._schedule.until(lambda: self._free > 0)
            self._free -= 1
            try:
                return work(*arguments)
            finally:
                self._free += 1

        thread = Thread(self._schedule, self._name, run)
        self._threads.append(thread)
        thread.start()
        return thread

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        for thread in self._threads:
            thread.join()


@contextmanager
def installed(schedule: Schedule) -> Iterator[None]:
    """Make the host wait and start threads by this schedule."""
    replaced = {
        "new_event": partial(Event, schedule),
        "new_lock": partial(Lock, schedule),
        "new_thread": lambda name, work, *args: Thread(schedule, name, partial(work, *args)),
        "new_pool": partial(Pool, schedule),
    }
    before = {name: getattr(concurrency, name) for name in replaced}
    vars(concurrency).update(replaced)
    try:
        yield
    finally:
        vars(concurrency).update(before)

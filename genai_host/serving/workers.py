"""A pool of threads that handle requests, created on demand and reused."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from genai_host.api import Clock
from genai_host.util.concurrency import join_all

_IDLE = 10.0  # seconds after which an idle thread ends

_log = logging.getLogger(__name__)

WorkItem = Callable[[], None]


class Workers:
    """A pool without a size limit: the caller limits the work. The thread that became idle last is
    used first, so that others can end.

    Args:
        name: Prefix of the names of the threads.
        clock: Source of time.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._is_closed = False
        self._made = 0

    def submit(self, work: WorkItem) -> None:
        """Run a function in a thread. Raises `RuntimeError` if the pool is closed or the system
        refuses another thread."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the workers are closed")
            worker = self._idle.pop() if self._idle else self._new()
            worker.todo.put(work)

    def close(self, seconds: float) -> bool:
        """Accept no more work and wait for running work.

        Args:
            seconds: Timeout.

        Returns:
            Whether all work has ended.
        """
        with self._lock:
            self._is_closed = True
            for worker in self._idle:
                worker.todo.put(None)
            self._idle.clear()
            threads = list(self._all)
        join_all(threads, seconds, self._clock.monotonic)
        return not any(thread.is_alive() for thread in threads)

    def _new(self) -> _Worker:
        self._made += 1
        worker = _Worker(self, f"{self._name}-{self._made}")
        worker.start()
        self._all.add(worker)
        return worker

    def _rest(self, worker: _Worker) -> bool:
        """Whether the thread got more work."""
        with self._lock:
            if self._is_closed:
                self._all.discard(worker)
                return False
            self._idle.append(worker)
            return True

    def _leave(self, worker: _Worker) -> bool:
        """Whether the thread may end: not if it has just been given work."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            self._all.discard(worker)
            return True


class _Worker(threading.Thread):
    def __init__(self, workers: Workers, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.todo: queue.SimpleQueue[WorkItem | None] = queue.SimpleQueue()
        self._workers = workers

    def run(self) -> None:
        while True:
            try:
                work = self.todo.get(timeout=_IDLE)
            except queue.Empty:
                if self._workers._leave(self):
                    return
                work = self.todo.get()
            if work is None:
                return
            try:
                work()
            except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
                _log.exception("handling a request failed")
            del work
            if not self._workers._rest(self):
                return

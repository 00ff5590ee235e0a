"""The threads of one process that do jobs: those that came to it, and those that others left.

Worker.submit → Jobs.add → _start → the work of its kind
Worker._beat, again and again → Jobs.keep (those under way) → Jobs.take (what others left)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from genai_feature_assistants.service.jobs import MOST_TRIES, Job, Jobs
from genai_host.api.cancellation import Cancellation
from genai_host.errors import Cancelled, GenaiError, Interrupted, StoreError

if TYPE_CHECKING:
    from genai_host.host import Host

Work = Callable[[Job, Cancellation], None]
"""Does a job. `Interrupted` and `StoreError` leave it for others; so does what else it
raises, which is logged, but not for ever."""

_BEAT = 1.0  # seconds
_AT_ONCE = 16
_FLUSH = 5.0  # seconds in which what is ended puts that on record

_log = logging.getLogger(__name__)


class Worker:
    """Of one host in one process. It does nothing before `start`."""

    def __init__(self, host: Host) -> None:
        self.jobs = Jobs(host)
        self._works: Mapping[str, Work] = {}
        self._lock = threading.Lock()
        self._under_way: dict[str, Cancellation] = {}
        self._threads: set[threading.Thread] = set()
        self._wake = threading.Event()
        self._is_closed = False
        self._beating = threading.Thread(
            target=self._beat, name="genai-assistants-beat", daemon=True
        )

    def start(self, works: Mapping[str, Work]) -> None:
        """
        works   by kind of job
        """
        self._works = works
        self._beating.start()

    def submit(self, job: Job, *, here: bool = False) -> None:
        """There is something to do: by this process, if it has room.

        here   by this one in any case
        """
        takes = not self._is_closed and (here or len(self._under_way) < _AT_ONCE)
        self.jobs.add(job, taken=takes)  # before it is looked after, or it would seem lost
        if takes:
            self._begin(job)

    def end(self, id: str) -> None:
        """Whoever does a job is to stop, in whatever process."""
        self.jobs.end(id)
        ending = self._under_way.get(id)
        if ending is not None:
            ending.cancel(Cancelled("it was cancelled"))

    def close(self) -> None:
        """End what is under way, as if it had been killed: others go on with it."""
        with self._lock:
            self._is_closed = True
            endings, threads = list(self._under_way.values()), list(self._threads)
        self._wake.set()
        for ending in endings:
            ending.cancel(Interrupted("the server ends"))
        for thread in (*threads, self._beating):
            thread.join(_FLUSH)

    def _begin(self, job: Job) -> None:
        """Do what this worker has taken; one that is closed meanwhile gives it back."""
        with self._lock:
            if not self._is_closed:
                self._under_way[job.id] = Cancellation()
        if job.id in self._under_way:
            self._start(job)
        else:
            self._give_back(job, failed=False)

    def _start(self, job: Job) -> None:
        thread = threading.Thread(
            target=self._do, args=[job], name=f"genai-assistants-{job.kind}", daemon=True
        )
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _do(self, job: Job) -> None:
        try:
            self._works[job.kind](job, self._under_way[job.id])
            self.jobs.done(job.id)
        except (Interrupted, StoreError):
            self._give_back(job, failed=False)
        except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
            _log.exception("the job %s failed", job.id)
            self._give_back(job, failed=True)
        finally:
            with self._lock:
                del self._under_way[job.id]
                self._threads.discard(threading.current_thread())
            self._wake.set()

    def _give_back(self, job: Job, *, failed: bool) -> None:
        try:
            if failed and job.tries > 2 * MOST_TRIES:
                self.jobs.done(job.id)
            else:
                self.jobs.give_back(job.id, counts=failed)
        except GenaiError:  # its time will be over
            _log.info("the job %s is left to its end", job.id)

    def _beat(self) -> None:
        while not self._is_closed:
            try:
                self._keep()
                self._take()
            except GenaiError as error:  # the store is away: the next beat may find it
                _log.warning("jobs of assistants cannot be looked after: %s", error)
            self._wake.wait(_BEAT)
            self._wake.clear()

    def _keep(self) -> None:
        for id, ending in list(self._under_way.items()):
            ends = self.jobs.keep(id)
            if ends is None and id in self._under_way:
                ending.cancel(Interrupted("another worker has it"))
            elif ends:
                ending.cancel(Cancelled("it was cancelled"))

    def _take(self) -> None:
        for job in self.jobs.take(_AT_ONCE - len(self._under_way)):
            self._begin(job)

"""A durable job queue and its worker.

A job is a document of the store, shared by all processes and machines that use the store. A worker
takes a job by writing its name into it, by compare-and-set. It owns its jobs until its lease, a
separate document, expires; it renews the lease while it runs. One small write thus protects all
jobs of a worker, however many there are and however busy the store is. When a worker is killed, its
lease expires and other workers take its jobs; when it closes, it returns them. Expiry is compared
with `Clock.now`: the clocks of the machines must agree to within a few seconds.

    JobWorker.submit → JobQueue.add → _begin → _start → the work of its kind
    JobWorker._beat, repeatedly → JobQueue.renew, JobQueue.mine → JobQueue.free, JobQueue.take
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from genai_host.api import Clock
from genai_host.api.cancellation import Cancellation
from genai_host.api.storage import MAX_TRIES, Document, Job, Work
from genai_host.errors import (
    Cancelled,
    Conflict,
    ConversationBusy,
    GenaiError,
    Interrupted,
    NotFound,
    StoreError,
)
from genai_host.store.documents import Documents
from genai_host.util import concurrency

LEASE = 15.0
"""Seconds until other workers can take the jobs of a killed worker."""

_RENEWED = 10.0  # renew a lease with less than this many seconds left
_PAUSE = 5.0  # seconds before a failed job is retried
_LOOKED_AT = 1000  # documents per query
_AT_ONCE = 16
_BEAT = 1.0  # seconds
_FLUSH = 5.0  # seconds for recording interrupted jobs

_log = logging.getLogger(__name__)


class JobQueue:
    """A job queue, for one worker.

    Args:
        documents: Returns the collection with a name; called when the queue is used.
    """

    def __init__(self, name: str, documents: Callable[[str], Documents], clock: Clock) -> None:
        self._name = name
        self._documents = documents
        self.clock = clock
        self._renewing = threading.Lock()
        self._until = 0.0  # expiry of the lease
        self.owner = secrets.token_hex(8)

    def add(self, job: Job, *, taken: bool) -> bool:
        """Add a job, taken by this worker if `taken`. Returns False if the job already exists."""
        if taken:
            self.renew()
        value = {
            "kind": job.kind,
            "user": job.user,
            "about": job.about,
            "ends": False,
            "worker": self.owner if taken else "",
            "tries": job.tries if taken else 0,
        }
        try:
            self._jobs.put(job.id, value, expect=0)
        except Conflict:
            return False
        return True

    def renew(self) -> None:
        """Renew the lease of this worker when it is due."""
        with self._renewing:
            now = self._now()
            if not _RENEWED < self._until - now <= LEASE:  # longer if the clock was set back
                self._workers.put(self.owner, {"until": now + LEASE})
                self._until = now + LEASE

    def free(self, is_here: Callable[[str], bool] = lambda id: True) -> list[Document]:
        """Jobs without a living worker, oldest first. `is_here` is whether this worker is running a
        job that is recorded as its own; if not, taking or returning the job was interrupted."""
        found = self._jobs.list(limit=_LOOKED_AT, newest_first=False)
        living, now = self._living() if found else set(), self._now()
        return [
            each
            for each in found
            if each.value["worker"] not in living
            and not 0 < each.value.get("after", 0.0) - now <= _PAUSE  # if the clock was set back
            and not (each.value["worker"] == self.owner and is_here(each.id))
        ]

    def take(self, found: Document) -> Job | None:
        """Take a free job; None if another worker was faster, or it was removed."""
        self.renew()
        value = {**found.value, "worker": self.owner, "tries": found.value["tries"] + 1}
        try:
            self._jobs.put(found.id, value, expect=found.version)
        except Conflict:
            return None
        return _job(found.id, value)

    def find(self, id: str) -> Job | None:
        try:
            return _job(id, self._jobs.get(id).value)
        except NotFound:
            return None

    def mine(self) -> dict[str, bool]:
        """Ids of this worker's jobs, and whether each is cancelled."""
        found = self._jobs.list(where={"worker": self.owner}, limit=_LOOKED_AT)
        return {each.id: each.value["ends"] for each in found}

    def count(self) -> int:
        return self._jobs.count()

    def worker(self, *, at_once: int = _AT_ONCE) -> JobWorker:
        """Make a worker for this queue in this process, with up to `at_once` parallel jobs."""
        return JobWorker(self, at_once=at_once)

    def cancel(self, id: str) -> None:
        """Request the cancellation of a job in any worker."""
        self._change(id, lambda value: {**value, "ends": True})

    def done(self, id: str) -> None:
        """Remove a job of this worker."""
        with suppress(NotFound):
            if self._jobs.get(id).value["worker"] == self.owner:
                self.drop(id)

    def drop(self, id: str) -> None:
        """Remove a job of any worker."""
        self._jobs.delete(id)

    def give_back(self, id: str, *, counts: bool, seconds: float = 0.0) -> None:
        """Return a job to the queue; others may take it after `seconds`. `counts` is whether the
        run counts as an attempt."""
        after = self._now() + seconds if seconds else 0.0

        def change(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
            if value["worker"] != self.owner:
                return None
            tries = max(0, value["tries"] - (0 if counts else 1))
            return {**value, "worker": "", "tries": tries, "after": after}

        self._change(id, change)

    def leave(self) -> None:
        """End the lease, so that other workers can take the remaining jobs."""
        with self._renewing:
            if self._until:
                self._until = 0.0
                self._workers.delete(self.owner)

    @property
    def _jobs(self) -> Documents:
        return self._documents(self._name)

    @property
    def _workers(self) -> Documents:
        return self._documents(f"{self._name}/workers")

    def _now(self) -> float:
        return self.clock.now().timestamp()

    def _living(self) -> set[str]:
        """Other workers with a valid lease. Removes leases that expired long ago."""
        now, living = self._now(), set()
        for each in self._workers.list(limit=_LOOKED_AT):
            if each.id == self.owner:
                continue
            if 0 < each.value["until"] - now <= 2 * LEASE:  # larger if the clock was set back
                living.add(each.id)
            elif each.value["until"] < now - LEASE:
                self._workers.delete(each.id)
        return living

    def _change(
        self, id: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
    ) -> None:
        """Change a job if it exists; `change` returns None for no change."""
        with suppress(NotFound):
            self._jobs.change(id, lambda value: (change(value), None))


def _job(id: str, value: Mapping[str, Any]) -> Job:
    return Job(
        id, value["kind"], value["user"], value["about"], value["tries"], value["ends"] is True
    )


class JobWorker:
    """Runs jobs of a queue in threads of this process: submitted jobs, and jobs of ended workers.
    Idle until `start`.

    Args:
        at_once: Maximum number of parallel jobs.
    """

    def __init__(self, queue: JobQueue, *, at_once: int = _AT_ONCE) -> None:
        self.queue = queue
        self._at_once = at_once
        self._works: Mapping[str, Work] = {}
        self._lock = threading.Lock()
        self._reserved = 0  # slots for jobs that are being taken
        self._adding: set[str] = set()  # jobs that are being recorded
        self._under_way: dict[str, Cancellation] = {}
        self._threads: set[threading.Thread] = set()
        self._wake = concurrency.new_event()
        self._is_failing = False
        self.is_closed = False
        self._beating = concurrency.new_thread("genai-host-jobs", self._beat)

    def start(self, works: Mapping[str, Work]) -> None:
        """Start with the functions that run the jobs, by kind of job."""
        self._works = works
        self._beating.start()

    def submit(self, job: Job, *, here: bool = False) -> None:
        """As `BackgroundWorker.submit`."""
        takes = self._reserve(here=here)
        is_new = False
        self._adding.add(job.id)
        try:
            is_new = self.queue.add(job, taken=takes)
            if takes and is_new:
                self._begin(job)
        finally:
            self._adding.discard(job.id)
            if takes and not is_new:
                self._release()

    def cancel(self, id: str) -> bool:
        """Cancel a job in any process. Returns whether it is running in this process."""
        self.queue.cancel(id)
        ending = self._under_way.get(id)
        if ending is not None:
            ending.cancel(Cancelled("the job was cancelled"))
        return ending is not None

    def close(self) -> None:
        """Interrupt running jobs, and return them to the queue for other workers."""
        with self._lock:
            self.is_closed = True
            endings, threads = list(self._under_way.values()), list(self._threads)
        self._wake.set()
        for ending in endings:
            ending.cancel(Interrupted("the server is shutting down"))
        started = [thread for thread in (*threads, self._beating) if thread.ident is not None]
        concurrency.join_all(started, _FLUSH, self.queue.clock.monotonic)
        try:
            self.queue.leave()
        except GenaiError as error:  # the lease expires
            _log.info("cannot release the lease of a worker; it will expire: %s", error)

    def _has_room(self) -> bool:
        return not self.is_closed and self._reserved + len(self._under_way) < self._at_once

    def _reserve(self, *, here: bool = False) -> bool:
        """Reserve a slot before a job is taken. Returns False if there is none and `here` is
        False."""
        with self._lock:
            has_room = self._has_room() or (here and not self.is_closed)
            self._reserved += has_room
            return has_room

    def _release(self) -> None:
        with self._lock:
            self._reserved -= 1

    def _begin(self, job: Job) -> None:
        """Run a job in its reserved slot; return it to the queue if the worker is closed
        meanwhile."""
        with self._lock:
            self._reserved -= 1
            is_closed = self.is_closed
            if not is_closed:
                self._under_way[job.id] = Cancellation()
        if is_closed:
            self._give_back(job, counts=False, seconds=0.0)
        else:
            self._start(job)

    def _start(self, job: Job) -> None:
        thread = concurrency.new_thread(f"genai-host-job-{job.kind}", self._do, job)
        with self._lock:
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the system cannot start more threads
            _log.warning("the job %s is queued again: cannot start a thread", job.id)
            self._give_back(job, counts=False)
            self._end(job, thread)

    def _do(self, job: Job) -> None:
        ending = self._under_way[job.id]
        if job.is_cancelled:
            ending.cancel(Cancelled("the job was cancelled"))
        try:
            self._works[job.kind](job, ending)
            self.queue.done(job.id)
        except Interrupted:
            is_ours = ending.is_cancelled()  # otherwise raised by the work itself
            self._give_back(job, counts=not is_ours, seconds=0.0 if is_ours else _PAUSE)
        except (StoreError, ConversationBusy) as error:
            _log.warning("the job %s will be retried: %s", job.id, error)
            self._give_back(job, counts=False)
        except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
            _log.exception("the job %s failed", job.id)
            self._give_back(job, counts=True)
        finally:
            self._end(job, threading.current_thread())
            self._wake.set()

    def _end(self, job: Job, thread: threading.Thread) -> None:
        with self._lock:
            del self._under_way[job.id]
            self._threads.discard(thread)

    def _give_back(self, job: Job, *, counts: bool, seconds: float = _PAUSE) -> None:
        try:
            if counts and job.tries > 2 * MAX_TRIES:
                self.queue.done(job.id)
            else:
                self.queue.give_back(job.id, counts=counts, seconds=seconds)
        except GenaiError:  # other workers can take it when the lease has expired
            _log.info("the job %s will be retried when the lease expires", job.id)

    def _beat(self) -> None:
        while not self.is_closed:
            try:
                self._keep()
                self._take()
                self._is_failing = False
            except Exception as error:  # noqa: BLE001 - the next beat may succeed
                if not self._is_failing:
                    is_bug = not isinstance(error, GenaiError)
                    _log.warning("background jobs: %s", error, exc_info=is_bug)
                self._is_failing = True
            self._wake.wait(_BEAT)
            self._wake.clear()

    def _keep(self) -> None:
        """Renew the lease, and stop cancelled jobs and jobs taken by other workers."""
        under_way = list(self._under_way.items())
        if not under_way:
            return
        self.queue.renew()
        mine = self.queue.mine()
        for id, ending in under_way:
            if mine.get(id):
                ending.cancel(Cancelled("the job was cancelled"))
            elif id not in mine:
                ending.cancel(Interrupted("another worker has taken the job"))

    def _take(self) -> None:
        if not self._has_room():
            return
        for found in self.queue.free(lambda id: id in self._adding or id in self._under_way):
            if not self._reserve():
                return
            job = None
            try:
                job = self.queue.take(found)
            finally:
                if job is None:
                    self._release()
            if job is not None:
                self._begin(job)

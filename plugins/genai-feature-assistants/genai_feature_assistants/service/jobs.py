"""Background jobs with leases, and the worker that does them.

A job is a document of the store, shared by several processes. A worker takes it by writing its
name and an expiry time into the document, by compare-and-set, and renews the lease before it
expires. When a worker is killed, the lease of its job expires and another worker takes the job. A
job that was taken too often is given up (`MOST_TRIES`).

`Worker` does jobs in threads of one process: those submitted to it, and those that others left.

    Worker.submit → Jobs.add → _begin → _start → the work of its kind
    Worker._beat, repeatedly → Jobs.keep (jobs in progress) → Jobs.take (jobs that others left)
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from genai_host.api.cancellation import Cancellation
from genai_host.errors import Cancelled, Conflict, GenaiError, Interrupted, NotFound, StoreError

if TYPE_CHECKING:
    from genai_host.host import Host
    from genai_host.store.documents import Document, Documents


LEASE = 15.0
"""Seconds for which a job is taken."""

MOST_TRIES = 4
"""How often it may be taken before it is given up: it may be what kills its workers."""

_LOOKED_AT = 200


@frozen
class Job:
    """
    kind     what is to be done
    user     whose it is
    about    what it takes to do it, JSON
    tries    how often it was taken, this time among them
    """

    id: str
    kind: str
    user: str
    about: Mapping[str, Any]
    tries: int = 1


class Jobs:
    """Of one host, as one worker sees them.

    worker   its name, which no other has
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.worker = secrets.token_hex(8)

    @property
    def _documents(self) -> Documents:
        return self._host.kept("").documents("assistants/jobs")

    def _now(self) -> float:
        return self._host.clock.now().timestamp()

    def add(self, job: Job, *, taken: bool) -> None:
        """There is something to do; nothing changes if that was known.

        taken   whether this worker does it
        """
        value = {"kind": job.kind, "user": job.user, "about": job.about, "ends": False}
        try:
            self._documents.put(job.id, {**value, **self._lease(job.tries, taken)}, expect=0)
        except Conflict:
            return

    def take(self, most: int) -> list[Job]:
        """Some that nobody does."""
        if most <= 0:
            return []
        taken = []
        for found in self._documents.list(limit=_LOOKED_AT, newest_first=False):
            if found.value["until"] > self._now():
                continue
            tries = found.value["tries"] + 1
            try:
                self._documents.put(
                    found.id, {**found.value, **self._lease(tries, True)}, expect=found.version
                )
            except Conflict:  # another was quicker
                continue
            taken.append(_job(found, tries))
            if len(taken) == most:
                break
        return taken

    def keep(self, id: str) -> bool | None:
        """Go on with it for another while: whether it is to be ended; None if it is not this
        worker's any more."""
        try:
            found = self._documents.get(id)
            if found.value["worker"] != self.worker:
                return None
            value = {**found.value, "until": self._now() + LEASE}
            self._documents.put(id, value, expect=found.version)
        except NotFound:
            return None
        except Conflict:
            return self.keep(id)
        return bool(found.value["ends"])

    def end(self, id: str) -> None:
        """Whoever does it is to stop."""
        try:
            found = self._documents.get(id)
            self._documents.put(id, {**found.value, "ends": True}, expect=found.version)
        except NotFound:
            return
        except Conflict:
            self.end(id)

    def is_mine(self, id: str) -> bool:
        try:
            return bool(self._documents.get(id).value["worker"] == self.worker)
        except NotFound:
            return False

    def done(self, id: str) -> None:
        """Forget it, if it is this worker's."""
        if self.is_mine(id):
            self._documents.delete(id)

    def drop(self, id: str) -> None:
        """Forget it, whoever does it."""
        self._documents.delete(id)

    def give_back(self, id: str, *, counts: bool) -> None:
        """It is not done: others may take it at once.

        counts   whether it was a try
        """
        try:
            found = self._documents.get(id)
            if found.value["worker"] == self.worker:
                tries = found.value["tries"] - (0 if counts else 1)
                lease = {"worker": "", "until": 0.0, "tries": max(0, tries)}
                self._documents.put(id, {**found.value, **lease}, expect=found.version)
        except (NotFound, Conflict):
            return

    def _lease(self, tries: int, taken: bool) -> dict[str, Any]:
        if not taken:
            return {"worker": "", "until": 0.0, "tries": 0}
        return {"worker": self.worker, "until": self._now() + LEASE, "tries": tries}


def _job(found: Document, tries: int) -> Job:
    value = found.value
    return Job(found.id, value["kind"], value["user"], value["about"], tries)


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

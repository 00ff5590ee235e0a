"""Background jobs; `HostServices.jobs` opens a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import frozen

from genai_host.api.cancellation import Cancellation

MOST_TRIES = 4
"""Maximum number of attempts of a job, which may be what crashes its workers."""


@frozen
class Job:
    """An entry of a job queue.

    Large or secret data is stored elsewhere: the entry is rewritten whenever a worker takes or
    returns the job.

    Attributes:
        id: Unique in the queue.
        kind: Selects the function that runs it.
        user: Owner of the job.
        about: Arguments of the function, as JSON.
        tries: Number of attempts, including this one. Attempts that ended with a shutdown or a
            failure of the store do not count.
        is_cancelled: Whether it is to stop.
    """

    id: str
    kind: str
    user: str
    about: Mapping[str, Any]
    tries: int = 1
    is_cancelled: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether the maximum number of attempts is exceeded: the function must then end the job as
        failed."""
        return self.tries > MOST_TRIES


Work = Callable[[Job, Cancellation], None]
"""Runs a job, which is removed when the function returns. If it raises `Interrupted` on
cancellation, `StoreError` or `ConversationBusy`, the job returns to the queue. Any other
exception is logged and counts as an attempt; the job is retried up to `MOST_TRIES` times."""


class BackgroundWorker(Protocol):
    """Runs the jobs of a queue in threads of this process. Idle until `start`."""

    @property
    def queue(self) -> BackgroundQueue:
        """The queue."""

    def start(self, works: Mapping[str, Work]) -> None:
        """Start with the functions that run the jobs, by kind of job."""

    def submit(self, job: Job, *, here: bool = False) -> None:
        """Record a job, and run it in this process if there is a free slot.

        Args:
            job: Job to add.
            here: Whether to run it in this process even without a free slot.

        Raises:
            StoreError: The job could not be recorded; it does not exist.
        """

    def cancel(self, id: str) -> bool:
        """Cancel a job in any process. Returns whether it is running in this process."""

    def close(self) -> None:
        """Interrupt running jobs, and return them to the queue for other workers."""


class BackgroundQueue(Protocol):
    """A durable queue of background jobs, shared by all processes that use the store."""

    def worker(self) -> BackgroundWorker:
        """Make a worker for this queue in this process."""

    def find(self, id: str) -> Job | None:
        """Return a job; None if there is none."""

    def drop(self, id: str) -> None:
        """Remove a job, whichever worker has it."""

"""Jobs in the store: the record of each job for clients, and its entry in the job queue.

The record belongs to the user and is stored for a day. It does not include the answer, which is in
the conversation and is deleted with it. The entry in the queue exists until the job is done; see
`genai_host.store.jobs`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from genai_host.api.storage import Job as QueuedJob
from genai_host.errors import Conflict, GenaiError, Interrupted, NotFound
from genai_host.host import Host
from genai_server.native.fields import error_json

if TYPE_CHECKING:
    from genai_host.store.documents import Documents

QUEUE = "jobs/queue"
KIND = "turn"
_COLLECTION = "jobs"
_LIFETIME = 24 * 3600  # seconds
_FORMER_STATUS = {"waiting": "paused"}  # recorded by earlier versions
_MAX_SWEPT = 5  # expired records removed per job; more than are added


@frozen
class JobRecord:
    """A job.

    Attributes:
        turn: Number of its turn.
        status: running, done, failed, paused or cancelled.
        reply: Result, if its conversation could not be recorded.
    """

    id: str
    user: str
    conversation: str
    turn: int
    status: str = "running"
    reply: Any = None
    error: GenaiError | None = field(default=None, eq=False)

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": self.status,
            "conversation": self.conversation,
            "error": None if self.error is None else error_json(self.error),
        }

    def queued(self) -> QueuedJob:
        about = {"conversation": self.conversation, "turn": self.turn}
        return QueuedJob(self.id, KIND, self.user, about)


class JobRecords:
    """Records of jobs, of one host with a store."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def add(self, job: JobRecord) -> None:
        self._documents(job.user).put(job.id, self._value(job), expect=0)
        self._sweep(job.user)

    def end(self, job: JobRecord) -> None:
        """Save the result of a job, unless the job was removed."""
        documents = self._documents(job.user)
        with suppress(NotFound, Conflict):
            documents.put(job.id, self._value(job), expect=documents.get(job.id).version)

    def read(self, user: str, id: str) -> JobRecord | None:
        """Return the saved record; unfinished jobs have the status running."""
        try:
            value = self._documents(user).get(id).value
        except NotFound:
            return None
        error = value["error"]
        return JobRecord(
            id,
            user,
            value["conversation"],
            value.get("turn", -1),
            _FORMER_STATUS.get(value["status"], value["status"]),
            value["reply"],
            None if error is None else self._host.codec.from_json(error, GenaiError),
        )

    def queued(self, queued: QueuedJob) -> JobRecord | None:
        """Return the record of a queued job, even if it was deleted, so that its turn ends; None if
        an earlier version queued it without its turn."""
        job = self.read(queued.user, queued.id)
        if job is None and queued.about:
            job = JobRecord(queued.id, queued.user, **queued.about)
        return job

    def find(self, user: str, id: str) -> JobRecord:
        """Return a job with its current status. Raises `NotFound` if the job is unknown."""
        job = self.read(user, id)
        if job is not None and job.status != "running":
            return job
        if job is not None and self._host.jobs(QUEUE).find(id) is not None:
            return job
        job = self.read(user, id)  # it may have ended in between
        if job is None:
            raise NotFound("unknown job")
        if job.status != "running":
            return job
        error = Interrupted("the server stopped before the job was accepted")
        return JobRecord(id, user, job.conversation, job.turn, "failed", None, error)

    def has_unfinished(self, user: str, conversation: str) -> bool:
        """Whether the last turn of a conversation is an unfinished job."""
        wanted = {"conversation": conversation, "status": "running"}
        found = self._documents(user).list(where=wanted)
        return any(self._host.jobs(QUEUE).find(each.id) is not None for each in found)

    def remove(self, job: JobRecord) -> None:
        self._documents(job.user).delete(job.id)

    def _documents(self, user: str) -> Documents:
        return self._host.store_for(user).documents(_COLLECTION)

    def _value(self, job: JobRecord) -> dict[str, Any]:
        return {
            "conversation": job.conversation,
            "turn": job.turn,
            "status": job.status,
            "reply": job.reply,
            "error": None if job.error is None else self._host.codec.to_json(job.error),
            "until": self._now() + _LIFETIME,
        }

    def _sweep(self, user: str) -> None:
        documents = self._documents(user)
        for oldest in documents.list(limit=_MAX_SWEPT, newest_first=False):
            if oldest.value["until"] >= self._now():
                break
            is_ended = oldest.value["status"] != "running"
            if is_ended or self._host.jobs(QUEUE).find(oldest.id) is None:
                documents.delete(oldest.id)

    def _now(self) -> int:
        return int(self._host.clock.now().timestamp())

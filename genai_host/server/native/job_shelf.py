"""Jobs, as other servers of the same store see them: how they are, and what came of them."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from genai_host.api import RouteRequest
from genai_host.api.cancellation import Cancellation
from genai_host.errors import Conflict, GenaiError, Interrupted, NotFound, StoreError
from genai_host.host import Host
from genai_host.recording import warn_unrecorded
from genai_host.server.native.answers import failed

_COLLECTION = "jobs"
_LIFE = 24 * 3600  # seconds
_SWEPT = 5  # of those that are too old, some more than are put in


@define(eq=False)
class Job:
    """
    status   running, done, failed, waiting or cancelled
    limits   end it
    ended    ends once it has ended
    """

    id: str
    user: str
    conversation: str
    limits: Cancellation = field(factory=Cancellation)
    ended: Cancellation = field(factory=Cancellation)
    status: str = "running"
    reply: dict[str, Any] | None = None
    error: GenaiError | None = None

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": self.status,
            "conversation": self.conversation,
            "error": None if self.error is None else failed(self.error),
        }


class JobShelf:
    """Of one host with a store. They go with their conversations, and after a day."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def put(self, job: Job) -> None:
        """How it is now. One that was removed meanwhile stays so; a store that fails keeps nobody
        from an answer."""
        is_new = job.status == "running"
        try:
            shelf = self._host.kept(job.user).documents(_COLLECTION, conversation=job.conversation)
            version = 0 if is_new else shelf.get(job.id).version
            shelf.put(job.id, self._value(job), expect=version)
            if is_new:
                self._sweep(job.user)
        except (NotFound, Conflict):
            pass
        except StoreError as error:
            warn_unrecorded(error)

    def find(self, request: RouteRequest) -> Job:
        """The one of whoever asks. Raises `NotFound`."""
        id, user = request.parameters["id"], request.user
        store = self._host.kept(user)
        value = store.documents(_COLLECTION).get(id).value
        codec, error = self._host.codec, value["error"]
        job = Job(id, user, value["conversation"], status=value["status"], reply=value["reply"])
        job.error = None if error is None else codec.from_json(error, GenaiError)
        if job.status == "running" and store.summary(job.conversation).status == "interrupted":
            job.status, job.error = "failed", Interrupted("the server that did it has ended")
        if job.status != "running":
            job.ended.cancel()
        return job

    def is_there(self, job: Job) -> bool:
        """Whether nobody has removed it."""
        try:
            self._host.kept(job.user).documents(_COLLECTION).get(job.id)
        except NotFound:
            return False
        except StoreError as error:
            warn_unrecorded(error)
        return True

    def remove(self, job: Job) -> None:
        self._host.kept(job.user).documents(_COLLECTION).delete(job.id)

    def _value(self, job: Job) -> dict[str, Any]:
        error = None if job.error is None else self._host.codec.to_json(job.error)
        return {
            "conversation": job.conversation,
            "status": job.status,
            "reply": job.reply,
            "error": error,
            "until": self._now() + _LIFE,
        }

    def _sweep(self, user: str) -> None:
        documents = self._host.kept(user).documents(_COLLECTION)
        for oldest in documents.list(limit=_SWEPT, newest_first=False):
            if oldest.value["until"] >= self._now():
                break
            documents.delete(oldest.id)

    def _now(self) -> int:
        return int(self._host.clock.now().timestamp())

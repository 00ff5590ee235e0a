"""Background jobs: turns that run while no client waits for them.

A job is also stored, so that other servers of the same store can report its status and result.
"""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from functools import partial
from typing import Any

from attrs import define, evolve, field

from genai_host.api import RouteRequest, RouteResponse, json_response
from genai_host.api.cancellation import Cancellation
from genai_host.api.http_routes import body_of
from genai_host.conversations.record import warn_unrecorded
from genai_host.errors import (
    Cancelled,
    Conflict,
    GenaiError,
    Interrupted,
    NotFound,
    PluginError,
    RateLimited,
    StoreError,
    ValidationError,
)
from genai_host.host import Host
from genai_host.server.native.fields import failed, feature_in, opened_with, whole_id
from genai_host.server.native.turns import Live, Turn, asked_in, cancel_elsewhere, next_turn, whole
from genai_host.serving.workers import Work, Workers

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


_log = logging.getLogger(__name__)

_AT_ONCE, _MOST = 16, 1000
_LONGEST_WAIT = 30.0  # seconds
_LOOK = 0.2  # seconds between two looks for what comes of a job of another server
_FLUSH = 1.0  # seconds in which what was ended puts that on record


class Jobs:
    """Of one server, in memory, and so that others of the same store find them."""

    def __init__(self, host: Host, live: Live) -> None:
        self._host = host
        self._live = live
        self._shelf = JobShelf(host)
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._waiting: deque[Work] = deque()
        self._at_work = 0
        self._workers = Workers("genai-host-job")

    def submit(self, request: RouteRequest) -> RouteResponse:
        host = self._host
        body = body_of(request)
        id = body.text("conversation")
        feature, arguments = feature_in(body, host), opened_with(body)
        asked = asked_in(body, host.codec)
        body.nothing_else()
        host.kept(request.user)  # which has to be there
        if id and (feature or arguments):
            raise ValidationError(
                "a conversation that there is, is gone on with as it is", path="$"
            )
        self._make_room()
        conversation = (
            host.conversation(whole_id(id, request, host), owner=request.user)
            if id
            else host.open(feature, owner=request.user, **arguments)
        )
        turn = next_turn(asked, host, self._live, request.user, conversation)
        job = Job(f"job_{os.urandom(12).hex()}", request.user, conversation.id)
        self._shelf.put(job)
        self._start(job, partial(self._run, job, turn, evolve(request, limits=job.limits)))
        return json_response(job.row(), 202)

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._mine(request).row())

    def result(self, request: RouteRequest) -> RouteResponse:
        """What came of it; 202 while it runs. `wait` says how long that is waited for."""
        job = self._ended(self._mine(request), request)
        if job.error is not None:
            raise copy.copy(job.error)
        return json_response(job.reply or job.row(), 200 if job.reply is not None else 202)

    def remove(self, request: RouteRequest) -> RouteResponse:
        """Cancel it, and forget it."""
        job = self._mine(request)
        self._shelf.remove(job)
        job.limits.cancel(Cancelled("the job was cancelled"))
        with self._lock:
            is_ours = self._jobs.pop(job.id, None) is not None
        if not is_ours:
            cancel_elsewhere(self._host, request.user, job.conversation)
        return RouteResponse(status=204)

    def close(self) -> None:
        """End those that run, as if they had been killed; one that does not heed that is
        left behind."""
        with self._lock:
            jobs = list(self._jobs.values())
            self._waiting.clear()
        for job in jobs:
            job.limits.cancel(Interrupted("the server ends"))
        self._workers.close(_FLUSH)

    def _start(self, job: Job, work: Work) -> None:
        """Now, or as soon as there are fewer at once."""
        with self._lock:
            self._jobs[job.id] = job
            self._waiting.append(work)
            if self._at_work == _AT_ONCE:
                return
            try:
                self._workers.submit(self._work)
            except RuntimeError as error:  # they have been told to end
                raise Interrupted("the server ends") from error
            self._at_work += 1

    def _work(self) -> None:
        """What waits, in order, until nothing does."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._at_work -= 1
                    return
                work = self._waiting.popleft()
            work()

    def _run(self, job: Job, turn: Turn, request: RouteRequest) -> None:
        try:
            if not self._shelf.is_there(job):
                raise Cancelled("the job was cancelled")
            job.reply = whole(self._live, turn, request, self._host.codec)
            job.status = "waiting" if job.reply["status"] == "waiting" else "done"
        except GenaiError as error:
            job.error = error
            job.status = "cancelled" if isinstance(error, Cancelled) else "failed"
        except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
            _log.exception("the job %s failed", job.id)
            job.error = PluginError("this failed; the log of the server says why")
            job.status = "failed"
        finally:
            self._shelf.put(job)
            job.ended.cancel()

    def _ended(self, job: Job, request: RouteRequest) -> Job:
        """The job, once it has ended, or the time is over that the request waits for that."""
        enough = threading.Event()
        until = time.monotonic() + _seconds(request)
        with request.limits.on_cancel(enough.set), job.ended.on_cancel(enough.set):
            if job.id in self._jobs:
                enough.wait(max(0.0, until - time.monotonic()))
                return job
            while not enough.is_set() and time.monotonic() < until:
                enough.wait(min(_LOOK, max(0.0, until - time.monotonic())))
                job = self._mine(request)
                if job.status != "running":
                    break
        return job

    def _mine(self, request: RouteRequest) -> Job:
        job = self._jobs.get(request.parameters["id"])
        if job is not None and job.user == request.user:
            return job
        try:
            return self._shelf.find(request)
        except NotFound:
            raise NotFound("there is no such job") from None

    def _make_room(self) -> None:
        """The oldest that have ended go."""
        with self._lock:
            for id, job in list(self._jobs.items()):
                if len(self._jobs) < _MOST:
                    return
                if job.ended.is_cancelled():
                    del self._jobs[id]
            if len(self._jobs) >= _MOST:
                raise RateLimited("too many jobs are under way", retry_after=10.0)


def _seconds(request: RouteRequest) -> float:
    text = request.query.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_WAIT:
        raise ValidationError(f"wait is a number of seconds up to {_LONGEST_WAIT:g}", path="?wait")
    return seconds

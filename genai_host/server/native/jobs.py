"""Jobs: turns that go on while nobody waits for them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from attrs import define, evolve, field

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.cancellation import Cancellation
from genai_host.errors import Cancelled, GenaiError, Interrupted, InvalidData, NotFound, RateLimited
from genai_host.host import Host
from genai_host.server.given import body_of
from genai_host.server.native.answers import failed
from genai_host.server.native.fields import feature_in, opened_with
from genai_host.server.native.live import Live
from genai_host.server.native.turns import Turn, said, whole

Status = Literal["running", "done", "failed", "waiting", "cancelled"]
_AT_ONCE, _MOST = 16, 1000
_LONGEST_WAIT = 30.0  # seconds


@define(eq=False)
class Job:
    """
    limits   end it
    ended    set once it has ended
    """

    id: str
    user: str
    conversation: str
    limits: Cancellation = field(factory=Cancellation)
    ended: threading.Event = field(factory=threading.Event)
    status: Status = "running"
    reply: dict[str, Any] | None = None
    error: GenaiError | None = None

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": self.status,
            "conversation": self.conversation,
            "error": None if self.error is None else failed(self.error),
        }


class Jobs:
    """Of one server, in memory: what they said is in their conversations."""

    def __init__(self, host: Host, live: Live) -> None:
        self._host = host
        self._live = live
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="genai-host-job")

    def submit(self, request: RouteRequest) -> RouteReply:
        host = self._host
        body = body_of(request)
        id = body.text("conversation")
        feature, arguments = feature_in(body, host), opened_with(body)
        host.kept(request.user)  # which has to be there
        if id and (feature or arguments):
            raise InvalidData("a conversation that there is, is gone on with as it is", path="$")
        self._make_room()
        conversation = (
            host.conversation(id, owner=request.user)
            if id
            else host.open(feature, owner=request.user, **arguments)
        )
        turn = said(host, self._live, body, conversation)
        body.nothing_else()
        job = Job(f"job_{os.urandom(12).hex()}", request.user, conversation.id)
        with self._lock:
            self._jobs[job.id] = job
        self._threads.submit(self._run, job, turn, evolve(request, limits=job.limits))
        return json_reply(job.row(), 202)

    def show(self, request: RouteRequest) -> RouteReply:
        return json_reply(self._mine(request).row())

    def result(self, request: RouteRequest) -> RouteReply:
        """What came of it; 202 while it runs. `wait` says how long that is waited for."""
        job = self._mine(request)
        ended = threading.Event()
        with request.limits.on_cancel(ended.set), job.limits.on_cancel(ended.set):
            job.ended.wait(_seconds(request))
        if job.error is not None:
            raise job.error
        return json_reply(job.reply or job.row(), 200 if job.reply is not None else 202)

    def remove(self, request: RouteRequest) -> RouteReply:
        """Cancel it, and forget it."""
        job = self._mine(request)
        job.limits.cancel(Cancelled("the job was cancelled"))
        with self._lock:
            self._jobs.pop(job.id, None)
        return RouteReply(status=204)

    def close(self) -> None:
        """End those that run, as if they had been killed."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.limits.cancel(Interrupted("the server ends"))
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: Job, turn: Turn, request: RouteRequest) -> None:
        try:
            job.reply = whole(self._live, turn, request, self._host.codec)
            job.status = "waiting" if job.reply["status"] == "waiting" else "done"
        except GenaiError as error:
            job.error = error
            job.status = "cancelled" if isinstance(error, Cancelled) else "failed"
        finally:
            job.ended.set()

    def _mine(self, request: RouteRequest) -> Job:
        job = self._jobs.get(request.parameters["id"])
        if job is None or job.user != request.user:
            raise NotFound("there is no such job")
        return job

    def _make_room(self) -> None:
        """The oldest that have ended go."""
        with self._lock:
            for id, job in list(self._jobs.items()):
                if len(self._jobs) < _MOST:
                    return
                if job.ended.is_set():
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
        raise InvalidData(f"wait is a number of seconds up to {_LONGEST_WAIT:g}", path="?wait")
    return seconds

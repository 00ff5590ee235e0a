"""Jobs: turns that go on while nobody waits for them."""

from __future__ import annotations

import copy
import logging
import os
import threading
from collections import OrderedDict, deque
from functools import partial
from typing import Any, Literal

from attrs import define, evolve, field

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.cancellation import Cancellation
from genai_host.errors import (
    Cancelled,
    GenaiError,
    Interrupted,
    InvalidData,
    NotFound,
    PluginError,
    RateLimited,
)
from genai_host.host import Host
from genai_host.server.given import body_of
from genai_host.server.native.answers import failed
from genai_host.server.native.fields import feature_in, opened_with, whole_id
from genai_host.server.native.live import Live
from genai_host.server.native.turns import whole
from genai_host.server.native.wanted import Turn, asked_in, next_turn
from genai_host.server.workers import Work, Workers

_log = logging.getLogger(__name__)

Status = Literal["running", "done", "failed", "waiting", "cancelled"]
_AT_ONCE, _MOST = 16, 1000
_LONGEST_WAIT = 30.0  # seconds
_FLUSH = 1.0  # seconds in which what was ended puts that on record


@define(eq=False)
class Job:
    """
    limits   end it
    ended    ends once it has ended
    """

    id: str
    user: str
    conversation: str
    limits: Cancellation = field(factory=Cancellation)
    ended: Cancellation = field(factory=Cancellation)
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
        self._waiting: deque[Work] = deque()
        self._at_work = 0
        self._workers = Workers("genai-host-job")

    def submit(self, request: RouteRequest) -> RouteReply:
        host = self._host
        body = body_of(request)
        id = body.text("conversation")
        feature, arguments = feature_in(body, host), opened_with(body)
        asked = asked_in(body, host.codec)
        body.nothing_else()
        host.kept(request.user)  # which has to be there
        if id and (feature or arguments):
            raise InvalidData("a conversation that there is, is gone on with as it is", path="$")
        self._make_room()
        conversation = (
            host.conversation(whole_id(id, request, host), owner=request.user)
            if id
            else host.open(feature, owner=request.user, **arguments)
        )
        turn = next_turn(asked, self._live, conversation)
        job = Job(f"job_{os.urandom(12).hex()}", request.user, conversation.id)
        self._start(job, partial(self._run, job, turn, evolve(request, limits=job.limits)))
        return json_reply(job.row(), 202)

    def show(self, request: RouteRequest) -> RouteReply:
        return json_reply(self._mine(request).row())

    def result(self, request: RouteRequest) -> RouteReply:
        """What came of it; 202 while it runs. `wait` says how long that is waited for."""
        job = self._mine(request)
        enough = threading.Event()
        with request.limits.on_cancel(enough.set), job.ended.on_cancel(enough.set):
            enough.wait(_seconds(request))
        if job.error is not None:
            raise copy.copy(job.error)
        return json_reply(job.reply or job.row(), 200 if job.reply is not None else 202)

    def remove(self, request: RouteRequest) -> RouteReply:
        """Cancel it, and forget it."""
        job = self._mine(request)
        job.limits.cancel(Cancelled("the job was cancelled"))
        with self._lock:
            self._jobs.pop(job.id, None)
        return RouteReply(status=204)

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
            job.ended.cancel()

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
        raise InvalidData(f"wait is a number of seconds up to {_LONGEST_WAIT:g}", path="?wait")
    return seconds

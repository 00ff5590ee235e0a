"""Jobs: turns that go on while nobody waits for them."""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from functools import partial

from attrs import evolve

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.api.given import body_of
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
from genai_host.server.native.elsewhere import cancel_elsewhere
from genai_host.server.native.fields import feature_in, opened_with, whole_id
from genai_host.server.native.job_shelf import Job, JobShelf
from genai_host.server.native.live import Live
from genai_host.server.native.turns import whole
from genai_host.server.native.wanted import Turn, asked_in, next_turn
from genai_host.server.workers import Work, Workers

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
        turn = next_turn(asked, host, self._live, request.user, conversation)
        job = Job(f"job_{os.urandom(12).hex()}", request.user, conversation.id)
        self._shelf.put(job)
        self._start(job, partial(self._run, job, turn, evolve(request, limits=job.limits)))
        return json_reply(job.row(), 202)

    def show(self, request: RouteRequest) -> RouteReply:
        return json_reply(self._mine(request).row())

    def result(self, request: RouteRequest) -> RouteReply:
        """What came of it; 202 while it runs. `wait` says how long that is waited for."""
        job = self._ended(self._mine(request), request)
        if job.error is not None:
            raise copy.copy(job.error)
        return json_reply(job.reply or job.row(), 200 if job.reply is not None else 202)

    def remove(self, request: RouteRequest) -> RouteReply:
        """Cancel it, and forget it."""
        job = self._mine(request)
        self._shelf.remove(job)
        job.limits.cancel(Cancelled("the job was cancelled"))
        with self._lock:
            is_ours = self._jobs.pop(job.id, None) is not None
        if not is_ours:
            cancel_elsewhere(self._host, request.user, job.conversation)
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
        raise InvalidData(f"wait is a number of seconds up to {_LONGEST_WAIT:g}", path="?wait")
    return seconds

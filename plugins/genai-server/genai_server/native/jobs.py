"""Background jobs: turns that run while no client waits for them.

A job is recorded before its client gets its id: the turn in its conversation, the record of the
job, and its entry in the queue of the store. Any server of the store can run it. If a server was
killed, another takes over the job and resumes the turn as any interrupted turn.

    Jobs.submit → Conversation.begin → JobRecords.add → JobWorker.submit
    JobWorker → Jobs._do, in any process → whole → JobRecords.end
"""

from __future__ import annotations

import copy
import logging
import os
import threading
from contextlib import closing, suppress

from attrs import evolve

from genai_host.api import RouteRequest, RouteResponse, json_response
from genai_host.api.cancellation import Cancellation
from genai_host.api.json_reader import body_of
from genai_host.api.storage import MOST_TRIES, Job as QueuedJob
from genai_host.conversations.conversation import Conversation
from genai_host.conversations.transcript import turns_of
from genai_host.errors import (
    Cancelled,
    Conflict,
    ConversationBusy,
    GenaiError,
    Interrupted,
    NotFound,
    PluginError,
    RateLimited,
    StoreError,
    ValidationError,
)
from genai_host.host import Host
from genai_host.serializers.conversations import pause_row
from genai_host.util import concurrency
from genai_server.native.fields import answered, feature_in, opened_with, whole_id
from genai_server.native.job_records import KIND, QUEUE, JobRecord, JobRecords
from genai_server.native.turns import (
    Live,
    TurnRequest,
    TurnTask,
    asked_in,
    cancel_on_record,
    leave_interrupted,
    whole,
)

_log = logging.getLogger(__name__)

_AT_ONCE, _MOST = 16, 1000
_LONGEST_WAIT = 30.0  # seconds
_LOOK = 0.2  # seconds between checks whether a job has ended
_RECORD_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds after each attempt to record a result
# a job that fails with one of these is left to another worker or a later attempt; its conversation
# is busy while a client resumes the turn
_LEFT = (Interrupted, StoreError, ConversationBusy)


class Jobs:
    """Background jobs of one server. Jobs continue on any server of the same store."""

    def __init__(self, host: Host, live: Live) -> None:
        self._host = host
        self._live = live
        self._records = JobRecords(host)
        self._worker = None
        if host.store is not None:
            self._worker = host.jobs(QUEUE).worker(at_once=_AT_ONCE)
            self._worker.start({KIND: self._do})

    def submit(self, request: RouteRequest) -> RouteResponse:
        host = self._host
        body = body_of(request)
        id = body.text("conversation")
        feature, arguments = feature_in(body, host), opened_with(body)
        asked = asked_in(body, host.codec)
        body.nothing_else()
        host.store_for(request.user)  # raises if there is no store
        if id and (feature or arguments):
            raise ValidationError(
                "cannot open an existing conversation with other arguments", path="$"
            )
        self._must_take_more()
        conversation = (
            host.conversation(whole_id(id, request, host), owner=request.user)
            if id
            else host.open(feature, owner=request.user, **arguments)
        )
        with conversation:
            if conversation.record_error is not None:
                raise conversation.record_error
            with self._live.hold(conversation.id):
                job = self._accepted(asked, request.user, conversation)
        return json_response(job.row(), 202)

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._as_of_now(self._mine(request)).row())

    def result(self, request: RouteRequest) -> RouteResponse:
        """Return the result of a job, or 202 while it runs. `wait` is the longest time to wait."""
        job = self._ended(request)
        if job.status in _STATUS.values() and job.reply is None:
            job = self._on_record(job)
        if job.error is not None:
            raise copy.copy(job.error)
        return json_response(job.reply or job.row(), 200 if job.reply is not None else 202)

    def remove(self, request: RouteRequest) -> RouteResponse:
        """Cancel and delete a job."""
        job = self._mine(request)
        is_here = self._worker is not None and self._worker.cancel(job.id)
        self._records.remove(job)
        if job.status == "running" and not is_here:
            with suppress(NotFound):  # the conversation was deleted
                cancel_on_record(self._host, job.user, job.conversation, job.turn)
        return RouteResponse(status=204)

    def close(self) -> None:
        """Interrupt running jobs. Other servers continue them, or this one after a restart."""
        if self._worker is not None:
            self._worker.close()

    def _accepted(self, asked: TurnRequest, user: str, conversation: Conversation) -> JobRecord:
        """Record a job."""
        assert self._worker is not None  # there is a store
        leave_interrupted(self._host, user, conversation)
        turn = conversation.begin(
            asked.message, regenerate=asked.again, context=asked.context, output_type=asked.returns
        )
        job = JobRecord(f"job_{os.urandom(12).hex()}", user, conversation.id, turn)
        try:
            self._records.add(job)
            self._worker.submit(job.queued())
        except BaseException:
            with suppress(GenaiError):  # this cannot be recorded either
                conversation.abandon()
            raise
        return job

    def _do(self, queued: QueuedJob, ending: Cancellation) -> None:
        """Run a job, and save its result."""
        job = self._records.queued(queued)
        if job is not None and job.status == "running":
            self._records.end(self._done(job, queued, ending))

    def _done(self, job: JobRecord, queued: QueuedJob, ending: Cancellation) -> JobRecord:
        """The ended job. Raises one of `_LEFT` if the job must be run again."""
        try:
            try:
                return self._taken(job, queued, ending)
            except Conflict as error:  # the turn was ended, or another worker runs it
                on_record = self._on_record(job)
                if on_record.status == "running":
                    raise Interrupted(error.message) from error
                return on_record
        except _LEFT:
            raise
        except NotFound:
            return _without_conversation(job)
        except GenaiError as error:
            return evolve(job, status=_status_of(error), error=error)
        except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
            _log.exception("the job %s failed", job.id)
            fault = PluginError("internal error; see the log of the server")
            return evolve(job, status="failed", error=fault)

    def _taken(self, job: JobRecord, queued: QueuedJob, ending: Cancellation) -> JobRecord:
        """Run or resume the turn of a job."""
        with closing(self._host.conversation(job.conversation, owner=job.user)) as conversation:
            if conversation.status != "pending" or conversation.turns != job.turn + 1:
                return self._on_record(job)
            if queued.is_exhausted:
                error = PluginError(
                    f"the job was attempted {MOST_TRIES} times, and its server stopped each time",
                    hint="see the log of the server",
                )
                conversation.abandon(error)
                record_result(conversation, ending)
                return evolve(job, status="failed", error=error)
            turn = TurnTask(conversation, conversation.resume_stream, job.turn)
            try:
                reply = whole(self._live, turn, ending, self._host.codec)
            except _LEFT:
                raise
            except GenaiError as error:
                record_result(conversation, ending)
                if isinstance(error, Cancelled):  # perhaps before the turn was resumed
                    cancel_on_record(self._host, job.user, job.conversation, job.turn)
                raise
            with suppress(StoreError):  # the job then keeps the answer
                record_result(conversation, ending)
            is_kept = conversation.record_error is None
        return evolve(job, status=_STATUS[reply["status"]], reply=None if is_kept else reply)

    def _on_record(self, job: JobRecord) -> JobRecord:
        """The job with the result in its conversation. Raises `NotFound` if the conversation was
        deleted."""
        entries = self._host.store_for(job.user).entries(job.conversation, self._host.codec)
        turn = next((each for each in turns_of(entries) if each.number == job.turn), None)
        if turn is None:
            error: GenaiError = Interrupted("the server stopped before the job was accepted")
            return evolve(job, status="failed", error=error)
        if turn.answer is not None:
            row = answered(turn.answer, self._host.codec, turn.number)
            reply = {"turn": turn.number, "status": "answered", "answer": row}
            return evolve(job, status="done", reply=reply)
        if turn.outcome == "paused" and turn.pause is not None:
            reply = {"turn": turn.number, "status": "paused", "pause": pause_row(turn.pause)}
            return evolve(job, status="paused", reply=reply)
        if turn.error is None:
            return job
        return evolve(job, status=_status_of(turn.error), error=turn.error)

    def _as_of_now(self, job: JobRecord) -> JobRecord:
        """The job; a paused turn may have been resumed or ended since."""
        if job.status != "paused" or job.reply is not None:
            return job
        try:
            return self._on_record(evolve(job, status="running"))
        except NotFound:
            return _without_conversation(job)

    def _ended(self, request: RouteRequest) -> JobRecord:
        """The job, after it has ended or the wait of the request is over."""
        over, seconds = threading.Event(), _seconds(request)
        is_over = not seconds
        with request.limits.on_cancel(over.set), self._host.clock.call_later(seconds, over.set):
            while True:
                job = self._as_of_now(self._mine(request))
                if job.status != "running" or is_over:
                    return job
                is_over = over.wait(_LOOK)

    def _mine(self, request: RouteRequest) -> JobRecord:
        return self._records.find(request.user, request.parameters["id"])

    def _must_take_more(self) -> None:
        """Check the capacity. Raises `Interrupted` if the server is stopping, `RateLimited` if the
        queue is full."""
        if self._worker is not None and self._worker.is_closed:
            raise Interrupted("the server is shutting down")
        if self._worker is not None and self._worker.queue.count() >= _MOST:
            raise RateLimited("too many jobs are in progress", retry_after=10.0)


def record_result(conversation: Conversation, ending: Cancellation) -> None:
    """Record the end of a turn that the store has refused.

    The store is retried for some seconds: without its end, the turn would remain pending.

    Args:
        conversation: The conversation; it may be closed.
        ending: Ends the waiting.

    Raises:
        Conflict: Another process has continued the conversation.
        StoreError: The end cannot be recorded.
    """
    gone = concurrency.new_event()
    with ending.on_cancel(gone.set):
        for seconds in _RECORD_PAUSES:
            try:
                conversation.flush()
            except StoreError:
                gone.wait(seconds)
            else:
                return
    conversation.flush()


_STATUS = {"answered": "done", "paused": "paused"}


def _without_conversation(job: JobRecord) -> JobRecord:
    return evolve(job, status="failed", error=Conflict("the conversation of the job was deleted"))


def _status_of(error: GenaiError) -> str:
    return "cancelled" if isinstance(error, Cancelled) else "failed"


def _seconds(request: RouteRequest) -> float:
    text = request.query.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_WAIT:
        raise ValidationError(
            f"wait must be a number of seconds up to {_LONGEST_WAIT:g}", path="?wait"
        )
    return seconds

"""Background jobs: turns that run while no client waits for them.

A job is recorded before its client gets its id: the turn in its conversation, the record of the
job, and its entry in the queue of the store. Any server of the store can run it. If a server was
killed, another takes over the job and resumes the turn as any interrupted turn.

    Jobs.submit → Conversation.begin → JobRecords.add → JobWorker.submit
    JobWorker → Jobs._run, in any process → run_turn → JobRecords.end
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
from genai_host.api.storage import MAX_TRIES, Job as QueuedJob
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
from genai_server.native.fields import answer_json, complete_id, read_feature, read_open_arguments
from genai_server.native.job_records import KIND, QUEUE, JobRecord, JobRecords
from genai_server.native.turns import (
    RunningTurns,
    TurnRequest,
    TurnTask,
    abandon_interrupted,
    read_turn_request,
    record_cancellation,
    run_turn,
)

_log = logging.getLogger(__name__)

_MAX_RUNNING, _MAX_QUEUED = 16, 1000
_MAX_WAIT = 30.0  # seconds
_POLL_INTERVAL = 0.2  # seconds between checks whether a job has ended
_RECORD_DELAYS = (1.0, 2.0, 4.0, 8.0)  # seconds after each attempt to record a result
# a job that fails with one of these is left to another worker or a later attempt; its conversation
# is busy while a client resumes the turn
_RETRIED = (Interrupted, StoreError, ConversationBusy)


class Jobs:
    """Background jobs of one server. Jobs continue on any server of the same store."""

    def __init__(self, host: Host, running_turns: RunningTurns) -> None:
        self._host = host
        self._running_turns = running_turns
        self._records = JobRecords(host)
        self._worker = None
        if host.store is not None:
            self._worker = host.jobs(QUEUE).worker(at_once=_MAX_RUNNING)
            self._worker.start({KIND: self._run})

    def submit(self, request: RouteRequest) -> RouteResponse:
        host = self._host
        body = body_of(request)
        id = body.text("conversation")
        feature, arguments = read_feature(body, host), read_open_arguments(body)
        turn_request = read_turn_request(body, host.codec)
        body.nothing_else()
        host.store_for(request.user)  # raises if there is no store
        if id and (feature or arguments):
            raise ValidationError(
                "cannot open an existing conversation with other arguments", path="$"
            )
        self._check_capacity()
        conversation = (
            host.conversation(complete_id(id, request, host), owner=request.user)
            if id
            else host.open(feature, owner=request.user, **arguments)
        )
        with conversation:
            if conversation.record_error is not None:
                raise conversation.record_error
            with self._running_turns.hold(conversation.id):
                job = self._record(turn_request, request.user, conversation)
        return json_response(job.row(), 202)

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._current(self._job_of(request)).row())

    def result(self, request: RouteRequest) -> RouteResponse:
        """Return the result of a job, or 202 while it runs. `wait` is the longest time to wait."""
        job = self._wait(request)
        if job.status in _STATUS.values() and job.reply is None:
            job = self._recorded(job)
        if job.error is not None:
            raise copy.copy(job.error)
        return json_response(job.reply or job.row(), 200 if job.reply is not None else 202)

    def remove(self, request: RouteRequest) -> RouteResponse:
        """Cancel and delete a job."""
        job = self._job_of(request)
        is_here = self._worker is not None and self._worker.cancel(job.id)
        self._records.remove(job)
        if job.status == "running" and not is_here:
            with suppress(NotFound):  # the conversation was deleted
                record_cancellation(self._host, job.user, job.conversation, job.turn)
        return RouteResponse(status=204)

    def close(self) -> None:
        """Interrupt running jobs. Other servers continue them, or this one after a restart."""
        if self._worker is not None:
            self._worker.close()

    def _record(
        self, turn_request: TurnRequest, user: str, conversation: Conversation
    ) -> JobRecord:
        """Record a job."""
        assert self._worker is not None  # there is a store
        abandon_interrupted(self._host, user, conversation)
        turn = conversation.begin(
            turn_request.message,
            regenerate=turn_request.regenerate,
            context=turn_request.context,
            output_type=turn_request.output_schema,
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

    def _run(self, queued: QueuedJob, ending: Cancellation) -> None:
        """Run a job, and save its result."""
        job = self._records.queued(queued)
        if job is not None and job.status == "running":
            self._records.end(self._finished_job(job, queued, ending))

    def _finished_job(self, job: JobRecord, queued: QueuedJob, ending: Cancellation) -> JobRecord:
        """The ended job. Raises one of `_RETRIED` if the job must be run again."""
        try:
            try:
                return self._run_turn(job, queued, ending)
            except Conflict as error:  # the turn was ended, or another worker runs it
                on_record = self._recorded(job)
                if on_record.status == "running":
                    raise Interrupted(error.message) from error
                return on_record
        except _RETRIED:
            raise
        except NotFound:
            return _without_conversation(job)
        except GenaiError as error:
            return evolve(job, status=_status_of(error), error=error)
        except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
            _log.exception("the job %s failed", job.id)
            fault = PluginError("internal error; see the log of the server")
            return evolve(job, status="failed", error=fault)

    def _run_turn(self, job: JobRecord, queued: QueuedJob, ending: Cancellation) -> JobRecord:
        """Run or resume the turn of a job."""
        with closing(self._host.conversation(job.conversation, owner=job.user)) as conversation:
            if conversation.status != "pending" or conversation.turns != job.turn + 1:
                return self._recorded(job)
            if queued.is_exhausted:
                error = PluginError(
                    f"the job was attempted {MAX_TRIES} times, and its server stopped each time",
                    hint="see the log of the server",
                )
                conversation.abandon(error)
                record_result(conversation, ending)
                return evolve(job, status="failed", error=error)
            turn = TurnTask(conversation, conversation.resume_stream, job.turn)
            try:
                reply = run_turn(self._running_turns, turn, ending, self._host.codec)
            except _RETRIED:
                raise
            except GenaiError as error:
                record_result(conversation, ending)
                if isinstance(error, Cancelled):  # perhaps before the turn was resumed
                    record_cancellation(self._host, job.user, job.conversation, job.turn)
                raise
            with suppress(StoreError):  # the job then keeps the answer
                record_result(conversation, ending)
            is_kept = conversation.record_error is None
        return evolve(job, status=_STATUS[reply["status"]], reply=None if is_kept else reply)

    def _recorded(self, job: JobRecord) -> JobRecord:
        """The job with the result in its conversation. Raises `NotFound` if the conversation was
        deleted."""
        entries = self._host.store_for(job.user).entries(job.conversation, self._host.codec)
        turn = next((each for each in turns_of(entries) if each.number == job.turn), None)
        if turn is None:
            error: GenaiError = Interrupted("the server stopped before the job was accepted")
            return evolve(job, status="failed", error=error)
        if turn.answer is not None:
            row = answer_json(turn.answer, self._host.codec, turn.number)
            reply = {"turn": turn.number, "status": "answered", "answer": row}
            return evolve(job, status="done", reply=reply)
        if turn.outcome == "paused" and turn.pause is not None:
            reply = {"turn": turn.number, "status": "paused", "pause": pause_row(turn.pause)}
            return evolve(job, status="paused", reply=reply)
        if turn.error is None:
            return job
        return evolve(job, status=_status_of(turn.error), error=turn.error)

    def _current(self, job: JobRecord) -> JobRecord:
        """The job; a paused turn may have been resumed or ended since."""
        if job.status != "paused" or job.reply is not None:
            return job
        try:
            return self._recorded(evolve(job, status="running"))
        except NotFound:
            return _without_conversation(job)

    def _wait(self, request: RouteRequest) -> JobRecord:
        """The job, after it has ended or the wait of the request is over."""
        over, seconds = threading.Event(), _wait_seconds(request)
        is_over = not seconds
        with request.limits.on_cancel(over.set), self._host.clock.call_later(seconds, over.set):
            while True:
                job = self._current(self._job_of(request))
                if job.status != "running" or is_over:
                    return job
                is_over = over.wait(_POLL_INTERVAL)

    def _job_of(self, request: RouteRequest) -> JobRecord:
        return self._records.find(request.user, request.parameters["id"])

    def _check_capacity(self) -> None:
        """Check the capacity. Raises `Interrupted` if the server is stopping, `RateLimited` if the
        queue is full."""
        if self._worker is not None and self._worker.is_closed:
            raise Interrupted("the server is shutting down")
        if self._worker is not None and self._worker.queue.count() >= _MAX_QUEUED:
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
    cancelled = concurrency.new_event()
    with ending.on_cancel(cancelled.set):
        for seconds in _RECORD_DELAYS:
            try:
                conversation.flush()
            except StoreError:
                cancelled.wait(seconds)
            else:
                return
    conversation.flush()


_STATUS = {"answered": "done", "paused": "paused"}


def _without_conversation(job: JobRecord) -> JobRecord:
    return evolve(job, status="failed", error=Conflict("the conversation of the job was deleted"))


def _status_of(error: GenaiError) -> str:
    return "cancelled" if isinstance(error, Cancelled) else "failed"


def _wait_seconds(request: RouteRequest) -> float:
    text = request.query.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_WAIT:
        raise ValidationError(f"wait must be a number of seconds up to {_MAX_WAIT:g}", path="?wait")
    return seconds

"""Turns: requested, running in this process or another, streamed.

    say → read_turn_request → next_turn → run_turn, or TurnStream

`RunningTurns` has the turns that run in this server, so that other requests can cancel them or
detect that a conversation is busy. Turns of other servers of the same store, which are other
workers or machines, are found in the store.

Source of the streams: HTML Living Standard, "Server-sent events".
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from attrs import frozen

from genai_host.api import (
    Answer,
    CancelToken,
    Codec,
    Delta,
    HttpProblem,
    Message,
    RouteRequest,
    RouteResponse,
    json_response,
)
from genai_host.api.cancellation import ended_with
from genai_host.api.features import Event
from genai_host.api.http_routes import sse_event
from genai_host.api.json_reader import JsonReader, body_of
from genai_host.conversations.conversation import Conversation
from genai_host.errors import Conflict, ConversationBusy, GenaiError, TurnPaused, ValidationError
from genai_host.host import Host
from genai_host.serializers.conversations import pause_row
from genai_host.serving.completion import COMMENT, close_on_disconnect
from genai_host.util import concurrency
from genai_server.native.fields import answer_json, conversation_id, error_json, read_message
from genai_server.native.job_records import JobRecords

if TYPE_CHECKING:
    from genai_host.store.documents import Documents

_log = logging.getLogger(__name__)

_MAX_TRIES = 5
_END_TIMEOUT = 5.0  # seconds in which a turn that was cancelled may end
_CANCEL_INTERVAL = 0.5  # seconds between checks for requests of other processes
_POLL_INTERVAL = 0.1  # seconds between checks whether a turn of another process has ended


def check_not_running_elsewhere(host: Host, user: str, conversation: Conversation) -> None:
    """Check that no other server or job is running a turn of a conversation. Raises
    `ConversationBusy` if a turn is running, not interrupted."""
    if conversation.status == "pending" and _runs_elsewhere(host, user, conversation.id):
        raise ConversationBusy(
            "a turn is in progress, as a job or on another server of this store",
            hint="wait for it, or cancel it",
        )


def _runs_elsewhere(host: Host, user: str, id: str) -> bool:
    """Whether the unfinished turn runs on another server or is an unfinished job."""
    return host.store_for(user).is_running_elsewhere(id) or JobRecords(host).has_unfinished(
        user, id
    )


def cancel_elsewhere(host: Host, user: str, id: str) -> bool:
    """Cancel a turn of another server or a job, and return whether there was one. Its process ends
    it, with the text received so far, or its end is recorded here if that does not respond."""
    if not _runs_elsewhere(host, user, id):
        return False
    requests, waiting = _cancel_requests(host), concurrency.new_event()
    requests.put(id, {})
    try:
        for _ in range(int(_END_TIMEOUT / _POLL_INTERVAL)):
            waiting.wait(_POLL_INTERVAL)
            if not _runs_elsewhere(host, user, id):
                return True
    finally:
        requests.delete(id)
    return record_cancellation(host, user, id)


def _cancel_requests(host: Host) -> Documents:
    """Requests to cancel turns of other processes, by conversation; those of all users."""
    return host.store_for().documents("server/cancel_requests")


def record_cancellation(host: Host, user: str, id: str, turn: int | None = None) -> bool:
    """Record the end of an unfinished turn, by number or any, and return whether there was one. The
    process that runs the turn detects this at its next step, and stops."""
    for last in reversed(range(_MAX_TRIES)):
        with host.conversation(id, owner=user) as conversation:
            is_it = turn is None or conversation.turns == turn + 1
            if conversation.status != "pending" or not is_it:
                return False
            try:
                conversation.abandon()
            except Conflict:  # a step was recorded in the meantime
                if last:
                    continue
                raise
            return True
    return False


class RunningTurns:
    """Turns in progress on one server. Thread-safe.

    Args:
        host: Its store has requests of other processes to cancel turns; None for no requests.
    """

    def __init__(self, host: Host | None = None) -> None:
        self._host = host
        self._is_watching = False
        self._lock = threading.Lock()
        self._has_ended = threading.Condition(self._lock)
        self._is_idle = concurrency.new_event()
        self._turns: dict[str, tuple[Conversation, CancelToken]] = {}
        self._held: set[str] = set()

    @contextmanager
    def turn(self, conversation: Conversation, limits: CancelToken) -> Iterator[None]:
        """Reserve a conversation for a turn. It is closed at the end, or when the limits are
        cancelled. Raises `ConversationBusy` if a turn of the conversation is in progress."""
        id = conversation.id
        with self._lock:
            if id in self._turns:
                raise ConversationBusy("a turn is in progress", hint="wait for it, or cancel it")
            self._turns[id] = conversation, limits
            self._is_idle.clear()
            begins = not self._is_watching and self._host is not None and bool(self._host.store)
            self._is_watching = self._is_watching or begins
        if begins:
            concurrency.new_thread("genai-host-cancel", self._watch_cancel_requests).start()
        try:
            with close_on_disconnect(limits, conversation):
                yield
        finally:
            with self._has_ended:
                del self._turns[id]
                self._has_ended.notify_all()
                if not self._turns:
                    self._is_idle.set()

    def _watch_cancel_requests(self) -> None:
        """Cancel turns on request of other processes, as long as turns are in progress."""
        assert self._host is not None  # checked when it starts
        while True:
            self._is_idle.wait(_CANCEL_INTERVAL)
            with self._lock:
                if not self._turns:
                    self._is_watching = False
                    return
            try:
                for request in _cancel_requests(self._host).list():
                    self.cancel(request.id)
            except GenaiError as error:  # the turns continue
                _log.info("cannot read the requests to cancel turns: %s", error)

    def wait_for_end(self, id: str) -> None:
        """If the turn was cancelled or its client has disconnected, wait a few seconds until it
        ends: the client may already have sent the next message."""
        with self._has_ended:
            if id in self._turns:
                conversation, limits = self._turns[id]
                if conversation.status == "closed" or ended_with(limits) is not None:
                    self._has_ended.wait_for(lambda: id not in self._turns, _END_TIMEOUT)

    @contextmanager
    def hold(self, id: str) -> Iterator[None]:
        """Prevent other requests from starting a turn of a conversation. Raises `ConversationBusy`
        if a turn of the conversation is in progress."""
        with self._lock:
            if id in self._turns or id in self._held:
                raise ConversationBusy("a turn is in progress", hint="wait for it, or cancel it")
            self._held.add(id)
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(id)

    def cancel(self, id: str) -> bool:
        """Cancel the turn in progress, and return whether there was one."""
        with self._lock:
            if id not in self._turns:
                return False
            conversation, _ = self._turns[id]
        conversation.close()
        return True

    def is_busy(self, id: str) -> bool:
        with self._lock:
            return id in self._turns or id in self._held

    def check_idle(self, id: str) -> None:
        """Raises `ConversationBusy` if a turn of the conversation is in progress."""
        if self.is_busy(id):
            raise ConversationBusy("a turn is in progress", hint="wait for it, or cancel it")


@frozen
class TurnRequest:
    """The request for a turn: arguments of `Conversation.say`."""

    message: Message | None
    regenerate: bool
    context: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None


@frozen
class TurnTask:
    """A turn to run.

    Attributes:
        start: Starts the turn and yields its events.
        number: Number of the turn in its conversation.
    """

    conversation: Conversation
    start: Callable[[], Generator[Event, None, None]]
    number: int


def read_turn_request(body: JsonReader, codec: Codec) -> TurnRequest:
    """Read the request for a turn. Raises `ValidationError`."""
    turn_request = TurnRequest(
        read_message(body, codec),
        bool(body.flag("regenerate")),
        body.mapping("context"),
        body.mapping("output_schema"),
    )
    if turn_request.message is None and not turn_request.regenerate:
        raise ValidationError("message is missing", path="$.message")
    return turn_request


def next_turn(
    turn_request: TurnRequest,
    host: Host,
    running_turns: RunningTurns,
    user: str,
    conversation: Conversation,
) -> TurnTask:
    """Return the next turn of a conversation. An interrupted turn is abandoned. Raises
    `ConversationBusy` if a turn is in progress."""
    running_turns.check_idle(conversation.id)
    abandon_interrupted(host, user, conversation)

    def start() -> Generator[Event, None, None]:
        return conversation.stream(
            turn_request.message,
            regenerate=turn_request.regenerate,
            context=turn_request.context,
            output_type=turn_request.output_schema,
        )

    return TurnTask(conversation, start, conversation.turns)


def abandon_interrupted(host: Host, user: str, conversation: Conversation) -> None:
    """Abandon an interrupted turn, if there is one. Raises `ConversationBusy` if the turn is in
    progress."""
    check_not_running_elsewhere(host, user, conversation)
    if conversation.status == "pending":
        conversation.abandon()


class TurnStream:
    """The body of a streamed reply. Closing it cancels the turn.

    `begin` waits for the first event, so that an early error still determines the status.

    Attributes:
        is_done: Whether the stream has ended without an error, and the result is recorded.
    """

    def __init__(
        self, turn: TurnTask, running_turns: RunningTurns, limits: CancelToken, codec: Codec
    ) -> None:
        self._turn = turn
        self._codec = codec
        self._resources = ExitStack()
        self._error: GenaiError | None = None
        self._first: tuple[Event, ...] = ()
        self.is_done = False
        self._resources.enter_context(running_turns.turn(turn.conversation, limits))
        self._has_begun = False
        self._pieces = self._generate()

    def begin(self) -> None:
        """Wait for the first event. If this raises, the turn has ended."""
        self._has_begun = True
        try:
            self._start()
        except GenaiError as error:
            self._error = error
            raise

    def _start(self) -> None:
        try:
            self._events = self._turn.start()
            self._resources.callback(self._events.close)
            self._first = tuple(islice(self._events, 1))
        except TurnPaused as error:
            self._error = error
        except BaseException as error:
            if not self._resources.__exit__(type(error), error, error.__traceback__):
                raise

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._pieces.close()
        self._resources.close()

    def _generate(self) -> Generator[bytes, None, None]:
        yield sse_event("turn", {"turn": self._turn.number})
        try:
            if not self._has_begun:
                self.begin()
            if self._error is not None:
                raise self._error
            for event in chain(self._first, self._events):
                if event.kind != "paused":  # sent once it is recorded
                    yield self._event(event)
        except TurnPaused:
            self.is_done = True
            pause = self._turn.conversation.current_pause
            yield sse_event("paused", None if pause is None else pause_row(pause))
        except GenaiError as error:
            yield sse_event("error", _error_row(error))
        finally:
            self._resources.close()

    def _event(self, event: Event) -> bytes:
        if isinstance(event.data, Delta):
            return sse_event("delta", self._codec.to_json(event.data))
        if event.answer is not None:
            why = self._turn.conversation.record_error
            row = answer_json(event.answer, self._codec, self._turn.number, why)
            self.is_done = True
            return sse_event("answer", row)
        return sse_event(event.kind, {} if event.data is None else self._codec.to_json(event.data))


def _error_row(error: GenaiError) -> dict[str, Any]:
    """An error with `retry_after`, which a started stream cannot send as a header."""
    seconds = HttpProblem.of(error).retry_after
    return error_json(error) | ({} if seconds is None else {"retry_after": math.ceil(seconds)})


def say(host: Host, running_turns: RunningTurns, request: RouteRequest) -> RouteResponse:
    """Send a message to a conversation."""
    id = conversation_id(request, host)
    body = body_of(request)
    turn_request, is_streamed = read_turn_request(body, host.codec), bool(body.flag("stream"))
    body.nothing_else()
    running_turns.wait_for_end(id)
    conversation = host.conversation(id, owner=request.user)
    turn = next_turn(turn_request, host, running_turns, request.user, conversation)
    return _reply(host, running_turns, request, turn, is_streamed=is_streamed)


def resume(host: Host, running_turns: RunningTurns, request: RouteRequest) -> RouteResponse:
    """Resume a paused or interrupted turn."""
    id = conversation_id(request, host)
    body = body_of(request)
    result, is_streamed = body.raw("result"), bool(body.flag("stream"))
    body.nothing_else()
    conversation = host.conversation(id, owner=request.user)
    check_not_running_elsewhere(host, request.user, conversation)
    turn = TurnTask(
        conversation, lambda: conversation.resume_stream(result), max(0, conversation.turns - 1)
    )
    return _reply(host, running_turns, request, turn, is_streamed=is_streamed)


def _reply(
    host: Host,
    running_turns: RunningTurns,
    request: RouteRequest,
    turn: TurnTask,
    *,
    is_streamed: bool,
) -> RouteResponse:
    if is_streamed:
        stream = TurnStream(turn, running_turns, request.limits, host.codec)
        headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
        return RouteResponse(stream, headers=headers, keepalive=COMMENT, begin=stream.begin)
    return json_response(run_turn(running_turns, turn, request.limits, host.codec))


def run_turn(
    running_turns: RunningTurns, turn: TurnTask, limits: CancelToken, codec: Codec
) -> dict[str, Any]:
    """Run a turn and return its result."""
    answer: Answer | None = None
    with running_turns.turn(turn.conversation, limits), closing(turn.start()) as events:
        try:
            for event in events:
                answer = event.answer
        except TurnPaused:
            pause = turn.conversation.current_pause
            row = None if pause is None else pause_row(pause)
            return {"turn": turn.number, "status": "paused", "pause": row}
    assert answer is not None  # the last event of a turn that does not raise
    row = answer_json(answer, codec, turn.number, turn.conversation.record_error)
    return {"turn": turn.number, "status": "answered", "answer": row}

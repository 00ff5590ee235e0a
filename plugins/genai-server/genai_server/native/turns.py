"""Turns: requested, running in this process or another, streamed.

    say → asked_in → next_turn → whole, or TurnStream

`Live` has the turns that run in this server, so that other requests can cancel them or detect
that a conversation is busy. Turns of other servers of the same store, which are other workers or
machines, are found in the store.

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
from genai_server.native.fields import answered, conversation_in, failed, message_in
from genai_server.native.job_records import JobRecords

if TYPE_CHECKING:
    from genai_host.store.documents import Documents

_log = logging.getLogger(__name__)

_TRIES = 5
_PATIENCE = 5.0  # seconds in which a turn that was cancelled may end
_LOOK = 0.5  # seconds between checks for requests of other processes
_WAIT = 0.1  # seconds between checks whether a turn of another process has ended


def must_not_run_elsewhere(host: Host, user: str, conversation: Conversation) -> None:
    """Check that no other server or job is running a turn of a conversation. Raises
    `ConversationBusy` if a turn is running, not interrupted."""
    if conversation.status == "pending" and _is_elsewhere(host, user, conversation.id):
        raise ConversationBusy(
            "a turn is in progress, as a job or on another server of this store",
            hint="wait for it, or cancel it",
        )


def _is_elsewhere(host: Host, user: str, id: str) -> bool:
    """Whether the unfinished turn runs on another server or is an unfinished job."""
    return host.store_for(user).is_running_elsewhere(id) or JobRecords(host).has_unfinished(
        user, id
    )


def cancel_elsewhere(host: Host, user: str, id: str) -> bool:
    """Cancel a turn of another server or a job, and return whether there was one. Its process ends
    it, with the text received so far, or its end is recorded here if that does not respond."""
    if not _is_elsewhere(host, user, id):
        return False
    requests, waiting = _cancel_requests(host), concurrency.new_event()
    requests.put(id, {})
    try:
        for _ in range(int(_PATIENCE / _WAIT)):
            waiting.wait(_WAIT)
            if not _is_elsewhere(host, user, id):
                return True
    finally:
        requests.delete(id)
    return cancel_on_record(host, user, id)


def _cancel_requests(host: Host) -> Documents:
    """Requests to cancel turns of other processes, by conversation; those of all users."""
    return host.store_for().documents("server/cancel_requests")


def cancel_on_record(host: Host, user: str, id: str, turn: int | None = None) -> bool:
    """Record the end of an unfinished turn, by number or any, and return whether there was one. The
    process that runs the turn detects this at its next step, and stops."""
    for last in reversed(range(_TRIES)):
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


class Live:
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
            concurrency.new_thread("genai-host-cancel", self._watch).start()
        try:
            with close_on_disconnect(limits, conversation):
                yield
        finally:
            with self._has_ended:
                del self._turns[id]
                self._has_ended.notify_all()
                if not self._turns:
                    self._is_idle.set()

    def _watch(self) -> None:
        """Cancel turns on request of other processes, as long as turns are in progress."""
        assert self._host is not None  # checked when it starts
        while True:
            self._is_idle.wait(_LOOK)
            with self._lock:
                if not self._turns:
                    self._is_watching = False
                    return
            try:
                for request in _cancel_requests(self._host).list():
                    self.cancel(request.id)
            except GenaiError as error:  # the turns continue
                _log.info("cannot read the requests to cancel turns: %s", error)

    def let_end(self, id: str) -> None:
        """If the turn was cancelled or its client has disconnected, wait a few seconds until it
        ends: the client may already have sent the next message."""
        with self._has_ended:
            if id in self._turns:
                conversation, limits = self._turns[id]
                if conversation.status == "closed" or ended_with(limits) is not None:
                    self._has_ended.wait_for(lambda: id not in self._turns, _PATIENCE)

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

    def must_be_idle(self, id: str) -> None:
        """Raises `ConversationBusy` if a turn of the conversation is in progress."""
        if self.is_busy(id):
            raise ConversationBusy("a turn is in progress", hint="wait for it, or cancel it")


@frozen
class TurnRequest:
    """The request for a turn: arguments of `Conversation.say`."""

    message: Message | None
    again: bool
    context: Mapping[str, Any] | None
    returns: Mapping[str, Any] | None


@frozen
class TurnTask:
    """A turn to run.

    Attributes:
        take: Starts the turn and yields its events.
        number: Number of the turn in its conversation.
    """

    conversation: Conversation
    take: Callable[[], Generator[Event, None, None]]
    number: int


def asked_in(body: JsonReader, codec: Codec) -> TurnRequest:
    """Read the request for a turn. Raises `ValidationError`."""
    asked = TurnRequest(
        message_in(body, codec),
        bool(body.flag("regenerate")),
        body.mapping("context"),
        body.mapping("output_schema"),
    )
    if asked.message is None and not asked.again:
        raise ValidationError("message is missing", path="$.message")
    return asked


def next_turn(
    asked: TurnRequest, host: Host, live: Live, user: str, conversation: Conversation
) -> TurnTask:
    """Return the next turn of a conversation. An interrupted turn is abandoned. Raises
    `ConversationBusy` if a turn is in progress."""
    live.must_be_idle(conversation.id)
    leave_interrupted(host, user, conversation)

    def take() -> Generator[Event, None, None]:
        return conversation.stream(
            asked.message, regenerate=asked.again, context=asked.context, output_type=asked.returns
        )

    return TurnTask(conversation, take, conversation.turns)


def leave_interrupted(host: Host, user: str, conversation: Conversation) -> None:
    """Abandon an interrupted turn, if there is one. Raises `ConversationBusy` if the turn is in
    progress."""
    must_not_run_elsewhere(host, user, conversation)
    if conversation.status == "pending":
        conversation.abandon()


class TurnStream:
    """The body of a streamed reply. Closing it cancels the turn.

    `begin` waits for the first event, so that an early error still determines the status.

    Attributes:
        is_done: Whether the stream has ended without an error, and the result is recorded.
    """

    def __init__(self, turn: TurnTask, live: Live, limits: CancelToken, codec: Codec) -> None:
        self._turn = turn
        self._codec = codec
        self._open = ExitStack()
        self._failed: GenaiError | None = None
        self._first: tuple[Event, ...] = ()
        self.is_done = False
        self._open.enter_context(live.turn(turn.conversation, limits))
        self._has_begun = False
        self._pieces = self._written()

    def begin(self) -> None:
        """Wait for the first event. If this raises, the turn has ended."""
        self._has_begun = True
        try:
            self._take()
        except GenaiError as error:
            self._failed = error
            raise

    def _take(self) -> None:
        try:
            self._events = self._turn.take()
            self._open.callback(self._events.close)
            self._first = tuple(islice(self._events, 1))
        except TurnPaused as error:
            self._failed = error
        except BaseException as error:
            if not self._open.__exit__(type(error), error, error.__traceback__):
                raise

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._pieces.close()
        self._open.close()

    def _written(self) -> Generator[bytes, None, None]:
        yield sse_event("turn", {"turn": self._turn.number})
        try:
            if not self._has_begun:
                self.begin()
            if self._failed is not None:
                raise self._failed
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
            self._open.close()

    def _event(self, event: Event) -> bytes:
        if isinstance(event.data, Delta):
            return sse_event("delta", self._codec.to_json(event.data))
        if event.answer is not None:
            why = self._turn.conversation.record_error
            row = answered(event.answer, self._codec, self._turn.number, why)
            self.is_done = True
            return sse_event("answer", row)
        return sse_event(event.kind, {} if event.data is None else self._codec.to_json(event.data))


def _error_row(error: GenaiError) -> dict[str, Any]:
    """An error with `retry_after`, which a started stream cannot send as a header."""
    seconds = HttpProblem.of(error).retry_after
    return failed(error) | ({} if seconds is None else {"retry_after": math.ceil(seconds)})


def say(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    """Send a message to a conversation."""
    id = conversation_in(request, host)
    body = body_of(request)
    asked, is_streamed = asked_in(body, host.codec), bool(body.flag("stream"))
    body.nothing_else()
    live.let_end(id)
    conversation = host.conversation(id, owner=request.user)
    turn = next_turn(asked, host, live, request.user, conversation)
    return _taken(host, live, request, turn, is_streamed=is_streamed)


def resume(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    """Resume a paused or interrupted turn."""
    id = conversation_in(request, host)
    body = body_of(request)
    result, is_streamed = body.raw("result"), bool(body.flag("stream"))
    body.nothing_else()
    conversation = host.conversation(id, owner=request.user)
    must_not_run_elsewhere(host, request.user, conversation)
    turn = TurnTask(
        conversation, lambda: conversation.resume_stream(result), max(0, conversation.turns - 1)
    )
    return _taken(host, live, request, turn, is_streamed=is_streamed)


def _taken(
    host: Host, live: Live, request: RouteRequest, turn: TurnTask, *, is_streamed: bool
) -> RouteResponse:
    if is_streamed:
        stream = TurnStream(turn, live, request.limits, host.codec)
        headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
        return RouteResponse(stream, headers=headers, keepalive=COMMENT, begin=stream.begin)
    return json_response(whole(live, turn, request.limits, host.codec))


def whole(live: Live, turn: TurnTask, limits: CancelToken, codec: Codec) -> dict[str, Any]:
    """Run a turn and return its result."""
    answer: Answer | None = None
    with live.turn(turn.conversation, limits), closing(turn.take()) as events:
        try:
            for event in events:
                answer = event.answer
        except TurnPaused:
            pause = turn.conversation.current_pause
            row = None if pause is None else pause_row(pause)
            return {"turn": turn.number, "status": "paused", "pause": row}
    assert answer is not None  # the last event of a turn that does not raise
    row = answered(answer, codec, turn.number, turn.conversation.record_error)
    return {"turn": turn.number, "status": "answered", "answer": row}

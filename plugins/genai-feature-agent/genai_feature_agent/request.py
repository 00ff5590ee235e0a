"""Requests of a front end that stores the conversation itself, and the turn of each request. The
server stores no state.

    agent = StatelessAgent(host, "smollm2")
    reply = agent.reply(agent.read({"message": "hi", "context": {}, "history": []}))
    reply.to_json()    # {"reactions": [...], "history": [...], "session_id": "..."}

    StatelessAgent.stream → Host.open → Conversation.stream → TurnState (collects the events)
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from genai_feature_agent import Settings
from genai_feature_agent.loop import Added, Envelope
from genai_feature_agent.reactions import all_reactions
from genai_feature_agent.wire import from_wire, to_wire
from genai_host.api import (
    Answer,
    CancelToken,
    JsonReader,
    Message,
    Progress,
    Usage,
    check_numbers,
    read_settings,
)
from genai_host.errors import GenaiError, TurnPaused, ValidationError

if TYPE_CHECKING:
    from genai_host.api import ConversationHandle, Event, HostServices, TurnLimits


DEPTH = 100
"""Maximum nesting depth of the JSON of a request, below the limit of any JSON parser."""


def must_be_flat(body: Mapping[str, Any]) -> None:
    """Raise `ValidationError`, with the field, for values nested deeper than `DEPTH`."""
    for name, value in body.items():
        level = [value]
        for _ in range(DEPTH):
            level = [item for each in level for item in _items(each)]
        if level:
            raise ValidationError(f"nested deeper than {DEPTH} levels", path=f"$.{name:.40}")


def must_be_bounded(body: Mapping[str, Any], messages: int, characters: int) -> None:
    """Raise `ValidationError`, with the path, for a history with too many messages, or for too many
    characters in the message, the context and the history together. Images and files do not count.
    """
    history = body.get("history")
    count = len(history) if isinstance(history, (list, tuple)) else 0
    if count > messages:
        raise ValidationError(
            f"the history has {count} messages; the limit is {messages}",
            path="$.history",
            hint="omit the oldest messages",
        )
    for path, value in _counted_fields(body):
        characters -= _length(value)
        if characters < 0:
            raise ValidationError(
                "the request has too much text up to this field",
                path=path,
                hint="omit the oldest messages, or reduce the context",
            )


def _counted_fields(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("message", "context", "approvals"):
        yield f"$.{name}", body.get(name)
    history = body.get("history")
    for number, each in enumerate(history if isinstance(history, (list, tuple)) else ()):
        yield f"$.history[{number}]", _without_bytes(each)


def _without_bytes(message: Any) -> Any:
    """Return a message without the images and files in its parts."""
    if not isinstance(message, Mapping) or not isinstance(message.get("parts"), (list, tuple)):
        return message
    parts = [
        {name: part[name] for name in part if name != "data"}
        if isinstance(part, Mapping) and part.get("type") in ("image", "file")
        else part
        for part in message["parts"]
    ]
    return {**message, "parts": parts}


def _length(value: Any) -> int:
    """Return the approximate number of characters of a value as JSON."""
    length, pending = 0, [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += [*value, *value.values()]
            length += 2
        elif isinstance(value, (list, tuple)):
            pending += value
            length += 2
        else:
            length += len(value if isinstance(value, str) else str(value))
    return length


def _items(value: Any) -> Iterator[Any]:
    """Yield the members of a value that can contain other values."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    yield from (item for item in value if isinstance(item, (Mapping, list, tuple)))


_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@frozen
class AgentRequest:
    """Request of a front end.

    Attributes:
        message: Message of the user; may be empty if there are approvals.
        context: JSON that describes the current view of the user.
        history: Earlier messages. Unanswered calls at its end run first.
        session_id: A UUID; generated if the request has none.
        approvals: Decisions on the calls at the end of the history: call id to whether the call may
            run.
        model: Model alias from the host's configuration; None for the default model.
    """

    message: str
    context: Mapping[str, Any] = field(factory=dict)
    history: tuple[Message, ...] = ()
    session_id: str = field(factory=lambda: str(uuid.uuid4()))
    approvals: Mapping[str, bool] = field(factory=dict)
    model: str | None = None


@frozen
class AgentReply:
    """Reply to a front end.

    Attributes:
        reactions: Actions for the front end, in order.
        history: All messages in the format of the front end, which sends them with the next
            request.
        approvals: Calls at the end of the history that need approval, each with `id`, `tool` and
            `arguments`.
        error: The error that ended the turn. The history then has the messages so far.
        usage: Tokens used by the turn, if it ended without an error.
    """

    reactions: Sequence[Mapping[str, Any]]
    history: Sequence[Mapping[str, Any]]
    session_id: str
    approvals: Sequence[Mapping[str, Any]] = ()
    error: GenaiError | None = None
    usage: Usage = field(factory=Usage)

    def to_json(self) -> dict[str, Any]:
        """Return the body of the reply."""
        body: dict[str, Any] = {
            "reactions": list(self.reactions),
            "history": list(self.history),
            "session_id": self.session_id,
        }
        if self.approvals:
            body["approvals"] = list(self.approvals)
        if self.error is not None:
            body["error"] = error_json(self.error)
        return body


def error_json(error: GenaiError) -> dict[str, Any]:
    """Return an error in machine-readable form."""
    body = {"code": error.code, "message": error.message}
    return {**body, "hint": error.hint} if error.hint else body


@define(eq=False, repr=False, slots=False)
class StatelessAgent:
    """Answers requests. Thread-safe. Each request is a separate conversation that is not recorded.

    Args:
        model: As for `Host.open`; None for the default. A request can name another model by an
            alias from the host's configuration.
        settings: Settings of the feature.
        turn_limits: Limits of one turn.
        owner: User whose budget is charged; None for the owner of the store.
    """

    _host: HostServices
    _model: str | None = None
    _settings: Mapping[str, Any] | None = field(default=None, kw_only=True)
    _turn_limits: TurnLimits | None = field(default=None, kw_only=True)
    _owner: str | None = field(default=None, kw_only=True)

    def read(self, body: Any) -> AgentRequest:
        """Parse and validate a JSON request body. Raises `ValidationError`, with the path, also for
        a body that exceeds the limits in the settings.
        """
        given = JsonReader(body, "$")
        must_be_flat(body)
        settings = read_settings(Settings, self._settings or {}, owner="agent")
        must_be_bounded(body, settings.history_messages, settings.characters)
        history = from_wire(given.values("history"), self._host.codec)
        approvals = _approvals(given)
        message = given.text("message")
        is_silent = approvals and Envelope(history).pending and "message" not in given
        if not is_silent and not message.strip():
            raise ValidationError("the message must be a non-blank string", path="$.message")
        context, model = _context(given), self._alias(given.raw("model"))
        return AgentRequest(message, context, history, _session_id(given), approvals, model)

    def _alias(self, given: Any) -> str | None:
        """Validate a model name: front ends may only use aliases from the host's configuration."""
        known = self._host.config.configurations
        if given is None or (isinstance(given, str) and given in known):
            return given
        raise ValidationError(
            "this model is not available here",
            path="$.model",
            hint=f"omit it, or choose from {', '.join(known) or 'none'}",
        )

    def reply(self, request: AgentRequest, limits: CancelToken | None = None) -> AgentReply:
        """Answer a request. Errors during the turn are in the reply. Errors before its start are
        raised, for example `NoRoute`.
        """
        events = self.stream(request, limits)
        while True:
            try:
                next(events)
            except StopIteration as end:
                reply: AgentReply = end.value
                return reply

    def stream(
        self, request: AgentRequest, limits: CancelToken | None = None
    ) -> Generator[Event, None, AgentReply]:
        """Answer a request as a stream of host events; the generator returns the reply. Closing the
        generator ends the turn.
        """
        state = TurnState(request)
        conversation = self._host.open(
            "agent",
            request.model or self._model,
            settings=self._settings,
            history=request.history,
            record=False,
            turn_limits=self._turn_limits,
            owner=self._owner,
        )
        leaving = nullcontext() if limits is None else limits.on_cancel(conversation.close)
        with conversation, leaving:
            try:
                yield from self._turn(conversation, request, state)
            except TurnPaused:
                waits = conversation.current_pause
                calls = waits.payload["calls"] if waits is not None else ()
                return self._reply(state, approvals=calls)
            except GenaiError as error:
                return self._reply(state, error=error)
        return self._reply(state)

    def _turn(
        self, conversation: ConversationHandle, request: AgentRequest, state: TurnState
    ) -> Generator[Event, None, None]:
        try:
            yield from state.collect(conversation.stream(request.message, context=request.context))
        except TurnPaused:
            if state.added:
                raise  # calls requested in this turn: the front end has not decided on them
            # calls at the end of the history, on which the front end has decided
            waits = conversation.current_pause
            ids = [call["id"] for call in waits.payload["calls"]] if waits is not None else []
            decided = {id: request.approvals.get(id, False) for id in ids}
            yield from state.collect(conversation.resume_stream(decided))

    def _reply(
        self, state: TurnState, approvals: Sequence[Any] = (), error: GenaiError | None = None
    ) -> AgentReply:
        reactions = all_reactions(state.messages, state.reactions)
        return AgentReply(
            reactions=[*reactions, *map(_confirmation, approvals)],
            history=to_wire(state.messages, self._host.codec),
            session_id=state.request.session_id,
            approvals=approvals,
            error=error,
            usage=Usage() if state.answer is None else state.answer.usage,
        )


@define(eq=False, repr=False)
class TurnState:
    """State of a turn, collected from its events. `added` are the messages since the request,
    without the answer, which is None until the end."""

    request: AgentRequest
    added: list[Message] = field(factory=list)
    reactions: list[Mapping[str, Any]] = field(factory=list)
    answer: Answer | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages; outputs of calls pending in the history precede the new user message."""
        history, before = self.request.history, 0
        if self.answer is not None:
            return (*history, *(self.answer.new_messages or ()))
        if Envelope(history).pending and self.added and self.added[0].role == "tool":
            before = 1
        if Envelope((*history, *self.added[:before])).pending:
            return history  # the message of the user is added after the pending calls
        user_message = (Message("user", self.request.message),) if self.request.message else ()
        return (*history, *self.added[:before], *user_message, *self.added[before:])

    def collect(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Record and pass on events. A resumed turn repeats its events from the beginning."""
        self.added.clear()
        self.reactions.clear()
        with closing(events):
            for event in events:
                if isinstance(event.data, Progress) and isinstance(event.data.data, Added):
                    self.added.append(event.data.data.message)
                    self.reactions.extend(event.data.data.reactions)
                elif isinstance(event.data, Answer):
                    self.answer = event.data
                yield event


def _context(given: JsonReader) -> Mapping[str, Any]:
    context = given.mapping("context") or {}
    try:
        check_numbers(context)
    except ValidationError as error:
        raise ValidationError(f"the context is not JSON: {error}", path="$.context") from error
    return context


def _session_id(given: JsonReader) -> str:
    """Validate a session id in the usual form only; `UUID` also accepts braces and URNs. Generate
    one if the request has none."""
    id = given.text("session_id", str(uuid.uuid4()))
    if _UUID.fullmatch(id):
        return id
    raise ValidationError("the session id is not a UUID", path="$.session_id")


def _approvals(given: JsonReader) -> Mapping[str, bool]:
    approvals = given.mapping("approvals") or {}
    if not all(isinstance(each, bool) for each in approvals.values()):
        raise ValidationError(
            "approvals must be an object with true or false for each call id", path="$.approvals"
        )
    return approvals


def _confirmation(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the approval as a confirmation, for front ends without support for approvals."""
    question = f"May {call['tool']} run?"
    return {"type": "confirmation", "description": question, "options": ["yes", "no"]}

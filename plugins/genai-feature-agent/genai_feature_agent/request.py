"""Requests of a front end that keeps the conversation itself, and the turn of each: the
server remembers nothing.

    agent = StatelessAgent(host, "smollm2")
    reply = agent.reply(agent.read({"message": "hi", "context": {}, "history": []}))
    reply.to_json()    # {"reactions": [...], "history": [...], "session_id": "..."}

    StatelessAgent.stream → Host.open → Conversation.stream → Told (what the events tell)
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from genai_feature_agent.agent import Settings
from genai_feature_agent.bounds import must_be_bounded, must_be_flat
from genai_feature_agent.envelope import Envelope
from genai_feature_agent.loop import Added
from genai_feature_agent.reactions import all_reactions
from genai_feature_agent.wire import from_wire, to_wire
from genai_host.api import Answer, CancelToken, Message, Progress, Usage
from genai_host.api.json_text import check_numbers
from genai_host.api.settings import read_settings
from genai_host.errors import GenaiError, TurnPaused, ValidationError

if TYPE_CHECKING:  # handed in: nothing of the host but its public files is imported
    from genai_host.api.features import Event
    from genai_host.conversations.conversation import Conversation
    from genai_host.conversations.driver import TurnLimits
    from genai_host.host import Host

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@frozen
class AgentRequest:
    """What a front end asks.

    Attributes:
        message: What the user said; empty where approvals are all that there is to say.
        context: JSON of what the user looks at.
        history: What was said before; it may end in calls that nobody answered, which are made
            first.
        session_id: A UUID; one is made up if none is given.
        approvals: On calls that the history ends with: by id, whether they may run.
        model: A name of the host's user for the one that is to answer; None for the usual.
    """

    message: str
    context: Mapping[str, Any] = field(factory=dict)
    history: tuple[Message, ...] = ()
    session_id: str = field(factory=lambda: str(uuid.uuid4()))
    approvals: Mapping[str, bool] = field(factory=dict)
    model: str | None = None


@frozen
class AgentReply:
    """What a front end gets.

    Attributes:
        reactions: What it is to do, in this order.
        history: All that was said, in its own form; it sends it back with the next message.
        approvals: Calls that the history ends with, and that a human is to decide on: each an `id`,
            a `tool` and its `arguments`.
        error: Why the turn did not come to its end; the history is what was said so far.
        usage: Tokens used by the turn, where it came to its end.
    """

    reactions: Sequence[Mapping[str, Any]]
    history: Sequence[Mapping[str, Any]]
    session_id: str
    approvals: Sequence[Mapping[str, Any]] = ()
    error: GenaiError | None = None
    usage: Usage = field(factory=Usage)

    def to_json(self) -> dict[str, Any]:
        """The body of the reply."""
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
    """An error as a program reads it."""
    told = {"code": error.code, "message": error.message}
    return {**told, "hint": error.hint} if error.hint else told


class StatelessAgent:
    """Answers requests, from many threads at once. Each is a conversation of its own that is
    recorded nowhere.

    Args:
        model: As `Host.open` takes it; None for the default. Requests may name another, by an alias
            of the host's configuration.
        settings: Of the feature.
        turn_limits: What one turn may use up.
    """

    def __init__(
        self,
        host: Host,
        model: str | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        turn_limits: TurnLimits | None = None,
    ) -> None:
        self._host = host
        self._model = model
        self._settings = settings
        self._caps = turn_limits

    def read(self, body: Any) -> AgentRequest:
        """The request that a body of JSON is. Raises `ValidationError`, with the place, also for
        more than the settings allow."""
        if not isinstance(body, Mapping):
            raise ValidationError("a request is an object", path="$")
        must_be_flat(body)
        settings = read_settings(Settings, self._settings or {}, owner="agent")
        must_be_bounded(body, settings.history_messages, settings.characters)
        history = from_wire(_or(body.get("history"), ()), self._host.codec)
        approvals = _approvals(body.get("approvals"))
        decides = bool(approvals) and bool(Envelope(history).pending)
        is_silent = decides and body.get("message") is None
        request: dict[str, Any] = {
            "message": "" if is_silent else _message(body.get("message")),
            "context": _context(body.get("context")),
            "history": history,
            "approvals": approvals,
            "model": self._alias(body.get("model")),
        }
        if body.get("session_id") is not None:
            request["session_id"] = _session_id(body["session_id"])
        return AgentRequest(**request)

    def _alias(self, given: Any) -> str | None:
        """What a front end may name: what the user of the host has a name for."""
        known = self._host.config.configurations
        if given is None or (isinstance(given, str) and given in known):
            return given
        raise ValidationError(
            "the model is none that may be asked for here",
            path="$.model",
            hint=f"leave it out, or name one of: {', '.join(known) or 'none'}",
        )

    def reply(self, request: AgentRequest, limits: CancelToken | None = None) -> AgentReply:
        """Answer a request. What goes wrong in the turn is in the reply; raises what keeps
        it from beginning, as `NoRoute`.

        Args:
            request: The request.
            limits: Cancels the turn.
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
        """The same, heard as it goes: the events of the host, and in the end the reply.
        Closing it ends the turn."""
        told = Told(request)
        conversation = self._host.open(
            "agent",
            request.model or self._model,
            settings=self._settings,
            history=request.history,
            record=False,
            turn_limits=self._caps,
        )
        leaving = nullcontext() if limits is None else limits.on_cancel(conversation.close)
        with conversation, leaving:
            try:
                yield from self._turn(conversation, request, told)
            except TurnPaused:
                waits = conversation.waiting
                calls = waits.payload["calls"] if waits is not None else ()
                return self._reply(told, approvals=calls)
            except GenaiError as error:
                return self._reply(told, error=error)
        return self._reply(told)

    def _turn(
        self, conversation: Conversation, request: AgentRequest, told: Told
    ) -> Generator[Event, None, None]:
        try:
            yield from told.by(conversation.stream(request.message, context=request.context))
        except TurnPaused:
            if told.added:
                raise  # for calls that nobody but the model has seen
            # for those that the history ends with, on which the front end has decided
            yield from told.by(conversation.resume_stream(dict(request.approvals)))

    def _reply(
        self,
        told: Told,
        *,
        approvals: Sequence[Mapping[str, Any]] = (),
        error: GenaiError | None = None,
    ) -> AgentReply:
        reactions = all_reactions(told.messages, told.reactions)
        return AgentReply(
            reactions=[*reactions, *map(_confirmation, approvals)],
            history=to_wire(told.messages, self._host.codec),
            session_id=told.request.session_id,
            approvals=approvals,
            error=error,
            usage=told.usage,
        )


class Told:
    """What the events of a turn have told so far.

    Attributes:
        added: What was said since the request, but for the answer.
        reactions: Of the tools.
        answer: Known at the end.
    """

    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.added: list[Message] = []
        self.reactions: list[Mapping[str, Any]] = []
        self.answer: Answer | None = None

    @property
    def usage(self) -> Usage:
        return Usage() if self.answer is None else self.answer.usage

    @property
    def messages(self) -> tuple[Message, ...]:
        """All that was said. What the history was left with comes before the message of the
        user, as it was done before."""
        history, before = self.request.history, 0
        if self.answer is not None:
            return (*history, *(self.answer.adds or ()))
        if Envelope(history).pending and self.added and self.added[0].role == "tool":
            before = 1
        if Envelope((*history, *self.added[:before])).pending:
            return history  # the user is not listened to before
        said = (Message("user", self.request.message),) if self.request.message else ()
        return (*history, *self.added[:before], *said, *self.added[before:])

    def by(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Listen, and pass on. A turn that goes on tells from its beginning."""
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


def _message(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValidationError("the message is a string, and not blank", path="$.message")
    return given


def _context(given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValidationError("the context is an object", path="$.context")
    try:
        check_numbers(given)
    except ValidationError as error:
        raise ValidationError(f"the context is not JSON: {error}", path="$.context") from error
    return given


def _session_id(given: Any) -> str:
    """In the usual form alone: `UUID` reads braces and URNs as well."""
    if isinstance(given, str) and _UUID.fullmatch(given):
        return given
    raise ValidationError("the session id is not a UUID", path="$.session_id")


def _approvals(given: Any) -> Mapping[str, bool]:
    given = _or(given, {})
    if not isinstance(given, Mapping) or not all(isinstance(each, bool) for each in given.values()):
        raise ValidationError("approvals say true or false of each id", path="$.approvals")
    return given


def _or(given: Any, default: Any) -> Any:
    return default if given is None else given


def _confirmation(call: Mapping[str, Any]) -> dict[str, Any]:
    """How a front end that knows nothing of approvals asks for one."""
    return {
        "type": "confirmation",
        "description": f"May {call['tool']} run?",
        "options": ["yes", "no"],
    }

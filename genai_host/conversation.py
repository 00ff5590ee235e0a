"""A conversation: one user, one feature, its agents, one record.

Conversation.say → stream → _turn → Driver.run → ... → Answer
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import evolve

from genai_host.agent import Agent
from genai_host.api import (
    Answer,
    Checker,
    Clock,
    Codec,
    Feature,
    Message,
    Part,
    Turn,
    Wait,
    schema_of,
)
from genai_host.api.schema import build
from genai_host.cancellation import Cancellation
from genai_host.cast import Cast, MakeAgent
from genai_host.driver import Caps, Driver
from genai_host.errors import (
    Cancelled,
    ConversationBusy,
    ConversationClosed,
    DeserializationError,
    GenaiError,
    InvalidData,
    PluginError,
    ReplayError,
    TurnWaiting,
)
from genai_host.events import Event
from genai_host.record import (
    Changed,
    Recorder,
    Retold,
    Rewound,
    TurnEnded,
    TurnStarted,
    added,
)
from genai_host.replay import Journal

Said = str | Part | Message | Iterable[str | Part]
"""What can be said: a string, a part, several of them, or a whole message."""

_Pending = tuple[TurnStarted, Journal]


class Conversation:
    """Made by `Host.open`. One turn at a time; `cancel` and `close` may come from
    any thread.

    A turn that fails, is cancelled or is abandoned leaves the history as it was.
    """

    def __init__(
        self,
        feature: Feature[Any],
        began: Retold,
        make_agent: MakeAgent,
        record: Recorder,
        clock: Clock,
        codec: Codec,
        caps: Caps,
    ) -> None:
        opened = began.opened
        self.feature = feature
        self.record = record
        self._make_agent = make_agent
        self._clock = clock
        self._codec = codec
        self._caps = caps
        self._cast = self._casting(opened.models, opened.parameters, opened.settings, began.history)
        self._state = began.state
        self._turns = began.turns
        self._marks = list(began.marks)
        self._pending = _pending_in(began, record, codec)
        self._waiting: Wait[Any] | None = None
        self._checkers: dict[str, Checker] = {}
        self._busy = threading.Lock()
        self._cancellation: Cancellation | None = None
        self._closed = False

    @property
    def history(self) -> tuple[Message, ...]:
        """What was said and answered, oldest first. The agent owns it; only turns
        that succeed add to it."""
        return self._main.history

    @property
    def status(self) -> str:
        """Whether a turn can be taken.

        idle      it can
        running   a turn is under way
        closed    no more
        waiting   the turn waits for a result: give it to `resume`
        pending   a turn on record has not ended: `resume` goes on with it
        """
        if self._closed:
            return "closed"
        if self._waiting is not None:
            return "waiting"
        if self._busy.locked():
            return "running"
        return "pending" if self._pending else "idle"

    @property
    def waiting(self) -> Wait[Any] | None:
        """What the turn waits for, if it does."""
        return self._waiting

    @property
    def models(self) -> Mapping[str, str]:
        """Role to the model and the provider that it is played by."""
        return {
            role: agent.routes[0].candidate.name
            for role, agent in self._cast.agents.items()
            if agent.routes
        }

    def say(
        self, message: Said, *, context: Mapping[str, Any] | None = None, returns: Any = None
    ) -> Answer:
        """Take a turn and wait for the answer.

        message   what the user says
        context   JSON for the feature, from whatever the user looks at
        returns   a class, or a JSON Schema: `Answer.data` will be of it

        Raises what went wrong, as `GenaiError`; `TurnWaiting` if the turn pauses.
        """
        return _last(self.stream(message, context=context, returns=returns))

    def stream(
        self, message: Said, *, context: Mapping[str, Any] | None = None, returns: Any = None
    ) -> Generator[Event, None, None]:
        """Take a turn and hear of it as it goes; the last event has the answer.

            for event in conversation.stream("hi"):
                print(event.text, end="")

        Closing the generator, or dropping it, cancels the turn.
        """
        with self._alone():
            if self._pending is not None:
                raise ConversationBusy(
                    "the last turn has not ended",
                    hint="go on with resume(), or drop it with undo()",
                )
            started = TurnStarted(
                self._turns,
                _message(message),
                self.feature.version,
                len(self.history),
                context or {},
                None if returns is None else schema_of(returns),
            )
            self.record.append(started)
            self._turns += 1
            journal = Journal(started.turn, self.record, self._codec)
            yield from self._turn(started, journal, returns)

    def resume(self, result: Any = None, *, returns: Any = None) -> Answer:
        """Go on with a turn that waits, or that is on record and has not ended.

        result    what a waiting turn waits for; JSON
        returns   the class that was given with the message, if one was

        Raises `ReplayError` if there is no such turn, or the feature has changed.
        """
        return _last(self.resume_stream(result, returns=returns))

    def resume_stream(self, result: Any = None, *, returns: Any = None) -> Iterator[Event]:
        """The same, heard as it goes."""
        with self._alone():
            if self._pending is None:
                raise ReplayError("there is no turn to go on with")
            started, journal = self._pending
            if started.version != self.feature.version:
                raise ReplayError(
                    f"the turn began with version {started.version} of {self.feature.name}, "
                    f"this is version {self.feature.version}",
                    hint="drop the turn with undo() and say it again",
                )
            place = journal.waiting()
            if self._waiting is not None and place is not None:
                journal.end(place, result)
            self._waiting = None
            form = started.schema if returns is None else returns
            yield from self._turn(started, journal, form)

    def cancel(self) -> None:
        """End the turn under way, if there is one: it raises `Cancelled` where it is
        waited for, and what it had sent for is no longer read."""
        cancellation = self._cancellation
        if cancellation is not None:
            cancellation.cancel()

    def undo(self) -> Message | None:
        """Take back the last turn: what it added leaves the history. What the user
        had said is returned, to be said again or otherwise."""
        with self._alone():
            if self._pending is not None:
                started, _ = self._pending
                self.record.append(TurnEnded(started.turn, error=Cancelled("dropped")))
                self._pending = self._waiting = None
                return started.message
            if not self._marks:
                return None
            length, state = self._marks.pop()
            gone = self.history[length:]
            self._rewind(length, state)
            return next((message for message in gone if message.role == "user"), None)

    def reset(self) -> None:
        """Forget all that was said; models, parameters and settings stay."""
        with self._alone():
            self._marks.clear()
            self._rewind(0, None)

    def use(self, model: str | None = None, **parameters: Any) -> None:
        """Go on with another model, other model parameters, or both.

        model        as `Host.open` takes it
        parameters   replace those of the same name; None removes one
        """
        with self._alone():
            cast = self._cast
            changed = {**cast.parameters, **parameters}
            self._recast(
                {**cast.models, "main": model} if model else cast.models,
                {name: value for name, value in changed.items() if value is not None},
                cast.given,
            )

    def configure(self, **settings: Any) -> None:
        """Change settings of the feature, from the next turn on."""
        with self._alone():
            cast = self._cast
            self._recast(cast.models, cast.parameters, {**cast.given, **settings})

    def close(self) -> None:
        """Cancel what is under way and let go of everything."""
        self._closed = True
        self.cancel()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _turn(
        self, started: TurnStarted, journal: Journal, form: Any
    ) -> Generator[Event, None, None]:
        """Drive the turn, then commit what it adds, or leave all as it was."""
        mark = (len(self.history), self._state)
        self._pending = (started, journal)
        with Cancellation() as self._cancellation:
            if self._closed:
                self._cancellation.cancel()
            driver = self._driver(started, journal, self._cancellation)
            try:
                answer = yield from driver.run()
                result = self._with_data(answer, started.schema, form)
            except TurnWaiting:
                self._waiting = driver.waiting
                raise
            except BaseException as error:
                self._pending = None
                self.record.append(TurnEnded(started.turn, error=self._recordable(error)))
                raise
        self._pending = None
        self.record.append(TurnEnded(started.turn, answer))
        self._marks.append(mark)
        self._main.commit(added(answer, started.message))
        self._state = answer.state
        yield Event("answer", result)

    def _driver(self, started: TurnStarted, journal: Journal, cancellation: Cancellation) -> Driver:
        turn: Turn[Any] = Turn(
            message=started.message,
            history=self.history,
            settings=self._cast.settings,
            context=started.context,
            schema=started.schema,
            state=self._state,
            roles=self._cast.roles,
        )
        return Driver(
            self.feature,
            turn,
            self._cast.agents,
            journal,
            cancellation,
            self._clock,
            self._codec,
            self._caps,
        )

    def _with_data(self, answer: Answer, schema: Mapping[str, Any] | None, form: Any) -> Answer:
        """The answer with its data as the class that was asked for."""
        if schema is None:
            return answer
        key = json.dumps(schema, sort_keys=True)
        if key not in self._checkers:
            self._checkers[key] = Checker(schema)
        try:
            self._checkers[key].check(answer.data)
            return evolve(answer, data=build(answer.data, form))
        except InvalidData as error:
            raise DeserializationError(
                f"the answer of {self.feature.name} is not what was asked for: {error}",
                detail=answer.summary,
            ) from error

    def _recordable(self, error: BaseException) -> GenaiError:
        if isinstance(error, GenaiError):
            return error
        if isinstance(error, Exception):
            return PluginError(f"{self.feature.name} failed: {type(error).__name__}: {error}")
        return Cancelled("abandoned")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._closed:
            raise ConversationClosed("the conversation is closed")
        if not self._busy.acquire(blocking=False):
            raise ConversationBusy("a turn is under way", hint="wait for it, or cancel() it")
        try:
            yield
        finally:
            self._busy.release()

    @property
    def _main(self) -> Agent:
        return self._cast.main

    def _rewind(self, length: int, state: Any) -> None:
        self.record.append(Rewound(length, state))
        self._main.reset(self.history[:length])
        self._state = state

    def _recast(
        self, models: Mapping[str, str], parameters: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> None:
        """All of it, or nothing if any of it is wrong."""
        cast = self._casting(models, parameters, settings, self.history)
        self.record.append(Changed(cast.models, cast.parameters, cast.given))
        self._cast = cast

    def _casting(
        self,
        models: Mapping[str, str],
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        history: Iterable[Message],
    ) -> Cast:
        return Cast(self.feature, self._make_agent, models, parameters, settings, history)


def _pending_in(began: Retold, recorder: Recorder, codec: Codec) -> _Pending | None:
    if not began.pending:
        return None
    started, *past = began.pending
    if not isinstance(started, TurnStarted):
        raise ReplayError("the record has steps of no turn")
    return started, Journal(started.turn, recorder, codec, past)


def _message(said: Said) -> Message:
    return said if isinstance(said, Message) else Message("user", said)


def _last(events: Iterator[Event]) -> Answer:
    answer: Answer | None = None
    for event in events:
        answer = event.answer
    assert answer is not None  # the last event of a turn that does not raise
    return answer

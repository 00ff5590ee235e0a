"""A conversation: one user, one feature, its agents, one event log.

`say` → `_take_turn` → `TurnRunner.run` → `Driver.run` → … → `Answer`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from genai_host.api import Answer, Clock, Codec, Feature, Message, Part, Pause
from genai_host.api.codec import json_round_trip
from genai_host.api.features import Event
from genai_host.api.models import merged_parameters
from genai_host.api.services import TurnLimits
from genai_host.catalog.catalog import ModelChoice
from genai_host.conversations.log import ConversationAgents, ConversationLog, MakeAgent
from genai_host.conversations.record import (
    Changed,
    Recorder,
    Rewound,
    TurnStarted,
    models_in,
    models_on_record,
)
from genai_host.conversations.recorder import FailsafeRecorder
from genai_host.conversations.replay import ConversationState
from genai_host.conversations.turns import TurnRunner
from genai_host.errors import (
    ConversationBusy,
    ConversationClosed,
    GenaiError,
    ReplayError,
    StoreError,
    ValidationError,
)
from genai_host.plugins.observers import Observers
from genai_host.tools.toolbox import Toolbox

UserInput = str | Part | Message | Iterable[str | Part]
"""A user's message: a string, a part, several of them, or a whole message."""

MakeRecord = Callable[[], tuple[Recorder | None, StoreError | None]]
"""Returns the event log of a new conversation, or None with the reason if it is not recorded."""


class _Asked(NamedTuple):
    """The arguments of `Conversation.say`."""

    message: UserInput | None
    regenerate: bool
    context: Mapping[str, Any] | None
    output_type: Any


class Conversation:
    """A conversation with a feature, opened by `Host.open`.

    It runs one turn at a time. `cancel` and `close` can be called from any thread. A turn that
    fails, is cancelled or is abandoned leaves the history unchanged.
    """

    def __init__(
        self,
        feature: Feature[Any],
        began: ConversationState,
        make_agent: MakeAgent,
        toolbox: Toolbox,
        make_record: MakeRecord,
        clock: Clock,
        codec: Codec,
        *,
        observers: Observers,
        turn_limits: TurnLimits,
        changed: Changed | None = None,
        is_restored: bool = False,
        output_type: Any = None,
    ) -> None:
        chosen = changed or began.opened
        self.feature = feature
        self._new_agents = partial(ConversationAgents, feature, make_agent)
        self._codec = codec
        agents = self._new_agents(
            models_in(chosen),
            chosen.parameters,
            chosen.settings,
            began.history,
            keep_unavailable=is_restored and changed is None,
        )
        self._output_type = output_type
        if output_type is not None:
            agents.schema_of(output_type)  # raises an error of an invalid class
        # last, when nothing else can fail
        self.record, error = make_record()
        recorder = None
        if self.record is not None:
            recorder = FailsafeRecorder(self.record, lambda error: self._turns.cancel(error), error)
        self._log = ConversationLog(began, agents, recorder, codec)
        self._turns = TurnRunner(
            feature,
            self._log,
            toolbox,
            clock,
            codec,
            observers=observers,
            turn_limits=turn_limits,
            id=self.id,
        )
        self._busy = threading.Lock()
        self._closed = False
        if changed is not None:
            self._log.append(changed)

    @property
    def id(self) -> str:
        """Id for `Host.conversation`; empty if the conversation is not stored."""
        return getattr(self.record, "id", "")

    @property
    def record_error(self) -> StoreError | None:
        """Why the conversation is not recorded although it should be; None if it is. Recording is
        retried at the end of each turn, and before steps that must not run twice."""
        return self._log.error

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages of successful turns, oldest first."""
        return self._log.agents.main.history

    @property
    def settings(self) -> Any:
        """Settings of the feature, as an object of its settings class."""
        return self._log.agents.settings

    @property
    def state(self) -> Any:
        """State of the feature, from the last answer."""
        return self._log.state.state

    @property
    def turns(self) -> int:
        """Number of turns started; the number of the next turn."""
        return self._log.state.turns

    @property
    def last_message(self) -> Message | None:
        """The user's message of the last turn, if the turn has ended and was not undone."""
        pending = self._log.pending
        if pending is not None and not self._busy.locked():
            return pending[0].message
        last = self._log.state.last
        return None if last is None else last.message

    @property
    def status(self) -> str:
        """State of the conversation.

        - `idle`: a turn can start
        - `running`: a turn is running
        - `closed`: the conversation is closed
        - `paused`: the turn waits for a result; give it to `resume`
        - `pending`: a turn in the event log has not ended; `resume` continues it
        """
        if self._closed:
            return "closed"
        if self._busy.locked():
            return "running"
        pending = self._log.pending
        if pending is None:
            return "idle"
        _, journal = pending
        return "pending" if journal.current_pause() is None else "paused"

    @property
    def current_pause(self) -> Pause[Any] | None:
        """The pause that the turn is in; None if it is not paused. After a restore, kind and
        payload are known, but the class of the result is not."""
        pending = self._log.pending
        return None if pending is None or self._busy.locked() else pending[1].current_pause()

    @property
    def models(self) -> Mapping[str, str]:
        """Model and provider by role."""
        return {
            role: agent.routes[0].candidate.name
            for role, agent in self._log.agents.agents.items()
            if agent.routes
        }

    def say(
        self,
        message: UserInput | None = None,
        *,
        regenerate: bool = False,
        context: Mapping[str, Any] | None = None,
        output_type: Any = None,
    ) -> Answer:
        """Send a message and wait for the answer.

        Args:
            message: The user's message; with `regenerate`, None for `last_message`.
            regenerate: Replace the last turn; it is restored if this one fails.
            context: JSON for the feature, for example from a client; None for none, or for the
                context of the repeated message.
            output_type: Class or JSON Schema of `Answer.data`; None for that of the conversation.

        Raises:
            TurnPaused: The turn pauses; continue it with `resume`.
            NotRecorded: The store failed before a step that must not run twice; continue with
                `resume`.
            Conflict: Another process has continued the conversation; open it again.
            ConversationBusy: Another turn is running.
            ConversationClosed: The conversation is closed.
            GenaiError: The turn failed.
        """
        return _answer_of(
            self._take_turn(_Asked(message, regenerate, context, output_type), streamed=False)
        )

    def stream(
        self,
        message: UserInput | None = None,
        *,
        regenerate: bool = False,
        context: Mapping[str, Any] | None = None,
        output_type: Any = None,
    ) -> Generator[Event, None, None]:
        """Send a message and yield the events of the turn; the last one has the answer.

            for event in conversation.stream("hi"):
                print(event.text, end="")

        Closing the generator, or dropping it, cancels the turn. Arguments and errors are those of
        `say`.
        """
        return self._take_turn(_Asked(message, regenerate, context, output_type), streamed=True)

    def _take_turn(self, asked: _Asked, *, streamed: bool) -> Generator[Event, None, None]:
        """Start a turn and run it. `streamed` is whether the answer is streamed to a consumer."""
        with self._exclusive(idle=True):
            started = self._started(asked)
            journal = self._log.journal(started)
            output_type = self._output_type if asked.output_type is None else asked.output_type
            yield from self._turns.run(started, journal, output_type, streamed=streamed)

    def begin(
        self,
        message: UserInput | None = None,
        *,
        regenerate: bool = False,
        context: Mapping[str, Any] | None = None,
        output_type: Any = None,
    ) -> int:
        """Record a turn without running it; `resume` runs it, in this process or in another that
        opens the conversation. Arguments are those of `say`.

        Returns:
            The number of the turn.

        Raises:
            StoreError: The turn is not recorded; open the conversation again.
        """
        with self._exclusive(idle=True):
            started = self._started(_Asked(message, regenerate, context, output_type))
            self._log.flush()
            self._log.pending = started, self._log.journal(started)
            return started.turn

    def _started(self, asked: _Asked) -> TurnStarted:
        message, regenerate, context, output_type = asked
        self._need_models()
        if message is not None and not isinstance(message, Message):
            message = Message("user", message)
        output_type = self._output_type if output_type is None else output_type
        started = self._log.state.next(
            message,
            self.feature.version,
            context=None if context is None else self._context(context),
            schema=None if output_type is None else self._log.agents.schema_of(output_type),
            again=regenerate,
        )
        self._log.append(started)
        return started

    def _need_models(self) -> None:
        """Look again for a model that could not run. Raises `NoRoute` or `InvalidParameter`."""
        now = self._log.agents
        if now.unavailable:
            self._log.agents = self._new_agents(
                now.models, now.parameters, now.given, self._log.state.history
            )

    def resume(self, result: Any = None, *, output_type: Any = None) -> Answer:
        """Resume a turn that is paused or was interrupted. Completed steps are not run again.

        Args:
            result: Result that a paused turn waits for, as JSON; None is a result, too.
            output_type: Class given with the message, if there was one.

        Returns:
            The answer of the turn.

        Raises:
            ReplayError: There is no turn to resume, or the feature has changed.
            ValidationError: The turn waits for another kind of result; it stays paused.
            GenaiError: The turn failed; see `say`.
        """
        return _answer_of(self._resume(result, output_type, streamed=False))

    def resume_stream(
        self, result: Any = None, *, output_type: Any = None
    ) -> Generator[Event, None, None]:
        """Resume a turn and yield its events; see `resume` and `stream`."""
        return self._resume(result, output_type, streamed=True)

    def _resume(
        self, result: Any, output_type: Any, *, streamed: bool
    ) -> Generator[Event, None, None]:
        with self._exclusive():
            if self._log.pending is None:
                raise ReplayError("no turn to resume")
            started, journal = self._log.pending
            if started.version != self.feature.version:
                raise ReplayError(
                    f"the turn began with version {started.version} of {self.feature.name}, "
                    f"this is version {self.feature.version}",
                    hint="remove the turn with undo(), and send its message again",
                )
            self._need_models()
            if journal.current_pause() is not None:
                journal.give(result)
            elif result is not None:
                raise ValidationError(
                    "the turn does not wait for a result", hint="call resume() without a result"
                )
            if output_type is None:
                output_type = self._output_type
                # a class of the conversation, unless the turn has another one
                if output_type is None or self._log.agents.schema_of(output_type) != started.schema:
                    output_type = started.schema
            yield from self._turns.run(started, journal, output_type, streamed=streamed)

    def cancel(self) -> None:
        """Cancel the running turn, if there is one: it raises `Cancelled`, and its calls are
        closed."""
        self._turns.cancel()

    def flush(self) -> None:
        """Write entries that could not be written earlier; see `record_error`. Can be called after
        `close`.

        Raises:
            Conflict: Another process has continued the conversation.
            StoreError: It still cannot be recorded.
        """
        self._log.flush()

    def abandon(self, reason: GenaiError | None = None) -> None:
        """End a paused or interrupted turn as failed, if there is one. It can be sent again.

        Args:
            reason: Error to record; None for `Cancelled`.
        """
        with self._exclusive():
            if self._log.pending is not None:
                self._log.abandon(reason)

    def undo(self) -> Message | None:
        """Undo the last turn: its messages leave the history.

        Returns:
            The user's message, which can be sent again; None if there is no turn.
        """
        with self._exclusive():
            now = self._log.state
            if self._log.pending is not None:
                message = self._log.abandon()
                self._log.append(Rewound(len(now.history), len(now.marks), now.state))
                return message
            if not now.marks:
                return None
            mark = now.marks[-1]
            self._log.append(Rewound(mark.history, len(now.marks) - 1, mark.state))
            return mark.started.message

    def reset(self) -> None:
        """Remove all turns, including an unfinished one. Models, parameters and settings stay."""
        with self._exclusive():
            if self._log.pending is not None:
                self._log.abandon()
            self._log.append(Rewound(0, 0))

    def use(self, model: str | None = None, **parameters: Any) -> None:
        """Change the model, its parameters, or both, from the next turn on.

        Args:
            model: Name of the model; see `Host.open`. None for the same.
            **parameters: Model parameters to change; None removes one.
        """
        with self._exclusive(idle=True):
            agents = self._log.agents
            changed = merged_parameters(agents.parameters, parameters)
            models: dict[str, str | ModelChoice] = {**agents.models}
            if model:
                models["main"] = model
            self._change_agents(
                models,
                {name: value for name, value in changed.items() if value is not None},
                agents.given,
            )

    def configure(self, **settings: Any) -> None:
        """Change settings of the feature, from the next turn on."""
        with self._exclusive(idle=True):
            agents = self._log.agents
            self._change_agents(agents.models, agents.parameters, {**agents.given, **settings})

    def close(self, reason: GenaiError | None = None) -> None:
        """Close the conversation; a running turn is cancelled.

        Args:
            reason: Error of the running turn; None for `Cancelled`. With `Interrupted`, the turn
                can be resumed, as after a crash.
        """
        self._closed = True
        self._turns.close(reason)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _context(self, context: Mapping[str, Any]) -> Any:
        try:
            return json_round_trip(context, self._codec)
        except ValidationError as error:
            raise ValidationError(f"the context is not JSON: {error}") from error

    @contextmanager
    def _exclusive(self, *, idle: bool = False) -> Iterator[None]:
        """Keep other threads from changing the conversation. With `idle`, there must be no
        unfinished turn."""
        if self._closed:
            raise ConversationClosed("the conversation is closed")
        if not self._busy.acquire(blocking=False):
            raise ConversationBusy("a turn is running", hint="wait for it, or cancel() it")
        try:
            if idle and self._log.pending is not None:
                raise ConversationBusy("the last turn has not ended", hint="resume it, or undo it")
            yield
        finally:
            self._busy.release()

    def _change_agents(
        self,
        models: Mapping[str, str | ModelChoice],
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> None:
        """Replace the agents; nothing changes if an argument is invalid."""
        state = self._log.state
        agents = self._new_agents(models, parameters, settings, state.history)
        changed = Changed(
            parameters=agents.parameters,
            settings=agents.given,
            tools=state.opened.tools,
            **models_on_record(agents.models),
        )
        self._log.append(changed, agents)


def _answer_of(events: Iterator[Event]) -> Answer:
    answer: Answer | None = None
    for event in events:
        answer = event.answer
    assert answer is not None  # the last event of a turn that does not raise
    return answer

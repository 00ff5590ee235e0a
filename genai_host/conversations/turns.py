"""Running the turns of a conversation.

`TurnRunner.run` → `Driver.run` → … → `Answer`
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from attrs import define, field

from genai_host.api import Answer, Clock, Codec, Feature, Turn
from genai_host.api.cancellation import Cancellation
from genai_host.api.features import Event
from genai_host.api.schema import has_schema_per_dialect
from genai_host.api.services import TurnLimits
from genai_host.calls.structured_output import Answers
from genai_host.conversations.driver import Driver
from genai_host.conversations.journal import TurnJournal
from genai_host.conversations.log import ConversationLog
from genai_host.conversations.record import TurnEnded, TurnStarted
from genai_host.conversations.recorder import RESUMABLE
from genai_host.errors import (
    Cancelled,
    Conflict,
    GenaiError,
    PluginError,
    TurnPaused,
    ValidationError,
)
from genai_host.plugins.observers import Observers
from genai_host.tools.toolbox import Toolbox
from genai_host.util.text import describe_exception


@define(eq=False, repr=False, slots=False)
class TurnRunner:
    """Runs the turns of a conversation, one at a time, and records their ends. `cancel` and `close`
    can be called from any thread.
    """

    _feature: Feature[Any]
    _log: ConversationLog
    _toolbox: Toolbox
    _clock: Clock
    _codec: Codec
    _observers: Observers = field(kw_only=True)
    _turn_limits: TurnLimits = field(kw_only=True)
    _id: str = field(kw_only=True)
    _cancellation: Cancellation | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)
    _reason: GenaiError | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._answers = Answers(self._feature.name)

    def cancel(self, error: GenaiError | None = None) -> None:
        """Cancel the running turn, if any, with an error that the feature cannot handle."""
        cancellation = self._cancellation
        if cancellation is not None:
            cancellation.cancel(error)

    def close(self, reason: GenaiError | None = None) -> None:
        """Cancel the running turn, and each one that starts later."""
        self._reason = reason
        self._closed = True
        self.cancel(reason)

    def run(
        self, started: TurnStarted, journal: TurnJournal, output_type: Any, *, streamed: bool
    ) -> Generator[Event, None, None]:
        """Run a turn, then commit its messages; on failure nothing changes."""
        self._log.pending = (started, journal)
        with Cancellation() as cancellation:
            self._cancellation = cancellation
            if self._closed:
                cancellation.cancel(self._reason)
            try:
                result, answer = yield from self._drive(
                    started, journal, output_type, cancellation, streamed
                )
            except TurnPaused as pause:
                if isinstance(pause.__cause__, ValidationError):
                    raise pause.__cause__ from None
                raise
            except BaseException as error:
                failure = self._failure(error)
                if not isinstance(failure, RESUMABLE):
                    self._log.append(TurnEnded(started.turn, error=failure))
                if failure is error or not isinstance(error, Exception):
                    raise
                raise failure from error
        try:
            self._log.append(TurnEnded(started.turn, answer))
        except Conflict as conflict:
            self._log.append(TurnEnded(started.turn, error=conflict))
            raise
        yield Event("answer", result)

    def _drive(
        self,
        started: TurnStarted,
        journal: TurnJournal,
        output_type: Any,
        cancellation: Cancellation,
        streamed: bool,
    ) -> Generator[Event, None, tuple[Answer, Answer]]:
        """The answer as returned, and as recorded."""
        turn = self._turn(started)
        routes = self._log.agents.main.routes
        model = routes[0].candidate.name if routes else ""
        watching = self._observers.turn(self._feature.name, turn, self._id, model, self._clock)
        with watching as watched:
            driver = Driver(
                self._feature,
                turn,
                self._log.agents.agents,
                self._toolbox.only(self._log.state.opened.tools),
                journal,
                cancellation,
                self._clock,
                codec=self._codec,
                turn_limits=self._turn_limits,
                streamed=streamed,
                form=output_type if has_schema_per_dialect(output_type) else None,
                id=watched.id,
                watchdog=self._observers.watchdog,
            )
            answer = yield from driver.run()
            result = self._answers.built(answer, started.schema, output_type, driver.completion)
            watched.answer = result
        return result, answer

    def _turn(self, started: TurnStarted) -> Turn[Any]:
        """The turn, as the feature gets it."""
        state = self._log.state
        history, feature_state = state.before(started.again)
        return Turn(
            message=started.message,
            history=history,
            settings=self._log.agents.settings,
            context=started.context,
            schema=started.schema,
            state=feature_state,
            roles=self._log.agents.roles,
            opened_at=state.opened.began,
            tag=state.opened.tag,
        )

    def _failure(self, error: BaseException) -> GenaiError:
        if isinstance(error, GenaiError):
            return error
        if isinstance(error, Exception):
            return PluginError(
                f"the feature {self._feature.name} failed: {describe_exception(error)}",
                hint="this is a fault of a plugin; -v shows where",
            )
        return self._reason or Cancelled("abandoned")

"""Runs one turn of a feature: performs, limits and records its steps.

    Driver.run → _follow → _perform (the one place that all steps pass)
                         → _prompt → Agent.stream
                         → _all → ParallelRunner: a thread for each, which calls _perform

It is a generator: the consumer pulls the events, and closing it ends the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from attrs import define, evolve, field

from genai_host.api import (
    All,
    AllSettled,
    Answer,
    CallFunction,
    CallTool,
    CallTools,
    Clock,
    Codec,
    Completion,
    CountTokens,
    Detail,
    Embed,
    Feature,
    FeatureSteps,
    ListTools,
    Moderate,
    NewId,
    Now,
    Pause,
    Progress,
    Prompt,
    Step,
    Turn,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.codec import json_round_trip
from genai_host.api.features import Event
from genai_host.api.services import TurnLimits
from genai_host.calls.agent import Agent
from genai_host.calls.raw_replies import RawReplies
from genai_host.calls.retry import StepTrace
from genai_host.conversations.details import TurnUsage
from genai_host.conversations.execution import (
    ParallelRunner,
    Performing,
    TimeLimit,
    call_function,
    events_of,
    raise_first,
)
from genai_host.conversations.journal import TurnJournal
from genai_host.conversations.record import StepEnded, StepPath
from genai_host.conversations.recorder import RESUMABLE
from genai_host.errors import (
    Cancelled,
    GenaiError,
    LimitExceeded,
    NoRoute,
    PluginError,
    TurnPaused,
    ValidationError,
)
from genai_host.plugins.watchdog import Watchdog, Watched
from genai_host.tools.toolbox import Toolbox
from genai_host.util.text import short_repr

E = TypeVar("E", bound=GenaiError)

_COMPOSITE = (All, AllSettled, CallTools)
"""Steps whose results consist of the results of other steps, which are recorded themselves."""


@define(eq=False, repr=False, slots=False)
class Driver:
    """Runs one turn of one feature.

    Args:
        streamed: Whether a consumer reads the chunks of answers; only then replies are streamed.
        watchdog: Logs the feature if it hangs.
        form: Class of the data, if it has a schema per dialect: prompts use that of their route.
        id: Id of the turn for observers; empty if there are none.
    """

    _feature: Feature[Any]
    _turn: Turn[Any]
    _agents: Mapping[str, Agent]
    _toolbox: Toolbox
    _journal: TurnJournal
    _cancellation: Cancellation
    _clock: Clock
    _codec: Codec = field(kw_only=True)
    _turn_limits: TurnLimits = field(kw_only=True)
    _streamed: bool = field(kw_only=True)
    _watchdog: Watchdog = field(kw_only=True)
    _form: Any = field(default=None, kw_only=True)
    _id: str = field(default="", kw_only=True)
    _traces: dict[StepPath, StepTrace] = field(factory=dict, init=False)
    _raw_replies: dict[str, RawReplies] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self._turn_limits
        self._account = TurnUsage(self._turn.history, limits, self._codec)
        self._time = TimeLimit(self._clock, limits.seconds, self._out_of_time)
        name = f"{self._feature.name}-step"
        self._at_once = ParallelRunner(self._perform, limits.parallel, name)

    def run(self) -> Generator[Event, None, Answer]:
        """Run the feature until it answers.

        Raises what the feature does not handle: a `GenaiError` for an expected failure, other
        exceptions for a bug. Cancellation, an exceeded limit and invalid steps end the turn; the
        feature cannot handle them.

        Raises:
            TurnPaused: The turn pauses. Its cause is a `ValidationError` if the given result has
                another form.
        """
        watching = self._watchdog.watch("feature", self._feature.name, "respond")
        with watching as watched:
            steps = self._feature_steps()
            with self._time:
                try:
                    answer = yield from self._follow(steps, watched)
                finally:
                    watched.resume()
                    steps.close()
            answer = self._recordable(answer)
        account = self._account
        return Answer(  # `evolve` takes longer
            answer.summary,
            [*account.details, *answer.details],
            answer.data,
            answer.new_messages,
            answer.state,
            account.usage,
            account.cost,
            [*account.images, *answer.images],
            answer.citations or account.citations_of(answer.summary),
        )

    @property
    def completion(self) -> Completion | None:
        return self._account.completion

    def _feature_steps(self) -> FeatureSteps:
        steps = self._feature.respond(self._turn)
        if not isinstance(steps, Generator):
            raise PluginError(
                f"respond of feature {self._feature.name} returns {_a(steps)}, not a generator",
                hint="`yield` its steps; without any: `yield from ()`",
            )
        return steps

    def _out_of_time(self) -> None:
        what = f"the turn took longer than {self._turn_limits.seconds:g} seconds"
        self._cancellation.cancel(LimitExceeded(what, limit="seconds"))

    def _follow(self, steps: FeatureSteps, watched: Watched) -> Generator[Event, None, Answer]:
        """Send the feature the result of each step that it yields, or throw the error."""
        number = 0
        result: Any = None
        failure: GenaiError | None = None
        while True:
            watched.resume()
            try:
                step = steps.send(result) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                if not isinstance(stop.value, Answer):
                    raise self._wrong(f"returns {short_repr(stop.value)}, not an Answer") from None
                return stop.value
            watched.pause()
            result, failure = None, None
            try:
                result = yield from self._perform(step, (number,), self._cancellation)
            except TurnPaused:
                raise
            except GenaiError as error:
                self._cancellation.check()
                failure = error
            number += not isinstance(step, Progress)
            self._account.close()

    def _recordable(self, answer: Answer) -> Answer:
        """The answer with its state and details as they are after a restore."""
        others = answer.details or answer.new_messages or answer.images
        if answer.state is None and answer.data is None and not others:
            return answer  # in most cases there is only text
        try:
            form = json_round_trip(answer, self._codec)
        except ValidationError as error:
            raise self._wrong(f"returns an answer that cannot be recorded: {error}") from error
        details = [Detail(**each) for each in form.get("details", ())]
        return evolve(answer, state=form.get("state"), details=details)

    def _perform(self, step: Step[Any], path: StepPath, cancellation: Cancellation) -> Performing:
        """Perform a step, or return its recorded result."""
        cancellation.check()
        if isinstance(step, Progress):
            yield Event("progress", step)
            return None
        perform = self._PERFORMERS.get(type(step))
        if perform is None:
            raise self._wrong(f"yields {short_repr(step)}, which is not a step")
        try:
            self._journal.start(path, step, self._is_idempotent(step))
        except TypeError as error:
            raise self._wrong(f"yields a step that cannot be recorded: {error}") from error
        past = self._journal.past(path)
        if past is not None and (past.error is not None or not isinstance(step, _COMPOSITE)):
            outcome = self._recall(step, path, past)
            if isinstance(outcome, GenaiError):
                raise outcome
            return outcome
        if isinstance(step, Prompt) and self._journal.is_cut(path):
            yield Event("reset")
        try:
            self._count(step)
            result = yield from perform(self, step, path, cancellation)
        except RESUMABLE:
            raise
        except GeneratorExit:
            if isinstance(step, Prompt):
                self._journal.end(path, error=Cancelled("abandoned"), trace=self._trace(path))
            raise
        except GenaiError as error:
            trace = self._traces.pop(path, None)
            # when the turn is resumed, the end of parallel steps may be recorded already
            ended = past or self._journal.end(path, error=error, trace=trace)
            yield from self._step_events(step, path, error, ended)
            raise
        if past is not None:
            ended = past
        else:
            found = None if isinstance(step, _COMPOSITE) else result
            trace = self._traces.pop(path, None)
            ended = self._journal.end(path, found, None, trace, required=isinstance(step, Pause))
            if isinstance(step, (CallFunction, Pause)):  # as on replay
                result = self._journal.result(step, ended)
        yield from self._step_events(step, path, result, ended)
        return result

    def _is_idempotent(self, step: Step[Any]) -> bool:
        """Whether a step may run again if it is unknown whether it ran before."""
        if isinstance(step, CallTool):
            return self._toolbox.interrupted(step.call) is None
        return step.is_idempotent()

    def _recall(self, step: Step[Any], path: StepPath, past: StepEnded) -> Any:
        """The recorded result or error, counted as when it was performed."""
        if isinstance(step, _COMPOSITE):
            for number, each in enumerate(step.steps):
                inner = self._journal.past((*path, number))
                if inner is not None:
                    self._recall(each, (*path, number), inner)
        self._account.count_past(step)
        try:
            outcome = self._journal.result(step, past)
        except GenaiError as error:
            outcome = error
        self._account.enter(step, path, outcome, past.tries)
        return outcome

    def _count(self, step: Step[Any]) -> None:
        """Count a step. The feature can handle the limits of model calls and cost, but not that of
        steps."""
        try:
            self._account.count(step)
        except LimitExceeded as error:
            raise (self._end(error) if error.limit == "steps" else error) from None

    def _step_events(
        self, step: Step[Any], path: StepPath, outcome: Any, ended: StepEnded
    ) -> Iterator[Event]:
        detail = self._account.enter(step, path, outcome, ended.tries)
        if detail is not None:
            yield Event("step", detail)

    def _prompt(self, step: Prompt, path: StepPath, cancellation: Cancellation) -> Performing:
        shown = step.stream and self._streamed and len(path) == 1
        is_asked = step.schema is not None and step.schema == self._turn.schema
        deltas = self._agent(step.role).stream(
            step,
            cancellation,
            stream=shown,
            trace=self._trace(path),
            raw=self._raw(step.raw_reply_file),
            form=self._form if is_asked else None,
            waiting=self._time.paused,
        )
        return (yield from events_of(deltas, shown, self._trace(path), cancellation))

    def _raw(self, wanted: str) -> RawReplies | None:
        """The file for raw replies; None if they are not stored."""
        if not wanted:
            return None
        raw = RawReplies(wanted, self._turn.tag, self._clock)
        return self._raw_replies.setdefault(wanted, raw)

    def _ask(
        self, step: CountTokens | Embed | Moderate, path: StepPath, cancellation: Cancellation
    ) -> Performing:
        yield from ()
        role = step.prompt.role if isinstance(step, CountTokens) else step.role
        return self._agent(role).ask(step, cancellation, self._trace(path))

    def _trace(self, path: StepPath) -> StepTrace:
        reports_waits = bool(self._streamed) and len(path) == 1
        return self._traces.setdefault(path, StepTrace(self._id, waits=reports_waits))

    def _agent(self, role: str) -> Agent:
        try:
            return self._agents[role]
        except KeyError:
            raise NoRoute(
                f"feature {self._feature.name} has no model for role {role!r}",
                hint=f"set a model for role {role}",
            ) from None

    def _call_function(
        self, step: CallFunction[Any], path: StepPath, cancellation: Cancellation
    ) -> Performing:
        yield from ()
        return call_function(step, self._journal.fitting, cancellation)

    def _pause(self, step: Pause[Any], path: StepPath, cancellation: Cancellation) -> Performing:
        if len(path) > 1:
            raise self._wrong("pauses within All or AllSettled: pause before or after")
        pause = TurnPaused(
            f"the turn waits for {step.kind}", kind=step.kind, hint="pass the result to resume()"
        )
        if not self._journal.has_given(path):
            yield Event("paused", step)
            raise pause
        try:
            return self._journal.take(path, step)
        except ValidationError as error:
            refused = ValidationError(
                f"the result does not match the {step.kind} that the turn waits for: {error}"
            )
            raise pause from refused

    def _all(self, step: All[Any], path: StepPath, cancellation: Cancellation) -> Performing:
        outcomes, events = self._at_once.outcomes(step.steps, path, cancellation, stop=True)
        yield from events
        raise_first(outcomes)
        return tuple(outcomes)

    def _settled(
        self, step: AllSettled[Any], path: StepPath, cancellation: Cancellation
    ) -> Performing:
        outcomes, events = self._at_once.outcomes(step.steps, path, cancellation, stop=False)
        cancellation.check()
        yield from events
        return tuple(outcomes)

    def _call_tools(
        self, step: CallTools, path: StepPath, cancellation: Cancellation
    ) -> Performing:
        outputs = yield from self._settled(AllSettled(step.steps), path, cancellation)
        raise_first(outputs)
        return outputs

    def _call_tool(self, step: CallTool, path: StepPath, cancellation: Cancellation) -> Performing:
        yield from ()
        interrupted = self._toolbox.interrupted(step.call) if self._journal.is_cut(path) else None
        return interrupted or self._toolbox.call(
            step.call, step.context, cancellation, approved=step.approved, parent=self._id
        )

    def _offered_tools(
        self, step: ListTools, path: StepPath, cancellation: Cancellation
    ) -> Performing:
        yield from ()
        return self._toolbox.offered(step.context, cancellation)

    def _now(self, step: Now, path: StepPath, cancellation: Cancellation) -> Performing:
        yield from ()
        return self._clock.now().isoformat(timespec="seconds")

    def _new_id(self, step: NewId, path: StepPath, cancellation: Cancellation) -> Performing:
        yield from ()
        import secrets

        return step.prefix + secrets.token_hex(12)

    _PERFORMERS: ClassVar[Mapping[type[Step[Any]], Callable[..., Performing]]] = {
        Prompt: _prompt,
        CountTokens: _ask,
        Embed: _ask,
        Moderate: _ask,
        CallFunction: _call_function,
        ListTools: _offered_tools,
        CallTool: _call_tool,
        CallTools: _call_tools,
        Pause: _pause,
        All: _all,
        AllSettled: _settled,
        Now: _now,
        NewId: _new_id,
    }

    def _wrong(self, what: str) -> PluginError:
        return self._end(PluginError(f"the feature {self._feature.name} {what}"))

    def _end(self, error: E) -> E:
        """End the turn with an error that the feature cannot handle."""
        self._cancellation.cancel(error)
        return error


def _a(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"

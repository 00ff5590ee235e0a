"""Drives a feature through one turn: performs its steps, bounds them, records them.

    Driver.run → _follow → _perform (the one place that all steps pass)
                         → _prompt → Agent.stream
                         → _all → a thread for each, which performs in turn

It is a generator itself: whoever listens pulls the events, and closing it ends
the turn.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from attrs import evolve, frozen

from genai_host.agent import Agent
from genai_host.api import (
    All,
    Answer,
    CallFunction,
    Clock,
    Codec,
    Completion,
    Delta,
    Detail,
    Embed,
    Feature,
    NewId,
    Now,
    Progress,
    Prompt,
    Settled,
    Step,
    Story,
    Turn,
    Usage,
    Vectors,
    Wait,
)
from genai_host.cancellation import Cancellation
from genai_host.details import detail_of
from genai_host.errors import (
    Cancelled,
    FunctionFailed,
    GenaiError,
    LimitExceeded,
    NoRoute,
    TurnWaiting,
)
from genai_host.events import Event
from genai_host.record import Path
from genai_host.replay import Journal

Performing = Generator[Event, None, Any]
"""What does a step: it gives the news, and returns the step's result."""


@frozen
class Caps:
    """What one turn may use up.

    round_trips   calls of models
    steps         steps of any kind
    seconds       time; None for no bound
    parallel      steps done at once
    """

    round_trips: int = 50
    steps: int = 1000
    seconds: float | None = 600.0
    parallel: int = 8


class Driver:
    """One turn of one feature.

    agents         by role
    journal        what is on record of this turn, and where the rest is recorded
    cancellation   ends the turn
    waiting        what the turn has paused for, if it has
    """

    waiting: Wait[Any] | None = None

    def __init__(
        self,
        feature: Feature[Any],
        turn: Turn[Any],
        agents: Mapping[str, Agent],
        journal: Journal,
        cancellation: Cancellation,
        clock: Clock,
        codec: Codec,
        caps: Caps,
    ) -> None:
        self._feature = feature
        self._turn = turn
        self._agents = agents
        self._journal = journal
        self._cancellation = cancellation
        self._clock = clock
        self._codec = codec
        self._caps = caps
        self._history = frozenset(id(message) for message in turn.history)
        self._lock = threading.Lock()
        self._round_trips = 0
        self._steps = 0
        self._usage = Usage()
        self._details: dict[Path, Detail] = {}
        self._performers: Mapping[type[Step[Any]], Callable[..., Performing]] = {
            Prompt: self._prompt,
            Embed: self._embed,
            CallFunction: self._call_function,
            Wait: self._wait,
            All: self._all,
            Settled: self._settled,
            Now: self._now,
            NewId: self._new_id,
        }

    def run(self) -> Generator[Event, None, Answer]:
        """Drive the feature to its answer.

        Raises what the feature does not handle: a `GenaiError` for what can be
        expected, anything else for a bug in it. Being cancelled, and running out of
        time or steps, ends the turn without asking the feature; `TurnWaiting`
        pauses it.
        """
        story = self._feature.respond(self._turn)
        alarm = self._limit_time()
        try:
            answer = yield from self._follow(story)
        finally:
            story.close()
            if alarm is not None:
                alarm.release()
        details = [self._details[path] for path in sorted(self._details)]
        return evolve(answer, details=(*details, *answer.details), usage=self._usage)

    def _limit_time(self) -> Any:
        seconds = self._caps.seconds
        if seconds is None:
            return None
        error = LimitExceeded(f"the turn took longer than {seconds:g} seconds", limit="seconds")
        return self._clock.call_later(seconds, lambda: self._cancellation.cancel(error))

    def _follow(self, story: Story) -> Generator[Event, None, Answer]:
        """Send the story the result of each step it yields, or throw the failure in."""
        number = 0
        result: Any = None
        failure: GenaiError | None = None
        while True:
            try:
                step = story.send(result) if failure is None else story.throw(failure)
            except StopIteration as stop:
                if not isinstance(stop.value, Answer):
                    raise self._wrong(f"returns {stop.value!r}, not an Answer") from None
                return stop.value
            result, failure = None, None
            try:
                result = yield from self._perform(step, (number,), self._cancellation)
            except TurnWaiting:
                raise
            except GenaiError as error:
                self._cancellation.check()
                failure = error
            number += not isinstance(step, Progress)

    def _perform(self, step: Step[Any], path: Path, cancellation: Cancellation) -> Performing:
        """Do a step, or give what is on record of it."""
        if isinstance(step, Progress):
            yield Event("progress", step)
            return None
        perform = self._performers.get(type(step))
        if perform is None:
            raise self._wrong(f"yields {step!r}, which is no step")
        cancellation.check()
        begun = self._journal.start(path, step)
        past = self._journal.past(path)
        if past is not None and (past.error is not None or not _is_composite(step)):
            self._count(step)
            outcome = past.error or self._journal.result(step, past)
            self._account(step, path, outcome)
            return self._journal.result(step, past)
        if begun and isinstance(step, Prompt):
            yield Event("void")
        try:
            self._count(step)
            result = yield from perform(step, path, cancellation)
        except TurnWaiting:
            raise
        except GenaiError as error:
            self._journal.end(path, error=error)
            yield from self._account(step, path, error)
            raise
        if past is None:
            ended = self._journal.end(path, None if _is_composite(step) else result)
            if isinstance(step, CallFunction):  # as it will be on replay
                result = self._journal.result(step, ended)
        yield from self._account(step, path, result)
        return result

    def _count(self, step: Step[Any]) -> None:
        """Raises `LimitExceeded`: the feature may handle having no more round trips,
        but not having no more steps."""
        with self._lock:
            self._steps += 1
            self._round_trips += isinstance(step, (Prompt, Embed))
        if self._steps > self._caps.steps:
            error = LimitExceeded(
                f"the turn took more than {self._caps.steps} steps", limit="steps"
            )
            self._cancellation.cancel(error)
            raise error
        if self._round_trips > self._caps.round_trips:
            raise LimitExceeded(
                f"the turn may call models {self._caps.round_trips} times", limit="round_trips"
            )

    def _account(self, step: Step[Any], path: Path, outcome: Any) -> list[Event]:
        """Add a step to the details and the usage of the turn."""
        error = outcome if isinstance(outcome, GenaiError) else None
        result = None if error else outcome
        detail = detail_of(step, result, error, self._history, self._codec)
        with self._lock:
            if isinstance(result, (Completion, Vectors)):
                self._usage += result.usage
            if detail is None:
                return []
            self._details[path] = detail
        return [Event("step", detail)]

    def _prompt(self, step: Prompt, path: Path, cancellation: Cancellation) -> Performing:
        deltas = self._agent(step.role).stream(step, cancellation)
        return (yield from _shown(deltas, step.show))

    def _embed(self, step: Embed, path: Path, cancellation: Cancellation) -> Performing:
        yield from ()
        return self._agent(step.role).embed(step, cancellation)

    def _agent(self, role: str) -> Agent:
        try:
            return self._agents[role]
        except KeyError:
            raise NoRoute(
                f"the feature {self._feature.name} has no model for its role {role!r}",
                hint=f"name one for the role {role}",
            ) from None

    def _call_function(
        self, step: CallFunction[Any], path: Path, cancellation: Cancellation
    ) -> Performing:
        """In a thread of its own, so that cancelling need not wait for it."""
        yield from ()
        done = threading.Event()
        outcome: list[Any] = []

        def call() -> None:
            try:
                outcome.append(step.function(**step.arguments))
            except GenaiError as error:
                outcome.append(error)
            except Exception as error:  # noqa: BLE001 - the feature's own function: it may handle it
                failed = FunctionFailed(
                    f"{step.function.__qualname__} failed: {type(error).__name__}: {error}",
                    exception=type(error).__name__,
                )
                failed.__cause__ = error
                outcome.append(failed)
            done.set()

        threading.Thread(target=call, name=f"{self._feature.name}-function", daemon=True).start()
        with cancellation.on_cancel(done.set):
            done.wait()
        cancellation.check()
        if isinstance(outcome[0], GenaiError):
            raise outcome[0]
        return outcome[0]

    def _wait(self, step: Wait[Any], path: Path, cancellation: Cancellation) -> Performing:
        if len(path) > 1:
            raise self._wrong("waits within All or Settled: wait before or after")
        self.waiting = step
        yield Event("waiting", step)
        raise TurnWaiting(
            f"the turn waits for {step.kind}", kind=step.kind, hint="give it to resume()"
        )

    def _all(self, step: All[Any], path: Path, cancellation: Cancellation) -> Performing:
        outcomes, events = self._at_once(step.steps, path, cancellation, stop=True)
        yield from events
        failures = [outcome for outcome in outcomes if isinstance(outcome, GenaiError)]
        for failure in failures:
            if not isinstance(failure, Cancelled):  # these were the others
                raise failure
        if failures:
            raise failures[0]
        return tuple(outcomes)

    def _settled(self, step: Settled[Any], path: Path, cancellation: Cancellation) -> Performing:
        outcomes, events = self._at_once(step.steps, path, cancellation, stop=False)
        cancellation.check()
        yield from events
        return tuple(outcomes)

    def _at_once(
        self, steps: Sequence[Step[Any]], path: Path, cancellation: Cancellation, *, stop: bool
    ) -> tuple[list[Any], list[Event]]:
        """The result or error of each step, and the news of all of them.

        stop   whether the first failure cancels the others
        """
        if not steps:
            return [], []
        with (
            Cancellation(cancellation) as scope,
            ThreadPoolExecutor(
                min(len(steps), self._caps.parallel), f"{self._feature.name}-step"
            ) as pool,
        ):
            try:
                futures = [
                    pool.submit(self._alone, step, (*path, number), scope, stop)
                    for number, step in enumerate(steps)
                ]
                done = [future.result() for future in futures]
            except BaseException:
                scope.cancel()
                raise
        return [outcome for outcome, _ in done], [event for _, events in done for event in events]

    def _alone(
        self, step: Step[Any], path: Path, scope: Cancellation, stop: bool
    ) -> tuple[Any, list[Event]]:
        """One step, in its thread: its result or error, and its news but for the
        pieces of answers, which nobody could tell apart."""
        performing = self._perform(step, path, scope)
        events: list[Event] = []
        while True:
            try:
                event = next(performing)
            except StopIteration as ended:
                return ended.value, events
            except GenaiError as error:
                if stop:
                    scope.cancel()
                return error, events
            except BaseException:
                scope.cancel()
                raise
            if event.kind in ("step", "progress"):
                events.append(event)

    def _now(self, step: Now, path: Path, cancellation: Cancellation) -> Performing:
        yield from ()
        return self._clock.now().isoformat(timespec="seconds")

    def _new_id(self, step: NewId, path: Path, cancellation: Cancellation) -> Performing:
        yield from ()
        return step.prefix + secrets.token_hex(12)

    def _wrong(self, what: str) -> TypeError:
        return TypeError(f"the feature {self._feature.name!r} {what}")


def _is_composite(step: Step[Any]) -> bool:
    """Whether its result is made of other steps', which are on record themselves."""
    return isinstance(step, (All, Settled))


def _shown(deltas: Generator[Delta, None, Completion], show: bool) -> Performing:
    with closing(deltas):
        while True:
            try:
                delta = next(deltas)
            except StopIteration as ended:
                return ended.value
            if show:
                yield Event("delta", delta)

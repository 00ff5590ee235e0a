"""Execution of steps: calls, functions in threads, parallel steps, time limits.

A function that a feature calls runs in its own thread, and parallel steps run in a pool of threads.
A `TimeLimit` does not count the time for which it is paused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from attrs import frozen

from genai_host.api import CallFunction, CancelHandle, Clock, Completion, Delta, Step
from genai_host.api.cancellation import Cancellation
from genai_host.api.features import Event, RetryWait
from genai_host.calls.retry import StepTrace
from genai_host.conversations.record import StepPath
from genai_host.errors import Cancelled, FunctionFailed, GenaiError, TurnPaused, ValidationError
from genai_host.tools.threads import run_in_thread
from genai_host.util import concurrency
from genai_host.util.text import describe_exception

Fit = Callable[[CallFunction[Any], Any], Any]
"""Converts a result to its recorded form; raises `ValidationError` if there is none."""


def call_function(step: CallFunction[Any], fit: Fit, cancellation: Cancellation) -> Any:
    """Call the function of a step and wait for its result, or for cancellation. Raises the
    `GenaiError` that it raised, or `FunctionFailed` for another exception."""
    ended: Any = run_in_thread(
        step.function.__qualname__,
        lambda: _result(step, fit),
        lambda error: _failure(step, error),
        cancellation,
    )
    if isinstance(ended, GenaiError):
        raise ended
    return ended


def _result(step: CallFunction[Any], fit: Fit) -> Any:
    result = step.function(**step.arguments)
    try:
        return fit(step, result)
    except ValidationError as error:
        raise FunctionFailed(
            f"{step.function.__qualname__} returned a value that cannot be recorded: {error}"
        ) from error


def _failure(step: CallFunction[Any], error: BaseException) -> GenaiError:
    if isinstance(error, GenaiError) and not isinstance(error, TurnPaused):
        return error  # the turn of another conversation paused, not this one
    failed = FunctionFailed(
        f"{step.function.__qualname__} failed: {describe_exception(error)}",
        exception=type(error).__name__,
    )
    failed.__cause__ = error
    return failed


Performing = Generator[Event, None, Any]
"""Performs a step: yields events, and returns the result of the step."""

Perform = Callable[[Step[Any], StepPath, Cancellation], Performing]


@frozen
class ParallelRunner:
    """Runs several steps concurrently.

    Attributes:
        perform: Performs one step, at a place in the turn.
        parallel: Maximum number of concurrent steps.
    """

    perform: Perform
    parallel: int
    name: str

    def outcomes(
        self, steps: Sequence[Step[Any]], path: StepPath, cancellation: Cancellation, *, stop: bool
    ) -> tuple[list[Any], list[Event]]:
        """The result or error of each step, and the events of all steps."""
        if not steps:
            return [], []
        with (
            Cancellation(cancellation) as scope,
            concurrency.new_pool(self.name, min(len(steps), self.parallel)) as pool,
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
        self, step: Step[Any], path: StepPath, scope: Cancellation, stop: bool
    ) -> tuple[Any, list[Event]]:
        """Run one step in its thread: its result or error, and its events without chunks of
        answers, which could not be assigned to a step."""
        performing = self.perform(step, path, scope)
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


def events_of(
    deltas: Generator[Delta | RetryWait, None, Completion],
    show: bool,
    trace: StepTrace,
    cancellation: Cancellation,
) -> Performing:
    """Yield the events of a call, with its deltas if they are shown, and return its result."""
    with closing(deltas):
        while True:
            try:
                delta = next(deltas)
            except StopIteration as ended:
                return ended.value
            cancellation.check()  # a provider with a complete reply need not check
            if isinstance(delta, RetryWait):
                yield Event("retry", delta)
            elif show:
                trace.pieces.append(delta.text)
                yield Event("delta", delta)


def raise_first(outcomes: Sequence[Any]) -> None:
    failures = [outcome for outcome in outcomes if isinstance(outcome, GenaiError)]
    for failure in failures:
        if not isinstance(failure, Cancelled):  # cancelled because another one failed
            raise failure
    if failures:
        raise failures[0]


class TimeLimit:
    """Calls a function once the time is over, while it is entered. Thread-safe."""

    def __init__(self, clock: Clock, seconds: float | None, end: Callable[[], None]) -> None:
        self._clock = clock
        self._left = seconds
        self._end = end
        self._lock = threading.Lock()
        self._pauses = 1  # set when entered
        self._since = 0.0
        self._alarm: CancelHandle | None = None

    def __enter__(self) -> TimeLimit:
        self._go_on()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context whose duration does not count."""
        self._stop()
        try:
            yield
        finally:
            self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            self._pauses -= 1
            if self._pauses == 0 and self._left is not None:
                self._since = self._clock.monotonic()
                self._alarm = self._clock.call_later(max(0.0, self._left), self._end)

    def _stop(self) -> None:
        with self._lock:
            self._pauses += 1
            if self._alarm is not None and self._left is not None:
                self._alarm.release()
                self._alarm = None
                self._left -= self._clock.monotonic() - self._since

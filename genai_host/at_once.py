"""Steps that are done at once, each in a thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from attrs import frozen

from genai_host.api import Step
from genai_host.api.cancellation import Cancellation
from genai_host.errors import Cancelled, GenaiError
from genai_host.events import Event
from genai_host.record import Path

Performing = Generator[Event, None, Any]
"""What does a step: it gives the news, and returns the step's result."""

Perform = Callable[[Step[Any], Path, Cancellation], Performing]


@frozen
class AtOnce:
    """Does several steps at once.

    perform    does one, at a place on record
    parallel   how many are done at the same time
    name       of the threads
    """

    perform: Perform
    parallel: int
    name: str

    def outcomes(
        self, steps: Sequence[Step[Any]], path: Path, cancellation: Cancellation, *, stop: bool
    ) -> tuple[list[Any], list[Event]]:
        """The result or error of each step, and the news of all of them.

        stop   whether the first failure cancels the others
        """
        from concurrent.futures import ThreadPoolExecutor

        if not steps:
            return [], []
        with (
            Cancellation(cancellation) as scope,
            ThreadPoolExecutor(min(len(steps), self.parallel), self.name) as pool,
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


def raise_first(outcomes: Sequence[Any]) -> None:
    """Raise the first failure among outcomes, if there is one."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, GenaiError)]
    for failure in failures:
        if not isinstance(failure, Cancelled):  # these were the others
            raise failure
    if failures:
        raise failures[0]

"""The time of a turn, of which some does not count, and steps in parallel."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from genai_host.api import Progress, Step
from genai_host.api.cancellation import Cancellation
from genai_host.conversations.execution import ParallelRunner, Performing, TimeLimit
from genai_host_testing import ManualClock


def test_the_time_of_a_pause_does_not_count() -> None:
    clock, ended = ManualClock(), list[float]()
    with TimeLimit(clock, 10.0, lambda: ended.append(clock.monotonic())) as limit:
        clock.advance(6)
        with limit.paused():
            assert clock.due_in() == []
            clock.advance(100)
        assert clock.due_in() == [4.0]
        clock.advance(1)
        with limit.paused():
            clock.advance(100)
        assert clock.due_in() == [3.0]
        clock.advance(2.5)
        with limit.paused():
            pass
        assert clock.due_in() == [0.5]
        clock.advance(0.5)
    assert ended == [210.0]


def test_pauses_of_many_threads_end_with_the_last_of_them() -> None:
    clock, ended = ManualClock(), list[float]()
    with TimeLimit(clock, 10.0, lambda: ended.append(clock.monotonic())) as limit:
        with limit.paused():
            clock.advance(1)
            with limit.paused():
                clock.advance(1)
            assert clock.due_in() == []
            clock.advance(1)
        assert clock.due_in() == [10.0]
    assert clock.due_in() == []
    assert ended == []


def test_without_a_limit_nothing_is_set() -> None:
    clock = ManualClock()
    with TimeLimit(clock, None, lambda: None) as limit:
        with limit.paused():
            pass
        assert clock.due_in() == []


class Interrupted(list[Step[Any]]):
    """Ctrl-C while the steps are started."""

    def __iter__(self) -> Iterator[Step[Any]]:
        yield self[0]
        raise KeyboardInterrupt


def test_an_interrupt_cancels_the_steps_that_run() -> None:
    cancelled = threading.Event()

    def perform(step: Step[Any], path: object, cancellation: Cancellation) -> Performing:
        with cancellation.on_cancel(cancelled.set):
            assert cancelled.wait(10)
        yield from ()

    with pytest.raises(KeyboardInterrupt):
        steps = Interrupted([Progress("a"), Progress("b")])
        ParallelRunner(perform, 2, "x").outcomes(steps, (), Cancellation(), stop=True)
    assert cancelled.is_set()


def test_an_exit_of_a_step_cancels_the_others() -> None:
    were_cancelled: list[bool] = []

    def perform(step: Step[Any], path: Any, scope: Cancellation) -> Performing:
        yield from ()
        if path[-1] == 1:
            raise SystemExit(3)
        cancelled = threading.Event()
        with scope.on_cancel(cancelled.set):
            were_cancelled.append(cancelled.wait(30))

    runner = ParallelRunner(perform, 2, "steps")
    with pytest.raises(SystemExit):
        runner.outcomes([Progress("a"), Progress("b")], (0,), Cancellation(), stop=False)
    assert were_cancelled == [True]

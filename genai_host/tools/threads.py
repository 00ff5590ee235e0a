"""Runs code of plugins in a separate thread, since it may hang or end its thread."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TypeVar

from genai_host.api import Clock
from genai_host.api.cancellation import Cancellation
from genai_host.errors import LimitExceeded
from genai_host.util import concurrency

T = TypeVar("T")


def run_in_thread(
    name: str, work: Callable[[], T], failed: Callable[[BaseException], T], until: Cancellation
) -> T:
    """Run a function in a thread, with the caller's context (`contextvars`), and wait for its
    result.

    `failed` converts an exception of the function, `SystemExit` included, to a result. `until` ends
    the wait: its error is raised, and the thread is abandoned.
    """
    done = concurrency.new_event()
    outcome: list[T] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - SystemExit would leave the turn waiting
            outcome.append(failed(error))
        finally:
            done.set()

    until.check()
    context = contextvars.copy_context()
    concurrency.new_thread(name, context.run, run).start()
    with until.on_cancel(done.set):
        done.wait()
    until.check()
    return outcome[0]


def run_within(
    slow: LimitExceeded,
    clock: Clock,
    seconds: float,
    name: str,
    work: Callable[[Cancellation], T],
    failed: Callable[[BaseException], T],
    until: Cancellation | None = None,
) -> T:
    """Run a function in a thread, under a new cancellation with a timeout; see `run_in_thread`.

    Raises the error of the outer cancellation, or `slow` after the timeout.
    """
    with Cancellation(until) as scope:
        alarm = clock.call_later(seconds, lambda: scope.cancel(slow))
        try:
            return run_in_thread(name, lambda: work(scope), failed, scope)
        except BaseException:
            scope.cancel()  # the wait was abandoned, and so is the work
            raise
        finally:
            alarm.release()

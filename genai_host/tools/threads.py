"""Work of a plugin, in a thread of its own: it may hang, or end its thread, and whoever
waits for it is not kept."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TypeVar

from genai_host.api.cancellation import Cancellation
from genai_host.util import concurrency

T = TypeVar("T")


def run_in_thread(
    name: str, work: Callable[[], T], failed: Callable[[BaseException], T], until: Cancellation
) -> T:
    """Do it and wait for what comes of it, in the context (`contextvars`) of who waits.

    name     of the thread
    failed   what comes of whatever the work raises, `SystemExit` too
    until    being cancelled need not wait; the thread is left alone then

    Raises what it was cancelled with.
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

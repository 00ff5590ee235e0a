"""Middleware of model calls, for budgets and for usage of calls that are not in an event log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from genai_host.calls.route import Route
from genai_host.errors import Cancelled, GenaiError
from genai_host.plugins.observers import CallRecord


class CallMiddleware(Protocol):
    """Called before and after each attempt, from any thread."""

    def enter(self, route: Route, report: CallRecord) -> None:
        """Before a call. Raises `GenaiError` to prevent the call."""

    def leave(self, route: Route, error: GenaiError | None, report: CallRecord) -> None:
        """After a call; must not raise."""


def around(
    middleware: Sequence[CallMiddleware], route: Route, report: CallRecord
) -> AbstractContextManager[None]:
    """Run the middleware around a call."""
    return _around(middleware, route, report) if middleware else nullcontext()


@contextmanager
def _around(
    middleware: Sequence[CallMiddleware], route: Route, report: CallRecord
) -> Iterator[None]:
    for each in middleware:
        each.enter(route, report)
    error: GenaiError | None = None
    try:
        yield
    except BaseException as raised:
        error = raised if isinstance(raised, GenaiError) else Cancelled("abandoned")
        raise
    finally:
        for each in middleware:
            each.leave(route, error, report)

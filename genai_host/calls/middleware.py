"""What stands before and after each call of a service, where something does: budgets that it
must not exceed, and counts of calls that are on no record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from genai_host.calls.route import Route
from genai_host.errors import Cancelled, GenaiError
from genai_host.plugins.observers import CallRecord


class CallMiddleware(Protocol):
    """May be asked from many threads."""

    def enter(self, route: Route) -> None:
        """A call is about to be made. Raises `GenaiError` if it must not be."""

    def leave(self, route: Route, error: GenaiError | None, report: CallRecord) -> None:
        """It has ended; raises nothing."""


@contextmanager
def around(tolls: Sequence[CallMiddleware], route: Route, report: CallRecord) -> Iterator[None]:
    """One call."""
    for toll in tolls:
        toll.enter(route)
    error: GenaiError | None = None
    try:
        yield
    except BaseException as raised:
        error = raised if isinstance(raised, GenaiError) else Cancelled("abandoned")
        raise
    finally:
        for toll in tolls:
            toll.leave(route, error, report)

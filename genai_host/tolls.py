"""What stands before and after each call of a service, where something does: budgets that it
must not exceed, and counts of calls that are on no record."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

from genai_host.api import Delta
from genai_host.errors import Cancelled, GenaiError
from genai_host.observers import CallReport
from genai_host.route import Route

T = TypeVar("T")


class Toll(Protocol):
    """May be asked from many threads."""

    def enter(self, route: Route) -> None:
        """A call is about to be made. Raises `GenaiError` if it must not be."""

    def leave(self, route: Route, error: GenaiError | None, report: CallReport) -> None:
        """It has ended; raises nothing."""


def tolled(
    act: Callable[[Route, CallReport], T], tolls: Sequence[Toll]
) -> Callable[[Route, CallReport], T]:
    """The same call, with these before and after it."""

    def tolled_act(route: Route, report: CallReport) -> T:
        _enter(tolls, route)
        try:
            result = act(route, report)
        except BaseException as error:
            _leave(tolls, route, error, report)
            raise
        _leave(tolls, route, None, report)
        return result

    return tolled_act


def tolled_stream(
    act: Callable[[Route, CallReport], Generator[Delta, None, T]], tolls: Sequence[Toll]
) -> Callable[[Route, CallReport], Generator[Delta, None, T]]:
    """The same for an answer in pieces."""

    def tolled_act(route: Route, report: CallReport) -> Generator[Delta, None, T]:
        _enter(tolls, route)
        try:
            result = yield from act(route, report)
        except BaseException as error:
            _leave(tolls, route, error, report)
            raise
        _leave(tolls, route, None, report)
        return result

    return tolled_act


def _enter(tolls: Sequence[Toll], route: Route) -> None:
    for toll in tolls:
        toll.enter(route)


def _leave(
    tolls: Sequence[Toll], route: Route, error: BaseException | None, report: CallReport
) -> None:
    told = error if error is None or isinstance(error, GenaiError) else Cancelled("abandoned")
    for toll in tolls:
        toll.leave(route, told, report)

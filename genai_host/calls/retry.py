"""Retries and failover over routes, and the attempts they report.

A `RetryPolicy` sets how often a call is attempted on a route and in total, and the wait between
attempts. Failed attempts are collected in a `StepTrace` and recorded next to the result.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from attrs import field, frozen

from genai_host.api import Clock, Completion, Delta, Embeddings, RouteInfo, Usage
from genai_host.api.cancellation import Cancellation
from genai_host.api.features import RetryWait
from genai_host.calls.middleware import CallMiddleware, around
from genai_host.calls.route import Route
from genai_host.errors import (
    AuthenticationFailed,
    CircuitOpen,
    GenaiError,
    InvalidParameter,
    ProviderError,
    UnsupportedPart,
)
from genai_host.plugins.observers import CallRecord
from genai_host.util import concurrency

_NO_USAGE = Usage()
_TOLD = 1.0  # seconds: a wait that is shorter is not worth a line


@frozen
class Attempt:
    """A call of a service that failed, whether it was tried again or not.

    Attributes:
        started: Seconds since 1970.
        seconds: How long it took.
        code: Of its error.
        status: HTTP status of the reply, if there was one.
        usage: Tokens used, where the reply said it.
        cost: US dollars; None if it is not known.
    """

    route: RouteInfo
    started: float
    seconds: float
    code: str
    status: int | None = None
    usage: Usage = field(factory=Usage)
    cost: float | None = None


@frozen
class StepTrace:
    """Filled in while a step is done.

    Attributes:
        parent: The id of the turn, as observers are told it; empty if there are none.
        failed: The calls for it that failed, in their order.
        pieces: Text of the answer that was shown as it came.
        waits: Whether waits before another attempt are told among the pieces.
    """

    parent: str = ""
    failed: list[Attempt] = field(factory=list)
    pieces: list[str] = field(factory=list)
    waits: bool = False

    def fail(self, route: RouteInfo, clock: Clock, error: GenaiError, report: CallRecord) -> None:
        """A call has failed; it is none if nothing was sent."""
        call = called(route, clock, error, report)
        if call is not None:
            self.failed.append(call)

    def text_before(self, error: GenaiError | None) -> str:
        """What had been shown when it failed, unless the error has it."""
        return "" if error is None or vars(error).get("text") else "".join(self.pieces)


def called(
    route: RouteInfo, clock: Clock, error: GenaiError | None, report: CallRecord
) -> Attempt | None:
    """A call that has just ended; None if nothing was sent. One that succeeded has no code."""
    if report.sent is None:
        return None
    seconds = clock.monotonic() - report.sent
    began = clock.now().timestamp() - seconds
    result = report.result
    usage = result.usage if isinstance(result, (Completion, Embeddings)) else _NO_USAGE
    cost = 0.0 if report.refused else result.cost if result is not None else None
    code, status = ("", None) if error is None else (error.code, error.status)
    return Attempt(route, began, seconds, code, status, usage=usage, cost=cost)


T = TypeVar("T")
_UNSENT = (InvalidParameter, UnsupportedPart)
_log = logging.getLogger(__name__)


def _full_jitter(seconds: float) -> float:
    return random.uniform(0.0, seconds)  # noqa: S311 - it protects nothing


@frozen
class RetryPolicy:
    """The one owner of retries: a provider's `send` is a single attempt.

    Attributes:
        tries: Of one route.
        calls: Of all routes together.
        shortest: Seconds: the bound of the first random wait; it doubles each time.
        longest: Seconds: what that bound grows to.
        retry_after: Seconds: a service that asks for a longer wait is not waited for.
        jitter: A random number of seconds between 0 and what it is given.
        refused_keys: Whether another provider is asked where one refuses the key (401, 403), which
            somebody has to mend.
    """

    tries: int = 3
    calls: int = 6
    shortest: float = 0.5
    longest: float = 8.0
    retry_after: float = 60.0
    jitter: Callable[[float], float] = _full_jitter
    refused_keys: bool = False


class Retry:
    """Calls over several routes, best first, until one succeeds.

    Repeated are failures that may pass, as long as nothing of an answer has reached
    the caller: on the same route after a random wait ("full jitter") or the one that
    the service asks for, then on the next one. Of those that come after the first, one
    that cannot be asked, since its format or its values are others, is left out.
    """

    def __init__(self, clock: Clock, patience: RetryPolicy | None = None) -> None:
        self._clock = clock
        self._patience = patience or RetryPolicy()

    def stream(
        self,
        routes: Sequence[Route],
        cancellation: Cancellation,
        act: Callable[[Route, CallRecord], Generator[Delta, None, T]],
        trace: StepTrace | None = None,
        tolls: Sequence[CallMiddleware] = (),
    ) -> Generator[Delta | RetryWait, None, T]:
        """The pieces of an answer as they come, and the first result; raises the error of
        the last try. Once there is a piece, there is no other try.

        Args:
            act: Calls a route, and reports of that.
            trace: Is told of calls that fail.
            tolls: Stand before and after each call.
        """
        tries = _Tries(routes, self._patience)
        while True:
            report = CallRecord("" if trace is None else trace.parent)
            begun = False
            try:
                with around(tolls, tries.route, report), closing(act(tries.route, report)) as each:
                    try:
                        first = next(each)
                    except StopIteration as stop:
                        result: T = stop.value
                        return result
                    begun = True
                    yield first
                    return (yield from each)
            except GenaiError as error:
                if trace is not None:
                    trace.fail(tries.route.info, self._clock, error, report)
                if begun:
                    raise
                seconds = tries.seconds_after(error)
                reason = error.message
            if trace is not None and trace.waits and seconds >= _TOLD:
                yield RetryWait(seconds, tries.route.info.provider, reason)
            self._wait(seconds, cancellation)

    def _wait(self, seconds: float, cancellation: Cancellation) -> None:
        """Raises what ends the call meanwhile."""
        cancellation.check()
        if seconds > 0:
            over = concurrency.new_event()
            with self._clock.call_later(seconds, over.set), cancellation.on_cancel(over.set):
                over.wait()
            cancellation.check()


def drained(pieces: Generator[Any, None, T]) -> T:
    """What comes of it; nobody wants the pieces."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


class _Tries:
    """What was tried for one call, and what is to be tried next."""

    def __init__(self, routes: Sequence[Route], patience: RetryPolicy) -> None:
        self._routes = list(routes)
        self._patience = patience
        self._calls = 0
        self._calls_here = 0
        self._failed: GenaiError | None = None  # why the route is no longer the first

    @property
    def route(self) -> Route:
        return self._routes[0]

    def seconds_after(self, error: GenaiError) -> float:
        """How long to wait until `route` is to be tried, which may be another one now.
        Raises the error if there is no use in it."""
        if self._failed is not None and isinstance(error, _UNSENT):
            self._go_on_with(self._routes[1:], self._failed)
            return 0.0
        called = not isinstance(error, CircuitOpen)
        self._calls += called
        self._calls_here += called
        refused = self._patience.refused_keys and isinstance(error, AuthenticationFailed)
        if not (error.retryable or refused) or self._calls >= self._patience.calls:
            raise error
        here = self.route.candidate.name
        seconds = None if refused else self._seconds_before_the_same(error)
        if seconds is None:
            self._turn_to_another(error)
            _log.info("%s failed (%s): on to %s", here, error, self.route.candidate.name)
            return 0.0
        _log.info("%s failed (%s): again in %.1f s", here, error, seconds)
        return seconds

    def _seconds_before_the_same(self, error: GenaiError) -> float | None:
        """None if the same route is not to be tried again."""
        if isinstance(error, CircuitOpen) or self._calls_here >= self._patience.tries:
            return None
        asked = error.retry_after if isinstance(error, ProviderError) else None
        if asked is not None:
            return asked if asked <= self._patience.retry_after else None
        bound = self._patience.shortest * 2.0 ** (self._calls_here - 1)
        return self._patience.jitter(min(bound, self._patience.longest))

    def _turn_to_another(self, error: GenaiError) -> None:
        """The next route at another provider: what failed was this one."""
        failed = self.route.info.provider
        self._go_on_with([each for each in self._routes if each.info.provider != failed], error)

    def _go_on_with(self, routes: list[Route], error: GenaiError) -> None:
        """Raises the error if there are none."""
        if not routes:
            raise error
        self._routes = routes
        self._calls_here = 0
        self._failed = error

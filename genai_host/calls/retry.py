"""Retries and failover over routes, and the attempts they report.

A `RetryPolicy` sets how often a call is attempted on a route and in total, and the wait between
attempts. Failed attempts are collected in a `StepTrace` and recorded next to the result.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from attrs import field, frozen

from genai_host.api import (
    Clock,
    Completion,
    Delta,
    Embeddings,
    RouteInfo,
    Transcription,
    Usage,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.features import RetryWait
from genai_host.api.messages import NO_USAGE
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
from genai_host.plugins.observers import NO_PARAMETERS, CallRecord
from genai_host.util import concurrency

_MIN_REPORTED_WAIT = 1.0  # seconds; shorter waits are not reported


@frozen
class Attempt:
    """An attempt of a call.

    Attributes:
        route: Model, provider and dialect.
        started: Start, in seconds since 1970.
        seconds: Duration.
        code: Code of the error; empty for a success.
        status: HTTP status of the reply, if there was one.
        usage: Tokens used, as reported or estimated.
        cost: US dollars; None if unknown.
    """

    route: RouteInfo
    started: float
    seconds: float
    code: str
    status: int | None = None
    usage: Usage = NO_USAGE
    cost: float | None = None


@frozen
class StepTrace:
    """What happened during a step, for its record.

    Attributes:
        parent: Id of the turn for observers; empty if there are none.
        failed: Failed attempts, in order.
        pieces: Text of the answer, as streamed.
        waits: Whether waits before another attempt are yielded.
    """

    parent: str = ""
    failed: list[Attempt] = field(factory=list)
    pieces: list[str] = field(factory=list)
    waits: bool = False

    def fail(self, route: RouteInfo, clock: Clock, error: GenaiError, report: CallRecord) -> None:
        """Add a failed attempt, unless nothing was sent."""
        call = called(route, clock, error, report)
        if call is not None:
            self.failed.append(call)

    def text_before(self, error: GenaiError | None) -> str:
        """Text streamed before the failure, unless the error has it."""
        return "" if error is None or vars(error).get("text") else "".join(self.pieces)


def called(
    route: RouteInfo, clock: Clock, error: GenaiError | None, report: CallRecord
) -> Attempt | None:
    """The attempt that has just ended; None if nothing was sent."""
    if report.sent is None:
        return None
    seconds = clock.monotonic() - report.sent
    began = clock.now().timestamp() - seconds
    result = report.result
    usage = NO_USAGE
    if isinstance(result, (Completion, Embeddings, Transcription)):
        usage = result.usage
    if not usage.total:
        usage = report.estimated_usage
    cost = None if result is None else result.cost
    if report.refused:
        cost = 0.0
    code, status = ("", None) if error is None else (error.code, error.status)
    return Attempt(route, began, seconds, code, status, usage=usage, cost=cost)


T = TypeVar("T")
_UNSENT = (InvalidParameter, UnsupportedPart)
_log = logging.getLogger(__name__)


def _full_jitter(seconds: float) -> float:
    return random.uniform(0.0, seconds)  # noqa: S311 - not for cryptography


@frozen
class RetryPolicy:
    """Policy of retries; `Provider.send` itself makes a single attempt.

    Attributes:
        max_attempts: Maximum number of attempts per route.
        max_total_attempts: Maximum number of attempts on all routes. Retries leave one for each
            further provider.
        min_backoff: Upper limit of the first random wait, in seconds; doubles with each attempt.
        max_backoff: Maximum of that limit, in seconds.
        retry_after: Longest wait in seconds that a service may request; beyond it, the call is not
            retried.
        jitter: Returns a random number between 0 and its argument.
        failover_on_auth_error: Whether to try another provider if one refuses the key (401, 403).
        wait_for_circuit: Whether a call waits while the circuit of its last route is open. Each
            wait counts as an attempt.
    """

    max_attempts: int = 3
    max_total_attempts: int = 6
    min_backoff: float = 0.5
    max_backoff: float = 8.0
    retry_after: float = 60.0
    jitter: Callable[[float], float] = _full_jitter
    failover_on_auth_error: bool = False
    wait_for_circuit: bool = False


class Retry:
    """Calls routes, best first, until one succeeds.

    Temporary failures are retried, unless a chunk of the answer has reached the caller: on the same
    route after a random wait ("full jitter") or the one that the service requests, then on the next
    route. Routes after the first are skipped if they cannot express the call.
    """

    def __init__(self, clock: Clock, retry_policy: RetryPolicy | None = None) -> None:
        self._clock = clock
        self._patience = retry_policy or RetryPolicy()

    def stream(
        self,
        routes: Sequence[Route],
        cancellation: Cancellation,
        act: Callable[[Route, CallRecord], Generator[Delta, None, T]],
        trace: StepTrace | None = None,
        middleware: Sequence[CallMiddleware] = (),
        parameters: Mapping[str, Any] = NO_PARAMETERS,
    ) -> Generator[Delta | RetryWait, None, T]:
        """Yield the chunks of the answer, and return the first result. After a chunk, there is no
        retry.

        Args:
            routes: Routes, best first.
            cancellation: Cancels the call.
            act: Makes one attempt and fills in its record.
            trace: Collects failed attempts.
            middleware: Call middleware.
            parameters: Parameters of the call, for the middleware.

        Raises:
            GenaiError: The error of the last attempt.
        """
        attempts = _Attempts(routes, self._patience)
        while True:
            report = CallRecord("" if trace is None else trace.parent, parameters)
            begun = False
            try:
                with (
                    around(middleware, attempts.route, report),
                    closing(act(attempts.route, report)) as each,
                ):
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
                    trace.fail(attempts.route.info, self._clock, error, report)
                if begun:
                    raise
                seconds = attempts.seconds_after(error)
                reason = error.message
            if trace is not None and trace.waits and seconds >= _MIN_REPORTED_WAIT:
                yield RetryWait(seconds, attempts.route.info.provider, reason)
            self._wait(seconds, cancellation)

    def _wait(self, seconds: float, cancellation: Cancellation) -> None:
        """Wait; raises the error of a cancellation."""
        if seconds > 0:
            over = concurrency.new_event()
            with self._clock.call_later(seconds, over.set), cancellation.on_cancel(over.set):
                over.wait()
        cancellation.check()


def drained(pieces: Generator[Any, None, T]) -> T:
    """The result of a generator, without its chunks."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


class _Attempts:
    """The attempts of one call, and the next route."""

    def __init__(self, routes: Sequence[Route], retry_policy: RetryPolicy) -> None:
        self._routes = list(routes)
        self._patience = retry_policy
        self._calls = 0
        self._calls_here = 0
        self._failed: GenaiError | None = None  # why the first route is no longer used

    @property
    def route(self) -> Route:
        return self._routes[0]

    def seconds_after(self, error: GenaiError) -> float:
        """Seconds to wait before the next attempt on `route`, which may change. Raises the error if
        there is no further attempt."""
        if self._failed is not None and isinstance(error, _UNSENT):
            self._continue_with(self._routes[1:], self._failed)
            return 0.0
        called = self._waits_for_circuit() or not isinstance(error, CircuitOpen)
        self._calls += called
        self._calls_here += called
        refused = self._patience.failover_on_auth_error and isinstance(error, AuthenticationFailed)
        if not (error.retryable or refused) or self._calls >= self._patience.max_total_attempts:
            raise error
        here = self.route.candidate.name
        seconds = None if refused else self._retry_delay(error)
        if seconds is None:
            self._fail_over(error)
            _log.info("%s failed (%s): trying %s", here, error, self.route.candidate.name)
            return 0.0
        _log.info("%s failed (%s): retrying in %.1f s", here, error, seconds)
        return seconds

    def _retry_delay(self, error: GenaiError) -> float | None:
        """None if the same route is not retried."""
        if isinstance(error, CircuitOpen) and not self._waits_for_circuit():
            return None
        if self._calls_here >= self._patience.max_attempts:
            return None
        others = {each.info.provider for each in self._others()}
        if self._calls + len(others) >= self._patience.max_total_attempts:
            return None  # each provider gets an attempt
        asked = error.retry_after if isinstance(error, ProviderError) else None
        if asked is not None:
            return asked if asked <= self._patience.retry_after else None
        bound = self._patience.min_backoff * 2.0 ** (self._calls_here - 1)
        return self._patience.jitter(min(bound, self._patience.max_backoff))

    def _fail_over(self, error: GenaiError) -> None:
        """Select the next route at another provider."""
        self._continue_with(self._others(), error)

    def _waits_for_circuit(self) -> bool:
        """Whether a call waits while the circuit of the current route is open."""
        return self._patience.wait_for_circuit and not self._others()

    def _others(self) -> list[Route]:
        """Routes at other providers than the current one."""
        here = self.route.info.provider
        return [each for each in self._routes if each.info.provider != here]

    def _continue_with(self, routes: list[Route], error: GenaiError) -> None:
        """Select the next route; raises the error if there is none."""
        if not routes:
            raise error
        self._routes = routes
        self._calls_here = 0
        self._failed = error

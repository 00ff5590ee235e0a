"""Limits of the calls of a provider: settings, concurrency, circuit breakers, deadlines.

They are a table of its configuration:

    [providers.my-service.limits]
    first_token_timeout = 120
    max_concurrency = 20
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from attrs import frozen, validators

from genai_host.api import CancelHandle, CancelToken, Clock
from genai_host.api.cancellation import Cancellation
from genai_host.api.settings import setting
from genai_host.errors import (
    CircuitOpen,
    IncompleteReply,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
from genai_host.util import concurrency

_MAX = 1_000_000_000  # maximum of all limits, in seconds or calls
_AT_MOST: Any = validators.le(_MAX)  # of integers and of other numbers


def _seconds(default: float, help: str) -> float:
    valid = validators.and_(validators.gt(0.0), validators.le(float(_MAX)))
    seconds: float = setting(default, help, validator=valid)
    return seconds


@frozen
class CallLimits:
    """Call limits of a provider. Times are in seconds; None for no limit or the default."""

    connect_timeout: float = _seconds(5.0, "seconds to connect")
    first_token_timeout: float = _seconds(60.0, "seconds until the first chunk of a streamed reply")
    read_timeout: float = _seconds(60.0, "seconds between two chunks")
    timeout: float = _seconds(600.0, "seconds for a whole reply")
    max_concurrency: int | None = setting(
        None,
        "maximum number of concurrent calls; others are queued",
        validator=validators.optional(validators.and_(validators.ge(1), _AT_MOST)),
    )
    queue_size: int = setting(
        200,
        "queue size; further calls are refused",
        validator=validators.and_(validators.ge(0), _AT_MOST),
    )
    breaker_threshold: int = setting(
        5,
        "consecutive failures of a model, or to connect, that open a circuit",
        validator=validators.and_(validators.ge(1), _AT_MOST),
    )
    breaker_reset: float = _seconds(30.0, "seconds until an open circuit is tried again")
    proxy: str | None = setting(None, "proxy URL; empty for none; if not set, from the environment")
    ca_file: str | None = setting(
        None,
        "PEM file of trusted certificate authorities",
        env=("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"),
    )


class ConcurrencyLimiter:
    """Limits concurrent calls; further calls wait in a FIFO queue.

    Args:
        max_concurrency: Maximum number of concurrent calls; None for no limit.
        queue_size: Queue size; further calls are refused.
    """

    def __init__(self, max_concurrency: int | None = None, queue_size: int = 200) -> None:
        self._max_concurrency = max_concurrency
        self._queue_size = queue_size
        self._lock = threading.Lock()
        self._inside = 0
        self._waiting: deque[threading.Event] = deque()

    @property
    def inside(self) -> int:
        """Number of calls in progress."""
        return self._inside

    def passed(self, limits: CancelToken) -> AbstractContextManager[None]:
        """Context of one call. Raises `RateLimited` if the queue is full, and the error of `limits`
        while it waits."""
        most = self._max_concurrency
        return nullcontext() if most is None else self._passed(most, limits)

    @contextmanager
    def _passed(self, max_concurrency: int, limits: CancelToken) -> Iterator[None]:
        self._pass(max_concurrency, limits)
        try:
            yield
        finally:
            self._leave()

    def _pass(self, max_concurrency: int, limits: CancelToken) -> None:
        with self._lock:
            if self._inside < max_concurrency:
                self._inside += 1
                return
            if len(self._waiting) >= self._queue_size:
                raise RateLimited(
                    f"{max_concurrency} calls are in progress and {self._queue_size} are queued",
                    retry_after=1.0,
                    retryable=False,
                )
            called = concurrency.new_event()
            self._waiting.append(called)
        with limits.on_cancel(called.set):
            called.wait()
        with self._lock:
            if called in self._waiting:  # woken by a cancellation
                self._waiting.remove(called)
                left = False
            else:
                left = True
        try:
            limits.check()
        except BaseException:
            if left:
                self._leave()
            raise

    def _leave(self) -> None:
        """Pass the place to the first call in the queue, if there is one."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._inside -= 1


_MAX_MODELS = 256


class CircuitBreakers:
    """Circuit breakers of a provider: one for the service, and one for each model.

    A failed connection counts against the service. A failed reply (status 5xx, a timeout, an
    interrupted reply) counts against its model only.
    """

    def __init__(self, clock: Clock, *, failures: int = 5, seconds: float = 30.0) -> None:
        self._make = partial(CircuitBreaker, clock, failures=failures, seconds=seconds)
        self._service = self._make(is_unreachable)
        self._models: dict[str, CircuitBreaker] = {}  # least recently used first
        self._lock = threading.Lock()

    @contextmanager
    def attempt(self, model: str) -> Iterator[None]:
        """Context of one call, of a model unless its id is empty. Raises `CircuitOpen` if a circuit
        is open."""
        breakers = (self._service, self._of(model))
        probes: list[bool] = []
        try:
            for each in breakers:
                probes.append(each.enter())
            yield
        except BaseException as error:
            for each, is_probe in zip(breakers, probes, strict=False):
                each.failed(error, is_probe=is_probe)
            raise
        for each in breakers:
            each.succeeded()

    def _of(self, model: str) -> CircuitBreaker:
        with self._lock:
            breaker = self._models.pop(model, None) or self._make(is_failed_reply)
            self._models[model] = breaker
            if len(self._models) > _MAX_MODELS:
                del self._models[next(iter(self._models))]
            return breaker


class CircuitBreaker:
    """A circuit breaker: it opens after consecutive failures. After some time it lets one call
    through, whose outcome closes it or keeps it open.

    Args:
        is_failure: Whether an error counts; others, such as `Cancelled`, are ignored.
        failures: Consecutive failures that open it.
        seconds: Seconds that it stays open.
    """

    def __init__(
        self,
        clock: Clock,
        is_failure: Callable[[BaseException], bool],
        *,
        failures: int = 5,
        seconds: float = 30.0,
    ) -> None:
        self._clock = clock
        self._is_failure = is_failure
        self._most = failures
        self._seconds = seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._last = ""
        self._opened: float | None = None
        self._probing = False

    def enter(self) -> bool:
        """Before a call; whether it is the trial call of an open circuit. Raises `CircuitOpen`."""
        if self._opened is None:
            return False
        with self._lock:
            left = self._seconds_left()
            if left > 0 or self._probing:
                raise CircuitOpen(
                    f"the circuit is open after {self._failures} failures in a row, the last: "
                    f"{self._last}",
                    retry_after=left if left > 0 else None,  # None: a trial call is in progress
                )
            self._probing = True
            return True

    def _seconds_left(self) -> float:
        if self._opened is None:  # since it was checked
            return 0.0
        return self._opened + self._seconds - self._clock.monotonic()

    def succeeded(self) -> None:
        if self._failures or self._opened is not None:
            with self._lock:
                self._failures = 0
                self._opened = None
                self._probing = False

    def failed(self, error: BaseException, *, is_probe: bool) -> None:
        if self._is_failure(error):
            with self._lock:
                self._failures += 1
                self._last = _cause(error)
                self._probing = False
                if self._failures >= self._most:
                    self._opened = self._clock.monotonic()
        elif isinstance(error, Exception) and getattr(error, "status", None):
            self.succeeded()  # a reply shows that the service is up
        elif is_probe:
            with self._lock:
                self._probing = False


def _cause(error: BaseException) -> str:
    """The reason of a failure without the service's text, which may quote another user's
    conversation."""
    status = getattr(error, "status", None)
    if status is not None:
        return f"HTTP status {status}"
    is_own_error = isinstance(error, (ServiceUnavailable, ProviderTimeout))
    return str(error) if is_own_error else getattr(error, "code", type(error).__name__)


def is_unreachable(error: BaseException) -> bool:
    """Whether an error means that the service cannot be reached."""
    if isinstance(error, ProviderTimeout):
        return error.deadline == "connect_timeout"
    return (
        isinstance(error, ServiceUnavailable)
        and not isinstance(error, CircuitOpen)
        and error.status is None
    )


def is_failed_reply(error: BaseException) -> bool:
    """Whether an error means that a model does not answer. A status of 4xx or a malformed reply
    does not."""
    if isinstance(error, ServiceUnavailable):
        return error.status is not None and not 400 <= error.status < 500
    return isinstance(error, IncompleteReply) or (
        isinstance(error, ProviderTimeout) and not is_unreachable(error)
    )


class DeadlineTimer:
    """Cancels an attempt that exceeds a timeout, even if its provider is blocked.

        with DeadlineTimer(limits, timeouts, clock) as watch:
            watch.expect_first()
            for event in events:
                watch.received()
                ...             # the consumer's time does not count
                watch.expect_next()

    One timer checks periodically; none is set per event.
    """

    def __init__(self, limits: Cancellation, timeouts: CallLimits, clock: Clock) -> None:
        self._limits = limits
        self._timeouts = timeouts
        self._clock = clock
        self._end = math.inf
        self._since = math.inf  # start of the current wait for an event
        self._allowed = timeouts.read_timeout
        self._waits_for = "read_timeout"
        self._alarm: CancelHandle | None = None
        self._over = False

    def __enter__(self) -> DeadlineTimer:
        return self

    def __exit__(self, *exc: object) -> None:
        self._over = True
        if self._alarm is not None:
            self._alarm.release()

    def wait(self) -> None:
        """Start waiting for a complete reply."""
        self._end = self._clock.monotonic() + self._timeouts.timeout
        self._set_alarm(self._timeouts.timeout)

    def expect_first(self) -> None:
        """Start waiting for the first event of a reply."""
        self._since = self._clock.monotonic()
        self._end = self._since + self._timeouts.timeout
        self._allowed, self._waits_for = self._timeouts.first_token_timeout, "first_token_timeout"
        self._set_alarm(min(self._allowed, self._timeouts.timeout))

    def expect_next(self) -> None:
        """Start waiting for the next event."""
        self._since = self._clock.monotonic()

    def received(self) -> None:
        """An event was received."""
        self._since = math.inf
        self._allowed, self._waits_for = self._timeouts.read_timeout, "read_timeout"

    def expect_end(self, seconds: float) -> None:
        """The reply is complete; the end of the transmission may take this many seconds."""
        self._since = self._clock.monotonic()
        self._allowed = seconds
        self._set_alarm(seconds)

    def _set_alarm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.release()
        self._alarm = self._clock.call_later(seconds, self._look)
        if self._over:  # in another thread
            self._alarm.release()

    def _look(self) -> None:
        now = self._clock.monotonic()
        due = min(self._since, now) + self._allowed
        if self._over:
            return
        if now >= self._end:
            self._exceeded("timeout", self._timeouts.timeout)
        elif now >= due:
            self._exceeded(self._waits_for, self._allowed)
        else:
            self._set_alarm(min(due, self._end) - now)

    def _exceeded(self, deadline: str, seconds: float) -> None:
        what = {
            "timeout": "the reply took longer than",
            "first_token_timeout": "no reply began within",
            "read_timeout": "no chunk was received for",
        }[deadline]
        self._limits.cancel(ProviderTimeout(f"{what} {seconds:g} s", deadline=deadline))

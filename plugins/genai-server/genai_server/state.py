"""State shared by all requests, and the health checks.

The state includes the access policy, the limits, the routes, and the worker threads. `/health`
reports whether the server is alive, and `/ready` whether it accepts requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from genai_host.api import Clock, HttpProblem, RouteRequest, RouteResponse, json_response
from genai_host.api.cancellation import Cancellation
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.plugins.observers import Observation
from genai_host.plugins.watchdog import Watched
from genai_host.serving.apis import (
    REQUEST_ID,
    error_reply,
    problem_reply,
    request_id_headers,
)
from genai_host.serving.router import Begins, HttpRoutes, RouteMatch
from genai_host.util.concurrency import join_all
from genai_server.access import (
    AccessPolicy,
    ByteBudget,
    FailedAttempts,
    RequestQueue,
    UserRateLimiter,
)
from genai_server.heads import Head, Refused
from genai_server.response_buffer import LoopCallbacks
from genai_server.settings import AccessLogEntry, ServerSettings
from genai_server.suspendable import can_watch_sockets

_IDLE_SECONDS = 10.0  # seconds after which an idle thread ends


WorkItem = Callable[[], None]


class Workers:
    """A pool without a size limit: the caller limits the work. The thread that became idle last is
    used first, so that others can end.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._threads: set[_Worker] = set()
        self._is_closed = False
        self._started = 0

    def submit(self, work: WorkItem) -> None:
        """Run a function in a thread. Raises `RuntimeError` if the pool is closed or the system
        refuses another thread."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the workers are closed")
            worker = self._idle.pop() if self._idle else self._new()
            worker.work_queue.put(work)

    def close(self, seconds: float) -> bool:
        """Accept no more work and wait for running work.

        Returns:
            Whether all work has ended.
        """
        with self._lock:
            self._is_closed = True
            for worker in self._idle:
                worker.work_queue.put(None)
            self._idle.clear()
            threads = list(self._threads)
        join_all(threads, seconds, self._clock.monotonic)
        return not any(thread.is_alive() for thread in threads)

    def _new(self) -> _Worker:
        self._started += 1
        worker = _Worker(self, f"{self._name}-{self._started}")
        worker.start()
        self._threads.add(worker)
        return worker

    def _return(self, worker: _Worker) -> bool:
        """Whether the thread got more work."""
        with self._lock:
            if self._is_closed:
                self._threads.discard(worker)
                return False
            self._idle.append(worker)
            return True

    def _remove(self, worker: _Worker) -> bool:
        """Whether the thread may end: not if it has just been given work."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            self._threads.discard(worker)
            return True


class _Worker(threading.Thread):
    def __init__(self, workers: Workers, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.work_queue: queue.SimpleQueue[WorkItem | None] = queue.SimpleQueue()
        self._workers = workers

    def run(self) -> None:
        while True:
            try:
                work = self.work_queue.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                if self._workers._remove(self):
                    return
                work = self.work_queue.get()
            if work is None:
                return
            try:
                work()
            except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
                _log.exception("handling a request failed")
            del work
            if not self._workers._return(self):
                return


HEALTH_PATHS = ("/health", "/ready")
HEALTH_METHODS = ("GET", "HEAD")

_CACHE_SECONDS = 1.0  # seconds for which the state of the store is cached

_log = logging.getLogger(__name__)


class ServerHealth:
    """Health checks of one host, for one event loop. Replies contain no confidential data."""

    def __init__(self, host: Host, workers: Workers) -> None:
        self._host = host
        self._workers = workers
        self._check: Future[str] | None = None
        self._checked_at = 0.0

    async def reply(self, head: Head, unavailable_reason: str) -> RouteResponse | None:
        """Answer a health check; None for other requests. `unavailable_reason` is why the server
        cannot answer them."""
        if head.path not in HEALTH_PATHS or head.method not in HEALTH_METHODS:
            return None
        if head.path == "/health":
            return json_response({"status": "ok"})
        if unavailable_reason:
            return json_response({"status": unavailable_reason}, 503)
        reason = await self._store_unavailable_reason()
        if reason:
            return json_response({"status": "no store", "reason": reason}, 503)
        return json_response({"status": "ready"})

    async def _store_unavailable_reason(self) -> str:
        """Why the store cannot be read; empty if it can. Checked in a thread, once for concurrent
        requests."""
        now = self._host.clock.monotonic()
        if self._check is None or (self._check.done() and now - self._checked_at > _CACHE_SECONDS):
            check: Future[str] = Future()
            self._workers.submit(lambda: check.set_result(self._check_store()))
            self._check, self._checked_at = check, now
        # a client that disconnects must not cancel the check for others
        return await asyncio.shield(asyncio.wrap_future(self._check))

    def _check_store(self) -> str:
        try:
            if self._host.store is not None:
                self._host.store.check()
        except GenaiError as error:
            return HttpProblem.of(error).message
        except BaseException:  # noqa: BLE001 - reported to all waiting requests
            _log.exception("cannot read the store")
            return "see the log of the server"
        return ""


class ServerState:
    """State of one host, for one event loop, in which `start` must be called.

    Args:
        host: The host.
        settings: Settings of the server.
        make_routes: Loads the plugins. Called in a thread.

    Attributes:
        clock: Clock of the host.
        is_draining: Whether the server is stopping and waits for requests in progress.
        loop: The event loop, once started.
        loaded: The routes, or the exception of loading them, once started.
    """

    def __init__(
        self, host: Host, settings: ServerSettings, make_routes: Callable[[], HttpRoutes]
    ) -> None:
        self.settings = settings
        self.clock = host.clock
        self._host = host
        self.access = AccessPolicy(settings)
        self.workers = Workers("genai-host-server", host.clock)
        self.health = ServerHealth(host, self.workers)
        self.body_budget = ByteBudget(settings.max_body_memory)
        self.is_draining = False
        self._make_routes = make_routes
        self._write_queue = RequestQueue(settings.max_concurrency, settings.max_queue_size)
        self._read_queue = RequestQueue(settings.max_concurrency, settings.max_queue_size)
        self._failed_attempts = FailedAttempts(settings.guess_delay)
        self._rate_limiter = UserRateLimiter(settings.rate_limit)

    def start(self) -> asyncio.Future[HttpRoutes]:
        """Load the host in a thread. Requests that arrive earlier wait for it."""
        self.loop = asyncio.get_running_loop()
        self.callbacks = LoopCallbacks(self.loop)
        self._watches_sockets = can_watch_sockets(self.loop)
        self.loaded: asyncio.Future[HttpRoutes] = self.loop.create_future()
        self.workers.submit(self._load)
        return self.loaded

    def _load(self) -> None:
        try:
            routes = self._make_routes()
        except BaseException as error:  # noqa: BLE001 - raised by the server
            self.callbacks.put(self.loaded.set_exception, error)
        else:
            self.callbacks.put(self.loaded.set_result, routes)

    @property
    def unavailable_reason(self) -> str:
        """Why requests cannot be answered now; empty if they can."""
        if self.is_draining:
            return "stopping"
        return "" if self._is_loaded else "starting"

    async def loading(self) -> None:
        """Wait until the plugins are loaded, or cannot be."""
        if not self.loaded.done():
            await asyncio.wait([self.loaded])

    def error_reply(
        self, path: str, headers: Mapping[str, str], problem: HttpProblem, request_id: str
    ) -> RouteResponse:
        """The reply for a problem, in the form of the API if the plugins are loaded."""
        if not self._is_loaded:
            return problem_reply(problem)
        return error_reply(self._host, path, headers, problem, request_id)

    def request_id_headers(
        self, path: str, headers: Mapping[str, str], request_id: str
    ) -> dict[str, str]:
        """Headers of a reply with the id of the request."""
        if not self._is_loaded:
            return {REQUEST_ID: request_id}
        return request_id_headers(self._host, path, headers, request_id)

    @property
    def _is_loaded(self) -> bool:
        return self.loaded.done() and self.loaded.exception() is None

    async def routes(self) -> HttpRoutes:
        await self.loading()
        if self.loaded.exception() is not None:
            raise Refused(HttpProblem(503, "stopping", "the server could not start"))
        return self.loaded.result()

    async def admit(self, head: Head) -> str:
        """Admit a request as `AccessPolicy.admit`, delayed after wrong tokens from the same
        address."""
        try:
            user = self.access.admit(head)
        except Refused as refused:
            if refused.problem.status == 401:
                await self._delay(head, None)
            raise
        await self._delay(head, user)
        return user

    async def _delay(self, head: Head, user: str | None) -> None:
        if self.access.is_attempt(head):
            seconds = self._failed_attempts.attempt(head.client, user, self.clock.monotonic())
            if seconds:
                over = asyncio.Event()
                with self.clock.call_later(seconds, partial(self.callbacks.put, over.set)):
                    await over.wait()

    def count(self, user: str, client: str) -> None:
        """Count a request. Raises `Refused` if the rate limit is reached."""
        who = f"user {user}" if self.settings.tokens else client
        self._rate_limiter.acquire(who, self.clock.monotonic())

    def queue_for(self, head: Head) -> RequestQueue:
        """Return the queue for a request. Requests that only read or delete do not wait for slow
        ones."""
        return self._read_queue if head.is_reading or head.method == "DELETE" else self._write_queue

    def cancel(self, limits: Cancellation, error: GenaiError | None = None) -> None:
        """Cancel the work for a request, in a thread, because callbacks may block."""
        with contextlib.suppress(RuntimeError):  # the server has stopped
            self.workers.submit(partial(limits.cancel, error))

    def answer(
        self, request: RouteRequest, found: RouteMatch | HttpProblem, begins: Begins
    ) -> RouteResponse:
        """Answer a request in a thread, even if its handler fails."""
        try:
            return self.loaded.result().answer(request, found, begins)
        except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
            id = request.request_id
            _log.exception("%s %s failed for request %s", request.method, request.path, id)
            problem = HttpProblem(500, "internal", "internal error; see the log of the server")
            return self.error_reply(request.path, request.headers, problem, id)

    def watching(self, request: RouteRequest, found: RouteMatch | HttpProblem) -> Observation:
        """Return a context manager that notifies observers of a request."""
        route = "" if isinstance(found, HttpProblem) else found[0].path
        return self._host.observers.request(request, route, self.clock)

    def watched(
        self, found: RouteMatch | HttpProblem, method: str, limits: Cancellation | None = None
    ) -> Watched:
        """Return a context manager for code of a route that may hang; see `Watchdog.watch`."""
        route = found[0].key if isinstance(found, tuple) else ""
        return self._host.observers.watchdog.watch("HTTP route", route, method, limits=limits)

    def suspends(self, reply: RouteResponse, found: RouteMatch | HttpProblem) -> bool:
        """Whether the body of a reply may be iterated in the event loop. Code of third parties may
        not, since it could block."""
        if not reply.suspends or not self._watches_sockets or not isinstance(found, tuple):
            return False
        return not self._host.registry.is_of_third_party("HTTP route", found[0].key)

    def plugin_of(self, found: RouteMatch | HttpProblem | None) -> str:
        """The plugin with a route; empty for the server's own."""
        route = found[0] if isinstance(found, tuple) else None
        return "" if route is None else self._host.registry.owner("HTTP route", route.key)

    def log(self, answered: Callable[[], AccessLogEntry]) -> None:
        if self.settings.access_log is not None:
            self.settings.access_log(answered())

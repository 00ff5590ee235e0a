"""What all requests to a server share: who is let in, what there is room for, the routes, and
the threads that answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial

from genai_host.api import Problem, RouteReply, RouteRequest
from genai_host.api.cancellation import Cancellation
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.http_routes import Found, HttpRoutes
from genai_host.observers import Watching
from genai_host.server.admission import Admission, Allowance, Room
from genai_host.server.answered import Answered
from genai_host.server.errands import Errands
from genai_host.server.forms import form
from genai_host.server.guard import Guard
from genai_host.server.heads import Head, Refused
from genai_host.server.health import Health
from genai_host.server.settings import ServerSettings
from genai_host.server.workers import Workers

_log = logging.getLogger(__name__)


class Shared:
    """Of one host, and one loop: `start` it there.

    make_routes   called in a thread: it loads the plugins
    is_draining   whether the server is to end, and waits for what is under way
    """

    def __init__(
        self, host: Host, settings: ServerSettings, make_routes: Callable[[], HttpRoutes]
    ) -> None:
        self.settings = settings
        self._host = host
        self.guard = Guard(settings)
        self.workers = Workers("genai-host-server")
        self.health = Health(host, self.workers)
        self.bodies = Room(settings.bodies)
        self.is_draining = False
        self._make_routes = make_routes
        self._asking = Admission(settings.at_once, settings.most_waiting)
        self._looking = Admission(settings.at_once, settings.most_waiting)
        self._allowance = Allowance(settings.rate)

    def start(self) -> asyncio.Future[HttpRoutes]:
        """Load the host, in a thread; requests that come before wait for it."""
        self.loop = asyncio.get_running_loop()
        self.errands = Errands(self.loop)
        self._loaded: asyncio.Future[HttpRoutes] = self.loop.create_future()
        self.workers.submit(self._load)
        return self._loaded

    def _load(self) -> None:
        try:
            routes = self._make_routes()
        except BaseException as error:  # noqa: BLE001 - whoever serves is told
            self.errands.put(self._loaded.set_exception, error)
        else:
            self.errands.put(self._loaded.set_result, routes)

    @property
    def lack(self) -> str:
        """Why nothing can be answered now; empty if it can."""
        if self.is_draining:
            return "stopping"
        is_loaded = self._loaded.done() and self._loaded.exception() is None
        return "" if is_loaded else "starting"

    async def routes(self) -> HttpRoutes:
        if not self._loaded.done():
            await asyncio.wait([self._loaded])
        if self._loaded.exception() is not None:
            raise Refused(Problem(503, "stopping", "the server could not start"))
        return self._loaded.result()

    def count(self, user: str, client: str) -> None:
        """Raises `Refused` for one who has sent more than they may."""
        who = f"user {user}" if self.settings.tokens else client
        self._allowance.take(who, time.monotonic())

    def place_for(self, head: Head) -> Admission:
        """What is only looked at does not wait for those who are answered at length."""
        return self._looking if head.is_reading or head.method == "DELETE" else self._asking

    def cancel(self, limits: Cancellation, error: GenaiError | None = None) -> None:
        """End what is done for a request: what that wakes may block."""
        with contextlib.suppress(RuntimeError):  # all has ended already
            self.workers.submit(partial(limits.cancel, error))

    def answer(self, request: RouteRequest, found: Found | Problem) -> RouteReply:
        """In a thread: the reply, whatever the function of the route does."""
        try:
            return self._loaded.result().answer(request, found)
        except BaseException:  # noqa: BLE001 - a plugin may raise `SystemExit`, too
            _log.exception("%s %s failed", request.method, request.path)
            problem = Problem(500, "internal", "this failed; the log of the server says why")
            return form(request.path, request.headers, problem)

    def watching(self, request: RouteRequest, found: Found | Problem) -> Watching:
        """In that thread, around all of it: observers are told."""
        route = "" if isinstance(found, Problem) else found[0].path
        return self._host.observers.request(request, route, self._host.clock)

    def log(self, answered: Callable[[], Answered]) -> None:
        if self.settings.log is not None:
            self.settings.log(answered())

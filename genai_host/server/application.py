"""The host as an ASGI application: what all requests share.

Each request is an `Exchange`. What answers it may block, so it runs in a thread; the loop
reads and sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from genai_host.api import Problem, RouteReply, RouteRequest
from genai_host.cancellation import Cancellation
from genai_host.errors import GenaiError, Interrupted
from genai_host.host import Host
from genai_host.http_routes import Found, HttpRoutes
from genai_host.server.admission import Admission, Allowance, Room
from genai_host.server.exchange import Exchange, Message, Receive, Send
from genai_host.server.forms import form
from genai_host.server.guard import Guard
from genai_host.server.heads import Head, Refused
from genai_host.server.health import Health
from genai_host.server.settings import ServerSettings
from genai_host.server.workers import Workers

_LAST = 1.0  # seconds in which those that are ended may say so
_LEAST = 0.1  # where there is hurry

_log = logging.getLogger(__name__)


class Application:
    """Of one host, and one loop: `start` it there.

    make_routes   called in a thread: it loads the plugins
    """

    def __init__(
        self, host: Host, settings: ServerSettings, make_routes: Callable[[], HttpRoutes]
    ) -> None:
        self.settings = settings
        self.guard = Guard(settings)
        self.workers = Workers("genai-host-server")
        self.health = Health(host, self.workers)
        self._make_routes = make_routes
        self._asking = Admission(settings.at_once, settings.most_waiting)
        self._looking = Admission(settings.at_once, settings.most_waiting)
        self.bodies = Room(settings.bodies)
        self._allowance = Allowance(settings.rate)
        self._under_way: set[Exchange] = set()
        self._idle = asyncio.Event()
        self._is_draining = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the server does not speak {scope['type']}")
        exchange = Exchange(self, scope, receive, send)
        self._under_way.add(exchange)
        try:
            await exchange.run()
        finally:
            self._under_way.discard(exchange)
            if not self._under_way:
                self._idle.set()

    def start(self) -> asyncio.Future[HttpRoutes]:
        """Load the host, in a thread; requests that come before wait for it."""
        self.loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[HttpRoutes] = self.loop.create_future()
        self.workers.submit(self._load)
        return self._loaded

    def _load(self) -> None:
        try:
            routes = self._make_routes()
        except BaseException as error:  # noqa: BLE001 - whoever serves is told
            self.from_thread(self._loaded.set_exception, error)
        else:
            self.from_thread(self._loaded.set_result, routes)

    @property
    def lack(self) -> str:
        """Why nothing can be answered now; empty if it can."""
        if self._is_draining:
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

    def from_thread(self, function: Callable[..., None], *given: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(function, *given)

    def log(self, exchange: Exchange) -> None:
        if self.settings.log is not None:
            self.settings.log(exchange.line())

    async def drain(self, hurry: asyncio.Event) -> bool:
        """Let requests go on for as long as the settings say, or until there is hurry; then
        end them, and wait a second for what they say to that. Whether all have ended."""
        self._is_draining = True
        await self._until_idle(self.settings.drain, hurry)
        stopped = Interrupted("the server is being stopped", hint="go on with it later")
        for exchange in list(self._under_way):
            exchange.interrupt(stopped)
        await self._until_idle(_LEAST if hurry.is_set() else _LAST, asyncio.Event())
        return not self._under_way

    async def _until_idle(self, seconds: float, hurry: asyncio.Event) -> None:
        if not self._under_way:
            return
        self._idle.clear()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._idle, hurry)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

"""The ASGI application of a host: its APIs and its page, under any ASGI server.

    uvicorn --factory genai_server:Application

    app = Application()
    api = FastAPI(lifespan=app.lifespan)  # or Starlette
    api.mount("/genai", app)

`Server` runs it, too. ASGI 3: https://asgi.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from genai_host.api import HttpProblem
from genai_host.errors import GenaiError, Interrupted
from genai_host.host import Host
from genai_host.serving.router import HttpRoutes
from genai_server.asgi import AsgiMessage, Receive, Send, send_problem
from genai_server.config_watcher import ConfigWatcher
from genai_server.request_handler import STOPPING, RequestHandler
from genai_server.routes import own_routes
from genai_server.settings import ServerSettings, settings_of
from genai_server.state import ServerState

_STORE_TIMEOUT = 60.0  # seconds in which another process may write to the store
_INTERRUPTED_SECONDS = 1.0  # seconds in which interrupted requests may send their error
_IMMEDIATE_SECONDS = 0.1  # the same for an immediate stop
_CONFIG_INTERVAL = 0.4  # seconds between two checks of the configuration; a change is seen twice
_DENIAL_RESPONSE = "websocket.http.response"
_NOT_STARTED = HttpProblem(503, "stopping", "the server could not start; see its log")

_log = logging.getLogger(__name__)


class Application:
    """ASGI application of a host, for one event loop at a time.

    It loads the host when the server starts it (the lifespan protocol), or at the first request,
    as Starlette does not start applications that are mounted. Without tokens, it answers clients
    on this machine only, and no requests that a proxy has forwarded.

    Args:
        host: The host. It stays open. None for one with the user's configuration and store,
            which is closed when the server stops.
        settings: Settings; None for those in the configuration of the host. Those of addresses,
            certificates, connections and request heads have no effect: they are the server's.

    Attributes:
        state: State of the requests in progress; None unless it has started.
    """

    def __init__(self, host: Host | None = None, settings: ServerSettings | None = None) -> None:
        self._host = host
        self._settings = settings
        self._lock = threading.Lock()
        self._resources = contextlib.ExitStack()
        self.state: ServerState | None = None
        self._ended_in: asyncio.AbstractEventLoop | None = None
        self._handlers: set[RequestHandler] = set()
        self._idle = asyncio.Event()

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._deny(scope, receive, send)
        else:
            raise RuntimeError(f"unsupported ASGI scope type {scope['type']!r}")

    def start(self) -> asyncio.Future[HttpRoutes]:
        """Load the host in a thread. The result has its routes, or the exception.

        Raises:
            ConfigurationError: The configuration is invalid.
        """
        return asyncio.shield(self._started().loaded)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Load the host, and drain and close it at the end. For the application that this one is
        mounted in: `FastAPI(lifespan=mounted.lifespan)`.

        Raises:
            ConfigurationError: The configuration is invalid.
        """
        has_ended = True
        try:
            await self.start()
            yield
            has_ended = await self.drain(asyncio.Event())
        finally:
            await asyncio.to_thread(self.close, _INTERRUPTED_SECONDS if has_ended else 0.0)

    async def drain(self, immediate: asyncio.Event) -> bool:
        """Wait for the requests in progress, at most for the graceful timeout or until `immediate`
        is set, then interrupt the remaining ones. Later requests get status 503.

        Returns:
            Whether all requests have ended.
        """
        assert self.state is not None
        self.state.is_draining = True
        await self._until_idle(self.state.settings.graceful_timeout, immediate)
        stopped = Interrupted(
            "the server is shutting down", hint="resume the turn later, or send the request again"
        )
        for handler in list(self._handlers):
            handler.interrupt(stopped)
        await self._until_idle(
            _IMMEDIATE_SECONDS if immediate.is_set() else _INTERRUPTED_SECONDS, asyncio.Event()
        )
        self._ended_in = self.state.loop
        hanging = list(self._handlers)
        for handler in hanging:
            handler.abandon()
        await self._until_idle(_IMMEDIATE_SECONDS, asyncio.Event())
        return not hanging

    def close(self, seconds: float = _INTERRUPTED_SECONDS) -> None:
        """Release what was opened. The event loop may have ended.

        Args:
            seconds: Timeout of the threads that still run.
        """
        state = self.state
        if state is not None:
            state.workers.close(seconds)
        with self._lock:
            resources, self._resources = self._resources, contextlib.ExitStack()
        resources.close()
        if self.state is state:
            self.state = None
        atexit.unregister(self.close)

    def _started(self) -> ServerState:
        """The state for the running event loop."""
        loop = asyncio.get_running_loop()
        if self.state is not None:
            if self.state.loop is loop:
                return self.state
            if not self.state.loop.is_closed():
                raise RuntimeError("the application is used in another event loop")
            self.close()  # a test client has a loop for each request
        try:
            host = self._host or self._open()
            settings = self._settings or ServerSettings(**settings_of(host.config, host.keys))
            state = ServerState(host, settings, partial(self._load, host, self._resources))
            loaded = state.start()
        except BaseException:
            self.close()
            raise
        self._ended_in = None
        self._idle = asyncio.Event()
        self.state = state
        loaded.add_done_callback(partial(self._watch_config, state, ConfigWatcher(host)))
        return state

    def _open(self) -> Host:
        """Open the host of the user's configuration."""
        from genai_host.store import Store  # importing it is slow

        host = Host()
        server = host.config.server
        # the server may have started other processes, which receive the client's next request
        server = server._replace(workers=max(2, server.workers))
        host.config = host.config._replace(server=server)
        if host.config.record:
            where = host.config.database
            file = os.path.expanduser(where) if where else None
            host.store = self._resources.enter_context(Store(file, patience=_STORE_TIMEOUT))
        self._resources.enter_context(host)
        atexit.register(self.close)  # for servers and mounts without lifespan
        return host

    def _load(self, host: Host, resources: contextlib.ExitStack) -> HttpRoutes:
        routes = HttpRoutes(host, own_routes())
        with self._lock:
            if self._resources is not resources:
                raise Interrupted("the application was closed while it loaded the host")
            resources.callback(routes.close)
        routes.start()
        return routes

    def _watch_config(
        self, state: ServerState, watcher: ConfigWatcher, loaded: asyncio.Future[HttpRoutes]
    ) -> None:
        """Look for changes of the configuration from now on, in threads."""
        if self.state is not state or loaded.cancelled() or loaded.exception() is not None:
            return
        with contextlib.suppress(RuntimeError):  # no thread is free; try again next time
            state.workers.submit(watcher.check)
        state.loop.call_later(_CONFIG_INTERVAL, self._watch_config, state, watcher, loaded)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
                phase = "shutdown"
        except Exception as error:  # noqa: BLE001 - the server shows it
            if not isinstance(error, GenaiError):
                _log.exception("the %s of the application failed", phase)
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _handle(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        if self._ended_in is asyncio.get_running_loop():
            await send_problem(send, STOPPING)
            return
        try:
            state = self._started()
        except GenaiError as error:
            _log.warning("the host could not be opened: %s", error)
            await send_problem(send, _NOT_STARTED)
            return
        handler = RequestHandler(state, scope, receive, send)
        self._handlers.add(handler)
        try:
            await handler.run()
        finally:
            self._handlers.discard(handler)
            if not self._handlers:
                self._idle.set()

    async def _deny(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Answer a WebSocket handshake as the request that it is, so that the client learns why
        there is no WebSocket; without the extension for that, the server answers 403."""
        await receive()
        if _DENIAL_RESPONSE not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close"})
            return

        async def send_rejection(message: AsgiMessage) -> None:
            await send({**message, "type": f"websocket.{message['type']}"})

        async def receive_further() -> AsgiMessage:
            message = await receive()
            return {**message, "type": "http.disconnect"}

        scheme = "https" if scope.get("scheme") == "wss" else "http"
        request = {**scope, "type": "http", "method": "GET", "scheme": scheme}
        await self._handle(request, receive_further, send_rejection)

    async def _until_idle(self, seconds: float, immediate: asyncio.Event) -> None:
        if not self._handlers:
            return
        self._idle.clear()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._idle, immediate)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

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
import os
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from genai_host.errors import GenaiError, Interrupted
from genai_host.host import Host
from genai_host.serving.router import HttpRoutes
from genai_server.config_watcher import ConfigWatcher
from genai_server.request_handler import AsgiMessage, Receive, RequestHandler, Send
from genai_server.routes import own_routes
from genai_server.settings import ServerSettings, settings_of
from genai_server.state import ServerState

_PATIENCE = 60.0  # seconds in which another process may write to the store
_LAST = 1.0  # seconds in which interrupted requests may send their error
_LEAST = 0.1  # the same for an immediate stop
_LOOK = 0.4  # seconds between two checks of the configuration; a change is seen twice
_REJECTED = "websocket.http.response"


class Application:
    """ASGI application of a host, for one event loop.

    It loads the host when the server starts it (the lifespan protocol), or at the first request,
    as Starlette does not start applications that are mounted. Without tokens, it answers clients
    on this machine only.

    Args:
        host: The host. It stays open. None for one with the user's configuration and store,
            which is closed when the server stops.
        settings: Settings. Those of addresses, certificates, connections and request heads have no
            effect: they are the server's. None for the defaults, or the configured ones without
            `host`.

    Attributes:
        state: State of the requests in progress; None unless it has started.
    """

    def __init__(self, host: Host | None = None, settings: ServerSettings | None = None) -> None:
        self._host = host
        self._settings = settings
        self._opened = contextlib.ExitStack()
        self.state: ServerState | None = None
        self._routes: list[HttpRoutes] = []
        self._loading: asyncio.Future[HttpRoutes] | None = None
        self._look: asyncio.TimerHandle | None = None
        self._under_way: set[RequestHandler] = set()
        self._idle = asyncio.Event()

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._reject(scope, receive, send)
        else:
            raise RuntimeError(f"unsupported ASGI scope type {scope['type']!r}")

    def start(self) -> asyncio.Future[HttpRoutes]:
        """Load the host in a thread. The result has its routes, or the exception.

        Raises:
            ConfigurationError: The configuration is invalid.
        """
        loop = asyncio.get_running_loop()
        if self.state is not None and self._loading is not None:
            if self.state.loop is loop:
                return self._loading
            if not self.state.loop.is_closed():
                raise RuntimeError("the application is used in another event loop")
            self.close()  # a test client has a loop for each request
        host = self._host or self._open()
        self.state = ServerState(
            host, self._settings or ServerSettings(), partial(self._load, host)
        )
        self._loading = self.state.start()
        self._loading.add_done_callback(partial(self._watch, self.state, ConfigWatcher(host)))
        return self._loading

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
            await asyncio.to_thread(self.close, _LAST if has_ended else 0.0)

    async def drain(self, hurry: asyncio.Event) -> bool:
        """Wait for the requests in progress, at most for the graceful timeout or until `hurry` is
        set, then interrupt the remaining ones. Returns whether all requests have ended."""
        assert self.state is not None
        self.state.is_draining = True
        await self._until_idle(self.state.settings.graceful_timeout, hurry)
        stopped = Interrupted("the server is shutting down", hint="resume it later")
        for handler in list(self._under_way):
            handler.interrupt(stopped)
        await self._until_idle(_LEAST if hurry.is_set() else _LAST, asyncio.Event())
        hanging = list(self._under_way)
        for handler in hanging:
            handler.abandon()
        await self._until_idle(_LEAST, asyncio.Event())
        return not hanging

    def close(self, seconds: float = _LAST) -> None:
        """Release what `start` has opened; the event loop may have ended.

        Args:
            seconds: Timeout of the threads that still run.
        """
        if self._look is not None:
            self._look.cancel()
        if self.state is not None:
            self.state.workers.close(seconds)
            self.state = None
        while self._routes:
            self._routes.pop().close()
        self._opened.close()
        atexit.unregister(self.close)

    def _open(self) -> Host:
        """Open the host of the user's configuration."""
        from genai_host.store import Store  # importing it is slow

        host = Host()
        server = host.config.server
        # the server may have started other processes, which receive the client's next request
        server = server._replace(workers=max(2, server.workers))
        host.config = host.config._replace(server=server)
        self._settings = self._settings or ServerSettings(**settings_of(host.config, host.keys))
        if host.config.record:
            where = host.config.database
            file = os.path.expanduser(where) if where else None
            host.store = self._opened.enter_context(Store(file, patience=_PATIENCE))
        self._opened.enter_context(host)
        atexit.register(self.close)  # for servers and mounts without lifespan
        return host

    def _load(self, host: Host) -> HttpRoutes:
        routes = HttpRoutes(host, own_routes())
        self._routes.append(routes)
        routes.start()
        return routes

    def _watch(
        self, state: ServerState, watcher: ConfigWatcher, loaded: asyncio.Future[HttpRoutes]
    ) -> None:
        """Look for changes of the configuration from now on, in threads."""
        if loaded.cancelled() or loaded.exception() is not None:
            return
        with contextlib.suppress(RuntimeError):  # no thread is free; try again next time
            state.workers.submit(watcher.look)
        self._look = state.loop.call_later(_LOOK, self._watch, state, watcher, loaded)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with contextlib.AsyncExitStack() as life:
            try:
                await life.enter_async_context(self.lifespan())
            except GenaiError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _handle(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        self.start()
        assert self.state is not None
        handler = RequestHandler(self.state, scope, receive, send)
        self._under_way.add(handler)
        try:
            await handler.run()
        finally:
            self._under_way.discard(handler)
            if not self._under_way:
                self._idle.set()

    async def _reject(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Answer a WebSocket handshake as the request that it is, so that the client learns why
        there is no WebSocket; without the extension for that, the server answers 403."""
        await receive()
        if _REJECTED not in (scope.get("extensions") or {}):
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

    async def _until_idle(self, seconds: float, hurry: asyncio.Event) -> None:
        if not self._under_way:
            return
        self._idle.clear()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._idle, hurry)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

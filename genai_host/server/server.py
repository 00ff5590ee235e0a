"""A server of a host: uvicorn, with what it does when it begins and ends.

with Server(host, port=0) as server:      # in a thread
    requests.get(f"{server.url}/health")

Server(host).run()                        # in this one, until a signal comes
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from typing_extensions import Self

from genai_host.errors import ConfigurationError
from genai_host.host import Host
from genai_host.http_routes import HttpRoutes
from genai_host.server.application import Application
from genai_host.server.connection import Connection
from genai_host.server.forms import form
from genai_host.server.routes import own_routes
from genai_host.server.settings import ServerSettings
from genai_host.server.shared import Shared

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BACKLOG = 2048
_IDLE = 30  # seconds that a connection without a request is kept
_FLUSH = 1.0  # seconds for what is still to be sent in the end


class Server:
    """Listens from when it is entered, or run, until it is left, or a signal comes. The
    host stays open.

    given   as `ServerSettings` takes it

    Raises `ConfigurationError` for what does not fit, and if it cannot listen there.
    """

    def __init__(self, host: Host, **given: Any) -> None:
        self.settings = ServerSettings(**given)
        _check_certificate(self.settings)
        self._host = host
        self._port = self.settings.port
        self._thread: threading.Thread | None = None
        self._uvicorn: _Uvicorn | None = None
        self._failure: BaseException | None = None

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end. Of addresses that stand for all of this
        machine's, one that leads to it."""
        name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(  # noqa: S104
            self.settings.bind, self.settings.bind
        )
        name = f"[{name}]" if ":" in name else name
        return f"{self.settings.scheme}://{name}:{self._port}"

    def run(self, listening: Callable[[], None] = lambda: None) -> None:
        """Serve in this thread until SIGINT or SIGTERM comes, then let requests end; a second
        one ends them at once. Raises what kept the host from being loaded.

        listening   called once it does
        """
        self._serve(self._listen(), listening)
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        listener = self._listen()
        began = threading.Event()

        def serve() -> None:
            try:
                self._serve(listener, began.set)
            finally:
                began.set()

        self._thread = threading.Thread(target=serve, name="genai-host-server", daemon=True)
        self._thread.start()
        began.wait()
        return self

    def __exit__(self, *exc: object) -> None:
        """Raises what kept the host from being loaded."""
        assert self._thread is not None
        if self._uvicorn is not None:
            self._uvicorn.stop()
        self._thread.join()
        if self._failure is not None and exc[0] is None:
            raise self._failure

    def stop(self) -> None:
        """Begin to end it, from any thread; a second time: at once."""
        if self._uvicorn is not None:
            self._uvicorn.stop()

    def _listen(self) -> socket.socket:
        bind, port = self.settings.bind, self.settings.port
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        # where it is said to be TCP, asyncio has it send at once: else a second piece of a reply
        # waits until the client has acknowledged the first (Nagle's algorithm)
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":  # elsewhere, others could listen there as well
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((bind.strip("[]"), port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise ConfigurationError(
                f"cannot listen at {bind}, port {port}: {_reason(error)}",
                hint="--port 0 takes any that is free",
            ) from error
        self._port = listener.getsockname()[1]
        return listener

    def _serve(self, listener: socket.socket, listening: Callable[[], None]) -> None:
        made: list[HttpRoutes] = []

        def make_routes() -> HttpRoutes:
            made.append(HttpRoutes(self._host, own_routes(), form))
            return made[0]

        shared = Shared(self._host, self.settings, make_routes)
        server = self._uvicorn = _Uvicorn(shared, listening)
        try:
            with _signals(server), listener:
                asyncio.run(server.serve([listener]))
            self._failure = server.failure
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failure = error
        finally:
            shared.workers.close(_FLUSH if server.all_ended else 0.0)
            for routes in made:
                routes.close()


class _Uvicorn(uvicorn.Server):
    """Waits for an event, and not for the time to pass."""

    def __init__(self, shared: Shared, listening: Callable[[], None]) -> None:
        settings = shared.settings
        self._application = Application(shared)
        super().__init__(
            uvicorn.Config(
                self._application,
                http=type("Connection", (Connection,), {"settings": settings}),
                ws="none",
                loop="asyncio",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_IDLE,
                ssl_certfile=settings.certfile,
                ssl_keyfile=settings.keyfile,
            )
        )
        self.failure: BaseException | None = None
        self.all_ended = True
        self._shared = shared
        self._listening = listening
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self, *_: Any) -> None:
        """From any thread, and from handlers of signals."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        (self._hurry if self._ending.is_set() else self._ending).set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are ours: after uvicorn's, the process would end by the signal."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending, self._hurry = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._shared.start().add_done_callback(self._loaded)
        self._listening()

    def _loaded(self, loaded: asyncio.Future[Any]) -> None:
        self.failure = loaded.exception()
        if self.failure is not None:
            self._ending.set()

    async def main_loop(self) -> None:
        while not self._ending.is_set():
            await self.on_tick(0)  # the date that replies have
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        connections = self.server_state.connections
        for connection in list(connections):
            connection.shutdown()
        self.all_ended = await self._application.drain(self._hurry)
        until = self._loop_time() + (_FLUSH if self.all_ended else 0.0)
        while connections and self._loop_time() < until:
            await asyncio.sleep(0.01)
        for connection in list(connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()


@contextlib.contextmanager
def _signals(server: _Uvicorn) -> Iterator[None]:
    """In the main thread alone: others have none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, server.stop) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _check_certificate(settings: ServerSettings) -> None:
    if settings.certfile is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certfile, settings.keyfile)
    except OSError as error:  # of which errors of TLS are
        raise ConfigurationError(
            f"{settings.certfile} has no certificate that can be used, with its key: {error}",
            hint="--certfile has the certificates in PEM, --keyfile the key of the first",
        ) from error


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)

"""The server: starting, draining and stopping uvicorn.

    with Server(host, port=0) as server:      # in a thread
        requests.get(f"{server.url}/health")

`Server(host).run()` serves in this thread, until a signal arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import uvicorn

from genai_host.errors import ConfigurationError
from genai_host.host import Host
from genai_server.application import Application
from genai_server.connection import RESERVE, ServerConnection
from genai_server.listener import SharedListener, TlsListener, listen, url_of
from genai_server.settings import ServerSettings

_log = logging.getLogger(__name__)


_DATE_INTERVAL = 0.5  # seconds between updates of the `date` header
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_KEEPALIVE_SECONDS = 30  # seconds until an idle connection is closed
_LINGER_SECONDS = 0.2  # seconds in which an idle connection may still send a request when stopping
_HAND_OVER_SECONDS = 5.0  # the same if other processes continue; clients must not notice
_FLUSH_SECONDS = 1.0  # seconds to send the remaining data at the end


class Server:
    """Server of a host. It listens while its context or `run` is active. The host stays open.

    Args:
        host: The host.
        listener: Socket shared with other processes. This process then accepts connections once its
            host is loaded, and each signal stops it gracefully. None to open one for the configured
            address.
        settings: Settings, as for `ServerSettings`.

    Raises:
        ConfigurationError: A setting is invalid, or the address cannot be used.
    """

    def __init__(self, host: Host, listener: SharedListener | None = None, **settings: Any) -> None:
        self.settings = ServerSettings(**settings)
        _check_certificate(self.settings)
        self._host = host
        self._listener = listener
        self._port = self.settings.port
        self._thread: threading.Thread | None = None
        self._uvicorn: _Uvicorn | None = None
        self._failure: BaseException | None = None

    @property
    def url(self) -> str:
        """URL of the server, without a trailing slash; a loopback address for a wildcard
        address."""
        return url_of(self.settings.bind, self._port, self.settings.scheme)

    def run(self, listening: Callable[[], None] = lambda: None) -> None:
        """Serve in this thread until SIGINT or SIGTERM, then drain. A second signal stops
        immediately.

        Raises:
            BaseException: The host could not be loaded.
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
        """Stop the server. Raises an error if the host could not be loaded."""
        assert self._thread is not None
        if self._uvicorn is not None:
            self._uvicorn.stop()
        self._thread.join()
        if self._failure is not None and exc[0] is None:
            raise self._failure

    def stop(self) -> None:
        """Stop gracefully, from any thread; a second call stops immediately."""
        if self._uvicorn is not None:
            self._uvicorn.stop()

    def drain(self) -> None:
        """Stop gracefully, from any thread; further calls have no effect."""
        if self._uvicorn is not None:
            self._uvicorn.drain()

    def stop_immediately(self) -> None:
        """Stop immediately, from any thread."""
        if self._uvicorn is not None:
            self._uvicorn.stop_immediately()

    def hand_over(self) -> None:
        """Stop gracefully, from any thread, while other processes continue to listen. Idle
        connections get a few seconds to send a last request."""
        if self._uvicorn is not None:
            self._uvicorn.hand_over()

    def _listen(self) -> socket.socket:
        listener = self._listener
        if listener is None:
            listener = SharedListener(listen(self.settings.bind, self.settings.port).detach())
        self._port = listener.getsockname()[1]
        return listener

    def _serve(self, listener: socket.socket, listening: Callable[[], None]) -> None:
        application = Application(self._host, self.settings)
        is_shared = self._listener is not None
        server = self._uvicorn = _Uvicorn(
            application, self.settings, listening, is_shared=is_shared
        )
        try:
            with _signals(server.drain if is_shared else server.stop), listener:
                asyncio.run(server.serve([listener]))
            self._failure = server.failure
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failure = error
        finally:
            application.close(_FLUSH_SECONDS if server.all_ended else 0.0)


class _Uvicorn(uvicorn.Server):
    """Uvicorn's server, which waits for an event instead of polling.

    Args:
        is_shared: Whether other processes use the same socket.
    """

    def __init__(
        self,
        application: Application,
        settings: ServerSettings,
        listening: Callable[[], None],
        *,
        is_shared: bool,
    ) -> None:
        self._application = application
        self._settings = settings
        self._connection: Any = type(
            "Connection",
            (ServerConnection,),
            {
                "settings": settings,
                "max_connections": settings.max_connections,
                "reserve": [],
                "handshakes": {},
                "last_logged": [-math.inf],
            },
        )
        super().__init__(
            uvicorn.Config(
                self._application,
                http=self._connection,
                backlog=SharedListener.ACCEPTS_SHARED
                if is_shared
                else SharedListener.ACCEPTS_ALONE,
                ws="none",
                loop="asyncio",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEPALIVE_SECONDS,
                ssl_certfile=settings.certfile or None,
                ssl_keyfile=settings.keyfile or None,
            )
        )
        self.failure: BaseException | None = None
        self.all_ended = True
        self._listening = listening
        self._is_shared = is_shared
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self, *_: Any) -> None:
        """Like the following methods, this may be called from any thread and in signal handlers."""
        self._in_loop(lambda: (self._immediate if self._ending.is_set() else self._ending).set())

    def drain(self, *_: Any) -> None:
        self._in_loop(lambda: self._ending.set())

    def stop_immediately(self) -> None:
        def end() -> None:
            self._ending.set()
            self._immediate.set()

        self._in_loop(end)

    def hand_over(self) -> None:
        self._in_loop(lambda: None)

    def _in_loop(self, what: Callable[[], None]) -> None:
        def do() -> None:
            what()
            self._stopping.set()

        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(do)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Disable uvicorn's signal handlers: with them, the process would end by the signal."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending, self._immediate = asyncio.Event(), asyncio.Event()
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        loaded = self._application.start()
        loaded.add_done_callback(self._loaded)
        if self._is_shared:  # until then, other processes accept the connections
            await asyncio.wait([loaded])
            self.should_exit = loaded.exception() is not None
            if self.should_exit:
                return
        self.servers = [await self._accept_from(each) for each in sockets or ()]
        self.started = True
        self._listening()

    async def _accept_from(self, listener: socket.socket) -> asyncio.Server:
        """As `uvicorn.Server.startup`, but with limits on TLS handshakes."""
        loop, connections = asyncio.get_running_loop(), self.server_state.connections
        limits: dict[str, Any] = {}
        if self.config.ssl is not None:
            most = self._connection.max_connections
            listener = TlsListener(
                listener.detach(),
                lambda: max(RESERVE, most - len(connections)),
                lambda: self._connection.log_full(loop.time()),
            )
            self._connection.handshakes = listener.handshakes
            limits["ssl_handshake_timeout"] = self._settings.head_seconds
        return await loop.create_server(
            lambda: self._connection(self.config, self.server_state, self.lifespan.state),
            sock=listener,
            ssl=self.config.ssl,
            backlog=self.config.backlog,
            **limits,
        )

    def _loaded(self, loaded: asyncio.Future[Any]) -> None:
        self.failure = loaded.exception()
        if self.failure is not None:
            self._ending.set()
            self._stopping.set()

    async def main_loop(self) -> None:
        while not self._stopping.is_set():
            await self.on_tick(0)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _DATE_INTERVAL)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        connections = self.server_state.connections
        await self._close_idle_connections()
        for connection in list(connections):
            connection.shutdown()
        self.all_ended = await self._application.drain(self._immediate)
        until = self._loop_time() + (_FLUSH_SECONDS if self.all_ended else 0.0)
        while connections and self._loop_time() < until:
            await asyncio.sleep(0.01)
        for connection in list(connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _close_idle_connections(self) -> None:
        """Close the listener, and answer requests that may be on their way for a while. Each reply
        announces the end of its connection."""
        await asyncio.sleep(0)  # accepts the connections that are already established
        for server in self.servers:
            server.close()
        self._connection.is_draining = True
        connections: Any = self.server_state.connections
        for connection in list(connections):
            connection.close_after_reply()
        began = self._loop_time()
        while any(each.is_idle for each in connections) and not self._immediate.is_set():
            seconds = _LINGER_SECONDS if self._ending.is_set() else _HAND_OVER_SECONDS
            if self._loop_time() - began >= min(seconds, self._settings.graceful_timeout):
                break
            await asyncio.sleep(0.02)

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()


@contextlib.contextmanager
def _signals(end: Callable[..., None]) -> Iterator[None]:
    """Handle signals; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, end) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _check_certificate(settings: ServerSettings) -> None:
    if not settings.certfile:
        return
    try:
        for file in filter(os.path.exists, (settings.certfile, settings.keyfile)):
            if not os.path.isfile(file):  # OpenSSL would wait for the writer of a pipe
                raise OSError(f"{file} is not a regular file")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.certfile, settings.keyfile or None
        )
    except OSError as error:  # TLS errors are among these
        raise ConfigurationError(
            f"{settings.certfile} has no usable certificate with its key: {error}",
            hint="--certfile requires certificates in PEM, --keyfile the key of the first one",
        ) from error

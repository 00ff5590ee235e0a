"""The server: starting, draining and stopping uvicorn; watching the configuration.

    with Server(host, port=0) as server:      # in a thread
        requests.get(f"{server.url}/health")

    Server(host).run()                        # in this thread, until a signal arrives

`ConfigWatcher` detects changes made by other workers or by a user: of models, defaults and provider
instances in the configuration, and in the file of keys.
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
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import uvicorn

from genai_host.config import Config, read_config
from genai_host.errors import ConfigurationError, GenaiError
from genai_host.host import Host
from genai_host.providers.instance import ProviderInstance
from genai_host.secrets.backends import KeyFile, StoredKeys
from genai_host.server.application import Application
from genai_host.server.connection import RESERVE, ServerConnection
from genai_host.server.listener import SharedListener, TlsListener, listen, url_of
from genai_host.server.routes import own_routes
from genai_host.server.settings import ServerSettings
from genai_host.server.state import ServerState
from genai_host.serving.router import HttpRoutes

_log = logging.getLogger(__name__)


class ConfigWatcher:
    """Applies changes of the configuration of a host. Other settings take effect at the next
    start."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._looking = threading.Lock()
        self._seen: Any = None
        self._taken_up: Any = None
        self._config: Config = host.config
        self._keys: StoredKeys | None = None
        self._instances: dict[str, ProviderInstance] = {}

    def look(self) -> None:
        """Check for changes. Called periodically, in any thread; reads only two file times usually.

        A change is applied when it is seen the second time, because some programs write a file in
        several steps. An invalid configuration is logged once and changes nothing.
        """
        if not self._looking.acquire(blocking=False):
            return
        try:
            stamps = [_stamp(path) for path in (self._host.config_file, self._host.keys.path)]
            before, self._seen = self._seen, stamps
            if stamps == before and stamps != self._taken_up:
                self._taken_up = stamps
                self._take_up()
        except GenaiError as error:
            _log.warning("the configuration was not reloaded: %s", error)
        finally:
            self._looking.release()

    def _take_up(self) -> None:
        config = read_config() if self._host.config_file else self._config
        keys = KeyFile(self._host.keys.path).read()
        if config != self._config:
            self._host.reconfigure(config)
            self._configure(config)
        if self._keys is not None:
            self._reopen(_different(self._keys, keys))
        self._config, self._keys = config, keys
        self._instances = {each.name: each for each in self._host.instances}

    def _configure(self, config: Config) -> None:
        """Configure the changed instances, except those that this process itself changed in the
        file."""
        instances, before = self._host.instances, self._config.providers
        for name, wanted in config.providers.items():
            is_there = name in instances and instances[name].config == wanted
            if before.get(name) != wanted and not is_there:
                instances.configure(name, wanted)
        for name in self._config.providers:
            if name not in config.providers and name in instances:
                instances.configure(name, None)

    def _reopen(self, names: Iterable[str]) -> None:
        """Reopen the instances whose keys changed, unless they were opened with the new keys."""
        instances = self._host.instances
        for name in names:
            if name in instances and instances[name] is self._instances.get(name):
                instances.reopen(name)


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Identity of a file's content; None if there is no file. Files are replaced, not
    overwritten."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _different(before: StoredKeys, now: StoredKeys) -> list[str]:
    return [name for name in {*before, *now} if before.get(name) != now.get(name)]


_LOOK = 0.4
"""Seconds between two checks of the configuration. A change is seen twice within a second."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IDLE = 30  # seconds until an idle connection is closed
_LINGER = 0.2  # seconds in which an idle connection may still send a request when stopping
_HAND_OVER = 5.0  # the same if other processes continue; clients must not notice
_FLUSH = 1.0  # seconds to send the remaining data at the end


class Server:
    """Server of a host. It listens while its context or `run` is active. The host stays open.

    Args:
        host: The host.
        listener: Socket shared with other processes. This process then accepts connections once its
            host is loaded, and each signal stops it gracefully. None to open one for the configured
            address.
        given: Settings, as for `ServerSettings`.

    Raises:
        ConfigurationError: A setting is invalid, or the address cannot be used.
    """

    def __init__(self, host: Host, listener: SharedListener | None = None, **given: Any) -> None:
        self.settings = ServerSettings(**given)
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

        Args:
            listening: Called once the server listens.

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

    def end_at_once(self) -> None:
        """Stop immediately, from any thread."""
        if self._uvicorn is not None:
            self._uvicorn.end_at_once()

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
        made: list[HttpRoutes] = []

        def make_routes() -> HttpRoutes:
            made.append(HttpRoutes(self._host, own_routes()))
            made[-1].start()
            return made[0]

        shared = ServerState(self._host, self.settings, make_routes)
        is_shared = self._listener is not None
        watcher = ConfigWatcher(self._host)
        server = self._uvicorn = _Uvicorn(shared, listening, watcher, is_shared=is_shared)
        try:
            with _signals(server.drain if is_shared else server.stop), listener:
                asyncio.run(server.serve([listener]))
            self._failure = server.failure
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failure = error
        finally:
            shared.workers.close(_FLUSH if server.all_ended else 0.0)
            for routes in made:
                routes.close()


class _Uvicorn(uvicorn.Server):
    """Uvicorn's server, which waits for an event instead of polling.

    Args:
        watcher: Detects changes of the configuration.
        is_shared: Whether other processes use the same socket.
    """

    def __init__(
        self,
        shared: ServerState,
        listening: Callable[[], None],
        watcher: ConfigWatcher,
        *,
        is_shared: bool,
    ) -> None:
        settings = shared.settings
        self._application = Application(shared)
        self._connection: Any = type(
            "Connection",
            (ServerConnection,),
            {
                "settings": settings,
                "most": settings.most_connections,
                "reserve": [],
                "handshakes": {},
                "logged": [-math.inf],
            },
        )
        super().__init__(
            uvicorn.Config(
                self._application,
                http=self._connection,
                backlog=SharedListener.AT_ONCE if is_shared else SharedListener.ALONE,
                ws="none",
                loop="asyncio",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_IDLE,
                ssl_certfile=settings.certfile or None,
                ssl_keyfile=settings.keyfile or None,
            )
        )
        self.failure: BaseException | None = None
        self.all_ended = True
        self._shared = shared
        self._listening = listening
        self._watcher = watcher
        self._is_shared = is_shared
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self, *_: Any) -> None:
        """Like the following methods, this may be called from any thread and in signal handlers."""
        self._do(lambda: (self._hurry if self._ending.is_set() else self._ending).set())

    def drain(self, *_: Any) -> None:
        self._do(lambda: self._ending.set())

    def end_at_once(self) -> None:
        def end() -> None:
            self._ending.set()
            self._hurry.set()

        self._do(end)

    def hand_over(self) -> None:
        self._do(lambda: None)

    def _do(self, what: Callable[[], None]) -> None:
        def do() -> None:
            what()
            self._leaving.set()

        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(do)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Disable uvicorn's signal handlers: with them, the process would end by the signal."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending, self._hurry = asyncio.Event(), asyncio.Event()
        self._leaving = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        loaded = self._host_loaded = self._shared.start()
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
            most = self._connection.most
            listener = TlsListener(
                listener.detach(),
                lambda: max(RESERVE, most - len(connections)),
                lambda: self._connection.log_full(loop.time()),
            )
            self._connection.handshakes = listener.handshakes
            limits["ssl_handshake_timeout"] = self._shared.settings.head_seconds
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
            self._leaving.set()

    async def main_loop(self) -> None:
        while not self._leaving.is_set():
            await self.on_tick(0)  # the `date` header of replies
            if self._host_loaded.done():
                with contextlib.suppress(RuntimeError):  # no thread is free; try again next time
                    self._shared.workers.submit(self._watcher.look)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), _LOOK)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        connections = self.server_state.connections
        await self._leave_clients()
        for connection in list(connections):
            connection.shutdown()
        self.all_ended = await self._application.drain(self._hurry)
        until = self._loop_time() + (_FLUSH if self.all_ended else 0.0)
        while connections and self._loop_time() < until:
            await asyncio.sleep(0.01)
        for connection in list(connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _leave_clients(self) -> None:
        """Close the listener, and answer requests that may be on their way for a while. Each reply
        announces the end of its connection."""
        await asyncio.sleep(0)  # accepts the connections that are already established
        for server in self.servers:
            server.close()
        self._connection.is_last = True
        connections: Any = self.server_state.connections
        for connection in list(connections):
            connection.end_after_this()
        began = self._loop_time()
        while any(each.is_idle for each in connections) and not self._hurry.is_set():
            seconds = _LINGER if self._ending.is_set() else _HAND_OVER
            if self._loop_time() - began >= min(seconds, self._shared.settings.graceful_timeout):
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

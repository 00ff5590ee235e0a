"""HTTP connections and their ownership.

requests handles proxies and certificates, and urllib3 pools connections. Here each connection
belongs to one exchange while it is out of its pool, so that another thread can shut it down without
affecting other calls.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from attrs import frozen
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH, get_environ_proxies, select_proxy
from urllib3.exceptions import HTTPError, ProxyError
from urllib3.util import parse_url

from genai_host.errors import ConfigurationError
from genai_host.util.addresses import is_here

_KEPT_CONNECTIONS = 256


class HttpExchange:
    """One request and its reply, and the connection that they use.

    `cut` shuts the connection down from any thread, which ends a blocked read. Before there is a
    connection, it takes effect when there is one. After the connection has returned to its pool, a
    late `cut` has no effect, since another call may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False
        self.is_cut = False

    def hold(self, sock: socket.socket | None) -> None:
        with self._lock:
            self._socket = sock
            if self.is_cut:
                self._shut_down()

    def cut(self) -> None:
        with self._lock:
            if not self._over:
                self.is_cut = True
                self._shut_down()

    def end(self) -> None:
        """Release the connection."""
        with self._lock:
            self._over = True
            self._socket = None

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # already closed
                # unbound: SSLSocket.shutdown would remove TLS from a concurrent read
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _OwnedConnection:
    """A connection that belongs to an exchange while it is in use.

    Attributes:
        is_new: Whether this exchange is its first.
    """

    exchange: HttpExchange | None = None
    is_new: bool = True
    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # mixed into a connection
        if self.exchange is not None:
            self.exchange.hold(self.sock)


class _HttpConnection(_OwnedConnection, urllib3.connection.HTTPConnection):
    pass


class _HttpsConnection(_OwnedConnection, urllib3.connection.HTTPSConnection):
    pass


def _is_refused_tunnel(error: BaseException) -> bool:
    """Whether a proxy refused a tunnel; TLS starts after the tunnel."""
    return isinstance(error, OSError | HTTPException) and not isinstance(error, ssl.SSLError)


class _LendingPool:
    """A pool that lends each connection to one exchange."""

    def lend(self, exchange: HttpExchange, seconds: float) -> Any:
        """An idle connection that is still open, or a new one.

        Args:
            exchange: The exchange.
            seconds: Timeout for a new connection.

        Raises:
            OSError: The connection failed.
            ProxyError: The proxy failed.
        """
        connection = self._get_conn()  # type: ignore[attr-defined]  # mixed into a pool
        connection.exchange = exchange
        connection.is_new = connection.is_closed
        if not connection.is_new:
            exchange.hold(connection.sock)
            return connection
        connection.timeout = seconds
        try:
            self._connect(connection)
        except BaseException as error:
            is_of_proxy = connection.proxy and (
                not connection.has_connected_to_proxy or _is_refused_tunnel(error)
            )
            connection.close()
            if is_of_proxy:
                raise ProxyError("the proxy", error) from error  # type: ignore[arg-type]  # only stored
            raise
        return connection

    def take_back(self, connection: Any, *, clean: bool) -> None:
        """Return a connection.

        Args:
            connection: The connection.
            clean: Whether it can be reused.
        """
        exchange, connection.exchange = connection.exchange, None
        exchange.end()
        if clean and not exchange.is_cut:
            self._put_conn(connection)  # type: ignore[attr-defined]
        else:
            connection.close()

    def _connect(self, connection: Any) -> None:
        pool: Any = self
        if pool.proxy is not None and pool.scheme == "https":
            pool._prepare_proxy(connection)  # connects through a tunnel
        else:
            connection.connect()


class _HttpPool(_LendingPool, urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(_LendingPool, urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


@frozen
class Address:
    """Destination of requests to one URL.

    Attributes:
        pool: Connection pool.
        target: Request target.
        host: Value of the `Host` header.
        headers: Headers for the proxy.
        origin: Scheme, host and port, for messages.
        proxy: Scheme, host and port of the proxy, for messages; empty if none.
    """

    pool: Any
    target: str
    host: str
    headers: Mapping[str, str]
    origin: str
    proxy: str


class Adapter(HTTPAdapter):
    """requests' handling of proxies and certificates, with one TLS context for all connections,
    since creating one costs more than most requests."""

    def __init__(self, ca_file: str | None) -> None:
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        super().__init__(pool_maxsize=_KEPT_CONNECTIONS, max_retries=0)

    def address(self, url: str, proxy: str | None) -> Address:
        """The destination of a URL.

        Args:
            url: The URL.
            proxy: Proxy URL; None for that of the environment, empty for none.

        Raises:
            ConfigurationError: The URL is invalid, or the proxy is not supported.
        """
        named = {"http": proxy, "https": proxy} if proxy else {}
        try:
            proxies = environment_proxies(url) if proxy is None else named
            used = _checked_proxy(select_proxy(url, proxies), named=proxy is not None)
            request = requests.Request("POST", url).prepare()
            pool: Any = self.get_connection_with_tls_context(request, True, proxies)
            host = parse_url(request.url or "").netloc or ""
        except (requests.RequestException, HTTPError, ValueError) as error:
            raise ConfigurationError(f"the URL is invalid: {type(error).__name__}") from error
        origin = f"{pool.scheme}://{pool.host}{f':{pool.port}' if pool.port else ''}"
        through = pool.proxy_headers if pool.scheme == "http" else {}  # a tunnel has its own
        return Address(pool, self.request_url(request, proxies), host, dict(through), origin, used)

    def close(self) -> None:
        """Close idle connections. requests only drops its pools, and other references, for example
        in a traceback, would keep the connections open."""
        for manager in (self.poolmanager, *self.proxy_manager.values()):
            for key in manager.pools.keys():  # noqa: SIM118 - not iterable otherwise
                pool = manager.pools.get(key)
                if pool is not None:
                    pool.close()
        super().close()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, verify: Any, cert: Any = None
    ) -> Any:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        return host, {"ssl_context": self._tls()} if host["scheme"] == "https" else {}

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                file = self._ca_file or DEFAULT_CA_BUNDLE_PATH
                try:
                    self._context = ssl.create_default_context(cafile=file)
                except (OSError, ssl.SSLError) as error:
                    raise ConfigurationError(
                        f"ca_file: cannot read {file}: {error.strerror or type(error).__name__}",
                        file=file,
                    ) from error
            return self._context


_POOLS = {"http": _HttpPool, "https": _HttpsPool}


def environment_proxies(url: str) -> dict[str, str]:
    """The proxies of the environment for a URL, by scheme. Raises `ConfigurationError` if the
    relevant one is not supported."""
    proxies = {} if is_here(url) else dict(get_environ_proxies(url, no_proxy=None))
    _checked_proxy(select_proxy(url, proxies), named=False)
    return proxies


def proxy_hint(*, named: bool) -> str:
    """The setting of a proxy, for a hint.

    Args:
        named: Whether the proxy comes from the provider's settings, not the environment.
    """
    if named:
        return "check limits.proxy of the provider"
    return (
        "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY in the environment; NO_PROXY lists the hosts "
        "that need no proxy"
    )


def _checked_proxy(proxy: str | None, *, named: bool) -> str:
    """Scheme, host and port of a proxy; its URL may contain a password. Raises
    `ConfigurationError`."""
    if not proxy:
        return ""
    hint = proxy_hint(named=named)
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or "@" in parts.path + parts.query + parts.fragment:  # part of the password
        raise ConfigurationError("the URL of the proxy is not valid", hint=hint)
    shown = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
    if parts.scheme not in _POOLS:
        kind = "is a SOCKS proxy" if parts.scheme.startswith("socks") else "is not an HTTP proxy"
        raise ConfigurationError(
            f"the proxy {shown} {kind}, which is not supported",
            hint=f"use an HTTP proxy, or none for this service: {hint}",
        )
    return shown

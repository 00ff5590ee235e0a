"""The socket of a server, created here or inherited from another process.

This module imports little, because the supervisor imports it, which serves no requests itself.
"""

from __future__ import annotations

import os
import socket
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from genai_host.errors import ConfigurationError

BACKLOG = 2048
"""Maximum number of connections that wait to be accepted."""

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104


def listen(bind: str, port: int) -> socket.socket:
    """Open a listening socket. Raises `ConfigurationError` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    # with TCP given explicitly, asyncio disables Nagle's algorithm: otherwise, a second chunk of a
    # reply waits until the client has acknowledged the first
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on other systems, it would let other programs bind the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((bind.strip("[]"), port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen on {bind}, port {port}: {_reason(error)}",
            hint="use a free port: --port 0",
        ) from error
    return listener


def url_of(bind: str, port: int, scheme: str) -> str:
    """The URL of an address, without a trailing slash. A wildcard address becomes a loopback
    address."""
    name = _WILDCARDS.get(bind, bind)
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"


class SharedListener(socket.socket):
    """A listening socket shared by several processes. A connection wakes all of them, and one
    accepts it.

    With SO_REUSEPORT instead, connections that wait at a process that ends or hangs would be lost,
    and busy processes would get as many connections as idle ones.

    Args:
        number: File descriptor, owned by this object from now on.
    """

    ACCEPTS_SHARED = 1
    """Connections accepted per wake-up: a process that accepted all would leave none to the others.
    With 32 concurrent connections and 2 processes, the busier process got 20; without this limit
    24, with SO_REUSEPORT 19."""

    ACCEPTS_ALONE = 8
    """The same without other processes. Connections beyond the limit are closed only after all
    waiting connections have been accepted."""

    def __init__(self, number: int) -> None:
        super().__init__(fileno=number)
        self.set_inheritable(False)

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Do nothing: the socket already listens, with its own backlog."""


class TlsListener(SharedListener):
    """A listening socket for TLS connections.

    asyncio creates the protocol of a connection after its handshake, so connections without a
    handshake are counted here. If there are too many, the oldest of them is closed.

    Args:
        number: File descriptor, owned by this object from now on.
        max_handshakes: Returns the maximum number of handshakes in progress.
        on_full: Called when a handshake is ended because there are too many.

    Attributes:
        handshakes: Connections in a handshake by file descriptor, oldest first. The server removes
            a connection when its handshake has succeeded.
    """

    def __init__(
        self, number: int, max_handshakes: Callable[[], int], on_full: Callable[[], None]
    ) -> None:
        super().__init__(number)
        self.handshakes: OrderedDict[int, socket.socket] = OrderedDict()
        self._max_handshakes = max_handshakes
        self._on_full = on_full

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        connection = _Accepted(
            accepted.family, accepted.type, accepted.proto, fileno=accepted.detach()
        )
        connection.handshakes = self.handshakes
        self.handshakes[connection.fileno()] = connection
        if len(self.handshakes) > self._max_handshakes():
            self._on_full()
            _, oldest = self.handshakes.popitem(last=False)
            with suppress(OSError):  # the client has disconnected
                oldest.shutdown(socket.SHUT_RDWR)  # asyncio then closes it
        return connection, address


class _Accepted(socket.socket):
    handshakes: OrderedDict[int, socket.socket]

    def close(self) -> None:
        if self.handshakes.get(self.fileno()) is self:
            del self.handshakes[self.fileno()]
        super().close()


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)

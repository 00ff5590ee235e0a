"""Where a server listens: a socket, made here or handed on by another process.

It imports little: a supervisor of several workers does, which serves nothing itself.
"""

from __future__ import annotations

import os
import socket

from genai_host.errors import ConfigurationError

BACKLOG = 2048
"""Connections that may wait until somebody takes them."""

_ALL = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104


def listen(bind: str, port: int) -> socket.socket:
    """Raises `ConfigurationError` if it cannot."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    # where it is said to be TCP, asyncio has it send at once: else a second piece of a reply
    # waits until the client has acknowledged the first (Nagle's algorithm)
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere, others could listen there as well
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
    """Without a slash at the end. Of addresses that stand for all of this machine's, one that
    leads to it."""
    name = _ALL.get(bind, bind)
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"


class SharedListener(socket.socket):
    """One that other processes may have as well: all of them are woken by a connection, and one
    takes it.

    That is why it is shared, and not one of its own for each process (SO_REUSEPORT): what waits
    at one that ends, or hangs, is taken by another, and who is at work takes less.

    number   of its descriptor, which is this object's from now on
    """

    AT_ONCE = 1
    """Connections to take whenever it is woken: who took all that wait would leave none to the
    others, and keep them for as long as their clients do. Of 32 that were made at once to two
    processes, the busier had 20 so, 24 where each took all, and 19 by SO_REUSEPORT."""

    ALONE = 8
    """The same where no other process listens: they are counted, and those beyond the limit closed,
    only after all of them have been taken."""

    def __init__(self, number: int) -> None:
        super().__init__(fileno=number)
        self.set_inheritable(False)

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """It does already, and as many may wait as ever."""


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)

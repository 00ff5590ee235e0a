"""Waiting in code that also runs in an event loop.

Code that waits for a service or the store blocks its thread. Where a server runs it in an event
loop, `WAITER` has another way to wait, which suspends the code.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Waiter(Protocol):
    """How code in an event loop waits."""

    def receive(self, sock: Any, size: int) -> bytes:
        """As `socket.recv`."""

    def release(self, sock: Any) -> None:
        """Stop waiting for a socket, which may then be closed."""

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread."""


WAITER: ContextVar[Waiter | None] = ContextVar("genai_host_waiter", default=None)
"""How the current code waits; None in a thread, which it may block."""


def receive(sock: Any, size: int) -> bytes:
    """Wait for data from a socket, and return at most `size` bytes."""
    waiter = WAITER.get()
    data: bytes = sock.recv(size) if waiter is None else waiter.receive(sock, size)
    return data


def release(sock: Any) -> None:
    """Stop waiting for a socket. Call it before the socket is closed or used elsewhere."""
    waiter = WAITER.get()
    if waiter is not None:
        waiter.release(sock)


def call(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that may block its thread."""
    waiter = WAITER.get()
    return function(*arguments) if waiter is None else waiter.call(function, *arguments)

"""A client of a server at the level of bytes."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

_PATIENCE = 30.0


@contextlib.contextmanager
def dial(url: str) -> Iterator[socket.socket]:
    """Connect to a server."""
    place = urlsplit(url)
    there = (place.hostname, place.port or 80)
    with socket.create_connection(there, timeout=_PATIENCE) as connection:
        yield connection


def receive_all(connection: socket.socket) -> bytes:
    """Return all bytes that are received until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def until(connection: socket.socket, end: bytes) -> bytes:
    """Return the received bytes up to a marker."""
    received = b""
    while end not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    return received


def exchange(url: str, data: bytes) -> bytes:
    """Return the server's reply to some bytes, after which it sends nothing more."""
    with dial(url) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
        return receive_all(connection)


def statuses(replies: bytes) -> list[int]:
    """Return the statuses of all replies, in order."""
    return [int(head[:3]) for head in replies.split(b"HTTP/1.1 ")[1:]]

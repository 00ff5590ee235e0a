"""A site on loopback with scripted answers: valid, invalid, slow, or endless."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Answer: TypeAlias = bytes | Callable[[socket.socket], None]
"""The bytes to send, or a function that sends them."""


def reply(
    body: bytes | str = b"",
    type: str = "text/html; charset=utf-8",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return a whole reply. An empty type omits the header."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"Content-Length": str(len(data)), "Connection": "close", **(headers or {})}
    if type:
        fields["Content-Type"] = type
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {fields[name]}" for name in fields)]
    return "\r\n".join((*lines, "", "")).encode() + data


def redirect(location: str, status: int = 302) -> bytes:
    return reply(status=status, headers={"Location": location})


def wait_for_end(connection: socket.socket) -> None:
    """Wait until the other side has disconnected."""
    with contextlib.suppress(OSError):
        while connection.recv(4096):
            pass


class PageSite:
    """A site with these answers by path; other paths do not exist.

    Attributes:
        heads: Heads of the received requests.
    """

    def __init__(
        self, answers: Mapping[str, Answer] | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        self.answers = dict(answers or {})
        self.heads: list[str] = []
        self._scheme = "https" if context else "http"
        self._context = context
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        site = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                site._handle(self.request)

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def link(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"

    def __enter__(self) -> PageSite:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._server.server_close()  # waits for the threads
        self._thread.join()

    def _handle(self, connection: Any) -> None:
        with contextlib.suppress(OSError):  # the other side disconnected
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                self._held(connection)

    def _held(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(4096)
                if not piece:
                    return
                head += piece
            self.heads.append(head.decode("latin-1"))
            answer = self.answers.get(head.split(b" ")[1].decode(), reply(status=404))
            if callable(answer):
                answer(connection)
            else:
                connection.sendall(answer)
        finally:
            with self._lock:
                self._open.discard(connection)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        raise AssertionError("a site of a test failed")

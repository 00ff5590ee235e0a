"""Serves HTTP routes of plugins on this machine, for tests.

    with RouteServer(host) as server:
        requests.post(f"{server.url}/api/shop/orders", json={...})

It has no authentication and no timeouts.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl

from attrs import evolve

from genai_host.api import HttpProblem, HttpRoute, RouteRequest, RouteResponse
from genai_host.api.cancellation import Cancellation
from genai_host.host import Host
from genai_host.serving.apis import problem_reply, request_id_headers
from genai_host.serving.router import HttpRoutes


class RouteServer:
    """Serves the routes of a host on a free port of 127.0.0.1, with a thread per connection, until
    it is closed. It does not close the host.

    Args:
        host: The host.
        own: See `HttpRoutes`.
        user: User of all requests.

    Attributes:
        url: Its URL, without a trailing slash.
    """

    def __init__(self, host: Host, own: Iterable[HttpRoute] = (), *, user: str = "") -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.host = host
        self._server.routes = HttpRoutes(host, own)
        self._server.user = user
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):  # macOS; the loop ends with its next look
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the loop
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.routes.close()


class _Server(ThreadingHTTPServer):
    host: Host
    routes: HttpRoutes
    user: str
    daemon_threads = True
    block_on_close = False  # a client may keep its connection open
    request_queue_size = 256

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._lock = threading.Lock()
        self._clients = selectors.DefaultSelector()

    @contextmanager
    def watching(self, connection: socket.socket) -> Iterator[Cancellation]:
        """Cancel when the client disconnects during its request. A client that has already sent its
        next request counts as connected."""
        left = Cancellation()
        with self._lock:
            self._clients.register(connection, selectors.EVENT_READ, left)
        try:
            yield left
        finally:
            with self._lock:
                if self._clients.get_map():  # None once it is closed
                    self._clients.unregister(connection)

    def service_actions(self) -> None:
        """Detect disconnected clients, in the server's loop because handler threads may block."""
        with self._lock:
            if not self._clients.get_map():
                return
            for key, _ in self._clients.select(0):
                if _has_ended(key.fileobj):
                    key.data.cancel()

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            self._clients.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of disconnected clients."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Print no log."""

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        refusal = self._refusal(self.server.routes.limit(self.command, path))
        if refusal is not None:
            self.close_connection = True
            self._send(problem_reply(refusal))
            return
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.server.watching(self.connection) as left:
            headers = {
                name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers
            }
            request = RouteRequest(
                self.command,
                path,
                query=dict(parse_qsl(query, keep_blank_values=True)),
                headers=headers,
                body=body,
                limits=left,
                user=self.server.user,
                request_id=f"req_{os.urandom(16).hex()}",
            )
            reply = self.server.routes.answer(request)
            ids = request_id_headers(self.server.host, path, headers, request.request_id)
            self._send(evolve(reply, headers={**reply.headers, **ids}))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - names of the base class

    def _refusal(self, most: int) -> HttpProblem | None:
        """The error for a body that is too long or has no length; None if it is read."""
        length = self.headers.get("content-length") or "0"
        if "transfer-encoding" in self.headers or not length.isdecimal():
            return HttpProblem(411, "length_required", "the length of the body is needed")
        if int(length[:20]) > most:
            return HttpProblem(413, "too_large", f"the body must have at most {most} bytes")
        return None

    def _send(self, reply: RouteResponse) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if self.close_connection:  # otherwise a client would reuse the closed connection
            self.send_header("connection", "close")
        if isinstance(reply.body, bytes):
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for piece in reply.body:
                if piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        except BaseException:
            self.close_connection = True  # the client must not treat the reply as complete
            with suppress(OSError):
                self.connection.close()
            raise
        finally:
            close = getattr(reply.body, "close", None)
            if close is not None:
                close()


def _has_ended(client: Any) -> bool:
    """Whether a readable client has closed its connection."""
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except OSError:
        return True

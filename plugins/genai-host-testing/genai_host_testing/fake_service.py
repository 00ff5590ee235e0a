"""An HTTP service on this machine that a test controls, including faults.

    with FakeService() as service:
        service.replies += [json_reply({"a": 1}), sse_reply([b"one", b"two"], CUT)]
        ...  # let a provider with base_url=service.url call it
        assert service.requests[0].headers["authorization"] == "Bearer key"

It uses plain sockets, so that the test controls each byte and the end of each connection. It uses
no timers: a held reply waits for the test (`HOLD` and `let_go`) or until the client closes.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from attrs import field, frozen

_PATIENCE = 30.0  # timeout for events that a test waits for, in seconds of real time


class Act(Enum):
    """An action of a reply between its bytes."""

    CUT = "end the connection, as if all had been sent"
    RESET = "reset the connection"
    HANG = "send nothing more until the client closes"
    HOLD = "wait for the test to call `let_go`"


CUT, RESET, HANG, HOLD = Act.CUT, Act.RESET, Act.HANG, Act.HOLD

ReplyStep = bytes | Act | Callable[[], object]


@frozen
class Reply:
    """A reply: bytes, actions between them, and functions that are called in their place.

    Attributes:
        keep: Whether the connection stays open for another request.
    """

    steps: Sequence[ReplyStep]
    keep: bool = False


@frozen
class Received:
    """A request; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def reply(
    body: bytes = b"",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    keep: bool = True,
) -> Reply:
    """Make a whole reply."""
    head = _head(status, {"Content-Length": str(len(body)), **(headers or {})})
    return Reply([head + body], keep)


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Make a whole reply with JSON."""
    return reply(
        json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})}
    )


def stream_reply(
    pieces: Sequence[ReplyStep],
    *,
    content_type: str = "text/event-stream",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Make a chunked reply with a chunk per piece. An action that ends the connection truncates the
    reply."""
    steps: list[ReplyStep] = [
        _head(
            status,
            {"Content-Type": content_type, "Transfer-Encoding": "chunked", **(headers or {})},
        )
    ]
    for piece in pieces:
        steps.append(_chunk(piece) if isinstance(piece, bytes) else piece)
    ended = any(step in (CUT, RESET, HANG) for step in pieces)
    if not ended:
        steps.append(b"0\r\n\r\n")
    return Reply(steps, keep=not ended)


def sse_reply(events: Sequence[ReplyStep], **options: Any) -> Reply:
    """Make a reply of server-sent events from the data of each."""
    pieces = [b"data: " + each + b"\n\n" if isinstance(each, bytes) else each for each in events]
    return stream_reply(pieces, **options)


class FakeService:
    """Answers each request with the next of `replies`; the last one is repeated.

    Args:
        replies: The replies.
        answer: Creates the reply to each request, instead of `replies`; called from many threads.
        tls: TLS context, for https.
    """

    def __init__(
        self,
        replies: Sequence[Reply] = (),
        *,
        answer: Callable[[Received], Reply] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.replies = list(replies)
        self.requests: list[Received] = []
        self.connections = 0
        self.open_connections = 0
        self.max_at_once = 0
        self._answer_to = answer
        self._tls = tls
        self._held = threading.Semaphore(0)
        self._changed = threading.Condition()
        self._stopped = False
        self._busy = 0
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._serve(self._accept)

    @property
    def url(self) -> str:
        """Its URL, without a path."""
        host = "localhost" if self._tls else "127.0.0.1"
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    def let_go(self, times: int = 1) -> None:
        """Resume held replies."""
        self._held.release(times)

    def wait_for_requests(self, count: int) -> None:
        """Wait until this number of requests was received completely."""
        self._wait(lambda: len(self.requests) >= count, f"{count} requests")

    def wait_until_closed(self, but: int = 0) -> None:
        """Wait until clients have closed all connections except this number."""
        self._wait(lambda: self.open_connections <= but, f"the close of all connections but {but}")

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            sockets = [self._listener, *self._sockets]
        self.let_go(1000)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def __enter__(self) -> FakeService:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _wait(self, met: Any, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(met, _PATIENCE):
                raise TimeoutError(f"waited for {what}")

    def _serve(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, name="fake-service", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self.connections += 1
                self.open_connections += 1
                self._sockets.add(connection)
            self._serve(self._talk, connection)

    def _talk(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._tls is not None:
                raw = connection
                connection = self._tls.wrap_socket(raw, server_side=True)
                with self._changed:
                    self._sockets.discard(raw)
                    self._sockets.add(connection)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection.makefile("rb") as reader:
                while self._answer(connection, reader):
                    pass
        with contextlib.suppress(OSError):
            connection.close()
        with self._changed:
            self._sockets.discard(connection)
            self.open_connections -= 1
            self._changed.notify_all()

    def _answer(self, connection: socket.socket, reader: Any) -> bool:
        """Answer a request. Returns whether the connection stays open for another."""
        received = _receive(reader)
        if received is None:
            return False
        with self._changed:
            self.requests.append(received)
            number = len(self.requests)
            self._busy += 1
            self.max_at_once = max(self.max_at_once, self._busy)
            self._changed.notify_all()
        try:
            return self._send(connection, reader, self._reply_to(received, number))
        finally:
            with self._changed:
                self._busy -= 1

    def _reply_to(self, received: Received, number: int) -> Reply:
        if self._answer_to is not None:
            return self._answer_to(received)
        return self.replies[min(number, len(self.replies)) - 1]

    def _send(self, connection: socket.socket, reader: Any, chosen: Reply) -> bool:
        for step in chosen.steps:
            if isinstance(step, bytes):
                connection.sendall(step)
            elif callable(step):
                step()
            elif step is HOLD:
                self._held.acquire()
            elif step is HANG:
                reader.read()
                return False
            elif step is RESET:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return False
            else:
                return False
        return chosen.keep


def _receive(reader: Any) -> Received | None:
    line = reader.readline()
    if not line:
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"

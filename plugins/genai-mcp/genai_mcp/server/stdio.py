"""The server over the standard streams of its process. Messages are lines.

    StdioServer.run → _read (thread) → Lines → _take → ServerSession.receive → RequestExchange
                                                       → _send (a thread each) → Outbox

One thread of the `Outbox` writes to the client, in order. Quick exchanges are answered in the
reading thread. Threads and memory are limited (`MOST`, `MOST_SMALL`, `LARGEST`, and `MOST_CALLS` in
`calls`), whatever the client sends or does not read. Exceeding a limit ends only the client's own
session.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque

from genai_host.api import write_json
from genai_host.errors import MalformedReply
from genai_mcp import rpc
from genai_mcp.rpc import WrongMessage
from genai_mcp.server import messages
from genai_mcp.server.calls import RequestExchange, SharedState
from genai_mcp.server.session import ServerSession
from genai_mcp.text import Lines

MOST = 64 << 20
"""Maximum number of unwritten bytes; beyond it, writers wait."""

MOST_SMALL = 10_000
"""Maximum number of unwritten messages whose writer does not wait."""


class Outbox:
    """Writes lines to a pipe. Thread-safe.

    Args:
        number: File descriptor of the pipe; it is not closed.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._changed = threading.Condition()
        self._pending: deque[bytes] = deque()
        self._size = 0
        self._ends = False
        self._broken = False
        self._thread = threading.Thread(target=self._write, name="mcp write", daemon=True)
        self._thread.start()

    def put(self, line: bytes, *, waits: bool) -> bool:
        """Queue a line, and return whether it was accepted. With `waits`, wait while the client
        does not read; otherwise a full queue rejects the line.
        """
        with self._changed:
            if waits:
                self._changed.wait_for(lambda: self._size <= MOST or self._ends)
            elif len(self._pending) > MOST_SMALL:
                return False
            if self._ends:
                return False
            self._pending.append(line)
            self._size += len(line)
            self._changed.notify_all()
            return True

    def end(self, seconds: float) -> None:
        """Accept no more lines, and wait until the queue is written or the pipe is closed."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        self._thread.join(seconds)

    @property
    def broken(self) -> bool:
        """Whether the client has closed the pipe."""
        return self._broken

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._ends)
                if not self._pending:
                    return
                line = self._pending.popleft()
            try:
                _write_all(self._number, line + b"\n")
            except OSError:
                with self._changed:
                    self._ends = self._broken = True
                    self._pending.clear()
                    self._changed.notify_all()
                return
            with self._changed:
                self._size -= len(line)
                self._changed.notify_all()


def _write_all(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(number, rest) :]


LARGEST = 4 << 20
"""Maximum number of bytes of a client message; a larger one ends its session."""

GRACE = 3.0
"""Seconds for cancelled calls to end, and for answers to be written."""

_BATCHES = "2025-03-26"  # the only version with batches
_BLOCK = 1 << 16
_POLL = 1.0  # seconds; on Windows, a wait without a timeout blocks signals

_log = logging.getLogger(__name__)


class StdioServer:
    """Serves one client.

    Args:
        reader: File descriptor of the input.
        writer: File descriptor of the output.
    """

    def __init__(self, service: SharedState, reader: int, writer: int) -> None:
        self._reader = reader
        self._session = ServerSession(service)
        self._outbox = Outbox(writer)
        self._ended = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Serve until the client closes its end, or `end`; then cancel requests in progress."""
        threading.Thread(target=self._read, name="mcp read", daemon=True).start()
        while not self._ended.wait(_POLL):
            pass
        self._session.close()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(GRACE / max(1, len(threads)))
        self._outbox.end(GRACE)

    def end(self) -> None:
        """Stop serving. Safe in any thread and in signal handlers."""
        self._ended.set()

    def _read(self) -> None:
        lines = Lines(LARGEST)
        try:
            while block := os.read(self._reader, _BLOCK):
                for line in lines.feed(block):
                    self._take(line)
                if self._outbox.broken:
                    return
        except MalformedReply as error:
            _log.warning("stopped reading from the client: %s", error)
            self._put(messages.error(None, rpc.INVALID_REQUEST, str(error)))
        except OSError as error:
            _log.warning("cannot read from the client: %s", error)
        finally:
            self.end()

    def _take(self, line: bytes) -> None:
        try:
            received = rpc.read_messages(line)
            if rpc.is_batch(line) and self._session.version != _BATCHES:
                raise WrongMessage("a line must be one message")
        except WrongMessage as error:
            self._put(messages.error(error.id, error.rpc_code, str(error)))
            return
        for message in received:
            exchange = self._session.receive(message)
            if exchange is None:
                continue
            if exchange.is_quick:
                for sent in exchange:
                    self._put(sent)
            else:
                self._begin(exchange)

    def _begin(self, exchange: RequestExchange) -> None:
        thread = threading.Thread(target=self._send, args=(exchange,), name="mcp call", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _send(self, exchange: RequestExchange) -> None:
        try:
            for sent in exchange:
                self._outbox.put(write_json(sent), waits=True)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _put(self, sent: messages.Outgoing) -> None:
        """Send from the reading thread, without waiting."""
        if not self._outbox.put(write_json(sent), waits=False) and not self._ended.is_set():
            _log.warning("the client does not read the responses; its session ends")
            self.end()

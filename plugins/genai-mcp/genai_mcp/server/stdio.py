"""The server over the standard streams of its process. Messages are lines.

    StdioServer.run → _read (thread) → Lines → Server.run (in the loop) → _write (thread)

The transport of the SDK is not used: it reads lines of any length, accepts any number of requests
whose answers are not read, and cannot end while it waits for input. Threads that wait for the
client are abandoned at the end. Exceeding a limit ends the session.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from concurrent.futures import CancelledError

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from genai_host.api import ValueBudget
from genai_host.errors import MalformedReply, ValidationError
from genai_mcp.server.calls import GRACE, Service, close_within_grace
from genai_mcp.text import Lines, one_line

MAX_SIZE = 4 << 20
"""Maximum number of bytes of a client message; a larger one ends its session."""

MAX = 64 << 20
"""Maximum number of bytes of requests without an answer, with 16 KiB added for each."""

_BLOCK = 1 << 16
_TASK = 1 << 14  # bytes of a request besides its line, roughly
_CANCELLED = "notifications/cancelled"
_POLL = 1.0  # seconds; on Windows, a wait without a timeout blocks signals

# the session or the loop has ended
_ENDED = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    CancelledError,
    RuntimeError,
)

_log = logging.getLogger(__name__)


class StdioServer:
    """Serves one client."""

    def __init__(self, service: Service, reader: int, writer: int) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._open: dict[RequestId, int] = {}  # bytes of each request without an answer
        self._size = 0

    def run(self) -> None:
        """Serve until the client closes its end, or `end`; then cancel requests in progress."""
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
        server = self._service.server
        exit = contextlib.ExitStack()
        portal = exit.enter_context(start_blocking_portal(name="mcp server"))
        session = portal.start_task_soon(
            server.run, incoming, outgoing, server.create_initialization_options()
        )
        session.add_done_callback(lambda _: self.end())
        errors = outgoing.clone()
        read, write = (portal, to_server, errors), (portal, to_client)
        reader = threading.Thread(None, self._read, "mcp read", read, daemon=True)
        writer = threading.Thread(None, self._write, "mcp write", write, daemon=True)
        reader.start()
        writer.start()
        while not self._ended.wait(_POLL):
            pass
        session.cancel()

        def close() -> None:
            portal.call(errors.close)
            writer.join(GRACE)
            portal.call(to_client.close)
            exit.close()

        # the loop waits for calls in progress; its threads are daemons
        close_within_grace("the connection", close)

    def end(self) -> None:
        """Stop serving. Safe in any thread and in signal handlers."""
        self._ended.set()

    def _read(
        self,
        portal: BlockingPortal,
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
        errors: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        lines = Lines(MAX_SIZE)
        # the other end is closed, or the loop has ended
        with contextlib.suppress(
            anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError
        ):
            try:
                while block := os.read(self._reader, _BLOCK):
                    for line in lines.feed(block):
                        self._take(line, portal, to_server, errors)
            except MalformedReply as error:
                _log.warning("stopped reading from the client: %s", error)
                portal.start_task_soon(errors.send, _error(INVALID_REQUEST, str(error)))
            except OSError as error:
                _log.warning("cannot read from the client: %s", error)
            portal.call(to_server.close)
        self.end()

    def _take(
        self,
        line: bytes,
        portal: BlockingPortal,
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
        errors: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        try:
            value = ValueBudget().read(line)
        except (ValueError, ValidationError) as error:
            what = f"invalid JSON: {one_line(str(error))}"
            portal.call(errors.send, _error(PARSE_ERROR, what))
            return
        try:
            message = jsonrpc_message_adapter.validate_python(value, by_name=False)
        except ValueError:
            what = "a line must be one JSON-RPC 2.0 message"
            portal.call(errors.send, _error(INVALID_REQUEST, what))
            return
        if isinstance(message, JSONRPCRequest):
            with self._lock:
                size = len(line) + _TASK
                self._open[message.id] = self._open.get(message.id, 0) + size
                self._size += size
            if self._size > MAX:
                raise MalformedReply("too many requests without an answer")
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._close_request(cancelled_request_id_from_params(message.params))
        portal.call(to_server.send, SessionMessage(message))

    def _close_request(self, id: RequestId | None) -> None:
        if id is not None:
            with self._lock:
                self._size -= self._open.pop(id, 0)

    def _write(
        self, portal: BlockingPortal, to_client: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        with contextlib.suppress(OSError, *_ENDED):
            while True:
                message = portal.call(to_client.receive).message
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._close_request(message.id)
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                rest = memoryview(text.encode() + b"\n")
                while rest:
                    rest = rest[os.write(self._writer, rest) :]
        self.end()


def _error(code: int, message: str) -> SessionMessage:
    error = ErrorData(code=code, message=message)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error))

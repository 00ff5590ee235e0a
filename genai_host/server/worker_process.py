"""A worker as it sees itself: a process that serves where its supervisor listens, and does as it
is told on a channel. What is said there is in lines:

    supervisor   drain | at once | hand over
    worker       ready | failed {"message": ..., "hint": ...}

The channel ends with the supervisor, however that ends; then its workers drain.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from genai_host.server.listener import SharedListener

if TYPE_CHECKING:
    from genai_host.errors import GenaiError
    from genai_host.server.server import Server

DRAIN, AT_ONCE, HAND_OVER = "drain", "at once", "hand over"
READY, FAILED = "ready", "failed"


class WorkerProcess:
    """What its supervisor has given to this process.

    listener   the descriptor of the socket that it listens at
    channel    the descriptor of its end of the channel
    core       the only core that it may use; None for any
    """

    def __init__(self, listener: int, channel: int, core: int | None = None) -> None:
        if core is not None:  # before there is any thread, as each has cores of its own
            os.sched_setaffinity(0, {core})
        self.listener = SharedListener(listener)
        self._channel = socket.socket(fileno=channel)
        self._channel.set_inheritable(False)

    def run(self, server: Server) -> None:
        """Serve until it is told to end, or the supervisor is gone. Raises what kept the host
        from being loaded."""
        # whoever stops a service may send it to all of its processes
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        listens = threading.Thread(target=self._obey, args=(server,), daemon=True)

        def ready() -> None:
            self._tell(READY)
            listens.start()

        server.run(ready)

    def fail(self, error: GenaiError) -> None:
        """Tell why it could not begin."""
        self._tell(f"{FAILED} {json.dumps({'message': error.message, 'hint': error.hint})}")

    def close(self) -> None:
        self.listener.close()
        self._channel.close()

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # then there is nobody who would know what to do
            self._channel.sendall(f"{line}\n".encode())

    def _obey(self, server: Server) -> None:
        """In a thread, until the channel ends."""
        orders: Mapping[str, Callable[[], None]] = {
            DRAIN: server.drain,
            AT_ONCE: server.end_at_once,
            HAND_OVER: server.hand_over,
        }
        with contextlib.suppress(OSError), self._channel.makefile(encoding="utf-8") as lines:
            for line in lines:
                orders[line.strip()]()
        server.drain()

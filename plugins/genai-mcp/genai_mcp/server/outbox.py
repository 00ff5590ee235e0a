"""What is to be written to a client, in its order, by one thread."""

from __future__ import annotations

import os
import threading
from collections import deque

MOST = 64 << 20
"""Bytes that wait for a client that does not read: who has more waits as well."""

MOST_SMALL = 10_000
"""Messages that wait, of those that nobody waits with."""


class Outbox:
    """Lines for a pipe. May be used from many threads.

    number   of the pipe's end; it is not closed here
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
        """Have a line written; whether it will be.

        waits   whether to wait while the client does not read; if not, and that has gone
                too far, it will not be
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
        """Take no more, and wait until what is there is written, or nobody reads it."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        self._thread.join(seconds)

    @property
    def broken(self) -> bool:
        """Whether nobody reads any more."""
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

"""Keep-alive data of a streamed reply, while its next chunk is generated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self


class Keepalive:
    """Sends keep-alive data when nothing was sent for some seconds.

    Args:
        loop: The event loop.
        seconds: The seconds; infinite for never.
        send: Sends the data.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        send: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._send = send
        self._due = loop.time() + seconds
        self._is_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        if self._due < float("inf"):
            self._timer = self._loop.call_at(self._due, self._look)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @contextmanager
    def paused(self) -> Iterator[asyncio.Task[None] | None]:
        """While a chunk is sent. Yields what has to end before; None if nothing is being sent."""
        self._is_paused = True
        sending, self._sending = self._sending, None
        try:
            yield None if sending is None or sending.done() else sending
        finally:
            self._is_paused = False
            self._due = self._loop.time() + self._seconds

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._due:
            self._due = now + self._seconds
            if not self._is_paused:
                self._sending = self._loop.create_task(self._send())
        # one timer for many chunks
        self._timer = self._loop.call_at(self._due, self._look)

"""Keep-alive data of a streamed reply, while its next chunk is generated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self


class Keepalive:
    """Sends keep-alive data when nothing was sent for some seconds. It is an asynchronous context
    manager, which ends after what it sends.

    Args:
        seconds: The seconds.
        send: Sends the data; None to send none.
    """

    def __init__(
        self, seconds: float, send: Callable[[], Coroutine[Any, Any, None]] | None
    ) -> None:
        self._seconds = seconds
        self._send = send
        self._sent = 0.0
        self._is_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._sent = self._loop.time()
        if self._send is not None:
            self._timer = self._loop.call_later(self._seconds, self._look, self._send)
        return self

    async def __aexit__(self, kind: object, *error: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._send = None  # no reference cycles
        if self._sending is not None:
            if kind is not None:
                self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def pause(self) -> asyncio.Task[None] | None:
        """Send nothing while a chunk is sent. Returns what has to end before; None if nothing is
        being sent."""
        self._is_paused = True
        sending, self._sending = self._sending, None
        return None if sending is None or sending.done() else sending

    def resume(self) -> None:
        """The chunk was sent, or could not be."""
        self._is_paused = False
        self._sent = self._loop.time()

    def _look(self, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        now = self._loop.time()
        if now >= self._sent + self._seconds:
            self._sent = now
            if not self._is_paused and (self._sending is None or self._sending.done()):
                self._sending = self._loop.create_task(send())
        # one timer for many chunks
        self._timer = self._loop.call_at(self._sent + self._seconds, self._look, send)

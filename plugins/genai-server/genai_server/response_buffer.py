"""The buffer between a handler's thread and the event loop, and its callbacks.

The buffer is bounded: a client that reads slowly blocks the thread that writes, and does not fill
memory. `LoopCallbacks` wakes the loop once for all callbacks that were added in the meantime.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from genai_host.api import RouteResponse


class LoopCallbacks:
    """Callbacks for one event loop. Thread-safe. After the loop has ended, they are not called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_scheduled = False

    def put(self, function: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call soon."""
        self.add(function, *arguments)
        self.wake()

    def add(self, function: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call for when the loop is next woken."""
        self._pending.append((function, arguments))

    def wake(self) -> None:
        """Wake the loop for the scheduled calls."""
        if self._pending and not self._is_scheduled:
            self._is_scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._run_pending)

    def _run_pending(self) -> None:
        self._is_scheduled = False  # before counting: later callbacks wake the loop again
        try:
            for _ in range(len(self._pending)):
                function, arguments = self._pending.popleft()
                function(*arguments)
        finally:
            self.wake()  # if a callback failed


_MAX_BUFFERED = 64 * 1024  # bytes that wait to be sent; one chunk may be larger


class Broken(Exception):
    """The reply was interrupted: it must not look complete to the client."""


class ResponseBuffer:
    """Buffer between one thread, which writes, and one coroutine, which reads.

        put_reply → put, put ... → end
        reply     → take, take ... → None

    Args:
        loop: The event loop of the coroutine.
        callbacks: Wakes the loop when data is available. The end does not wake the loop, so the
            caller must schedule another callback.

    Attributes:
        is_handed_over: Whether the coroutine generates the rest of the reply itself.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, callbacks: LoopCallbacks) -> None:
        self._loop = loop
        self._callbacks = callbacks
        self._changed = threading.Condition()
        self._reply: RouteResponse | None = None
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._has_ended = False
        self.is_handed_over = False
        self._is_broken = False
        self._is_closed = False
        self._waiter: asyncio.Future[None] | None = None

    # called in the thread

    def put_reply(self, reply: RouteResponse) -> bool:
        """Set the head, and return whether the client still wants the reply. Only the first call
        has an effect. A complete body also ends the reply."""
        with self._changed:
            if self._reply is not None:
                return not self._is_closed
            self._reply = reply
            self._has_ended = isinstance(reply.body, bytes)
            self._wake()
            return not self._is_closed

    @property
    def sent(self) -> RouteResponse | None:
        """The reply that was set first."""
        return self._reply

    def put(self, chunk: bytes) -> bool:
        """Wait for space, add a chunk, and return whether the client wants more."""
        if not chunk:
            return not self._is_closed
        with self._changed:
            while self._size and self._size + len(chunk) > _MAX_BUFFERED and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return False
            self._chunks.append(chunk)
            self._size += len(chunk)
            self._wake()
            return True

    def end(self, *, is_broken: bool = False) -> None:
        """End the reply. Only the first call has an effect."""
        with self._changed:
            if not self._has_ended:
                self._has_ended = True
                self._is_broken = is_broken
                self._wake()

    def hand_over(self) -> bool:
        """End the writing: the coroutine generates the rest of the reply itself. Return whether the
        client still wants it."""
        with self._changed:
            if self._is_closed:
                return False
            self._has_ended = self.is_handed_over = True
            self._wake()
        self._callbacks.wake()
        return True

    # called in the event loop

    async def reply(self) -> RouteResponse | None:
        """Wait for the head; None if the buffer was closed before."""
        await self._until(lambda: self._reply is not None)
        return None if self._is_closed else self._reply

    async def take(self, seconds: float | None = None) -> bytes | None:
        """Wait for data and return all chunks joined: nothing after a timeout, None at the end or
        once the buffer is closed. Raises `Broken` if the reply was interrupted."""
        await self._until(lambda: bool(self._chunks) or self._has_ended, seconds)
        with self._changed:
            if self._is_closed:
                return None
            if self._chunks:
                chunks, self._chunks, self._size = self._chunks, deque(), 0
                self._changed.notify()
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
            if self._is_broken:
                raise Broken
            return None if self._has_ended else b""

    def close(self) -> None:
        """Discard the data, and refuse further data."""
        with self._changed:
            self._is_closed = True
            self._chunks.clear()
            self._size = 0
            self._changed.notify_all()
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            _resolve(waiter)

    async def _until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        with self._changed:
            if condition() or self._is_closed:
                return
            self._waiter = waiter = self._loop.create_future()
        if seconds is None:
            await waiter
            return
        timer = self._loop.call_later(seconds, _resolve, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            # the end is followed by another callback, which wakes the loop for both
            send = self._callbacks.add if self._has_ended else self._callbacks.put
            send(_resolve, waiter)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

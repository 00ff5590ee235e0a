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
    """Of one loop. May be used from any thread; once the loop has ended, nothing is done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_due = False

    def put(self, function: Callable[..., None], *given: Any) -> None:
        """Have it called soon."""
        self.add(function, *given)
        self.wake()

    def add(self, function: Callable[..., None], *given: Any) -> None:
        """Have it called when the loop is next woken."""
        self._waiting.append((function, given))

    def wake(self) -> None:
        """Have done what was added, if it is not done yet."""
        if self._waiting and not self._is_due:
            self._is_due = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._do)

    def _do(self) -> None:
        self._is_due = False  # before it is counted: who comes after that wakes the loop anew
        try:
            for _ in range(len(self._waiting)):
                function, given = self._waiting.popleft()
                function(*given)
        finally:
            self.wake()  # if one of them failed


_MOST = 64 * 1024  # bytes that wait to be sent; one piece may be larger


class Broken(Exception):
    """What was to be sent broke off: what the client has must not seem whole."""


class ResponseBuffer:
    """Between one thread, which puts in, and one coroutine, which takes out.

    put_reply → put, put ... → end
    reply     → take, take ... → None

    errands   wake the loop when there is something, but for the end: more must be put there
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, errands: LoopCallbacks) -> None:
        self._loop = loop
        self._errands = errands
        self._changed = threading.Condition()
        self._reply: RouteResponse | None = None
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._has_ended = False
        self._is_broken = False
        self._is_closed = False
        self._waiter: asyncio.Future[None] | None = None

    # of the thread

    def put_reply(self, reply: RouteResponse) -> bool:
        """The head of what is sent; whether anybody wants more. Only the first one counts. A
        whole body is the end as well."""
        with self._changed:
            if self._reply is not None:
                return not self._is_closed
            self._reply = reply
            self._has_ended = isinstance(reply.body, bytes)
            self._wake()
            return not self._is_closed

    @property
    def sent(self) -> RouteResponse | None:
        """The one that counted."""
        return self._reply

    def put(self, piece: bytes) -> bool:
        """A piece, once there is room for it; whether anybody wants more."""
        if not piece:
            return not self._is_closed
        with self._changed:
            while self._size and self._size + len(piece) > _MOST and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return False
            self._pieces.append(piece)
            self._size += len(piece)
            self._wake()
            return True

    def end(self, *, is_broken: bool = False) -> None:
        """There is no more. Only the first end counts."""
        with self._changed:
            if not self._has_ended:
                self._has_ended = True
                self._is_broken = is_broken
                self._wake()

    # of the loop

    async def reply(self) -> RouteResponse | None:
        """None if it was closed before."""
        await self._until(lambda: self._reply is not None)
        return None if self._is_closed else self._reply

    async def take(self, seconds: float | None = None) -> bytes | None:
        """All pieces that are there, as one, or none if there were none for so many seconds;
        None at the end, or once it is closed. Raises `Broken`."""
        await self._until(lambda: bool(self._pieces) or self._has_ended, seconds)
        with self._changed:
            if self._is_closed:
                return None
            if self._pieces:
                pieces, self._pieces, self._size = self._pieces, deque(), 0
                self._changed.notify()
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if self._is_broken:
                raise Broken
            return None if self._has_ended else b""

    def close(self) -> None:
        """Nobody wants what is in it, nor any more."""
        with self._changed:
            self._is_closed = True
            self._pieces.clear()
            self._size = 0
            self._changed.notify_all()
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            _arrive(waiter)

    async def _until(self, is_there: Callable[[], bool], seconds: float | None = None) -> None:
        with self._changed:
            if is_there() or self._is_closed:
                return
            self._waiter = waiter = self._loop.create_future()
        if seconds is None:
            await waiter
            return
        timer = self._loop.call_later(seconds, _arrive, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            # whoever ends it has another errand: the loop is woken once for both
            send = self._errands.add if self._has_ended else self._errands.put
            send(_arrive, waiter)


def _arrive(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

"""A reply whose chunks the event loop generates and sends; see `RouteResponse.suspends`.

ResponseBuffer.hand_over → SuspendedReply.send → [a greenlet: _run → _put → _flush]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from contextvars import Context
from typing import Any, Self

from genai_server.asgi import ClientGone
from genai_server.response_buffer import Broken
from genai_server.suspendable import SuspendableCall

_MAX_UNSENT = 64 * 1024  # bytes


class SuspendedReply:
    """The chunks of a reply after the first one. Chunks that are generated without waiting are sent
    together.

    Args:
        generate: Generates the chunks for a function that returns whether the client wants more.
            Returns whether the reply is complete.
        resources: Releases what belongs to the reply.
        context: Context variables of both.
        submit: Runs a function in a thread.
        send: Sends data.
        at_once: Whether sending usually ends at once, and needs no task.
        keepalive: Keep-alive data; empty for none.
        keepalive_interval: Seconds without a chunk after which it is sent.
    """

    def __init__(
        self,
        generate: Callable[[Callable[[bytes], bool]], bool],
        resources: ExitStack,
        context: Context,
        *,
        submit: Callable[[Callable[[], None]], None],
        send: Callable[[bytes], Coroutine[Any, Any, None]],
        at_once: bool,
        keepalive: bytes,
        keepalive_interval: float,
    ) -> None:
        self._generate = generate
        self._resources = resources
        self._context = context
        self._submit = submit
        self._send = send
        self._at_once = at_once
        self._keepalive = Keepalive(keepalive_interval, self._send_keepalive if keepalive else None)
        self._keepalive_data = keepalive
        self._call: SuspendableCall | None = None
        self._task: asyncio.Task[Any] | None = None
        self._unsent = bytearray()
        self._failure: Exception | None = None
        self._is_disconnected = False
        self._is_complete = False
        self._is_abandoned = False
        self._was_run = False

    async def send(self) -> None:
        """Send the chunks as they are generated, then release what belongs to the reply.

        Raises:
            Broken: The reply was interrupted.
            ClientGone: The client has disconnected.
            Exception: The server cannot send.
        """
        try:
            async with self._keepalive:
                await self._run(self._write)
        except asyncio.CancelledError:
            if self._is_abandoned:
                raise Broken from None
            raise
        if self._failure is not None:
            raise self._failure
        if self._is_disconnected:
            raise ClientGone
        if not self._is_complete:
            raise Broken

    def on_disconnect(self) -> None:
        """The client has disconnected, and wants no more chunks."""
        self._is_disconnected = True

    def abandon(self) -> None:
        """Interrupt the reply, even if it hangs."""
        if self._task is not None:
            self._is_abandoned = True
            self._task.cancel()

    async def close(self) -> None:
        """Release what belongs to the reply, if it was not sent."""
        if self._was_run:
            return
        try:
            await self._run(self._resources.close)
        except asyncio.CancelledError:
            if not self._is_abandoned:
                raise

    def close_in_thread(self) -> None:
        """The same, in the thread that began the reply."""
        self._context.run(self._resources.close)

    async def _run(self, function: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._was_run = True
        self._task = asyncio.current_task()
        self._call = SuspendableCall(loop, self._submit, self._context, function, self._flush)
        try:
            await self._call.run()
        finally:
            self._call = self._task = None  # no reference cycles

    async def _send_keepalive(self) -> None:
        with suppress(ClientGone):
            await self._send(self._keepalive_data)

    # in the suspendable call

    def _write(self) -> None:
        with self._resources:
            self._is_complete = self._generate(self._put)
            self._flush()

    def _put(self, chunk: bytes) -> bool:
        self._unsent += chunk
        if len(self._unsent) >= _MAX_UNSENT:
            self._flush()
            assert self._call is not None
            self._call.wait_for(asyncio.sleep(0))  # the loop learns that the client has gone
        return not self._is_disconnected

    def _flush(self) -> None:
        if not self._unsent or self._is_disconnected:
            return
        assert self._call is not None
        chunks, self._unsent = bytes(self._unsent), bytearray()
        try:
            if sending := self._keepalive.pause():
                self._call.wait_for(sending)
            self._call.wait_for(self._send(chunks), at_once=self._at_once)
        except ClientGone:
            self._is_disconnected = True
        except Exception as error:  # noqa: BLE001 - not a failure of the function; raised by `send`
            self._failure, self._is_disconnected = error, True
        finally:
            self._keepalive.resume()


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
            self._timer = self._loop.call_later(self._seconds, self._check, self._send)
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

    def _check(self, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        now = self._loop.time()
        if now >= self._sent + self._seconds:
            self._sent = now
            if not self._is_paused and (self._sending is None or self._sending.done()):
                self._sending = self._loop.create_task(send())
        # one timer for many chunks
        self._timer = self._loop.call_at(self._sent + self._seconds, self._check, send)

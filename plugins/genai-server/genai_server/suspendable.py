"""Runs code in the event loop that is written for threads.

The code runs in a greenlet. Where it waits (`genai_host.util.waiting`), it switches back to the
event loop, as in the asyncio extension of SQLAlchemy. It continues as soon as its socket can be
read, without a task in between. A thread for each streamed reply would cost more memory, and of a
thousand threads each would wait for the others.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from greenlet import greenlet

from genai_host.util.waiting import WAITER

T = TypeVar("T")

_SOCKET: Any = object()  # instead of an awaitable: the code waits for its socket
_MAX_READS = 16  # without waiting; then others have their turn


def can_watch_sockets(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an event loop can watch sockets, which that of Windows cannot."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        try:
            loop.add_reader(mine.fileno(), int)
        except NotImplementedError:
            return False
        loop.remove_reader(mine.fileno())
        return True


class SuspendableCall:
    """A call of a function in the event loop, which it does not block where it waits. It is the
    `Waiter` of the function; its sockets become non-blocking.

    Args:
        loop: The event loop.
        submit: Runs a function in a thread.
        context: Context variables of the function. No other code runs in it.
        function: The function.
        before_waiting: Called in the function before it waits, except by `wait_for`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        submit: Callable[[Callable[[], None]], None],
        context: Context,
        function: Callable[[], None],
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._submit = submit
        self._before_waiting = before_waiting
        self._context = context
        self._greenlet = greenlet(function)
        self._greenlet.gr_context = context
        self._watched: socket.socket | None = None
        self._file = -1
        self._is_waiting = False
        self._reads = 0
        self._resumed: asyncio.Future[Any] | None = None

    async def run(self) -> None:
        """Call the function, once."""
        self._context.run(WAITER.set, self)
        try:
            value = self._greenlet.switch()
            while not self._greenlet.dead:
                try:
                    if value is _SOCKET:
                        self._resumed = self._loop.create_future()
                        value = await self._resumed
                        continue
                    result = await value
                except BaseException as error:
                    if self._greenlet.dead:
                        raise
                    self._is_waiting = False
                    value = self._greenlet.throw(error)
                else:
                    value = self._greenlet.switch(result)
        finally:
            self._unwatch()
            # no reference cycles
            self._context.run(WAITER.set, None)
            del self._greenlet, self._before_waiting

    # called in the function

    def receive(self, sock: Any, size: int) -> bytes:
        if not isinstance(sock, socket.socket):  # TLS within the TLS of a proxy
            received: bytes = self.call(sock.recv, size)
            return received
        if sock.gettimeout() != 0.0:
            sock.setblocking(False)
        self._reads += 1
        if self._reads > _MAX_READS:
            self._reads = 0
            self._before_waiting()
            self.wait_for(asyncio.sleep(0))
        while True:
            try:
                return sock.recv(size)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._before_waiting()
                self._watch(sock)
                self._is_waiting = True
                self._switch(_SOCKET)
                self._reads = 0
            except ssl.SSLWantWriteError:  # the peer renegotiates keys and reads slowly
                self._switch(_until_writable(self._loop, sock))

    def release(self, sock: Any) -> None:
        if sock is self._watched:
            self._unwatch()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        self._before_waiting()
        done: Future[T] = Future()
        try:
            self._submit(partial(_run_in_thread, done, function, *arguments))
        except RuntimeError:  # no thread is available; the work must be done anyway
            return function(*arguments)
        return self.wait_for(asyncio.wrap_future(done, loop=self._loop))

    def wait_for(self, awaitable: Awaitable[T], *, at_once: bool = False) -> T:
        """Wait for an awaitable.

        Args:
            awaitable: The awaitable.
            at_once: Whether it is a coroutine that may start outside of a task, for speed, as it
                usually ends at once.
        """
        if at_once:
            coroutine: Any = awaitable
            try:
                awaitable = _Started(coroutine, coroutine.send(None))
            except StopIteration as end:
                result: T = end.value
                return result
        value: T = self._switch(awaitable)
        return value

    def _switch(self, awaitable: Any) -> Any:
        loop = self._greenlet.parent
        assert loop is not None
        return loop.switch(awaitable)

    # called in the event loop

    def _watch(self, sock: socket.socket) -> None:
        if sock is not self._watched:
            self._unwatch()
            self._watched, self._file = sock, sock.fileno()
            self._loop.add_reader(self._file, self._on_readable)

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._watched = None
            self._loop.remove_reader(self._file)

    def _on_readable(self) -> None:
        resumed = self._resumed
        if not self._is_waiting or resumed is None or resumed.done():
            self._unwatch()  # it waits for something else, or was cancelled
            return
        self._is_waiting = False
        try:
            value = self._greenlet.switch()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            resumed.set_exception(error)
        else:
            if value is not _SOCKET:
                resumed.set_result(value)


def _run_in_thread(done: Future[T], function: Callable[..., T], *arguments: Any) -> None:
    is_awaited = done.set_running_or_notify_cancel()
    try:
        result = function(*arguments)
    except BaseException as error:  # noqa: BLE001 - raised where it was called
        if is_awaited:
            done.set_exception(error)
    else:
        if is_awaited:
            done.set_result(result)


class _Started:
    """Awaits the rest of a coroutine that was started.

    Args:
        coroutine: The coroutine.
        future: What it waits for.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], future: Any) -> None:
        self._coroutine = coroutine
        self._future = future

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            while True:
                try:
                    result = yield self._future
                except BaseException as error:  # noqa: BLE001 - raised in the coroutine
                    self._future = self._coroutine.throw(error)
                else:
                    self._future = self._coroutine.send(result)
        except StopIteration as end:
            return end.value


async def _until_writable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    writable = asyncio.Event()
    file = sock.fileno()
    loop.add_writer(file, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(file)

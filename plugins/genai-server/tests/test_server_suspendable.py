"""Code in the event loop that waits as in a thread."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import trustme
from genai_server.suspendable import SuspendableCall

from genai_host.util import waiting
from genai_host.util.waiting import WAITER

pytestmark = pytest.mark.part

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield mine, theirs


def in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work).start()


def started(
    function: Callable[[], None], submit: Callable[[Callable[[], None]], None] = in_thread
) -> asyncio.Task[None]:
    """Call a function in the running event loop."""
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    return loop.create_task(SuspendableCall(loop, submit, context, function).run())


async def until_it_waits() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(
    function: Callable[[], None],
    *steps: Callable[[], object],
    submit: Callable[[Callable[[], None]], None] = in_thread,
) -> None:
    """Call a function in an event loop, with a step each time that it waits."""

    async def run() -> None:
        task = started(function, submit)
        for step in steps:
            await until_it_waits()
            step()
        await task

    asyncio.run(run())


def test_a_function_waits_for_its_socket(pair: Pair) -> None:
    """The loop runs meanwhile, and there is no other thread."""
    mine, theirs = pair
    received: list[tuple[bytes, threading.Thread]] = []

    def function() -> None:
        while data := waiting.receive(mine, 99):
            received.append((data, threading.current_thread()))

    async def run() -> None:
        task = started(function)
        for data in (b"a", b"b", b"c"):
            await until_it_waits()
            theirs.sendall(data)
            await until_it_waits()
            assert received[-1] == (data, threading.current_thread())
        theirs.shutdown(socket.SHUT_WR)
        await task

    asyncio.run(run())
    assert [data for data, _ in received] == [b"a", b"b", b"c"]


def test_data_that_arrives_while_it_waits_for_something_else_is_read_later(pair: Pair) -> None:
    mine, theirs = pair
    received: list[bytes] = []
    sent = threading.Event()

    def function() -> None:
        received.append(waiting.receive(mine, 1))
        waiting.call(sent.wait)
        received.extend(waiting.receive(mine, 1) for _ in range(2))

    def check() -> None:
        assert received == [b"a"]
        sent.set()

    # the second does not wake the function
    run(function, partial(theirs.sendall, b"a"), partial(theirs.sendall, b"bc"), check)
    assert received == [b"a", b"b", b"c"]


def test_a_released_socket_can_be_closed_and_its_descriptor_used_again(pair: Pair) -> None:
    """Otherwise, the loop would keep watching the descriptor, which is soon that of another."""
    mine, theirs = pair
    received: list[bytes] = []

    def function() -> None:
        received.append(waiting.receive(mine, 9))
        waiting.release(mine)
        number = mine.fileno()
        mine.close()
        again, peer = socket.socketpair()
        with again, peer:
            assert number in (again.fileno(), peer.fileno())
            asyncio.get_running_loop().call_soon(peer.send, b"again")
            received.append(waiting.receive(again, 9))
            asyncio.get_running_loop().call_soon(again.send, b"reverse")
            received.append(waiting.receive(peer, 9))

    run(function, partial(theirs.sendall, b"first"))
    assert received == [b"first", b"again", b"reverse"]


def test_a_function_that_blocks_is_called_in_a_thread() -> None:
    threads: list[Any] = []

    def blocking(fails: bool) -> threading.Thread:
        assert WAITER.get() is None  # there, it blocks its thread
        if fails:
            raise OSError("no")
        return threading.current_thread()

    def function() -> None:
        threads.append(waiting.call(blocking, False))
        with pytest.raises(OSError, match="no"):
            waiting.call(blocking, True)

    run(function)
    assert threads[0] is not threading.current_thread()


def test_without_a_thread_it_is_called_in_the_loop() -> None:
    """It stores what must not be lost, for example the cost of an answer."""
    threads: list[threading.Thread] = []

    def refuse(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    run(lambda: threads.append(waiting.call(threading.current_thread)), submit=refuse)
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("has_waited", [False, True])
def test_its_exception_is_raised(pair: Pair, has_waited: bool) -> None:
    mine, theirs = pair

    def function() -> None:
        if has_waited:
            waiting.receive(mine, 9)
        raise LookupError("lost")

    async def run() -> None:
        task = started(function)
        await until_it_waits()
        theirs.sendall(b"a")
        with pytest.raises(LookupError, match="lost"):
            await task
        assert not asyncio.get_running_loop().remove_reader(mine)

    asyncio.run(run())


def test_a_cancelled_one_ends_where_it_waits(pair: Pair) -> None:
    mine, _ = pair
    ended: list[BaseException] = []

    def function() -> None:
        try:
            waiting.receive(mine, 9)
        except BaseException as error:
            ended.append(error)
            raise

    async def run() -> None:
        task = started(function)
        await until_it_waits()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not asyncio.get_running_loop().remove_reader(mine)

    asyncio.run(run())
    assert isinstance(ended[0], asyncio.CancelledError)


@pytest.mark.parametrize("at_once", [False, True])
def test_it_waits_for_coroutines(pair: Pair, at_once: bool) -> None:
    """Those that end at once, suspend, or raise, also after it was resumed by its socket."""
    mine, theirs = pair
    results: list[int] = []

    async def three() -> int:
        return 3

    async def suspending(value: int) -> int:
        await asyncio.sleep(0)
        resumed = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(resumed.set_result, None)
        await resumed
        if value < 0:
            raise ValueError(value)
        return value

    def function() -> None:
        waits: Any = WAITER.get()
        for _ in range(2):
            results.append(waits.wait_for(three(), at_once=at_once))
            results.append(waits.wait_for(suspending(4), at_once=at_once))
            with pytest.raises(ValueError, match="-1"):
                waits.wait_for(suspending(-1), at_once=at_once)
            waiting.receive(mine, 1)

    theirs.sendall(b"ab")
    run(function)
    assert results == [3, 4, 3, 4]


def test_a_part_of_a_tls_record_is_not_waited_for_in_the_loop(pair: Pair) -> None:
    """A service could stop within a record: then the loop must go on."""
    mine, theirs = pair
    authority = trustme.CA()
    context, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("service").configure_cert(context)
    authority.configure_trust(trusting)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    service = context.wrap_bio(incoming, outgoing, server_side=True)

    def shake() -> None:
        while True:
            try:
                service.do_handshake()
                return
            except ssl.SSLWantReadError:
                theirs.sendall(outgoing.read())
                incoming.write(theirs.recv(9999))
            finally:
                theirs.sendall(outgoing.read())

    peer = threading.Thread(target=shake)
    peer.start()
    secure = trusting.wrap_socket(mine, server_hostname="service")
    peer.join()
    received: list[bytes] = []

    def function() -> None:
        received.extend([waiting.receive(secure, 3), waiting.receive(secure, 9)])

    async def run() -> None:
        task = started(function)
        service.write(b"hello")
        record = outgoing.read()
        theirs.sendall(record[:-4])
        await until_it_waits()
        assert received == []
        theirs.sendall(record[-4:])  # the second part is decrypted, and not in the socket
        await task

    with secure:
        asyncio.run(run())
    assert received == [b"hel", b"lo"]


def test_one_that_always_has_data_lets_others_run(pair: Pair) -> None:
    mine, theirs = pair
    turns = 0

    def function() -> None:
        for _ in range(200):
            waiting.receive(mine, 1)

    async def run() -> None:
        nonlocal turns
        theirs.sendall(bytes(200))
        task = started(function)
        while not task.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(run())
    assert turns > 10

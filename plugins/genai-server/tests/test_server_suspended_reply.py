"""Replies whose chunks are generated and sent in the event loop, and callbacks of threads in it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from genai_server.asgi import ClientGone
from genai_server.response_buffer import Broken, LoopCallbacks
from genai_server.suspended_reply import SuspendedReply

from genai_host.util import waiting

Step = bytes | Callable[[], object]


class Client:
    """Receives what is sent, and notes when the reply is released.

    Attributes:
        received: Data, and `released`.
        faults: Raised by the next sends; None for none.
        held: While it is set, sending waits for it.
        sends: Number of sends.
    """

    def __init__(self) -> None:
        self.received: list[bytes | str] = []
        self.faults: list[Exception | None] = []
        self.held: asyncio.Future[None] | None = None
        self.sends = 0

    async def send(self, data: bytes) -> None:
        self.sends += 1
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault
        if self.held is not None:
            await self.held
        self.received.append(data)

    def reply(self, steps: Iterable[Step], *, keepalive_interval: float = 60.0) -> SuspendedReply:
        """A reply that yields bytes, and calls functions that may block."""

        def generate(put: Callable[[bytes], bool]) -> bool:
            for step in steps:
                if not isinstance(step, bytes):
                    waiting.call(step)
                elif not put(step):
                    return True
            return b"broken" not in steps

        ends = ExitStack()
        ends.callback(self.received.append, "released")
        return SuspendedReply(
            generate, ends, contextvars.Context(),
            submit=lambda work: threading.Thread(target=work).start(), send=self.send,
            at_once=True, keepalive=b":", keepalive_interval=keepalive_interval,
        )  # fmt: skip


def nothing() -> None:
    pass


def test_chunks_are_sent_before_it_waits_and_at_the_end() -> None:
    client = Client()
    large = bytes(64 * 1024)
    steps: list[Step] = [b"a", b"b", nothing, b"c", large, b"d"]
    asyncio.run(client.reply(steps).send())
    assert client.received == [b"ab", b"c" + large, b"d", "released"]


def test_an_incomplete_one_is_broken() -> None:
    client = Client()
    with pytest.raises(Broken):
        asyncio.run(client.reply([b"a", b"broken"]).send())
    assert client.received == [b"abroken", "released"]


@pytest.mark.parametrize("fault", [ClientGone(), LookupError("of the server")])
def test_an_error_of_sending_ends_it(fault: Exception) -> None:
    """It is not raised in the function, which would be blamed for it."""
    client = Client()
    client.faults = [None, fault]
    with pytest.raises(type(fault)):
        asyncio.run(client.reply([b"a", nothing, b"b", nothing, b"c"]).send())
    assert client.received == [b"a", "released"]


def test_one_that_is_not_sent_is_released() -> None:
    client = Client()

    async def run() -> None:
        reply = client.reply([b"a"])
        await reply.close()
        await reply.close()

    asyncio.run(run())
    client.reply([b"a"]).close_in_thread()
    assert client.received == ["released", "released"]


def test_an_abandoned_one_ends_although_it_hangs() -> None:
    client, ended = Client(), threading.Event()

    async def run() -> None:
        reply = client.reply([b"a", ended.wait])
        task = asyncio.create_task(reply.send())
        while not client.received:
            await asyncio.sleep(0)
        reply.abandon()
        with pytest.raises(Broken):
            await task
        reply.abandon()  # no effect

    asyncio.run(run())
    ended.set()
    assert client.received == [b"a", "released"]


def test_keep_alive_data_is_sent_while_it_waits_and_never_within_a_chunk() -> None:
    client, goes_on = Client(), threading.Event()
    is_at_end = False

    def steps() -> Iterator[Step]:
        nonlocal is_at_end
        yield goes_on.wait
        yield b"a"
        is_at_end = True

    async def run() -> None:
        client.held = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(client.reply(steps(), keepalive_interval=0.01).send())
        while not client.sends:
            await asyncio.sleep(0)
        goes_on.set()
        while not is_at_end:
            await asyncio.sleep(0)
        assert client.sends == 1  # the chunk waits for what is being sent
        client.held.set_result(None)
        await task

    asyncio.run(run())
    assert client.received == [b":", b"a", "released"]


def test_it_leaves_no_reference_cycles() -> None:
    client = Client()

    async def run() -> weakref.ref[SuspendedReply]:
        reply = client.reply([b"a", nothing])
        await reply.send()
        return weakref.ref(reply)

    gc.disable()
    try:
        assert asyncio.run(run())() is None
    finally:
        gc.enable()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with closing(asyncio.new_event_loop()) as event_loop:
        event_loop.set_exception_handler(lambda loop, context: None)
        yield event_loop


def done(loop: asyncio.AbstractEventLoop, work: Callable[[LoopCallbacks], object]) -> None:
    """Run a function in a thread while the loop is busy, then the callbacks that it scheduled."""
    callbacks = LoopCallbacks(loop)
    thread = threading.Thread(target=work, args=(callbacks,))
    thread.start()
    thread.join()
    for _ in range(2):  # what fails leaves the others for the next time
        loop.call_soon(loop.stop)
        loop.run_forever()


def test_it_is_woken_once_for_all_of_them_and_does_them_in_order(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    woken: list[Any] = []
    wake = loop.call_soon_threadsafe

    def counted(*arguments: Any) -> asyncio.Handle:
        woken.append(arguments)
        return wake(*arguments)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)

    def work(callbacks: LoopCallbacks) -> None:
        callbacks.add(seen.append, 1)
        for number in (2, 3, 4):
            callbacks.put(seen.append, number)

    done(loop, work)
    assert seen == [1, 2, 3, 4]
    assert len(woken) == 1


def test_failing_callback_does_not_stop_others(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []

    def work(callbacks: LoopCallbacks) -> None:
        callbacks.add(seen.append, 1)
        callbacks.add([].pop)
        callbacks.put(seen.append, 2)

    done(loop, work)
    assert seen == [1, 2]


def test_after_it_nothing_is_done(loop: asyncio.AbstractEventLoop) -> None:
    loop.close()
    callbacks = LoopCallbacks(loop)
    callbacks.put(pytest.fail, "the loop has ended")


def test_none_is_lost_while_others_are_done() -> None:
    count = 0

    def increase() -> None:
        nonlocal count
        count += 1

    async def all_of() -> None:
        callbacks = LoopCallbacks(asyncio.get_running_loop())

        def work() -> None:
            for _ in range(2_000):
                callbacks.put(increase)

        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
        while count < 8_000:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(all_of(), 60))
    assert count == 8_000

"""Callbacks that threads schedule in the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from genai_server.response_buffer import LoopCallbacks


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with closing(asyncio.new_event_loop()) as made:
        made.set_exception_handler(lambda loop, told: None)
        yield made


def done(loop: asyncio.AbstractEventLoop, work: Callable[[LoopCallbacks], object]) -> None:
    """Run a function in a thread while the loop is busy, then the callbacks that it scheduled."""
    errands = LoopCallbacks(loop)
    thread = threading.Thread(target=work, args=(errands,))
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

    def counted(*given: Any) -> asyncio.Handle:
        woken.append(given)
        return wake(*given)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)

    def work(errands: LoopCallbacks) -> None:
        errands.add(seen.append, 1)
        for number in (2, 3, 4):
            errands.put(seen.append, number)

    done(loop, work)
    assert seen == [1, 2, 3, 4]
    assert len(woken) == 1


def test_one_that_fails_keeps_no_other_from_being_done(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []

    def work(errands: LoopCallbacks) -> None:
        errands.add(seen.append, 1)
        errands.add([].pop)
        errands.put(seen.append, 2)

    done(loop, work)
    assert seen == [1, 2]


def test_after_it_nothing_is_done(loop: asyncio.AbstractEventLoop) -> None:
    loop.close()
    errands = LoopCallbacks(loop)
    errands.put(pytest.fail, "the loop has ended")


def test_none_is_lost_while_others_are_done() -> None:
    count = 0

    def increase() -> None:
        nonlocal count
        count += 1

    async def all_of() -> None:
        errands = LoopCallbacks(asyncio.get_running_loop())

        def work() -> None:
            for _ in range(2_000):
                errands.put(increase)

        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
        while count < 8_000:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(all_of(), 60))
    assert count == 8_000

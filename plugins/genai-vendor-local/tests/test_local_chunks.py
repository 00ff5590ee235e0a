"""The queue between llama.cpp and who reads: its end, its errors, its closing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from genai_vendor_local import engine
from genai_vendor_local.engine import Chunks

Background = Callable[..., Future[Any]]


class Watched(queue.SimpleQueue[Any]):
    """Tells when somebody is about to wait for its next item."""

    def __init__(self) -> None:
        self.is_waited_for = threading.Event()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self.empty():
            self.is_waited_for.set()
        return super().get(block, timeout)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Chunks, threading.Event]]:
    """Chunks, and what is set as soon as a reader of them has nothing to read."""
    queue = Watched()
    monkeypatch.setattr(engine, "queue", SimpleNamespace(SimpleQueue=lambda: queue))
    yield Chunks(never), queue.is_waited_for
    queue.put(None)  # whoever still waits need not any more


def never() -> bool:
    return False


@pytest.fixture
def chunks() -> Chunks:
    return Chunks(never)


@pytest.mark.parametrize("values", [[], ["one", b"two", bytearray(b"three")]], ids=len)
def test_chunks_come_in_order_until_the_end(chunks: Chunks, values: list[Any]) -> None:
    assert [chunks.receive(each) for each in values] == [False] * len(values)
    chunks.end()
    assert list(chunks) == [b"one", b"two", b"three"][: len(values)]
    assert chunks.complete
    chunks.close()
    assert list(chunks) == []


def test_chunks_are_not_complete_before_their_end(chunks: Chunks) -> None:
    chunks.receive("one")
    iteration = iter(chunks)
    assert next(iteration) == b"one"
    assert not chunks.complete
    chunks.end()
    assert next(iteration, None) is None
    assert chunks.complete


@pytest.mark.parametrize("ending", ["end", "close", "error"])
def test_another_thread_wakes_a_reader_that_is_blocked(
    watched: tuple[Chunks, threading.Event], background: Background, ending: str
) -> None:
    chunks, waited_for = watched
    chunks.receive("one")
    received: Future[list[bytes]] = background(list, chunks)
    assert waited_for.wait(30)
    error = RuntimeError("broken")
    if ending == "end":
        chunks.receive("two")
        chunks.end()
        assert received.result(30) == [b"one", b"two"]
    elif ending == "close":
        chunks.close()
        assert received.result(30) == [b"one"]
        assert not chunks.complete
    else:
        chunks.end(error)
        assert received.exception(30) is error


@pytest.mark.parametrize(("times", "error"), [(1, None), (3, None), (1, RuntimeError("broken"))])
def test_closing_drops_what_was_not_read_and_ends_the_generation(
    chunks: Chunks, times: int, error: Exception | None
) -> None:
    for each in ("one", "two"):
        assert chunks.receive(each) is False
    iteration = iter(chunks)
    assert next(iteration) == b"one"
    for _ in range(times):
        chunks.close()
    assert chunks.receive("three") is True
    chunks.end(error)
    assert list(iteration) == list(chunks) == []
    assert not chunks.complete


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_reaches_the_reader_after_what_came_before(
    chunks: Chunks, error: BaseException
) -> None:
    chunks.receive("one")
    chunks.end(error)
    iteration = iter(chunks)
    assert next(iteration) == b"one"
    with pytest.raises(type(error)) as caught:
        next(iteration)
    assert caught.value is error
    assert not chunks.complete


def test_an_engine_that_closes_ends_the_generation_and_completes_nothing() -> None:
    closing = threading.Event()
    chunks = Chunks(closing.is_set)
    assert chunks.receive("one") is False
    closing.set()
    assert chunks.receive("two") is True
    chunks.end()
    assert list(chunks) == [b"one"]
    assert not chunks.complete


def test_a_thread_that_tells_and_one_that_reads_lose_nothing(
    chunks: Chunks, background: Background
) -> None:
    expected = [str(number).encode() for number in range(2000)]

    def generate() -> bool:
        ended = [chunks.receive(each) for each in expected]
        chunks.end()
        return any(ended)

    received: Future[list[bytes]] = background(list, chunks)
    assert background(generate).result(30) is False
    assert received.result(30) == expected

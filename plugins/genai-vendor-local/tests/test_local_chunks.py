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
def waited_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set as soon as a reader of `Chunks` made in this test has nothing to read."""
    made = Watched()
    monkeypatch.setattr(engine, "queue", SimpleNamespace(SimpleQueue=lambda: made))
    yield made.is_waited_for
    made.put(None)  # whoever still waits need not any more


def never() -> bool:
    return False


def test_chunks_come_in_order_until_the_end() -> None:
    chunks = Chunks(never)
    assert [chunks.receive(each) for each in ("one", b"two", bytearray(b"three"))] == [False] * 3
    chunks.end()
    assert list(chunks) == [b"one", b"two", b"three"]
    assert chunks.complete


def test_nothing_at_all_may_come() -> None:
    chunks = Chunks(never)
    chunks.end()
    assert list(chunks) == []
    assert chunks.complete


def test_chunks_are_not_complete_before_their_end() -> None:
    chunks = Chunks(never)
    chunks.receive("one")
    iteration = iter(chunks)
    assert next(iteration) == b"one"
    assert not chunks.complete
    chunks.end()
    assert next(iteration, None) is None
    assert chunks.complete


def test_chunks_from_another_thread_wake_the_reader(
    waited_for: threading.Event, background: Background
) -> None:
    chunks = Chunks(never)
    heard: Future[list[bytes]] = background(list, chunks)
    assert waited_for.wait(30)
    chunks.receive("one")
    chunks.end()
    assert heard.result(30) == [b"one"]


def test_closing_from_another_thread_ends_a_blocked_iteration(
    waited_for: threading.Event, background: Background
) -> None:
    chunks = Chunks(never)
    chunks.receive("one")
    heard: Future[list[bytes]] = background(list, chunks)
    assert waited_for.wait(30)
    chunks.close()
    assert heard.result(30) == [b"one"]
    assert not chunks.complete


def test_closing_drops_what_was_not_read() -> None:
    chunks = Chunks(never)
    for each in ("one", "two", "three"):
        chunks.receive(each)
    iteration = iter(chunks)
    assert next(iteration) == b"one"
    chunks.close()
    assert list(iteration) == []
    assert list(chunks) == []
    assert not chunks.complete


@pytest.mark.parametrize("times", [1, 3])
def test_closing_ends_the_generation_at_its_next_chunk(times: int) -> None:
    chunks = Chunks(never)
    assert chunks.receive("one") is False
    for _ in range(times):
        chunks.close()
    assert chunks.receive("two") is True
    chunks.end()
    assert list(chunks) == []
    assert not chunks.complete


def test_closing_after_the_end_changes_nothing_that_was_read() -> None:
    chunks = Chunks(never)
    chunks.receive("one")
    chunks.end()
    assert list(chunks) == [b"one"]
    chunks.close()
    assert list(chunks) == []


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_reaches_the_reader_after_what_came_before(error: BaseException) -> None:
    chunks = Chunks(never)
    chunks.receive("one")
    chunks.end(error)
    iteration = iter(chunks)
    assert next(iteration) == b"one"
    with pytest.raises(type(error)) as caught:
        next(iteration)
    assert caught.value is error
    assert not chunks.complete


def test_an_error_wakes_a_reader_that_is_blocked(
    waited_for: threading.Event, background: Background
) -> None:
    chunks = Chunks(never)
    heard: Future[list[bytes]] = background(list, chunks)
    assert waited_for.wait(30)
    error = RuntimeError("broken")
    chunks.end(error)
    assert heard.exception(30) is error


def test_an_error_after_closing_is_nobodys_concern() -> None:
    chunks = Chunks(never)
    chunks.close()
    chunks.end(RuntimeError("broken"))
    assert list(chunks) == []


def test_an_engine_that_closes_ends_the_generation_and_completes_nothing() -> None:
    closing = threading.Event()
    chunks = Chunks(closing.is_set)
    assert chunks.receive("one") is False
    closing.set()
    assert chunks.receive("two") is True
    chunks.end()
    assert list(chunks) == [b"one"]
    assert not chunks.complete


def test_a_thread_that_tells_and_one_that_reads_lose_nothing(background: Background) -> None:
    chunks = Chunks(never)
    expected = [str(number).encode() for number in range(2000)]

    def generate() -> bool:
        ended = [chunks.receive(each) for each in expected]
        chunks.end()
        return any(ended)

    heard: Future[list[bytes]] = background(list, chunks)
    assert background(generate).result(30) is False
    assert heard.result(30) == expected

"""Loading a file: once, waited for only as long as one likes, and checked before in a
process of its own. No weights are needed here."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from genai_vendor_local import Settings, engine as module, loadable
from genai_vendor_local.engine import Chunks, Engine
from genai_vendor_local.loadable import must_be_loadable

from genai_host.api import Cancellation, child_process
from genai_host.errors import ConfigurationError, ProviderRemoved
from genai_host_testing.internal.fixtures import Background
from genai_host_testing.internal.vendors import Watched


class Loads:
    """What stands for loading: it ends when it is released, in a server or in an error.

    Attributes:
        begun: Set as soon as a load has begun.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.count = 0
        self.error: Exception | None = None

    def make(self) -> Any:
        self.count += 1
        self.begun.set()
        self.release.wait(60)
        if self.error is not None:
            raise self.error
        return self

    def handle_chat_completions(self, body: bytes, tell: Callable[[Any], bool]) -> None:
        tell(b"hi")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loads]:
    new_loads = Loads()
    monkeypatch.setattr(Engine, "_make_server", lambda engine: new_loads.make())
    monkeypatch.setattr(module, "must_be_loadable", lambda *_: None)
    yield new_loads
    new_loads.release.set()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path / "my.gguf", Settings(), tmp_path / "checked")


def test_load_goes_on_after_cancelling(
    engine: Engine, loads: Loads, background: Background
) -> None:
    limits = Cancellation()
    first = background(engine.chat, {}, limits)
    assert loads.begun.wait(60)
    limits.cancel()
    assert repr(first.exception(60)) == "Cancelled('cancelled')"
    second = background(engine.chat, {}, Cancellation())
    loads.release.set()
    assert list(second.result(60)) == [b"hi"]
    assert loads.count == 1


def test_cancelling_leaves_others(engine: Engine, loads: Loads, background: Background) -> None:
    impatient, patient = Watched(), Watched()
    replies = [background(engine.chat, {}, limits) for limits in (impatient, patient)]
    assert impatient.is_waited_for.wait(60)
    assert patient.is_waited_for.wait(60)
    impatient.cancel()
    assert repr(replies[0].exception(60)) == "Cancelled('cancelled')"
    assert not replies[1].done()
    loads.release.set()
    assert list(replies[1].result(60)) == [b"hi"]
    assert loads.count == 1


def test_a_load_that_failed_is_tried_again(engine: Engine, loads: Loads) -> None:
    loads.release.set()
    loads.error = ConfigurationError("cannot be loaded")
    for _ in range(2):
        with pytest.raises(ConfigurationError):
            engine.chat({}, Cancellation())
    loads.error = None
    assert list(engine.chat({}, Cancellation())) == [b"hi"]
    assert loads.count == 3


def test_closing_waits_for_a_load(engine: Engine, loads: Loads, background: Background) -> None:
    reply = background(engine.chat, {}, Cancellation())
    assert loads.begun.wait(60)
    closing = background(engine.close)
    assert not closing.done()
    loads.release.set()
    closing.result(60)
    reply.exception(60)  # what came of it depends on who came first
    with pytest.raises(ProviderRemoved):
        engine.chat({}, Cancellation())


def test_closing_waits_for_what_has_only_just_begun(
    engine: Engine, loads: Loads, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread cannot be waited for before it is started."""
    loads.release.set()
    assert list(engine.chat({}, Cancellation())) == [b"hi"]
    closings: list[Future[None]] = []

    class Late(threading.Thread):
        def start(self) -> None:
            if self.name == "llama.cpp":
                closings.append(background(engine.close))
                wait(closings, 0.3)  # all the time in the world to fail
            super().start()

    monkeypatch.setattr(threading, "Thread", Late)
    engine.chat({}, Cancellation())
    assert closings[0].exception(60) is None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that has to be tried."""
    path = tmp_path / "my.gguf"
    path.write_bytes(b"GGUF and more")
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started in this test."""
    processes = []
    popen = subprocess.Popen

    def start(*arguments: Any, **named: Any) -> Any:
        processes.append(popen(*arguments, **named))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return processes


@pytest.mark.smoke
@pytest.mark.process
def test_cancelling_ends_the_process_that_tries_a_file(
    file: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]], background: Background,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(child_process, "_MAIN", "import time; time.sleep(600)")
    limits = Watched()
    tried = background(must_be_loadable, file, tmp_path / "checked", limits)
    assert limits.is_waited_for.wait(60)
    limits.cancel()
    assert repr(tried.exception(60)) == "Cancelled('cancelled')"
    assert started[0].returncode
    assert not (tmp_path / "checked").exists()  # it is not taken for good, or for bad


@pytest.mark.process
def test_one_process_tries_a_file_at_a_time(
    engine: Engine, file: Path, loads: Loads, started: list[subprocess.Popen[bytes]],
    background: Background, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whoever waits for it tries the file in turn, if who was first was cancelled."""
    monkeypatch.setattr(module, "must_be_loadable", must_be_loadable)
    monkeypatch.setattr(child_process, "_MAIN", "import time; time.sleep(600)")
    loads.release.set()
    first, second = Watched(), Cancellation()
    trying = background(engine.chat, {}, first)
    assert first.is_waited_for.wait(60)
    waiting = background(engine.chat, {}, second)
    monkeypatch.setattr(child_process, "_MAIN", """print('{"value": null}')""")
    first.cancel()
    assert repr(trying.exception(60)) == "Cancelled('cancelled')"
    assert list(waiting.result(60)) == [b"hi"]
    assert [process.returncode is not None for process in started] == [True, True]


SPY = "import pathlib; pathlib.Path({mark!r}).touch()"


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has files that are called like modules. Gives what they leave."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    mark = tmp_path / "executed"
    for name in ("xllamacpp", "pip", "uv", "runpy", "os", "subprocess", "sitecustomize"):
        (folder / f"{name}.py").write_text(SPY.format(mark=str(mark)), encoding="utf-8")
    monkeypatch.chdir(folder)
    return mark


@pytest.mark.process
def test_current_folder_is_not_executed(file: Path, tmp_path: Path, hostile: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot load"):
        must_be_loadable(file, tmp_path / "checked", Cancellation())
    assert not hostile.exists()


@pytest.mark.process
@pytest.mark.parametrize("name", ["pip", "uv"])
def test_no_installer_of_the_current_folder_is_executed(hostile: Path, name: str) -> None:
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed in this environment")
    done = subprocess.run(
        loadable.module(name, "--version"), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{name} ")
    assert not hostile.exists()


@pytest.mark.process
def test_other_python_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even in a folder that is named from the current one."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "only_here.py").write_text(
        "import sys\nprint('found', __name__, sys.prefix)", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "modules")
    done = subprocess.run(loadable.module("only_here"), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["found", "__main__", sys.prefix]


class WatchedQueue(queue.SimpleQueue[Any]):
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
    queue = WatchedQueue()
    monkeypatch.setattr(module, "queue", SimpleNamespace(SimpleQueue=lambda: queue))
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
def test_closing_ends_the_generation(chunks: Chunks, times: int, error: Exception | None) -> None:
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
def test_error_comes_after_what_came_before(chunks: Chunks, error: BaseException) -> None:
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


def test_threads_that_tell_and_read_lose_nothing(chunks: Chunks, background: Background) -> None:
    expected = [str(number).encode() for number in range(2000)]

    def generate() -> bool:
        ended = [chunks.receive(each) for each in expected]
        chunks.end()
        return any(ended)

    received: Future[list[bytes]] = background(list, chunks)
    assert background(generate).result(30) is False
    assert received.result(30) == expected

"""Loading a file: once, waited for only as long as one likes, and checked before in a
process of its own. No weights are needed here."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from genai_vendor_local import Settings, engine as module, loadable
from genai_vendor_local.engine import Engine
from genai_vendor_local.loadable import must_be_loadable

from genai_host.api import Cancellation, child_process
from genai_host.errors import ConfigurationError, ProviderRemoved
from genai_host_testing.internal.vendors import Watched

Background = Callable[..., Future[Any]]


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


def test_cancelling_ends_the_wait_for_a_load_and_the_load_goes_on(
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


def test_cancelling_one_that_waits_leaves_the_others_waiting(
    engine: Engine, loads: Loads, background: Background
) -> None:
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
    file: Path,
    tmp_path: Path,
    started: list[subprocess.Popen[bytes]],
    background: Background,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    engine: Engine,
    file: Path,
    loads: Loads,
    started: list[subprocess.Popen[bytes]],
    background: Background,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
def test_nothing_in_the_current_folder_is_executed(
    file: Path, tmp_path: Path, hostile: Path
) -> None:
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
def test_a_python_of_its_own_finds_what_this_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even in a folder that is named from the current one."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "only_here.py").write_text(
        "import sys\nprint('found', __name__, sys.prefix)", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "modules")
    done = subprocess.run(loadable.module("only_here"), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["found", "__main__", sys.prefix]

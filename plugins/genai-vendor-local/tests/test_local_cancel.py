"""Ending what the real model does: cancelling, closing; and that nobody can reach it."""

from __future__ import annotations

import gc
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from genai_vendor_local.engine import Chunks, Engine
from genai_vendor_local.weights import DEFAULT

from genai_host import Conversation, Event, Host
from genai_host.api import Cancellation
from genai_host.errors import Cancelled, GenaiError, ProviderRemoved
from genai_host_testing.internal.fixtures import Background, MakeHost

pytestmark = pytest.mark.weights


ENDLESS = {"type": "array", "items": {"const": True}, "minItems": 450}
"""What the model is made to write: it takes some ten seconds, unless it is ended."""

LONG = "word " * 900
"""What the model has to read: it takes some six seconds, unless it is ended."""

of_linux = pytest.mark.skipif(
    not Path("/proc/self/net/tcp").exists(), reason="what a process holds is read from /proc"
)


class Overheard:
    """All that llama.cpp tells, and whether it was told to end; `hold` stops it there.

    Attributes:
        reading: Set as soon as it has read a part of its prompt.
        writing: Set as soon as it has written something.
        at_reading: Called then, in its thread.
        at_writing: Called then, in its thread.
        held: Set while it is held.
    """

    def __init__(self) -> None:
        self.reading = threading.Event()
        self.writing = threading.Event()
        self.at_reading: Callable[[], None] = lambda: None
        self.at_writing: Callable[[], None] = lambda: None
        self.held = threading.Event()
        self.hold = threading.Event()
        self.release = threading.Event()
        self.progress: list[dict[str, int]] = []
        self.ends: list[bool] = []

    def hear(self, chunk: Any, tell: Callable[[Any], bool]) -> bool:
        data = json.loads(chunk)
        progress = data.get("prompt_progress")
        if progress is not None:
            self.progress.append(progress)
            if progress["cache"] < progress["processed"] < progress["total"]:
                self._once(self.reading, self.at_reading)
        if any((choice.get("delta") or {}).get("content") for choice in data.get("choices", ())):
            self._once(self.writing, self.at_writing)
        if self.hold.is_set():
            self.held.set()
            self.release.wait(60)
        self.ends.append(tell(chunk))
        return self.ends[-1]

    def _once(self, event: threading.Event, call: Callable[[], None]) -> None:
        if not event.is_set():
            call()
            event.set()


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Overheard]:
    recorder = Overheard()
    receive = Chunks.receive
    monkeypatch.setattr(
        Chunks,
        "receive",
        lambda chunks, chunk: recorder.hear(chunk, lambda each: receive(chunks, each)),
    )
    yield recorder
    recorder.release.set()


def open_chat(host: Host, model: str = "smollm2") -> Conversation:
    return host.open("chat", model, parameters={"max_tokens": 950, "temperature": 0})


def engines() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "llama.cpp"]


def wait_for_engines() -> None:
    for thread in engines():
        thread.join(60)
    assert engines() == []


def assert_ended(overheard: Overheard) -> None:
    """It was told once that it is to end, and said no more then."""
    wait_for_engines()
    assert overheard.ends.count(True) == 1
    assert overheard.ends[-1] is True


def assert_answers(host: Host) -> None:
    answer = host.open("chat", "smollm2", parameters={"max_tokens": 1}).say("hi")
    assert answer.usage.output_tokens == 1


@pytest.mark.parametrize("model", ["smollm2", "whole"])
def test_cancelling_ends_the_generation(
    local_host: Host, overheard: Overheard, background: Background, model: str
) -> None:
    conversation = open_chat(local_host, model)
    answer: Future[Any] = background(conversation.say, "hi", output_type=ENDLESS)
    assert overheard.writing.wait(60)
    conversation.cancel()
    assert repr(answer.exception(60)) == "Cancelled('cancelled')"
    assert_ended(overheard)
    assert conversation.history == ()
    assert conversation.status == "idle"
    assert_answers(local_host)


def test_cancelling_ends_a_blocked_read_whatever_the_engine_does(
    local_host: Host, overheard: Overheard, background: Background
) -> None:
    conversation = open_chat(local_host)
    answer: Future[Any] = background(conversation.say, "hi", output_type=ENDLESS)
    assert overheard.writing.wait(60)
    overheard.hold.set()
    assert overheard.held.wait(60)  # from here on there is nothing to read
    conversation.cancel()
    assert repr(answer.exception(60)) == "Cancelled('cancelled')"
    assert len(engines()) == 1
    overheard.release.set()
    assert_ended(overheard)
    assert_answers(local_host)


def test_cancelling_ends_reading_of_a_long_prompt(local_host: Host, overheard: Overheard) -> None:
    conversation = open_chat(local_host)
    overheard.at_reading = conversation.cancel
    with pytest.raises(Cancelled):
        conversation.say(LONG)
    assert_ended(overheard)
    assert overheard.reading.is_set()
    assert overheard.progress[-1]["processed"] < overheard.progress[-1]["total"]
    assert not overheard.writing.is_set()
    assert_answers(local_host)


def test_what_is_cancelled_is_computed_no_further(
    make_local_host: MakeHost, overheard: Overheard, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[Engine] = []
    prepare = Engine._params

    def measured(engine: Engine, params: Any, folder: str) -> Any:
        created.append(engine)
        prepare(engine, params, folder)
        params.endpoint_metrics = True
        return params

    monkeypatch.setattr(Engine, "_params", measured)
    host = make_local_host()
    conversation = open_chat(host)
    overheard.at_writing = conversation.cancel
    with pytest.raises(Cancelled):
        conversation.say("hi", output_type=ENDLESS)
    assert_ended(overheard)
    assert_answers(host)  # it does one thing after the other
    (engine,) = created
    server = engine._loaded(Cancellation())
    counted = re.search(r"tokens_predicted_total (\d+)", str(server.handle_metrics()))
    assert counted is not None
    assert 1 <= int(counted[1]) < 450


def test_cancelling_one_conversation_leaves_the_others_alone(
    local_host: Host, overheard: Overheard, background: Background
) -> None:
    cancelled, other = open_chat(local_host), open_chat(local_host)
    ending: Future[Any] = background(cancelled.say, "hi", output_type=ENDLESS)
    assert overheard.writing.wait(60)
    going: Future[Any] = background(other.say, "hi", output_type={"const": "still here"})
    cancelled.cancel()
    assert repr(ending.exception(60)) == "Cancelled('cancelled')"
    assert going.result(60).data == "still here"
    wait_for_engines()
    assert overheard.ends.count(True) == 1


def maps_of(file: Path) -> int:
    """How often a file is mapped into the memory of this process."""
    name = os.path.realpath(file)
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(name)


@pytest.mark.parametrize(("ending", "expected"), [
    ("close the conversation", Cancelled), ("close the host", Cancelled),
    ("remove the provider", ProviderRemoved), ("disable the provider", ProviderRemoved),
])  # fmt: skip
def test_whatever_ends_a_call_ends_the_generation(
    make_local_host: MakeHost, overheard: Overheard, background: Background, ending: str,
    expected: type[GenaiError],
) -> None:  # fmt: skip
    host = make_local_host()
    conversation = open_chat(host)
    events: Future[list[Event]] = background(list, conversation.stream("hi", output_type=ENDLESS))
    assert overheard.writing.wait(60)
    endings: dict[str, Callable[[], None]] = {
        "close the conversation": conversation.close,
        "close the host": host.close,
        "remove the provider": lambda: host.instances.remove("local"),
        "disable the provider": lambda: host.instances.disable("local"),
    }
    endings[ending]()
    assert type(events.exception(60)) is expected
    if ending != "close the conversation":
        assert engines() == []  # closing has waited for it
    assert_ended(overheard)


@of_linux
def test_closing_the_host_frees_the_engine(
    make_local_host: MakeHost, weights: Path, overheard: Overheard, background: Background
) -> None:
    file = DEFAULT.file(weights)
    gc.collect()  # what earlier tests left must not be let go of while this one counts
    before = maps_of(file)
    host = make_local_host()
    answer: Future[Any] = background(open_chat(host).say, "hi", output_type=ENDLESS)
    assert overheard.writing.wait(60)
    assert maps_of(file) > before
    host.close()
    assert repr(answer.exception(60)) == "Cancelled('cancelled')"
    assert engines() == []
    assert maps_of(file) == before


def own_inodes() -> set[str]:
    """The sockets of this process."""
    inodes = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    return inodes


def listeners() -> list[str]:
    """The TCP sockets of this process that listen: proc(5), state 0A."""
    own, addresses = own_inodes(), []
    for table in ("tcp", "tcp6"):
        file = Path("/proc/self/net") / table
        lines = file.read_text(encoding="ascii").splitlines()[1:] if file.exists() else []
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in own:
                addresses.append(fields[1])
    return addresses


@of_linux
def test_no_port_listens_for_the_engine(
    make_local_host: MakeHost, overheard: Overheard, background: Background
) -> None:
    before = listeners()
    conversation = open_chat(make_local_host())
    answer: Future[Any] = background(conversation.say, "hi", output_type=ENDLESS)
    assert overheard.writing.wait(60)
    assert listeners() == before
    with socket.create_server(("127.0.0.1", 0)):
        assert len(listeners()) == len(before) + 1  # which this would have found
    conversation.cancel()
    assert repr(answer.exception(60)) == "Cancelled('cancelled')"


@of_linux
def test_no_socket_of_the_engine_can_be_found(make_local_host: MakeHost) -> None:
    assert_answers(make_local_host())
    table = Path("/proc/self/net/unix").read_text(encoding="utf-8").splitlines()[1:]
    own = own_inodes()
    paths = [fields[7] for line in table if len(fields := line.split()) > 7 and fields[6] in own]
    assert [path for path in paths if not path.startswith("@") and Path(path).exists()] == []


@pytest.mark.parametrize("name", ["t", "long" * 25])
def test_the_folder_of_its_socket_is_gone(
    make_local_host: MakeHost, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a socket has at most 107 bytes on Linux, 103 on macOS; a folder may have more."""
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert_answers(make_local_host())
    assert list(folder.iterdir()) == []

"""What a store is worth when processes are killed, and when many begin at once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import stepping
from stepping import host_of_steps

from genai_host.conversations.record import StepEnded, StepStarted
from genai_host.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are killed as POSIX does")


def is_whole(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as connection:
        (text,) = connection.execute("PRAGMA integrity_check").fetchone()
        return bool(text == "ok" and not connection.execute("PRAGMA foreign_key_check").fetchall())


class Nursery:
    """Starts processes that stop between steps, one at a time; see `stepping`."""

    def __init__(self) -> None:
        command = [sys.executable, stepping.__file__]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def start(self, work: str, file: Path, log: Path) -> int:
        """Its process id."""
        self._write(json.dumps([work, str(file), str(log)]))
        process = self.receive()
        assert isinstance(process, int)
        return process

    def receive(self) -> Any:
        """What it tells next, or how it ended."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def go_on(self) -> None:
        """Let it leave the point at which it stopped."""
        self._write("go on")

    def close(self) -> None:
        self._process.communicate()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.mark.process
@pytest.mark.parametrize("point", stepping.POINTS)
@pytest.mark.parametrize("step", stepping.STEPS)
def test_kill_between_any_two_steps_of_a_5_step_feature_then_resume_gives_the_same_answer(
    nursery: Nursery, tmp_path: Path, step: str, point: str
) -> None:
    """And no unrepeatable step is done twice: one that was under way ends as interrupted."""
    file, log = tmp_path / "x.db", tmp_path / "log"
    process = nursery.start("say", file, log)
    while (reached := nursery.receive()) != [step, point]:
        assert isinstance(reached, list), f"it is past that: {reached}"
        nursery.go_on()
    os.kill(process, signal.SIGKILL)  # it waits there
    assert nursery.receive() == {"ended": -signal.SIGKILL}
    nursery.start("resume", file, log)
    came = nursery.receive()
    assert nursery.receive() == {"ended": 0}

    begun, done, known = (stepping.POINTS.index(point) >= n for n in (1, 2, 3))
    expected = dict.fromkeys(stepping.STEPS, 1)
    text, error = stepping.ANSWER, ""
    if begun and not known:  # nobody can know whether it was done
        if step in stepping.REPEATABLE:
            expected[step] = 1 + done
        else:
            expected[step] = int(done)
        if step == "send":  # for the feature, and its model, to go on from
            text = text.replace("send", "'send' was interrupted and may have completed")
        if step == "charge":
            expected.update(dict.fromkeys(stepping.STEPS[1:], 0))
            text, error = "", "StepInterrupted"
    assert (came["text"], came["error"]) == (text, error)
    assert came["was"] == ("interrupted" if begun or step != "charge" else "idle")
    assert came["history"] == ([str(log), text] if text else [])
    assert is_whole(file)
    traces = log.read_text(encoding="ascii").split() if log.exists() else []
    assert Counter(traces) == Counter(expected)


@pytest.mark.slow
def test_sixteen_processes_can_make_the_first_run_at_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "x.db"
    code = f"""
import sys
sys.path.insert(0, {str(Path(stepping.__file__).parent)!r})
from stepping import host_of_steps
from genai_host.store import Store
with Store({str(file)!r}, patience=60.0) as store, host_of_steps(store) as host:
    sys.stdin.readline()
    conversation = host.open("steps", "fake")
    conversation.say({str(tmp_path / "log")!r})
    assert conversation.record_error is None, conversation.record_error
    print(conversation.id)
"""
    pipe, command = subprocess.PIPE, [sys.executable, "-c", code]
    processes = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(16)
    ]
    ended = [process.communicate("go\n", timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0] * 16, ended
    assert is_whole(file)
    with Store(file) as store:
        conversations = store.conversations(limit=None)
        assert {each.id for each in conversations} == {output.strip() for output, _ in ended}
        assert [each.status for each in conversations] == ["idle"] * 16
        assert [each.turns for each in conversations] == [1] * 16


@pytest.mark.smoke
@pytest.mark.process
def test_a_turn_is_interrupted_once_its_process_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    code = f"""
import sys
from genai_host_testing.internal.stores import begin
from genai_host import Message
from genai_host.conversations.record import StepStarted, TurnStarted
from genai_host.store import Store
record = begin(Store({str(file)!r}))
record.append(TurnStarted(0, Message("user", "hi"), "1", 0))
record.append(StepStarted(0, (0,), "prompt", "x"))
print("written", flush=True)
sys.stdin.readline()
"""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)
    with process, Store(file) as store:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        assert [each.status for each in store.conversations()] == ["running"]
        process.kill()
        process.wait()
        assert [each.status for each in store.conversations()] == ["interrupted"]
        assert list((tmp_path / "x.db.writers").iterdir()) == []


def test_steps_and_results_are_on_disk_before_they_are_used(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store, host_of_steps(store) as host:
        conversation = host.open("steps", "fake")
        conversation.say(str(tmp_path / "log"))
        kinds = [type(entry) for entry in store.entries(conversation.id, host.codec)[2:-1]]
        assert kinds == [StepStarted, StepEnded] * 5

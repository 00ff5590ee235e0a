"""`genai-host batch run` in a process that is killed: it goes on, and no row is asked for nothing
or there twice. See tests/acceptance/test_kills.py for rows that are recorded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genai_host_testing.fake_service import HANG, FakeService, Received, Reply
from genai_host_testing.internal.servers import configure
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.slow

ROWS, KILLED_AT, AT_ONCE = 200, 80, 4


class Counting:
    """A service that answers with what it is asked, and counts that. The calls from `KILLED_AT`
    on hang until `goes_on`; `is_full` once `AT_ONCE` of them do."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.is_full = threading.Event()
        self.goes_on = False
        self._lock = threading.Lock()

    def __call__(self, received: Received) -> Reply:
        body = received.json()
        prompt = body["messages"][-1]["content"]
        with self._lock:
            self.asked[prompt] += 1
            number = self.asked.total()
            if number >= KILLED_AT + AT_ONCE and not self.goes_on:
                self.is_full.set()
            hangs = number > KILLED_AT and not self.goes_on
        whole = chat(f"<{prompt}>", streamed=body.get("stream", False))
        return Reply([HANG]) if hangs else whole


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def service(home: Path, counting: Counting) -> Iterator[FakeService]:
    with FakeService(answer=counting) as service:
        configure(home, service)
        yield service


def begin(source: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "genai_host", "batch", "run", str(source), "-m", "remote/m",
         "--concurrency", str(AT_ONCE)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_item_2_killed_batch(service: FakeService, counting: Counting, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'"row {number}"\n' for number in range(ROWS)), encoding="utf-8")
    with begin(source) as killed:
        assert counting.is_full.wait(60)
        killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    output = tmp_path / "in.jsonl.answers.jsonl"
    assert not output.exists()
    done = {each["row"] for each in lines(Path(f"{output}.journal"))[1:]}
    assert len(done) == KILLED_AT
    in_flight = [each for each in counting.asked if int(each[4:]) + 1 not in done]
    assert len(in_flight) == AT_ONCE

    counting.goes_on = True
    with begin(source) as second:
        out, err = second.communicate(timeout=120)
    assert (second.returncode, out) == (0, f"{output}\n"), err
    assert [each["text"] for each in lines(output)] == [f"<row {n}>" for n in range(ROWS)]
    assert [each["row"] for each in lines(output)] == list(range(1, ROWS + 1))
    assert not Path(f"{output}.journal").exists()
    assert counting.asked == {f"row {n}": 2 if f"row {n}" in in_flight else 1 for n in range(ROWS)}

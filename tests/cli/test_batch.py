"""`genai-host batch`, with the installed plugins, also in a process that is killed: it goes on, and
no row is asked for nothing or there twice (of recorded rows: acceptance/test_kills.py)."""

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
from genai_batch.batch import BatchProgress
from genai_batch.cli import _Bar, _line
from support import Terminal

from genai_host_testing import ManualClock
from genai_host_testing.fake_service import HANG, FakeService, Received, Reply
from genai_host_testing.internal.servers import configure
from genai_host_testing.services.openai import chat


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.jsonl"
    file.write_text('"one"\n{"id": "b", "prompt": "two"}\n', encoding="utf-8")
    return file


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_it_writes_answers_in_order_and_says_where(terminal: Terminal, source: Path) -> None:
    code, out, err = terminal("batch run", str(source), "-p", "mock")
    output = source.with_name("in.jsonl.answers.jsonl")
    assert (code, out) == (0, f"{output}\n")
    assert err.startswith("2 rows, 0 failed")
    assert [(each["row"], each["id"], each["text"]) for each in read(output)] == [
        (1, "", "one"),
        (2, "b", "two"),
    ]


def test_json_says_how_it_ended(terminal: Terminal, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "o"
    summary = terminal.json("batch run --concurrency 1 -p mock", str(source), "-o", str(output))
    assert (summary["rows"], summary["failed"], summary["output"]) == (2, 0, str(output))
    assert output.exists()


def test_what_was_interrupted_is_continued(terminal: Terminal, source: Path) -> None:
    def draw(self: _Bar, progress: BatchProgress) -> None:
        if progress.done == 1:
            raise KeyboardInterrupt

    command = ("batch", "run", str(source), "-p", "mock", "--concurrency", "1")
    with terminal.monkeypatch.context() as patch:
        patch.setattr(_Bar, "draw", draw)
        code, out, err = terminal(*command)
    assert (code, out) == (130, "")
    assert err == "finished rows are saved; continue with the same command\n\ninterrupted\n"
    code, out, _ = terminal(*command, "--json")
    summary = json.loads(out)
    assert (code, summary["done"], summary["before"]) == (0, 2, 1)


def test_the_last_used_model_is_asked(terminal: Terminal, source: Path) -> None:
    terminal.configure("[defaults]\nremember = true\n")
    assert terminal("ask -p mock hi")[0] == 0
    code, _, err = terminal("batch run", str(source))
    assert (code, err.startswith("2 rows, 0 failed")) == (0, True)


def test_failed_rows_can_be_retried(terminal: Terminal, source: Path, script: Any) -> None:
    script([{"status": 401}, "two"])
    command = ("batch", "run", str(source), "-p", "script", "--concurrency", "1")
    code, _, err = terminal(*command)
    assert (code, "2 rows, 1 failed" in err, "--retry-failed" in err) == (1, True, True)
    script(["one at last"])  # and one reply for one row: the other is not asked again
    out = terminal.out(*command, "--retry-failed")
    assert [each["text"] for each in read(Path(out.strip()))] == ["one at last", "two"]


def test_output_is_overwritten_only_if_asked(terminal: Terminal, source: Path) -> None:
    command = ("batch", "run", str(source), "-p", "mock")
    assert terminal(*command)[0] == 0
    assert "already exists" in terminal.error(*command)
    assert terminal(*command, "--overwrite")[0] == 0


@pytest.mark.parametrize(("options", "code", "error"), [
    ("--role judge=mock", 2, "batch run does not support --role"),
    ("--executor-setting a=1", 2, "--executor-setting requires --executor"),
    ("--executor nowhere", 1, "unknown executor 'nowhere'"),
])  # fmt: skip
def test_wrong_use(terminal: Terminal, source: Path, options: str, code: int, error: str) -> None:
    for provider in ("", "-p mock"):
        assert error in terminal.error(f"batch run {options} {provider}", str(source), code=code)
    assert "missing.jsonl" in terminal.error("batch run missing.jsonl", code=2)


def test_recorded_rows_are_conversations(terminal: Terminal, source: Path) -> None:
    _, out, _ = terminal("batch run", str(source), "-p", "mock", "--record")
    ids = [each["conversation"] for each in read(Path(out.strip()))]
    assert "one" in terminal("conversations show", ids[0])[1]
    assert "two" in terminal("conversations show", ids[1])[1]


@pytest.mark.parametrize(("progress", "line"), [
    (BatchProgress(0), "█" * 24 + " 0/0"),
    (BatchProgress(10), "░" * 24 + " 0/10"),
    (BatchProgress(1000, 250, failed=2, before=50, cost=0.5, seconds=100),
     "█" * 6 + "░" * 18 + " 250/1000  2/s  6:15 left  $0.5000  2 failed"),
    (BatchProgress(100_000, 1, seconds=1), "░" * 24 + " 1/100000  1/s  27:46:39 left"),
])  # fmt: skip
def test_the_bar_says_how_far_it_is(progress: BatchProgress, line: str) -> None:
    assert _line(progress) == line


def test_bar_is_drawn_every_200_ms(clock: ManualClock, capsys: pytest.CaptureFixture[str]) -> None:
    bar = _Bar(clock, shown=True)
    bar.draw(BatchProgress(3, 1))
    bar.draw(BatchProgress(3, 2))
    clock.advance(0.2)
    bar.draw(BatchProgress(3, 3))
    bar.end()
    bar.end()
    drawn = capsys.readouterr().err.split("\r")
    assert [each.partition(" ")[2] for each in drawn] == ["", "1/3\x1b[K", "3/3\x1b[K", ""]


def test_usage_counts_unrecorded_rows(terminal: Terminal, source: Path) -> None:
    assert terminal("batch run", str(source), "-p", "mock")[0] == 0
    assert terminal("conversations list")[1] == ""
    assert terminal("batch run", str(source), "-p", "mock", "--record", "--overwrite")[0] == 0
    assert terminal("usage --by feature")[1].split("\t")[:2] == ["chat", "4"]


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
        reply = chat(f"<{prompt}>", streamed=body.get("stream", False))
        return Reply([HANG]) if hangs else reply


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


@pytest.mark.slow
def test_item_2_killed_batch(service: FakeService, counting: Counting, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'"row {number}"\n' for number in range(ROWS)), encoding="utf-8")
    with begin(source) as killed:
        assert counting.is_full.wait(60)
        killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    output = tmp_path / "in.jsonl.answers.jsonl"
    assert not output.exists()
    done = {each["row"] for each in read(Path(f"{output}.journal"))[1:]}
    assert len(done) == KILLED_AT
    in_flight = [each for each in counting.asked if int(each[4:]) + 1 not in done]
    assert len(in_flight) == AT_ONCE

    counting.goes_on = True
    with begin(source) as second:
        out, err = second.communicate(timeout=120)
    assert (second.returncode, out) == (0, f"{output}\n"), err
    assert [each["text"] for each in read(output)] == [f"<row {n}>" for n in range(ROWS)]
    assert [each["row"] for each in read(output)] == list(range(1, ROWS + 1))
    assert not Path(f"{output}.journal").exists()
    assert counting.asked == {f"row {n}": 2 if f"row {n}" in in_flight else 1 for n in range(ROWS)}

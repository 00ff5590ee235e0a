"""Batches on real clusters, of which a worker is killed: every row is there, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from genai_host.store import Store
from genai_host_testing.fake_service import HOLD, FakeService, Received, Reply
from genai_host_testing.internal.servers import configure, is_alive, wait_until
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.slow

ROWS, KILLED_AT = 120, 40
WORKERS, THREADS = 3, 2
SET = "--executor-setting"
CLUSTER = (SET, f"workers={WORKERS}", SET, f"threads={THREADS}")
AT_ONCE = WORKERS * THREADS


class Counting:
    """A service that answers with what it is asked, and counts that. As many calls as are at
    once hold from `KILLED_AT` on, until the test lets them go: `is_full` then."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.is_full = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, received: Received) -> Reply:
        body = received.json()
        prompt = body["messages"][-1]["content"]
        with self._lock:
            self.asked[prompt] += 1
            number = self.asked.total()
            if number == KILLED_AT + AT_ONCE:
                self.is_full.set()
        reply = chat(f"<{prompt}>", streamed=body.get("stream", False))
        if KILLED_AT < number <= KILLED_AT + AT_ONCE:
            return Reply([HOLD, *reply.steps], keep=reply.keep)
        return reply

    @property
    def twice(self) -> set[str]:
        return {prompt for prompt, times in self.asked.items() if times == 2}


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counting: Counting
) -> Iterator[FakeService]:
    monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "*")
    with FakeService(answer=counting) as service:
        configure(tmp_path / "home", service)
        yield service


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'"row {number}"\n' for number in range(ROWS)), encoding="utf-8")
    return source


@contextmanager
def process(*arguments: str, output: Any = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)


def batch(source: Path, *options: str) -> Any:
    return process(
        *("genai_host", "batch", "run", str(source), "--model", "remote/m"),
        *("--executor", "dask", "--concurrency", str(AT_ONCE), *options),
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_output(source: Path, counts: Counter[str]) -> list[dict[str, Any]]:
    answers = lines(source.with_name("in.jsonl.answers.jsonl"))
    assert [each["row"] for each in answers] == list(range(1, ROWS + 1))
    assert [each["text"] for each in answers] == [f"<row {number}>" for number in range(ROWS)]
    assert set(counts) == {f"row {number}" for number in range(ROWS)}
    return answers


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[str]]]]:
    """Its address and its workers, each a process of its own."""
    file = folder / "scheduler.json"
    common = ("--scheduler-file", str(file), "--no-dashboard")
    with ExitStack() as stack:
        scheduler = ("dask", "scheduler", "--host", "127.0.0.1", "--port", "0")
        log = stack.enter_context((folder / "cluster.log").open("a"))
        stack.enter_context(process(*scheduler, *common, output=log))
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        worker = ("dask", "worker", "--host", "127.0.0.1", "--no-nanny")
        workers = [
            stack.enter_context(process(*worker, "--nthreads", str(THREADS), *common, output=log))
            for _ in range(WORKERS)
        ]
        yield json.loads(file.read_text())["address"], workers


def wait_for_workers(address: str) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(WORKERS, timeout=60)


def test_item_2_a_worker_of_a_cluster_is_killed_and_every_row_is_there_once(
    service: FakeService, counting: Counting, source: Path, tmp_path: Path
) -> None:
    answers_of_cluster(service, counting, source, tmp_path)


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_item_2_runs_on_record_are_gone_on_with_by_another_worker(
    service: FakeService, counting: Counting, source: Path, place: str, tmp_path: Path
) -> None:
    configure(tmp_path / "home", service, conversations={"database": place})
    answers = answers_of_cluster(service, counting, source, tmp_path, "--record")
    with Store(place) as store:
        statuses = {each.id: each.status for each in store.conversations(limit=None)}
    assert set(statuses) == {each["conversation"] for each in answers}
    assert (len(statuses), set(statuses.values())) == (ROWS, {"idle"})


def answers_of_cluster(
    service: FakeService, counting: Counting, source: Path, folder: Path, *options: str
) -> list[dict[str, Any]]:
    """Those of a batch on a cluster of which one worker is killed, checked."""
    with cluster(folder) as (address, workers):
        wait_for_workers(address)
        with batch(source, "--executor-setting", f"address={address}", *options) as running:
            assert counting.is_full.wait(60)  # each worker has as many rows as it has threads
            workers[0].kill()
            workers[0].wait()
            service.let_go(AT_ONCE)
            out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert out == f"{source}.answers.jsonl\n"
    answers = check_output(source, counting.asked)
    assert len(counting.twice) == THREADS  # those that the killed one had under way
    assert counting.asked.total() == ROWS + THREADS
    return answers


def test_item_2_killed_local_worker(service: FakeService, counting: Counting, source: Path) -> None:
    with batch(source, *CLUSTER) as running:
        assert counting.is_full.wait(60)
        os.kill(workers_of(running.pid)[0], signal.SIGKILL)
        service.let_go(AT_ONCE)
        _, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    check_output(source, counting.asked)
    assert len(counting.twice) == THREADS
    assert counting.asked.total() == ROWS + THREADS


def test_interrupted_command_goes_on(
    service: FakeService, counting: Counting, source: Path
) -> None:
    with batch(source, *CLUSTER) as running:
        assert counting.is_full.wait(60)
        workers = workers_of(running.pid)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does it
        _, err = running.communicate(timeout=60)
        assert running.returncode == 130, err
        assert "continue with the same command" in err
        assert "Traceback" not in err
    wait_until(lambda: not any(is_alive(each) for each in workers))
    service.let_go(AT_ONCE)
    with batch(source, *CLUSTER) as second:
        _, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    check_output(source, counting.asked)
    assert counting.asked.total() == ROWS + AT_ONCE


def workers_of(pid: int) -> list[int]:
    """The processes below it that Dask has spawned for workers."""
    below: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for each in (task / "children").read_text().split():
            below += [int(each), *workers_of(int(each))]
    return [each for each in below if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]

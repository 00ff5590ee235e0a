"""Processes that are killed while they acknowledge work: nothing acknowledged is lost, and nothing
that must not run twice is run twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import killed
import pytest
import requests
from killed import Life, host_of

from genai_host.conversations.record import TurnEnded, TurnStarted
from genai_host.store import Store
from genai_host_testing.internal.assistants_api import ENDS, path_of, until
from genai_host_testing.internal.stores import CODEC

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name == "nt", reason="processes are killed as POSIX does"),
]


class Lives:
    """Processes on one store, which are killed.

    Attributes:
        place: Location of the store.
        folder: Directory of all files.
        log: File of the calls of `mail`.
        chance: Decides when to kill; the same numbers in each run.
    """

    def __init__(self, nursery: subprocess.Popen[str], folder: Path, place: str) -> None:
        self.place, self.folder, self.log = place, folder, folder / "log"
        self.chance = random.Random(1)
        self.log.touch()
        self._nursery = nursery
        self._number = 0

    @contextmanager
    def process(self, work: str, rows: str = "") -> Iterator[tuple[int, IO[str]]]:
        """A process, which is killed at the end: its id, and a pipe with what it acknowledges."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        life = Life(work, self.place, str(self.log), str(pipe), self._number, rows)
        self._number += 1
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(life.to_line())
        self._nursery.stdin.flush()
        process = int(self._nursery.stdout.readline())
        with pipe.open(encoding="utf-8") as output:
            pipe.unlink()
            try:
                yield process, output
            finally:
                kill(process)
                while is_there(process):
                    time.sleep(0.001)

    def pause(self) -> None:
        """Leave the point at which a process is killed to chance."""
        time.sleep(self.chance.uniform(0.0, 0.02))

    def mails(self) -> set[str]:
        """The messages for which `mail` was called: not more than once each."""
        calls = Counter(self.log.read_text(encoding="utf-8").split())
        assert max(calls.values(), default=1) == 1, calls.most_common(3)
        return set(calls)


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, killed.__file__, str(tmp_path_factory.mktemp("nursery") / "x.db")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as started:
        yield started
        started.communicate()


@pytest.fixture
def lives(nursery: subprocess.Popen[str], tmp_path: Path, place: str) -> Lives:
    return Lives(nursery, tmp_path, place)


def kill_turns(lives: Lives, kills: int) -> None:
    """Two processes that take turns are killed together. Acknowledged turns are in the history, and
    interrupted turns are listed as such and can be resumed."""
    lines: list[str] = []
    for _ in range(kills):
        with lives.process("turns") as (one, its), lives.process("turns") as (other, others):
            lines += [its.readline(), others.readline()]
            lines += [its.readline() for _ in range(lives.chance.randrange(6))]
            assert all(lines), "a process ended before it was killed"
            lives.pause()
            kill(one)
            kill(other)
            lines += [line for pipe in (its, others) for line in pipe if line.endswith("\n")]
    interrupted = 0
    with Store(lives.place) as store, host_of(store, str(lives.log)) as host:
        until(lambda: all(each.status != "running" for each in store.conversations(limit=None)))
        for summary in store.conversations(limit=None):
            entries = store.entries(summary.id, CODEC)
            is_cut = not isinstance(entries[-1], TurnEnded) and len(entries) > 1
            assert summary.status == ("interrupted" if is_cut else "idle")
            assert Counter(map(type, entries))[TurnStarted] == summary.turns
            if is_cut:
                interrupted += 1
                host.conversation(summary.id).resume()
        assert interrupted >= kills // 10
        acknowledged = [line.split() for line in lines]
        histories = {id: host.conversation(id).history for id, _ in acknowledged}
    for id, text in acknowledged:
        assert text in [message.text for message in histories[id]]
    assert lives.mails() >= {text for _, text in acknowledged}


class JobClient:
    """A client of servers that share a store, one after another.

    Attributes:
        number: Number of requests.
    """

    def __init__(self) -> None:
        self.number = 0
        self._assistant = ""
        self._jobs: list[tuple[str, Any]] = []  # the messages and the accepted jobs
        self._runs: list[tuple[str, Any]] = []

    @contextmanager
    def of(self, url: str) -> Iterator[None]:
        """Use the server with this URL."""
        with requests.Session() as self._session:
            self._session.trust_env = False
            self._session.headers["authorization"] = "Bearer -"
            self._url = url
            if not self._assistant:
                response = self._post("/v1/assistants", {"model": "fake"}, "assistant").json()
                self._assistant = response["id"]
            yield

    def ask(self, most: int) -> None:
        """Send requests, up to `most`, until the server is killed. The request without a reply is
        sent again to the next server."""
        with contextlib.suppress(requests.RequestException):
            for _ in range(most):
                text = f"{'run' if self.number % 2 else 'job'}-{self.number}"
                (self._run if self.number % 2 else self._add_job)(text)
                self.number += 1

    def check_done(self) -> None:
        """Check that all jobs and runs are done, with one answer each."""
        for text, job in self._jobs:
            place = f"/api/v1/jobs/{job['id']}"
            assert self._get(f"{place}/result?wait=30")["answer"]["text"] == f"sent {text}"
            assert self._get(place)["status"] == "done"
            turns = self._get(f"/api/v1/conversations/{job['conversation']}")["turns"]
            assert [turn["status"] for turn in turns] == ["answered"]
        for text, run in self._runs:
            until(partial(self._has_ended, run))
            assert self._get(f"/v1{path_of(run)}")["status"] == "completed"
            messages = self._get(f"/v1/threads/{run['thread_id']}/messages")["data"]
            texts = [each["content"][0]["text"]["value"] for each in messages]
            assert texts == [f"sent {text}", text]
        self._jobs, self._runs = [], []

    def _add_job(self, text: str) -> None:
        body = {"model": "fake", "feature": "agent", "message": text}
        reply = self._post("/api/v1/jobs", body, text)
        if reply.status_code != 409:  # the first request with the key was interrupted
            assert reply.status_code == 202, reply.text
            self._jobs.append((text, reply.json()))

    def _run(self, text: str) -> None:
        thread = {"messages": [{"role": "user", "content": text}]}
        body = {"assistant_id": self._assistant, "thread": thread}
        reply = self._post("/v1/threads/runs", body, text)
        assert reply.status_code == 200, reply.text
        self._runs.append((text, reply.json()))

    def _has_ended(self, run: Any) -> bool:
        return self._get(f"/v1{path_of(run)}")["status"] in ENDS

    def _post(self, path: str, body: Any, key: str) -> requests.Response:
        headers = {"idempotency-key": key}
        return self._session.post(f"{self._url}{path}", json=body, headers=headers, timeout=60)

    def _get(self, path: str) -> Any:
        reply = self._session.get(f"{self._url}{path}", timeout=60)
        assert reply.status_code == 200, reply.text
        return reply.json()


def kill_jobs(lives: Lives, kills: int) -> None:
    """A server is killed while it accepts jobs and runs of the Assistants API. A later server does
    what it had accepted."""
    client = JobClient()
    for number in range(kills):
        with lives.process("jobs") as (process, output), client.of(output.readline().strip()):
            if number % 2:  # a job fails if its server ends during four attempts
                client.check_done()
            client.ask(lives.chance.randrange(1, 8))
            killing = threading.Timer(lives.chance.uniform(0.0, 0.05), kill, [process])
            killing.start()
            client.ask(10**6)
            killing.join()
    with lives.process("jobs") as (_, output), client.of(output.readline().strip()):
        client.check_done()
    assert lives.mails() <= {f"job-{number}" for number in range(client.number + 1)}


def kill_batches(lives: Lives, kills: int) -> None:
    """A recorded batch is killed and run again, until it has ended: each row has one answer, in its
    own conversation."""
    ids: list[str] = []
    while kills > 0:
        rows = [f"row-{kills}-{number}" for number in range(100)]
        source = lives.folder / f"{kills}.jsonl"
        source.write_text("".join(f'"{row}"\n' for row in rows), encoding="utf-8")
        output = Path(f"{source}.answers")
        for _ in range(min(kills, 8)):
            with lives.process("batches", str(source)) as (_, process_output):
                for _ in range(lives.chance.randrange(2, 8)):
                    process_output.readline()
                lives.pause()
            kills -= 1
            if output.exists():
                break
        else:
            with lives.process("batches", str(source)) as (_, process_output):
                assert [*process_output][-1] == "ended\n"
        results = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
        assert [each["text"] for each in results] == [f"sent {row}" for row in rows]
        ids += [each["conversation"] for each in results]
    assert len(set(ids)) == len(ids)
    with Store(lives.place) as store:
        states = {each.id: (each.status, each.turns) for each in store.conversations(limit=None)}
    assert {states[id] for id in ids} == {("idle", 1)}
    assert lives.mails()


@pytest.mark.parametrize(("work", "kills"), [
    pytest.param(kill_turns, 3, id="turns"),
    pytest.param(kill_jobs, 3, id="jobs"),
    pytest.param(kill_batches, 3, id="batches"),
    # on both engines 200 kills, of which those of turns end two processes
    pytest.param(kill_turns, 40, id="turns-40", marks=pytest.mark.slow),
    pytest.param(kill_jobs, 36, id="jobs-36", marks=pytest.mark.slow),
    pytest.param(kill_batches, 24, id="batches-24", marks=pytest.mark.slow),
])  # fmt: skip
@pytest.mark.timeout(1800)
def test_kills_lose_and_repeat_nothing(lives: Lives, work: Any, kills: int) -> None:
    work(lives, kills)
    if "://" not in lives.place:
        with closing(sqlite3.connect(lives.place)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []

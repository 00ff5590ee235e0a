"""Assistants of several server processes: runs of a killed process are continued by others,
exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from genai_host_testing import FakeModel
from genai_host_testing.fake_service import HOLD, FakeService, Received, Reply
from genai_host_testing.internal.assistants_api import Api, ids_of, path_of, until
from genai_host_testing.services.openai import chat

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.name != "posix", reason="kills as POSIX has it"),
]

TOKEN = "a-token-of-this-test"
RUNS = 50
AT_ONCE = 16  # of one process


def behind(received: Received) -> Reply:
    """It says again what was said last, once the test lets it."""
    request = received.json()
    text = request["messages"][-1]["content"]
    answer = chat(f"you said {text}", streamed=request.get("stream", False))
    return Reply([HOLD, *answer.steps], answer.keep)


@pytest.fixture
def service(home: Path, place: str) -> Iterator[FakeService]:
    with FakeService(answer=behind) as service:
        config = {
            "conversations": {"database": place},
            "providers": {"remote": {"type": "openai-compatible", "base_url": f"{service.url}/v1"}},
        }
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(tomlkit.dumps(config), encoding="utf-8")
        yield service


@contextmanager
def process() -> Iterator[tuple[Api, subprocess.Popen[bytes]]]:
    """A server, which is killed in the end if it was not before."""
    with subprocess.Popen(
        [sys.executable, "-m", "genai_host", "serve", "--port", "0", "--json"],
        env={**os.environ, "GENAI_HOST_SERVER_TOKEN": TOKEN, "NO_PROXY": "*"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as started:
        assert started.stdout is not None
        api = Api(json.loads(started.stdout.readline())["url"], FakeModel(), token=TOKEN)
        try:
            yield api, started
        finally:
            api.close()
            if started.poll() is None:
                started.kill()


def kill(started: subprocess.Popen[bytes]) -> None:
    started.send_signal(signal.SIGKILL)
    started.wait(30)


def test_50_runs_end_once_though_a_worker_is_killed(service: FakeService) -> None:
    with process() as (first, killed), process() as (second, _):
        assistant = first.assistant(model="remote/m", name="A")

        def begin(number: int) -> dict[str, Any]:
            api = (first, second)[number % 2]
            thread = api.thread(f"number {number}")
            run: dict[str, Any] = api.post(f"/threads/{thread}/runs", {"assistant_id": assistant})
            return run

        with ThreadPoolExecutor(8) as pool:
            runs = list(pool.map(begin, range(RUNS)))
        service.wait_for_requests(2 * AT_ONCE)
        kill(killed)
        service.let_go(10 * RUNS)
        ended = [second.ended(run) for run in runs]
        assert [run["status"] for run in ended] == ["completed"] * RUNS
        for number, run in enumerate(ended):
            text = f"number {number}"
            texts = second.texts(run["thread_id"])
            assert texts == [("user", text), ("assistant", f"you said {text}")]
            assert len(second.steps(run)) == 1
            assert run["usage"]["total_tokens"] == 13
        # but for those whose answers died with it, nobody was asked twice
        assert RUNS <= len(service.requests) <= RUNS + AT_ONCE


def test_item_14_all_survives_a_kill_and_a_run_in_mid_flight_goes_on(service: FakeService) -> None:
    with process() as (api, killed):
        assistant, file = api.assistant(model="remote/m", name="A"), api.upload("a.txt", b"hi")
        thread = api.thread("hello")
        store = api.post("/vector_stores", {"name": "V"})["id"]
        run = api.post(f"/threads/{thread}/runs", {"assistant_id": assistant})
        service.wait_for_requests(1)
        until(lambda: api.get(path_of(run))["status"] == "in_progress")
        paths = (
            f"/assistants/{assistant}", f"/threads/{thread}", f"/threads/{thread}/messages",
            f"/files/{file}", f"/vector_stores/{store}",
        )  # fmt: skip
        before = [api.get(path) for path in paths]
        kill(killed)
    with process() as (api, _):
        assert [api.get(path) for path in paths] == before
        assert api.ask("GET", f"/files/{file}/content").content == b"hi"
        service.let_go(10)
        assert api.ended(run)["status"] == "completed"
        assert api.texts(thread) == [("user", "hello"), ("assistant", "you said hello")]
        assert ids_of(api.get(f"/threads/{thread}/runs")) == [run["id"]]

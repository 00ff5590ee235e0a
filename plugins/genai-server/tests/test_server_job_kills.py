"""Jobs whose server stops or is killed: accepted jobs are done, and their status is correct. See
tests/acceptance/test_kills.py for kills at other points."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genai_host_testing.fake_service import HOLD, FakeService, Received, Reply
from genai_host_testing.internal.servers import (
    HEADERS,
    Client,
    Several,
    client_of,
    configure,
    serving,
)
from genai_host_testing.services.openai import chat

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

JOBS = 40
AT_ONCE = 16  # of one process


def behind(received: Received) -> Reply:
    """Repeat the message, after the test releases the reply."""
    body = received.json()
    answer = chat(body["messages"][-1]["content"], streamed=body.get("stream", False))
    return Reply([HOLD, *answer.steps], answer.keep)


@pytest.fixture
def service(home: Path, place: str) -> Iterator[FakeService]:
    with FakeService(answer=behind) as service:
        configure(
            home, service, conversations={"database": place}, server={"graceful_timeout": 1.0}
        )
        yield service


def submitted(client: Client) -> list[Any]:
    return [
        client.post("/api/v1/jobs", {"model": "remote/m", "message": f"job {number}"})
        for number in range(JOBS)
    ]


def end(server: Several, sign: int) -> None:
    server.process.send_signal(sign)
    server.process.wait(30)


def result(client: Client, job: Any) -> Any:
    while (reply := client.send("GET", f"/api/v1/jobs/{job['id']}/result?wait=30")).ok:
        if reply.status_code == 200:
            return reply.json()["answer"]["text"]
    raise AssertionError(reply.text)


def test_acknowledged_jobs_are_done_after_their_server_has_ended(service: FakeService) -> None:
    with serving() as server, client_of(server.url) as client:
        jobs = submitted(client)
        service.wait_for_requests(AT_ONCE)
        end(server, signal.SIGTERM)
    service.let_go(10 * JOBS)
    with serving() as server, client_of(server.url) as client:
        for number, job in enumerate(jobs):
            assert result(client, job) == f"job {number}"
            assert client.get(f"/api/v1/jobs/{job['id']}")["status"] == "done"
            turns = client.get(f"/api/v1/conversations/{job['conversation']}")["turns"]
            assert [turn["status"] for turn in turns] == ["answered"]
    # but for those whose answers were lost with the server, each was sent once
    assert JOBS <= len(service.requests) <= JOBS + AT_ONCE


def test_jobs_of_a_server_that_is_killed_are_done_by_another(service: FakeService) -> None:
    with serving() as killed, serving() as other:
        with client_of(killed.url) as client:
            jobs = submitted(client)
        service.wait_for_requests(2 * AT_ONCE)
        end(killed, signal.SIGKILL)
        service.let_go(10 * JOBS)
        with client_of(other.url) as client:
            assert [result(client, job) for job in jobs] == [f"job {n}" for n in range(JOBS)]
    assert JOBS <= len(service.requests) <= JOBS + AT_ONCE


ROWS_AT_ONCE = 8  # of one batch


def batch_of(client: Client) -> Any:
    """Create a batch of OpenAI's Batch API, of `JOBS` rows."""
    bodies = [
        {"model": "remote/m", "messages": [{"role": "user", "content": f"row {number}"}]}
        for number in range(JOBS)
    ]
    row = {"method": "POST", "url": "/v1/chat/completions"}
    rows = [{"custom_id": f"{number}", **row, "body": body} for number, body in enumerate(bodies)]
    headers = {name: value for name, value in HEADERS.items() if name != "content-type"}
    reply = client.session.post(
        f"{client.url}/v1/files", files={"file": ("rows.jsonl", "\n".join(map(json.dumps, rows)))},
        data={"purpose": "batch"}, headers=headers, timeout=60,
    )  # fmt: skip
    body = {"input_file_id": reply.json()["id"], "endpoint": row["url"], "completion_window": "24h"}
    return client.post("/v1/batches", body)


def ended(client: Client, batch: Any) -> Any:
    waits = threading.Event()
    for _ in range(1200):
        batch = client.get(f"/v1/batches/{batch['id']}")
        if batch["status"] in ("completed", "failed", "expired", "cancelled"):
            return batch
        waits.wait(0.1)
    raise AssertionError(f"the batch did not end: {batch}")


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_a_batch_is_continued_after_its_server_has_ended(service: FakeService, sign: int) -> None:
    with serving() as server, client_of(server.url) as client:
        batch = batch_of(client)
        service.wait_for_requests(ROWS_AT_ONCE)
        end(server, sign)
    service.let_go(10 * JOBS)
    with serving() as server, client_of(server.url) as client:
        batch = ended(client, batch)
        assert batch["status"] == "completed", batch
        text = client.send("GET", f"/v1/files/{batch['output_file_id']}/content").text
    assert batch["request_counts"] == {"total": JOBS, "completed": JOBS, "failed": 0}
    messages = [
        json.loads(line)["response"]["body"]["choices"][0]["message"]["content"]
        for line in text.splitlines()
    ]
    assert messages == [f"row {number}" for number in range(JOBS)]
    # but for those whose answers were lost with the server, each was sent once
    assert JOBS <= len(service.requests) <= JOBS + ROWS_AT_ONCE

"""The official `openai` SDK as a client of our Batch API, as chatlas' `batch_chat` uses it."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import genai_batch
import genai_wire_openai
import openai
import pytest

from genai_host.store import Store
from genai_host_testing import FakeModel, RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

pytestmark = pytest.mark.peers

CHAT = "/v1/chat/completions"
ENDED = ("completed", "failed", "expired", "cancelled")


@pytest.fixture
def gate() -> threading.Event:
    """Holds the answers to questions about `held`."""
    return threading.Event()


@pytest.fixture
def client(make_host: MakeHost, tmp_path: Path, gate: threading.Event) -> Iterator[openai.OpenAI]:
    def answer(prompt: RecordedPrompt) -> str:
        text = prompt.messages[-1].text
        assert "held" not in text or gate.wait(60)
        return text

    plugins = {"fake": FakeModel(answer), "openai": genai_wire_openai, "batch": genai_batch}
    with (
        Store(tmp_path / "store.db") as store,
        served(make_host(store=store, **plugins)) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0) as client,
    ):
        yield client


def row(id: str, model: str) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": f"question {id}"}]}
    return {"custom_id": id, "method": "POST", "url": CHAT, "body": body}


def created(client: openai.OpenAI, *rows: Any) -> Any:
    text = "\n".join(json.dumps(each) for each in rows)
    file = client.files.create(file=("rows.jsonl", io.BytesIO(text.encode())), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"name": "x"}
    )


def ended(client: openai.OpenAI, batch: Any) -> Any:
    waits = threading.Event()
    for _ in range(1200):
        if batch.status in ENDED:
            return batch
        waits.wait(0.05)
        batch = client.batches.retrieve(batch.id)
    raise AssertionError(f"the batch did not end: {batch}")


def lines(client: openai.OpenAI, file: str) -> list[Any]:
    return [json.loads(line) for line in client.files.content(file).text.splitlines()]


def test_a_batch_is_created_polled_and_read(client: openai.OpenAI) -> None:
    new_batch = created(client, row("request-0", "fake"), row("request-1", "nowhere"))
    assert (new_batch.object, new_batch.metadata) == ("batch", {"name": "x"})
    batch = ended(client, new_batch)
    assert (batch.status, batch.errors) == ("completed", None)
    assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 1)
    (answer,) = lines(client, batch.output_file_id)
    assert (answer["custom_id"], answer["response"]["status_code"]) == ("request-0", 200)
    message = answer["response"]["body"]["choices"][0]["message"]
    assert "question request-0" in message["content"]
    (refused,) = lines(client, batch.error_file_id)
    assert (refused["custom_id"], refused["response"]["status_code"]) == ("request-1", 404)
    assert client.files.retrieve(batch.output_file_id).purpose == "batch_output"


def test_pages_and_cancellation(client: openai.OpenAI, gate: threading.Event) -> None:
    batches = [ended(client, created(client, row("a", "fake"))) for _ in range(3)]
    assert [each.id for each in client.batches.list(limit=2)] == [each.id for each in batches[::-1]]
    with pytest.raises(openai.BadRequestError, match="Cannot cancel"):
        client.batches.cancel(batches[0].id)
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve("batch_0")
    cancelled = client.batches.cancel(created(client, row("held", "fake")).id)
    gate.set()
    assert ended(client, cancelled).status == "cancelled"

"""A running server and all its workers apply changes made with the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from genai_host.config import read_config
from genai_host_testing.fake_service import FakeService, Received, Reply, json_reply
from genai_host_testing.internal.servers import Client, client_of, serving, wait_until
from genai_host_testing.services.openai import chat

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]


def behind(received: Received) -> Reply:
    if received.method == "GET":  # for its models, to see whether it answers
        return json_reply({"data": []})
    return chat("hello", streamed=received.json().get("stream", False))


@pytest.fixture
def service(home: Path) -> Iterator[FakeService]:
    with FakeService(answer=behind) as service:
        yield service


def change(*arguments: str) -> None:
    command = [sys.executable, "-m", "genai_host", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def answers(client: Client, status: int, **more: Any) -> bool:
    asked = {"messages": [{"role": "user", "content": "hi"}], **more}
    return client.send("POST", "/v1/chat/completions", asked).status_code == status


def is_opened_with(client: Client, models: Any) -> bool:
    """Whether these are the defaults of a conversation that names no model."""
    reply = client.send("POST", "/api/v1/conversations", {}).json()
    return bool(reply.get("models") == models)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_item_3_models_defaults_and_providers(service: FakeService, workers: str) -> None:
    """The first change creates the file."""
    with serving("--workers", workers) as server, ExitStack() as stack:
        pids = server.workers()
        contexts = [server.at(each) for each in pids] or [client_of(server.url)]
        clients = [stack.enter_context(each) for each in contexts]

        def all_answer(status: int, **more: Any) -> None:
            for client in clients:
                wait_until(partial(answers, client, status, **more))

        assert read_config().file == ""
        address = f"base_url={service.url}/v1"
        change("config", "add", "other", "openai-compatible", address)
        change("models", "add", "precise", "--of", "other/m", "--param", "temperature=0")
        all_answer(200, model="precise")
        assert service.requests[-1].json()["temperature"] == 0
        # agents ask for fixed names
        change("models", "add", "gpt-5.5", "--of", "precise")
        all_answer(200, model="gpt-5.5")
        assert service.requests[-1].json()["model"] == "m"
        for client in clients:
            rows = client.get("/v1/models")["data"]
            assert {"precise", "gpt-5.5"} <= {row["id"] for row in rows}
        change("config", "default", "model", "precise")
        for client in clients:
            wait_until(partial(is_opened_with, client, {"main": "other/m"}))
        change("models", "remove", "gpt-5.5")
        change("config", "default", "model", "--remove")
        change("models", "remove", "precise")
        all_answer(404, model="precise")
        # a file that is wrong changes nothing
        Path(read_config().file).write_text("[models.precise]\n")
        assert server.process.stderr is not None
        assert "the configuration was not reloaded" in server.process.stderr.readline()
        all_answer(200, model="other/m")
        assert set(server.workers()) == set(pids)

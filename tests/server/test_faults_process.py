"""A server process that ends during requests: acknowledged results are stored, and interrupted
turns can be resumed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import tomlkit
from attrs import frozen
from fronts import DELTA, JSON, WORD, raw
from talking import dial, heard, until

from genai_host.store import Store
from genai_host_testing.fake_service import HANG, FakeService, Received, Reply, sse_reply
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.process

TOKEN = "a-token-of-this-test"
AUTHORIZED = {**JSON, "authorization": f"Bearer {TOKEN}"}


def behind(received: Received) -> Reply:
    """Reply immediately, or hang after the first chunk, as the last message says."""
    asked = received.json()
    if asked["messages"][-1]["content"] == "hang":
        return sse_reply([DELTA, HANG])
    return chat(WORD, streamed=asked.get("stream", False))


@frozen
class Process:
    started: subprocess.Popen[bytes]
    url: str

    def send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body)
        reply = requests.request(
            method, f"{self.url}/api/v1{path}", data=data, headers=AUTHORIZED, timeout=60
        )
        assert reply.ok, reply.text
        return reply.json()

    def opened(self) -> str:
        return str(self.send("POST", "/conversations", {"model": "remote/m"})["id"])

    def said(self, id: str, message: str) -> Any:
        return self.send("POST", f"/conversations/{id}/turns", {"message": message})

    def end(self, sign: int) -> int:
        self.started.send_signal(sign)
        return self.started.wait(60)


@contextmanager
def process() -> Iterator[Process]:
    command = [sys.executable, "-m", "genai_host", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        command,
        env={**os.environ, "GENAI_HOST_SERVER_TOKEN": TOKEN, "NO_PROXY": "*"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as started:
        try:
            assert started.stdout is not None
            line = started.stdout.readline()
            assert line
            yield Process(started, json.loads(line)["url"])
        finally:
            if started.poll() is None:
                started.kill()


@pytest.fixture
def service(home: Path) -> Iterator[FakeService]:
    """Configuration of the server."""
    with FakeService(answer=behind) as service:
        instance = {"type": "openai-compatible", "base_url": f"{service.url}/v1"}
        config = {"providers": {"remote": instance}, "server": {"graceful_timeout": 0.3}}
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(tomlkit.dumps(config), encoding="utf-8")
        yield service


def turn(id: str, message: str) -> bytes:
    body = json.dumps({"message": message, "stream": True}).encode()
    path = f"/api/v1/conversations/{id}/turns"
    return raw(path, body, authorization=f"Bearer {TOKEN}")


@pytest.mark.smoke
def test_sigterm_with_20_streams_drains_and_saves_the_rest_as_interrupted(
    service: FakeService,
) -> None:
    """Requests that finish in time succeed, the others get an error; the exit code is 0."""
    with process() as server, ExitStack() as stack:
        ids = [server.opened() for _ in range(20)]
        clients = [stack.enter_context(dial(server.url)) for _ in ids]
        for id, client in zip(ids, clients, strict=True):
            client.sendall(turn(id, "hang"))
        for client in clients:
            until(client, WORD.encode())
        server.started.send_signal(signal.SIGTERM)
        for client in clients:
            told = heard(client)
            assert b'event: error\ndata: {"code":"interrupted"' in told
            assert told.endswith(b"0\r\n\r\n")
        assert server.started.wait(60) == 0
        service.wait_until_closed()
    with Store() as store:
        listed = store.conversations(limit=None)
        assert {each.id for each in listed} == set(ids)
        assert {each.status for each in listed} == {"interrupted"}


def test_kill_9_amid_streams_loses_no_acknowledged_message(service: FakeService) -> None:
    """Turns in progress are marked as interrupted, and another server resumes them."""
    with process() as server, ExitStack() as stack:
        ids = [server.opened() for _ in range(4)]
        for id in ids:
            assert server.said(id, "hi")["status"] == "answered"
        clients = [stack.enter_context(dial(server.url)) for _ in ids]
        for id, client in zip(ids, clients, strict=True):
            client.sendall(turn(id, "hang"))
            until(client, WORD.encode())
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        for client in clients:
            assert not heard(client).endswith(b"0\r\n\r\n")
    with Store() as store, closing(sqlite3.connect(store.location)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    service._answer_to = lambda received: chat("again", streamed=True)
    with process() as server:
        for id in ids:
            found = server.send("GET", f"/conversations/{id}")
            assert found["status"] == "interrupted"
            first, cut = found["turns"]
            assert first["answer"]["text"] == WORD
            assert cut["status"] == "unfinished"
        assert server.said(ids[0], "and?")["status"] == "answered"
        server.send("POST", f"/conversations/{ids[1]}/resume", {})
        assert server.send("GET", f"/conversations/{ids[1]}")["turns"][-1]["status"] == "answered"
        assert server.end(signal.SIGTERM) == 0

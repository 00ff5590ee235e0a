"""Several servers of one store behind a real reverse proxy, started anew one after another while
clients talk."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
import requests
from nginx import free_port, nginx

from genai_host_testing.fake_service import FakeService, Received, Reply
from genai_host_testing.internal.servers import (
    Client,
    client_of,
    configure,
    serving,
    user_texts,
    wait_until,
)
from genai_host_testing.services.openai import chat

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("place", ["postgresql"], indirect=True)]
CLIENTS = 6


def behind(received: Received) -> Reply:
    body = received.json()
    return chat(body["messages"][-1]["content"], streamed=body.get("stream", False))


@pytest.fixture
def service(home: Path, place: str) -> Iterator[FakeService]:
    with FakeService(answer=behind) as service:
        configure(
            home, service, conversations={"database": place}, server={"graceful_timeout": 10.0}
        )
        yield service


class ClientThread(threading.Thread):
    """A client that converses until it is told to end. It sends a request again where it was cut
    off, with the same key, so that it may.

    sent    what was answered
    wrong   what it was told instead, if it was; then it ends
    cuts    how often it was cut off
    """

    def __init__(self, url: str, number: int, is_over: threading.Event) -> None:
        super().__init__()
        self._url = url
        self._number = number
        self._is_over = is_over
        self.path = ""
        self.sent: list[str] = []
        self.wrong = ""
        self.cuts = 0

    def run(self) -> None:
        with client_of(self._url) as client:
            id = self._send(client, "/api/v1/conversations", {"model": "remote/m"}).json()["id"]
            self.path = f"/api/v1/conversations/{id}"
            while not self._is_over.is_set() and not self.wrong:
                text = f"{self._number}-{len(self.sent)}"
                stream = len(self.sent) % 3 == 0
                body = {"message": text, "stream": stream}
                reply = self._send(client, f"{self.path}/turns", body)
                if reply.status_code != 200 or (stream and "event: answer" not in reply.text):
                    self.wrong = f"{reply.status_code} {reply.text}"
                else:
                    self.sent.append(text)

    def _send(self, client: Client, path: str, body: object) -> requests.Response:
        key = {"idempotency-key": uuid.uuid4().hex}
        while True:
            with suppress(requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                reply = client.send("POST", path, body, **key)
                if reply.status_code != 502:  # the proxy's own: its connection to us was cut
                    return reply
            self.cuts += 1


def test_servers_are_started_anew_one_after_another_and_no_turn_is_lost_or_doubled(
    service: FakeService, tmp_path: Path
) -> None:
    """One ends with SIGTERM and begins again, then the other, of two workers; which are then
    replaced with SIGHUP."""
    ports = [free_port(), free_port()]
    options = [("--port", str(ports[0])), ("--port", str(ports[1]), "--workers", "2")]
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(*each)) for each in options]
        url = stack.enter_context(nginx(tmp_path, ports))
        is_over = threading.Event()
        threads = [ClientThread(url, number, is_over) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: all(thread.sent for thread in threads))
            for number, chosen in enumerate(options):
                assert servers[number].end()[0] == 0
                goes_on(threads)
                servers[number] = stack.enter_context(serving(*chosen))
                wait_until(partial(is_ready, ports[number]))
                goes_on(threads)
            before = servers[1].workers()
            servers[1].process.send_signal(signal.SIGHUP)
            wait_until(lambda: not set(before) & set(servers[1].workers()))
            goes_on(threads)
        finally:
            is_over.set()
            for thread in threads:
                thread.join(60)
        assert [thread.wrong for thread in threads] == [""] * CLIENTS
        with client_of(url) as client:
            for thread in threads:
                turns = client.get(f"{thread.path}?limit=1000")["turns"]
                assert user_texts(turns) == thread.sent
                assert {each["status"] for each in turns} == {"answered"}
        assert [each.end()[0] for each in servers] == [0, 0]


def goes_on(threads: list[ClientThread]) -> None:
    """Until each has been answered some times more."""
    counts = [len(thread.sent) + 3 for thread in threads]
    pairs = list(zip(threads, counts, strict=True))
    wait_until(lambda: all(len(thread.sent) >= count or thread.wrong for thread, count in pairs))


def is_ready(port: int) -> bool:
    return requests.get(f"http://127.0.0.1:{port}/ready", timeout=30).ok

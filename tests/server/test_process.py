"""A server process: how it ends, what is stored then, and many concurrent streams."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import requests
from fronts import WORD
from hanging_turns import hanging, service
from raw_http import dial, exchange, receive_all, until
from serving_process import process

from genai_host.store import Store
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.servers import client_of, serving, wait_until
from genai_host_testing.services.openai import chat

__all__ = ["service"]

pytestmark = pytest.mark.process


def ended(started: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = started.communicate(timeout=30)
    return started.returncode, out, err


def asking(url: str, path: str, stack: contextlib.ExitStack, count: int = 1) -> list[socket.socket]:
    clients = [stack.enter_context(dial(url)) for _ in range(count)]
    for client in clients:
        client.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        if path.startswith("/stream"):
            until(client, b"begun ")
    return clients


def inform(started: subprocess.Popen[str]) -> None:
    """End the streams that wait for input."""
    assert started.stdin is not None
    started.stdin.write("\n")
    started.stdin.flush()


def test_requests_in_progress_may_finish() -> None:
    with process(60) as (started, url), contextlib.ExitStack() as stack:
        clients = asking(url, "/stream/input", stack, 10)
        idle = stack.enter_context(dial(url))
        started.send_signal(signal.SIGTERM)
        assert receive_all(idle) == b""
        with pytest.raises(ConnectionRefusedError):
            dial(url).__enter__()
        inform(started)
        for client in clients:
            assert receive_all(client).endswith(b"done\r\n0\r\n\r\n")
        assert ended(started) == (0, "closed\n", "")


def test_it_ends_at_once_when_nothing_is_under_way() -> None:
    for sign in (signal.SIGTERM, signal.SIGINT):
        with process(60) as (started, url):
            inform(started)
            assert requests.get(f"{url}/stream/input", timeout=30).text == "begun done"
            started.send_signal(sign)
            assert ended(started) == (0, "closed\n", "")


@pytest.mark.smoke
def test_a_second_signal_ends_it_at_once() -> None:
    with process(60) as (started, url), contextlib.ExitStack() as stack:
        [client] = asking(url, "/stream/on", stack)
        idle = stack.enter_context(dial(url))
        started.send_signal(signal.SIGINT)
        assert receive_all(idle) == b""  # the server handles the first signal
        started.send_signal(signal.SIGINT)
        assert b"interrupted" in receive_all(client)
        assert ended(started)[0] == 0


def test_blocked_request_does_not_delay_exit() -> None:
    with process(0.1) as (started, url), contextlib.ExitStack() as stack:
        [client] = asking(url, "/blocked", stack)
        assert requests.get(f"{url}/health", timeout=30).status_code == 200
        started.send_signal(signal.SIGTERM)
        assert b"503 " in receive_all(client)[:20]
        code, out, err = ended(started)
        assert (code, out) == (0, "closed\n")
        assert "plugin mine has not returned from GET /blocked" in err


def test_the_command() -> None:
    """The command prints its address, and exits with 0 after SIGTERM."""
    command = [sys.executable, "-m", "genai_host", "serve", "--port", "0", "--access-log"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as started:
        try:
            assert started.stdout is not None
            line = started.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:")
            url = line.split()[-1]
            assert requests.get(f"{url}/health", timeout=30).json() == {"status": "ok"}
            assert requests.get(f"{url}/nope?key=secret", timeout=30).status_code == 404
            assert requests.get(f"{url}/ready", timeout=30).json() == {"status": "ready"}
            started.send_signal(signal.SIGTERM)
            code, _, err = ended(started)
        finally:
            started.kill()
    assert code == 0
    assert "GET /nope 404 " in err
    assert "secret" not in err


@pytest.mark.smoke
def test_sigterm_with_20_streams_drains_and_saves_the_rest_as_interrupted(
    service: FakeService,
) -> None:
    """Requests that finish in time succeed, the others get an error; the exit code is 0."""
    with serving() as server, client_of(server.url) as client, ExitStack() as stack:
        paths = [client.opened() for _ in range(20)]
        connections = [stack.enter_context(hanging(server, path)) for path in paths]
        server.process.send_signal(signal.SIGTERM)
        for connection in connections:
            reply = receive_all(connection)
            assert b'event: error\ndata: {"code":"interrupted"' in reply
            assert reply.endswith(b"0\r\n\r\n")
        assert server.process.wait(60) == 0
        service.wait_until_closed()
    with Store() as store:
        listed = store.conversations(limit=None)
        assert {each.id for each in listed} == {path.rpartition("/")[2] for path in paths}
        assert {each.status for each in listed} == {"interrupted"}


def test_kill_9_amid_streams_loses_no_acknowledged_message(service: FakeService) -> None:
    """Turns in progress are marked as interrupted, and another server resumes them."""
    with serving() as server, client_of(server.url) as client, ExitStack() as stack:
        paths = [client.opened() for _ in range(4)]
        for path in paths:
            assert client.post(f"{path}/turns", {"message": "hi"})["status"] == "answered"
        connections = [stack.enter_context(hanging(server, path)) for path in paths]
        assert server.end(signal.SIGKILL)[0] == -signal.SIGKILL
        for connection in connections:
            assert not receive_all(connection).endswith(b"0\r\n\r\n")
    with Store() as store, closing(sqlite3.connect(store.location)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    service._answer_to = lambda received: chat("again", streamed=True)
    with serving() as server, client_of(server.url) as client:
        for path in paths:
            conversation = client.get(path)
            assert conversation["status"] == "interrupted"
            first, cut = conversation["turns"]
            assert first["answer"]["text"] == WORD
            assert cut["status"] == "unfinished"
        assert client.post(f"{paths[0]}/turns", {"message": "and?"})["status"] == "answered"
        client.post(f"{paths[1]}/resume", {})
        assert client.get(paths[1])["turns"][-1]["status"] == "answered"
        assert server.end()[0] == 0


STREAMS = 1000
HOST = b"host: localhost\r\n"


def memory(pid: int) -> int:
    """Return the resident memory in kB."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1])


def held(pid: int) -> tuple[int, int]:
    """Return the number of threads and of open files."""
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))


def settled(pid: int, most: tuple[int, int]) -> tuple[int, int]:
    """Wait until idle threads have ended; return the number of threads and of open files."""
    wait_until(lambda: all(now <= may for now, may in zip(held(pid), most, strict=True)))
    return held(pid)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux")
def test_a_thousand_open_streams() -> None:
    with process(0.5) as (started, url), contextlib.ExitStack() as stack:
        exchange(url, b"GET /nope HTTP/1.1\r\nconnection: close\r\n" + HOST + b"\r\n")
        before, base = memory(started.pid), held(started.pid)
        clients = [stack.enter_context(dial(url)) for _ in range(STREAMS)]
        for client in clients:
            client.sendall(b"GET /stream/on HTTP/1.1\r\n" + HOST + b"\r\n")
        for client in clients:
            until(client, b"begun ")
        assert (memory(started.pid) - before) / STREAMS <= 100
        for client in clients[100:]:
            client.close()
        most = (base[0] + 100, base[1] + 100)
        assert settled(started.pid, most) <= most
        started.send_signal(signal.SIGTERM)
        for client in clients[:100]:
            assert b"interrupted" in receive_all(client)
        assert started.wait(30) == 0

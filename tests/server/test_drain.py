"""Shutdown of a server process."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys

import pytest
import requests
from serving_process import process
from talking import dial, heard, until

pytestmark = pytest.mark.process


def ended(started: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = started.communicate(timeout=30)
    return started.returncode, out, err


def asking(url: str, path: str, stack: contextlib.ExitStack) -> socket.socket:
    client = stack.enter_context(dial(url))
    client.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return client


def inform(started: subprocess.Popen[str]) -> None:
    """End the streams that wait for input."""
    assert started.stdin is not None
    started.stdin.write("\n")
    started.stdin.flush()


def test_requests_in_progress_may_finish() -> None:
    with process(60) as (started, url), contextlib.ExitStack() as stack:
        clients = [asking(url, "/stream/input", stack) for _ in range(10)]
        idle = stack.enter_context(dial(url))
        for client in clients:
            until(client, b"begun ")
        started.send_signal(signal.SIGTERM)
        assert heard(idle) == b""
        with pytest.raises(ConnectionRefusedError):
            dial(url).__enter__()
        inform(started)
        for client in clients:
            assert heard(client).endswith(b"done\r\n0\r\n\r\n")
        assert ended(started) == (0, "closed\n", "")


def test_requests_in_progress_are_interrupted_after_the_timeout() -> None:
    with process(0.3) as (started, url), contextlib.ExitStack() as stack:
        clients = [asking(url, "/stream/on", stack) for _ in range(10)]
        for client in clients:
            until(client, b"begun ")
        started.send_signal(signal.SIGTERM)
        for client in clients:
            assert heard(client).endswith(b"interrupted\r\n0\r\n\r\n")
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
        client = asking(url, "/stream/on", stack)
        idle = stack.enter_context(dial(url))
        until(client, b"begun ")
        started.send_signal(signal.SIGINT)
        assert heard(idle) == b""  # the server handles the first signal
        started.send_signal(signal.SIGINT)
        assert b"interrupted" in heard(client)
        assert ended(started)[0] == 0


def test_what_heeds_no_end_does_not_keep_it() -> None:
    with process(0.1) as (started, url), contextlib.ExitStack() as stack:
        client = asking(url, "/deaf", stack)
        assert requests.get(f"{url}/health", timeout=30).status_code == 200
        started.send_signal(signal.SIGTERM)
        assert b"503 " in heard(client)[:20]
        code, out, err = ended(started)
        assert (code, out) == (0, "closed\n")
        assert "plugin mine has not returned from GET /deaf" in err


def test_the_command() -> None:
    """The command prints its address, and exits with 0 after SIGTERM."""
    command = [sys.executable, "-m", "genai_host", "serve", "--port", "0", "--access-log"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
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
            if started.poll() is None:
                started.kill()
    assert code == 0
    assert "GET /nope 404 " in err
    assert "secret" not in err

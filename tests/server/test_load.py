"""Many concurrent requests, and the memory of the server process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from serving_process import process
from talking import dial, heard, said, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux"),
]

STREAMS = 1000
HOST = b"host: localhost\r\n"


def memory(pid: int) -> int:
    """Return the resident memory in kB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


def held(pid: int) -> tuple[int, int]:
    """Return the number of threads and of open files."""
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))


def settled(pid: int, most: tuple[int, int]) -> tuple[int, int]:
    """Wait until idle threads have ended; return the number of threads and of open files."""
    end = time.monotonic() + 30
    while any(now > may for now, may in zip(held(pid), most, strict=True)):
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    return held(pid)


def test_a_thousand_open_streams() -> None:
    with process(0.5) as (started, url), contextlib.ExitStack() as stack:
        said(url, b"GET /nope HTTP/1.1\r\nconnection: close\r\n" + HOST + b"\r\n")
        before, base = memory(started.pid), held(started.pid)
        clients = [stack.enter_context(dial(url)) for _ in range(STREAMS)]
        for client in clients:
            client.sendall(b"GET /stream/on HTTP/1.1\r\n" + HOST + b"\r\n")
        for client in clients:
            until(client, b"begun ")
        assert (memory(started.pid) - before) / STREAMS <= 100
        for client in clients[100:]:
            client.close()
        assert settled(started.pid, (base[0] + 100, base[1] + 100)) <= (
            base[0] + 100,
            base[1] + 100,
        )
        started.send_signal(signal.SIGTERM)
        for client in clients[:100]:
            assert b"interrupted" in heard(client)
        assert started.wait(30) == 0

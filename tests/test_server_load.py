"""Much at once, and much in a row, in a process whose memory is looked at."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving_process import process
from talking import dial, heard, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux"),
]

STREAMS = 1000
REQUESTS = 10_000
MIB = 1024
HOST = b"host: localhost\r\n"
POST = b"POST /whole HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n"


def memory(pid: int) -> int:
    """Resident, in kB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


def held(pid: int) -> tuple[int, int]:
    """Threads and open files."""
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))


def settled(pid: int, most: tuple[int, int]) -> tuple[int, int]:
    """What it holds, once that is no more than it should be: idle threads end after a while."""
    end = time.monotonic() + 30
    while any(now > may for now, may in zip(held(pid), most, strict=True)):
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    return held(pid)


def test_a_thousand_open_streams() -> None:
    with process(0.5) as (started, url), contextlib.ExitStack() as stack:
        request(url, random.Random(1))
        before, base = memory(started.pid), held(started.pid)
        clients = [stack.enter_context(dial(url)) for _ in range(STREAMS)]
        for client in clients:
            client.sendall(b"GET /stream/600 HTTP/1.1\r\n" + HOST + b"\r\n")
        for client in clients:
            until(client, b"begun ")
        assert (memory(started.pid) - before) / STREAMS <= 100
        for client in clients[100:]:
            client.close()
        assert settled(started.pid, (base[0] + 100, base[1] + 100)) <= (
            base[0] + 100,
            base[1] + 100,
        )
        began = time.monotonic()
        started.send_signal(signal.SIGTERM)
        for client in clients[:100]:
            assert b"interrupted" in heard(client)
        assert started.wait(30) == 0
        assert time.monotonic() - began < 10


def test_ten_thousand_requests_of_mixed_faults_leave_nothing() -> None:
    with process(0.5) as (started, url), ThreadPoolExecutor(8) as pool:
        chances = [random.Random(number) for number in range(8)]

        def rounds(chance: random.Random, count: int) -> None:
            for _ in range(count):
                request(url, chance)

        list(pool.map(rounds, chances, [REQUESTS // 40] * 8))
        base = settled(started.pid, (3, 10))
        before = memory(started.pid)
        list(pool.map(rounds, chances, [REQUESTS // 8] * 8))
        gc.collect()
        now = settled(started.pid, base)
        assert now[0] <= base[0]
        assert now[1] <= base[1]
        assert memory(started.pid) - before <= 10 * MIB
        started.send_signal(signal.SIGTERM)
        assert started.wait(30) == 0


def request(url: str, chance: random.Random) -> None:
    """One of those that go well, or wrong in some way."""
    with dial(url) as client, contextlib.suppress(OSError):
        client.sendall(chance.choice(REQUESTS_OF_ALL_KINDS))
        if chance.random() < 0.7:
            client.recv(4096)
        if chance.random() < 0.3:
            reset = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)


REQUESTS_OF_ALL_KINDS = [
    POST + b"content-length: 2\r\n\r\n{}",
    POST + b"content-length: 2\r\n\r\n{{",
    POST + b"content-length: 20000\r\n\r\n" + b"[" * 20000,
    POST + b"content-length: 99999999\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    POST.replace(b"localhost", b"evil.example") + b"content-length: 2\r\n\r\n{}",
    POST + b"origin: https://evil.example\r\ncontent-length: 2\r\n\r\n{}",
    b"GET /fails HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /breaks HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /stream/0 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /stream/600 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /nope HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /ready HTTP/1.1\r\n" + HOST + b"\r\n" * 2,
    b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n\r\n",
    b"\x16\x03\x01",
]

#!/usr/bin/env python3
"""A thousand streams open at once on one process of the server, which is allowed so many.

    python benchmarks/streams.py [--streams 1000] [--chunks 20] [--pace 1.0]

The service on this machine (`service.c`) sends a chunk of each stream at that pace, in
seconds, with the time at which it was sent. Memory is that of the server, measured while all
streams are open, less what it had before, with one stream behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from bars import bar
from processes import Started, cpu_seconds, descriptors, free_port, memory_kb, threads
from serve_command import MODEL, serve_command
from service import Service

_PATIENCE = 60.0  # seconds until the server answers


class Reader:
    """One stream, from its request to its end.

    begun   is set when its first chunk has come
    late    microseconds from when each chunk was sent to when it came
    """

    def __init__(self, port: int, chunks: int) -> None:
        self._port = port
        self._chunks = chunks
        self.begun = asyncio.Event()
        self.late: list[float] = []
        self.failure = ""

    async def read(self) -> None:
        try:
            await self._read()
        except (OSError, ValueError, EOFError) as error:
            self.failure = f"{type(error).__name__}: {error}"
        self.begun.set()

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(_request())
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.splitlines()[0]:
                raise ValueError(f"{head!r} {await reader.read(500)!r}")
            ended = False
            while size := int(await reader.readuntil(b"\r\n"), 16):
                piece = await reader.readexactly(size + 2)
                self.late += map(_microseconds_since, re.findall(rb'"(\d{20})"', piece))
                if self.late:
                    self.begun.set()
                ended = ended or b"data: [DONE]" in piece
            if not ended or len(self.late) != self._chunks:
                raise ValueError(f"{len(self.late)} chunks of {self._chunks}, {ended=}")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--pace", type=float, default=1.0)
    given = parser.parse_args()
    os.environ["NO_PROXY"] = "*"
    _allow_descriptors()
    with tempfile.TemporaryDirectory(prefix="genai-host-") as folder, Service() as service:
        port, pace = free_port(), round(given.pace * 1e6)
        url = f"{service.url}/c{given.chunks}/p{pace}/v1"
        command, environment = serve_command(port, url, Path(folder), given.streams)
        server = Started(command, environment, Path(folder) / "log")
        try:
            asyncio.run(_measure(server, port, given.streams, given.chunks))
        finally:
            server.stop()


async def _measure(server: Started, port: int, streams: int, chunks: int) -> None:
    await _answer_once(server, port, chunks)
    before, cpu, started = memory_kb(server.pid), cpu_seconds(server.pid), time.perf_counter()
    readers = [Reader(port, chunks) for _ in range(streams)]
    reading = asyncio.gather(*(reader.read() for reader in readers))
    await asyncio.gather(*(reader.begun.wait() for reader in readers))
    opened = time.perf_counter() - started
    memory = [memory_kb(server.pid)]
    most_threads, most_descriptors = threads(server.pid), descriptors(server.pid)
    all_open = not any(len(reader.late) == chunks or reader.failure for reader in readers)
    while not any(len(reader.late) >= chunks - 1 or reader.failure for reader in readers):
        await asyncio.sleep(0.5)
        memory.append(memory_kb(server.pid))
    await reading
    took, cpu = time.perf_counter() - started, cpu_seconds(server.pid) - cpu
    late = sorted(each for reader in readers for each in reader.late)
    failures = [reader.failure for reader in readers if reader.failure]
    print(f"{streams} streams of {chunks} chunks, all begun after {opened:.2f} s")
    print(f"{'all open when measured':28} {'yes' if all_open else 'NO'}")
    print(f"{'chunks/s':28} {len(late) / took:10.0f}")
    print(f"{'CPU of a chunk, us':28} {cpu * 1e6 / max(len(late), 1):10.1f}")
    print(f"{'late, p50, ms':28} {statistics.median(late) / 1e3:10.1f}")
    print(f"{'late, p99, ms':28} {late[len(late) * 99 // 100] / 1e3:10.1f}")
    print(f"{'threads':28} {most_threads:10}")
    print(f"{'descriptors':28} {most_descriptors:10}")
    print(f"{'memory before, MB':28} {before / 1e3:10.1f}")
    print(f"{'memory while open, MB':28} {max(memory) / 1e3:10.1f}")
    print(f"{'memory after, MB':28} {memory_kb(server.pid) / 1e3:10.1f}")
    for failure in sorted(set(failures))[:5]:
        print(f"{failures.count(failure)} failed: {failure}")
    bar("memory of a stream, kB", (max(memory) - before) * 1.024 / streams, at_most=100)
    bar("streams that ended whole, of all", 1 - len(failures) / streams, at_least=1)


async def _answer_once(server: Started, port: int, chunks: int) -> None:
    begun = time.perf_counter()
    while True:
        reader = Reader(port, chunks)
        await reader.read()
        if not reader.failure:
            return
        if server.has_ended or time.perf_counter() - begun > _PATIENCE:
            raise RuntimeError(f"{reader.failure}\n{server.log.read_text()[-2000:]}")
        await asyncio.sleep(0.02)


def _request() -> bytes:
    messages = [{"role": "user", "content": "Say hello."}]
    body = json.dumps({"model": MODEL, "messages": messages, "stream": True}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: application/json\r\nAuthorization: Bearer no-key-at-all\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _microseconds_since(nanoseconds: bytes) -> float:
    return (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int(nanoseconds)) / 1e3


def _allow_descriptors() -> None:
    """As many as this process and those that it starts may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measure memory and delay of 1,000 concurrent streams in one server process.

    python benchmarks/streams.py [--streams 1000] [--chunks 20] [--interval 1.0]

`service.c` on this machine sends the chunks of each stream at a fixed interval, each with the time
at which it was sent. Memory is that of the server while all streams are open, minus its memory
after a single stream.
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

from processes import ChildProcess, cpu_seconds, descriptors, free_port, memory_kb, threads
from serve_command import MODEL, serve_command
from service import Service
from thresholds import check

_START_TIMEOUT = 60.0  # seconds


class Reader:
    """Client of one stream.

    Attributes:
        started: Set when the first chunk has arrived, or the stream has failed.
        delays: Microseconds from sending to receiving each chunk.
        failure: Reason of a failure; empty for none.
    """

    def __init__(self, port: int, chunks: int) -> None:
        self._port = port
        self._chunks = chunks
        self.started = asyncio.Event()
        self.delays: list[float] = []
        self.failure = ""

    async def read(self) -> None:
        """Read the stream to its end."""
        try:
            await self._read()
        except (OSError, ValueError, EOFError) as error:
            self.failure = f"{type(error).__name__}: {error}"
        self.started.set()

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(_request())
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.splitlines()[0]:
                raise ValueError(f"{head!r} {await reader.read(500)!r}")
            ended = False
            while size := int(await reader.readuntil(b"\r\n"), 16):
                data = await reader.readexactly(size + 2)
                self.delays += map(_microseconds_since, re.findall(rb'"(\d{20})"', data))
                if self.delays:
                    self.started.set()
                ended = ended or b"data: [DONE]" in data
            if not ended or len(self.delays) != self._chunks:
                raise ValueError(f"{len(self.delays)} of {self._chunks} chunks, {ended=}")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--streams", type=int, default=1000, help="number of streams")
    parser.add_argument("--chunks", type=int, default=20, help="chunks per stream")
    parser.add_argument(
        "--interval", type=float, default=1.0, help="seconds between two chunks of a stream"
    )
    options = parser.parse_args()
    os.environ["NO_PROXY"] = "*"
    _raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="genai-host-") as directory, Service() as service:
        port, interval = free_port(), round(options.interval * 1e6)
        url = f"{service.url}/c{options.chunks}/p{interval}/v1"
        command, environment = serve_command(port, url, Path(directory), options.streams)
        server = ChildProcess(command, environment, Path(directory) / "log")
        try:
            asyncio.run(_measure(server, port, options.streams, options.chunks))
        finally:
            server.stop()


async def _measure(server: ChildProcess, port: int, streams: int, chunks: int) -> None:
    await _wait_until_ready(server, port, chunks)
    before, cpu, started = memory_kb(server.pid), cpu_seconds(server.pid), time.perf_counter()
    readers = [Reader(port, chunks) for _ in range(streams)]
    reading = asyncio.gather(*(reader.read() for reader in readers))
    await asyncio.gather(*(reader.started.wait() for reader in readers))
    all_started = time.perf_counter() - started
    memory = [memory_kb(server.pid)]
    most_threads, most_descriptors = threads(server.pid), descriptors(server.pid)
    all_open = not any(len(reader.delays) == chunks or reader.failure for reader in readers)
    while not any(len(reader.delays) >= chunks - 1 or reader.failure for reader in readers):
        await asyncio.sleep(0.5)
        memory.append(memory_kb(server.pid))
    await reading
    elapsed, cpu = time.perf_counter() - started, cpu_seconds(server.pid) - cpu
    delays = sorted(delay for reader in readers for delay in reader.delays)
    failures = [reader.failure for reader in readers if reader.failure]
    print(f"{streams} streams of {chunks} chunks, all started after {all_started:.2f} s")
    print(f"{'all open when measured':28} {'yes' if all_open else 'NO'}")
    print(f"{'chunks/s':28} {len(delays) / elapsed:10.0f}")
    print(f"{'CPU per chunk, us':28} {cpu * 1e6 / max(len(delays), 1):10.1f}")
    print(f"{'delay, p50, ms':28} {statistics.median(delays) / 1e3:10.1f}")
    print(f"{'delay, p99, ms':28} {delays[len(delays) * 99 // 100] / 1e3:10.1f}")
    print(f"{'threads':28} {most_threads:10}")
    print(f"{'descriptors':28} {most_descriptors:10}")
    print(f"{'memory before, MB':28} {before / 1e3:10.1f}")
    print(f"{'memory while open, MB':28} {max(memory) / 1e3:10.1f}")
    print(f"{'memory after, MB':28} {memory_kb(server.pid) / 1e3:10.1f}")
    for failure in sorted(set(failures))[:5]:
        print(f"{failures.count(failure)} failures: {failure}")
    check("memory per stream, kB", (max(memory) - before) * 1.024 / streams, at_most=100)
    check("fraction of streams completed", 1 - len(failures) / streams, at_least=1)


async def _wait_until_ready(server: ChildProcess, port: int, chunks: int) -> None:
    started = time.perf_counter()
    while True:
        reader = Reader(port, chunks)
        await reader.read()
        if not reader.failure:
            return
        if server.has_exited or time.perf_counter() - started > _START_TIMEOUT:
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


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files of this process and its children to the maximum."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


if __name__ == "__main__":
    main()

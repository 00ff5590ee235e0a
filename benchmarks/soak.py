#!/usr/bin/env python3
"""An hour of mixed load and faults on a server: whether it leaks, and what is on record in the end.

    python benchmarks/soak.py [--minutes 60] [--clients 8] [--workers 2] [--kill 5] [--seed 1]

Clients chat, stream, go on with conversations of theirs, send nonsense, and leave in mid-reply.
The service behind answers, refuses, fails, is cut, hangs and sends garbage, by chance; now and
then a process of the server is killed. Every minute the memory, threads and descriptors of all
its processes are printed. In the end, when all is quiet, these are compared with what they were
after a tenth of the time, and the record is read: each turn that a client was told of is there,
each conversation complete or marked, and the database whole. Needs the environment of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from bars import bar
from processes import Started, descriptors, family, free_port, memory_kb, threads
from serve_command import serve_command
from soak_clients import Clients
from soak_service import answer

from genai_host.store import Store
from genai_host_testing.fake_service import FakeService

_PATIENCE = 60.0  # seconds until the server answers, and until it is quiet in the end
_LOOK = 0.2
_SILENCE = 3.0  # seconds without a sign of the service after which a call fails
_MOST_GROWTH = 1.15  # of memory, from after the warm-up to the end
_SLACK_KB = 10 * 1024  # a process: what a longer index of conversations may take


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--kill", type=float, default=5.0, help="minutes between two kills; 0: none"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeService(answer=answer(given.seed)) as service:
        port = free_port()
        options = ["--workers", str(given.workers)]
        command, environment = serve_command(
            port, f"{service.url}/v1", Path(folder), options=options, silence=_SILENCE
        )
        server = Started(command, environment, Path(folder) / "log")
        clients = Clients(f"http://127.0.0.1:{port}", given.clients, given.seed)
        try:
            clients.await_server(_PATIENCE)
            first, last, killed = _drive(given, server, service, clients)
        finally:
            clients.stop()
            server.stop()
        _judge(first, last)
        _judge_record(Path(environment["GENAI_HOST_HOME"]), clients.told, killed)
        print(f"\n{sum(clients.outcomes.values())} requests, {killed} processes killed")
        for outcome, count in sorted(clients.outcomes.items()):
            print(f"  {count:8}  {outcome}")


Sample = Mapping[str, float]


def _drive(
    given: argparse.Namespace, server: Started, service: FakeService, clients: Clients
) -> tuple[Sample, Sample, int]:
    """What it takes, quiet, after the warm-up and in the end; and how many were killed."""
    chance = random.Random(given.seed)  # noqa: S311 - chance, no secret
    seconds = given.minutes * 60
    killed = 0
    _run_for(seconds / 10, server, service, clients)
    first = _quiet(server, clients)
    _print("warm", first)
    began = time.monotonic()
    next_kill = began + (given.kill * 60 or float("inf"))
    while time.monotonic() - began < seconds * 0.9:
        _run_for(min(60.0, seconds / 20), server, service, clients)
        _print(f"{(time.monotonic() - began) / 60:.0f} min", _sample(server))
        if time.monotonic() >= next_kill:
            processes = _serving(server)
            os.kill(chance.choice(processes), signal.SIGKILL)
            killed += 1
            next_kill += given.kill * 60
    return first, _quiet(server, clients), killed


def _run_for(seconds: float, server: Started, service: FakeService, clients: Clients) -> None:
    clients.go_on()
    until = time.monotonic() + seconds
    while time.monotonic() < until and not server.has_ended:
        service.requests.clear()  # it keeps what it gets
        time.sleep(1.0)
    if server.has_ended:
        raise SystemExit(f"the server has ended:\n{server.log.read_text()[-4000:]}")


def _quiet(server: Started, clients: Clients) -> Sample:
    """Nothing is under way: what it takes once that does not fall any more."""
    clients.pause()
    least = _sample(server)
    still = time.monotonic() + 15.0  # a kept connection to the service ends by itself
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < min(still, until):
        time.sleep(_LOOK)
        now = _sample(server)
        if any(now[name] < least[name] for name in ("threads", "descriptors")):
            least, still = now, time.monotonic() + 15.0
    return _sample(server)


def _serving(server: Started) -> Sequence[int]:
    """The processes that answer: the children, or the one that there is."""
    return list(family(server.pid))[1:] or [server.pid]


def _sample(server: Started) -> Sample:
    processes = list(family(server.pid))
    return {
        "processes": len(processes),
        "memory_kb": memory_kb(server.pid),
        "threads": sum(map(threads, processes)),
        # but those of connections to the store, of which each process keeps five, once it had them
        "descriptors": sum(descriptors(each, but="conversations.db") for each in processes),
    }


def _print(when: str, sample: Sample) -> None:
    told = ", ".join(f"{value:g} {name}" for name, value in sample.items())
    print(f"{when:>8}: {told}", flush=True)


def _judge(first: Sample, last: Sample) -> None:
    _print("last", last)
    most = first["memory_kb"] * _MOST_GROWTH + _SLACK_KB * last["processes"]
    bar("memory in the end, kB", last["memory_kb"], at_most=most)
    for name in ("processes", "threads", "descriptors"):
        bar(f"{name} more than after the warm-up", last[name] - first[name], at_most=0)


def _judge_record(home: Path, told: Mapping[str, Sequence[str]], killed: int) -> None:
    """
    told   what each conversation has answered, as the clients know it
    """
    with Store(home / "data" / "store" / "conversations.db") as store:
        summaries = {each.id: each for each in store.conversations(limit=None)}
        states = Counter(each.status for each in summaries.values())
        lost = 0
        for id, answers in told.items():
            text = json.dumps(store.export(id)) if id in summaries else ""
            lost += sum(answer not in text for answer in answers)
    print(f"{len(summaries)} conversations: {dict(states)}")
    bar("answers that clients had and the record has not", lost, at_most=0)
    bar("conversations that seem to run", states["running"], at_most=0)
    bar(
        "interrupted conversations without a kill",
        0 if killed else states["interrupted"],
        at_most=0,
    )


if __name__ == "__main__":
    main()

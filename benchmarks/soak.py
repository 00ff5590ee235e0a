#!/usr/bin/env python3
"""Run mixed load and faults on a server, and check it for leaks and lost data.

    python benchmarks/soak.py [--minutes 60] [--clients 8] [--workers 2] [--kill 5] [--seed 1]

Clients send chat completions, streams, turns of conversations and invalid requests, and disconnect
during replies. The service answers, refuses, fails, resets connections, hangs and sends invalid
data at random. A worker process of the server is killed every few minutes. Memory, threads and
file descriptors of all processes are printed every minute.

At the end, when the server is idle, these are compared with their values after a tenth of the
time, and the store is read: it must contain each answer that a client received, and no
conversation that is still running. Needs the environment of the tests.
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

from processes import ChildProcess, descriptors, free_port, memory_kb, process_tree, threads
from serve_command import serve_command
from soak_clients import Clients
from soak_service import answer
from thresholds import check

from genai_host.store import Store
from genai_host_testing.fake_service import FakeService

_TIMEOUT = 60.0  # seconds for the server to start, and to become idle
_SAMPLE_INTERVAL = 0.2  # seconds
_STABLE_SECONDS = 15.0  # a kept-alive connection to the service ends within this time
_IDLE_TIMEOUT = 3.0  # seconds without data from the service
_MAX_GROWTH = 1.15  # of memory after the warm-up
_TOLERANCE_KB = 10 * 1024  # per process, for a larger index of conversations


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="duration")
    parser.add_argument("--clients", type=int, default=8, help="number of client threads")
    parser.add_argument("--workers", type=int, default=2, help="number of worker processes")
    parser.add_argument("--kill", type=float, default=5.0, help="minutes between kills; 0 for none")
    parser.add_argument("--seed", type=int, default=1, help="random seed")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        FakeService(answer=answer(options.seed)) as service,
    ):
        port = free_port()
        command, environment = serve_command(
            port,
            f"{service.url}/v1",
            Path(directory),
            options=["--workers", str(options.workers)],
            idle_timeout=_IDLE_TIMEOUT,
        )
        server = ChildProcess(command, environment, Path(directory) / "log")
        clients = Clients(f"http://127.0.0.1:{port}", options.clients, options.seed)
        try:
            clients.start(_TIMEOUT)
            first, last, killed = _run(options, server, service, clients)
        finally:
            clients.stop()
            server.stop()
        _check_resources(first, last)
        _check_store(Path(environment["GENAI_HOST_HOME"]), clients.answers, killed)
        print(f"\n{sum(clients.outcomes.values())} requests, {killed} processes killed")
        for outcome, count in sorted(clients.outcomes.items()):
            print(f"  {count:8}  {outcome}")


Sample = Mapping[str, float]


def _run(
    options: argparse.Namespace, server: ChildProcess, service: FakeService, clients: Clients
) -> tuple[Sample, Sample, int]:
    """Run the load and the kills.

    Returns:
        Samples of the idle server after the warm-up and at the end, and the number of kills.
    """
    rng = random.Random(options.seed)  # noqa: S311 - test data, no secret
    seconds = options.minutes * 60
    killed = 0
    _run_for(seconds / 10, server, service, clients)
    first = _sample_idle(server, clients)
    _print("warm-up", first)
    started = time.monotonic()
    next_kill = started + (options.kill * 60 or float("inf"))
    while time.monotonic() - started < seconds * 0.9:
        _run_for(min(60.0, seconds / 20), server, service, clients)
        _print(f"{(time.monotonic() - started) / 60:.0f} min", _sample(server))
        if time.monotonic() >= next_kill:
            processes = _workers(server)
            os.kill(rng.choice(processes), signal.SIGKILL)
            killed += 1
            next_kill += options.kill * 60
    return first, _sample_idle(server, clients), killed


def _run_for(seconds: float, server: ChildProcess, service: FakeService, clients: Clients) -> None:
    clients.resume()
    until = time.monotonic() + seconds
    while time.monotonic() < until and not server.has_exited:
        service.requests.clear()  # avoid unbounded memory of this process
        time.sleep(1.0)
    if server.has_exited:
        raise SystemExit(f"the server has exited:\n{server.log.read_text()[-4000:]}")


def _sample_idle(server: ChildProcess, clients: Clients) -> Sample:
    """Pause the clients, and sample the server when its threads and descriptors are stable."""
    clients.pause()
    least = _sample(server)
    stable_at = time.monotonic() + _STABLE_SECONDS
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < min(stable_at, deadline):
        time.sleep(_SAMPLE_INTERVAL)
        sample = _sample(server)
        if any(sample[name] < least[name] for name in ("threads", "descriptors")):
            least, stable_at = sample, time.monotonic() + _STABLE_SECONDS
    return _sample(server)


def _workers(server: ChildProcess) -> Sequence[int]:
    """Process IDs of the workers: the children, or the only process."""
    return list(process_tree(server.pid))[1:] or [server.pid]


def _sample(server: ChildProcess) -> Sample:
    processes = list(process_tree(server.pid))
    return {
        "processes": len(processes),
        "memory_kb": memory_kb(server.pid),
        "threads": sum(map(threads, processes)),
        # without connections to the store: each process keeps up to five
        "descriptors": sum(descriptors(pid, exclude="conversations.db") for pid in processes),
    }


def _print(when: str, sample: Sample) -> None:
    values = ", ".join(f"{value:g} {name}" for name, value in sample.items())
    print(f"{when:>8}: {values}", flush=True)


def _check_resources(first: Sample, last: Sample) -> None:
    _print("end", last)
    maximum = first["memory_kb"] * _MAX_GROWTH + _TOLERANCE_KB * last["processes"]
    check("memory at the end, kB", last["memory_kb"], at_most=maximum)
    for name in ("processes", "threads", "descriptors"):
        check(f"{name} more than after the warm-up", last[name] - first[name], at_most=0)


def _check_store(home: Path, answers: Mapping[str, Sequence[str]], killed: int) -> None:
    """Check that the store contains the answers that clients received.

    Args:
        home: Home directory of the server.
        answers: Unique words of the answers, by conversation.
        killed: Number of processes killed.
    """
    with Store(home / "data" / "store" / "conversations.db") as store:
        summaries = {summary.id: summary for summary in store.conversations(limit=None)}
        states = Counter(summary.status for summary in summaries.values())
        lost = 0
        for id, expected in answers.items():
            text = json.dumps(store.export(id)) if id in summaries else ""
            lost += sum(word not in text for word in expected)
    print(f"{len(summaries)} conversations: {dict(states)}")
    check("answers received", sum(map(len, answers.values())), at_least=1)
    check("answers missing in the store", lost, at_most=0)
    check("running conversations", states["running"], at_most=0)
    check(
        "interrupted conversations without a kill",
        0 if killed else states["interrupted"],
        at_most=0,
    )


if __name__ == "__main__":
    main()

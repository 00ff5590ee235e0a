#!/usr/bin/env python3
"""What the host adds to a turn: CPU time through all of it, on the mock vendor.

    python benchmarks/turns.py [--rounds 11]

The floor is the same request made of the mock directly: encoded once, sent, read.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import threading
import time
from collections.abc import Callable

from genai_host import Config, Host, Message
from genai_host.api import ProviderRequest
from genai_host.api.cancellation import Cancellation

_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    with Host(config=Config()) as host:
        _compare(host, rounds)
        _stream(host, rounds)
        _threads(host, rounds)
        _memory(host)


def _compare(host: Host, rounds: int) -> None:
    provider = host.instances["mock"].provider
    limits = Cancellation()

    def direct(history: int) -> Callable[[], object]:
        messages = [_wire("user" if n % 2 == 0 else "assistant") for n in range(history + 1)]

        def call() -> object:
            body = {"messages": messages, "parameters": {}}
            request = ProviderRequest("chat", "plain", "mock", body)
            return json.loads(provider.send(request, limits).body)

        return call

    def turn(history: int) -> Callable[[], object]:
        said = [Message("user" if n % 2 == 0 else "assistant", _TEXT) for n in range(history)]
        conversation = host.open("chat", "mock", history=said)

        def call() -> object:
            conversation.say(_TEXT)
            return conversation.undo()

        return call

    print(f"{'a turn':34} {'us, CPU':>8} {'x direct':>9}")
    for history in (0, 10, 200):
        floor, ours = _interleaved([direct(history), turn(history)], rounds)
        print(f"{f'{history} messages of history':34} {ours:8.0f} {ours / floor:9.2f}")


def _stream(host: Host, rounds: int) -> None:
    pieces = 2000
    host.instances.add("words", "mock", {"replies": ["word " * pieces], "repeat": True})
    conversation = host.open("chat", provider="words")

    def call() -> object:
        for _ in conversation.stream("go"):
            pass
        return conversation.undo()

    [taken] = _interleaved([call], rounds)
    print(f"{'a streamed piece, of 2,000':34} {taken / pieces:8.1f}")


def _threads(host: Host, rounds: int) -> None:
    def run(threads: int, turns: int) -> float:
        conversations = [host.open("chat", "mock") for _ in range(threads)]
        started = time.perf_counter()
        workers = [
            threading.Thread(target=lambda c=each: [c.say(_TEXT) for _ in range(turns)])
            for each in conversations
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return threads * turns / (time.perf_counter() - started)

    one = statistics.median(run(1, 10) for _ in range(rounds * 8))
    many = statistics.median(run(32, 10) for _ in range(rounds))
    print(f"{'turns a second, 1 thread':34} {one:8.0f}")
    print(f"{'turns a second, 32 threads':34} {many:8.0f} {many / one:9.2f} x one thread")


def _memory(host: Host) -> None:
    def turns(count: int) -> int:
        for _ in range(count):
            with host.open("chat", "mock") as conversation:
                conversation.say(_TEXT)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = turns(1000)
    after = turns(1000)
    print(f"{'resident after 1,000 turns, MiB':34} {before / 1024:8.1f}")
    print(f"{'grown by 1,000 more, KiB':34} {after - before:8d}")


def _interleaved(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median microseconds of CPU per call, the subjects in turn in each round."""
    times: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, taken in zip(calls, times, strict=True):
            repeats = 50 if number else 5
            started = time.process_time_ns()
            for _ in range(repeats):
                call()
            if number:
                taken.append((time.process_time_ns() - started) / repeats / 1000)
    return [statistics.median(taken) for taken in times]


def _wire(role: str) -> dict[str, object]:
    return {"role": role, "content": [{"type": "text", "text": _TEXT}]}


if __name__ == "__main__":
    main()

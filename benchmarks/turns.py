#!/usr/bin/env python3
"""Measure the CPU time of a turn through the whole host, with the mock provider.

    python benchmarks/turns.py [--rounds 11]

The baseline sends the same request directly to the mock provider: encode, send, decode.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import threading
import time
from collections.abc import Callable

from timing import median_cpu_times

from genai_host import Config, Host, Message
from genai_host.api import ProviderRequest
from genai_host.api.cancellation import Cancellation

_REPEATS = 50  # calls in a round
_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11, help="number of rounds")
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
        messages = [_message("user" if n % 2 == 0 else "assistant") for n in range(history + 1)]

        def call() -> object:
            body = {"messages": messages, "parameters": {}}
            request = ProviderRequest("chat", "plain", "mock", body)
            return json.loads(provider.send(request, limits).body)

        return call

    def turn(history: int) -> Callable[[], object]:
        messages = [Message("user" if n % 2 == 0 else "assistant", _TEXT) for n in range(history)]
        conversation = host.open("chat", "mock", history=messages)

        def call() -> object:
            conversation.say(_TEXT)
            return conversation.undo()

        return call

    print(f"{'turn':34} {'us, CPU':>8} {'x direct':>9}")
    for history in (0, 10, 200):
        baseline, host_time = median_cpu_times(
            [direct(history), turn(history)], rounds, [_REPEATS] * 2
        )
        title = f"{history} messages of history"
        print(f"{title:34} {host_time:8.0f} {host_time / baseline:9.2f}")


def _stream(host: Host, rounds: int) -> None:
    chunks = 2000
    host.instances.add("words", "mock", {"replies": ["word " * chunks], "repeat": True})
    conversation = host.open("chat", provider="words")

    def call() -> object:
        for _ in conversation.stream("go"):
            pass
        return conversation.undo()

    [duration] = median_cpu_times([call], rounds, [_REPEATS])
    print(f"{'streamed chunk, of 2,000':34} {duration / chunks:8.1f}")


def _threads(host: Host, rounds: int) -> None:
    def run(threads: int, turns: int) -> float:
        conversations = [host.open("chat", "mock") for _ in range(threads)]
        started = time.perf_counter()
        workers = [
            threading.Thread(target=lambda c=conversation: [c.say(_TEXT) for _ in range(turns)])
            for conversation in conversations
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return threads * turns / (time.perf_counter() - started)

    one = statistics.median(run(1, 10) for _ in range(rounds * 8))
    many = statistics.median(run(32, 10) for _ in range(rounds))
    print(f"{'turns per second, 1 thread':34} {one:8.0f}")
    print(f"{'turns per second, 32 threads':34} {many:8.0f} {many / one:9.2f} x one thread")


def _memory(host: Host) -> None:
    def turns(count: int) -> int:
        for _ in range(count):
            with host.open("chat", "mock") as conversation:
                conversation.say(_TEXT)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = turns(1000)
    after = turns(1000)
    print(f"{'peak memory after 1,000 turns, MiB':34} {before / 1024:8.1f}")
    print(f"{'growth in 1,000 more turns, KiB':34} {after - before:8d}")


def _message(role: str) -> dict[str, object]:
    return {"role": role, "content": [{"type": "text", "text": _TEXT}]}


if __name__ == "__main__":
    main()

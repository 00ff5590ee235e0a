#!/usr/bin/env python3
"""What a long conversation costs that is kept in a store: to open it, and one more turn.

    python benchmarks/long_conversation.py [--rounds 11]

CPU time at 100, 1,000 and 10,000 messages, per message, and beside the shortest: opening
is linear where the time per message stays; a turn of which the model is shown no history
costs the same, and one of which it is shown all of it grows with what is sent.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import genai_vendor_mock
from attrs import field, frozen

import genai_host.dialects
from genai_host import Config, Host, StaticPlugins
from genai_host.api import Answer, Feature, FeatureSteps, Now, Prompt, Turn, about
from genai_host.store import Store
from genai_host_testing import InlinePlugin

_SIZES = (100, 1_000, 10_000)
_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "x.db") as store,
        _host(store) as host,
    ):
        kept = {size: _written(host, size) for size in _SIZES}
        _report("opening it", [_opening(host, id) for id in kept.values()], rounds, repeated=True)
        for title, ask in {"one more turn": False, "one more, all shown": True}.items():
            turns = [_turn(host, store, id, ask=ask) for id in kept.values()]
            _report(title, turns, rounds)


def _host(store: Store) -> Host:
    plugins = {
        "dialects": genai_host.dialects,
        "mock": genai_vendor_mock,
        "clerk": InlinePlugin(features=[Feature("clerk", Settings, _respond)]),
    }
    return Host(config=Config(), discovery=StaticPlugins(plugins), store=store)


@frozen
class Settings:
    ask: bool = field(default=False, metadata=about("whether to ask a model, and show it all"))


def _respond(turn: Turn[Settings]) -> FeatureSteps:
    """Answers at once, with a step on record, or asks."""
    if turn.settings.ask:
        completion = yield from Prompt([*turn.history, turn.message])
        return Answer(completion.text)
    at = yield from Now()
    return Answer(f"noted at {at}")


def _written(host: Host, messages: int) -> str:
    """The id of a conversation that has so many, of real turns."""
    with host.open("clerk", "mock") as conversation:
        for _ in range(messages // 2):
            conversation.say(_TEXT)
        assert conversation.record_error is None
        return conversation.id


def _opening(host: Host, id: str) -> Callable[[], object]:
    def call() -> object:
        with host.conversation(id) as conversation:
            return conversation.history

    return call


def _turn(host: Host, store: Store, id: str, *, ask: bool) -> Callable[[], object]:
    """
    ask   whether the model is asked, and shown all of it
    """
    conversation = host.conversation(store.fork(id))
    conversation.configure(ask=ask)
    return lambda: conversation.say(_TEXT)


def _report(
    title: str, calls: list[Callable[[], object]], rounds: int, *, repeated: bool = False
) -> None:
    """
    repeated   whether the short ones are called more often, for as many messages in all
    """
    print(f"{title:24} {'ms, CPU':>10} {'us a message':>13} {'x the shortest':>15}")
    repeats = [max(_SIZES) // size if repeated else 1 for size in _SIZES]
    times = _interleaved(calls, repeats, rounds)
    for size, taken in zip(_SIZES, times, strict=True):
        each = taken / size * 1000
        print(f"{f'  {size:,} messages':24} {taken:10.2f} {each:13.2f} {taken / times[0]:15.2f}")


def _interleaved(calls: list[Callable[[], object]], repeats: list[int], rounds: int) -> list[float]:
    """Median milliseconds of CPU per call, the subjects in turn in each round."""
    times: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, count, taken in zip(calls, repeats, times, strict=True):
            started = time.process_time_ns()
            for _ in range(count):
                call()
            if number:  # the first round warms the caches
                taken.append((time.process_time_ns() - started) / count / 1_000_000)
    return [statistics.median(taken) for taken in times]


if __name__ == "__main__":
    main()

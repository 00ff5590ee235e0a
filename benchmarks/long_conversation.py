#!/usr/bin/env python3
"""Measure opening and continuing stored conversations of 100 to 10,000 messages.

    python benchmarks/long_conversation.py [--rounds 11]

Prints the CPU time in total, per message, and relative to the shortest conversation. The time to
open should be proportional to the number of messages. The time of a turn without a model should be
constant; a turn that sends all messages to the model takes time for each of them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import genai_vendor_mock
from attrs import field, frozen
from timing import median_cpu_times

import genai_host.dialects
from genai_host import Config, Host, StaticPlugins
from genai_host.api import Answer, Feature, FeatureSteps, Now, Prompt, Turn, about
from genai_host.store import Store
from genai_host_testing import InlinePlugin

_SIZES = (100, 1_000, 10_000)
_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11, help="number of rounds")
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as directory,
        Store(Path(directory) / "x.db") as store,
        _host(store) as host,
    ):
        ids = [_create(host, size) for size in _SIZES]
        repeats = [max(_SIZES) // size for size in _SIZES]
        _report("open", [_opening(host, id) for id in ids], rounds, repeats)
        for title, call_model in {"turn without a model": False, "turn with a model": True}.items():
            turns = [_turn(host, store, id, call_model=call_model) for id in ids]
            _report(title, turns, rounds, [1] * len(turns))


def _host(store: Store) -> Host:
    plugins = {
        "dialects": genai_host.dialects,
        "mock": genai_vendor_mock,
        "notes": InlinePlugin(features=[Feature("notes", Settings, _respond)]),
    }
    return Host(config=Config(), discovery=StaticPlugins(plugins), store=store)


@frozen
class Settings:
    call_model: bool = field(
        default=False, metadata=about("whether to send all messages to a model")
    )


def _respond(turn: Turn[Settings]) -> FeatureSteps:
    """Answer with a recorded step, or call a model."""
    if turn.settings.call_model:
        completion = yield from Prompt([*turn.history, turn.message])
        return Answer(completion.text)
    time = yield from Now()
    return Answer(f"noted at {time}")


def _create(host: Host, messages: int) -> str:
    """Create a conversation with a number of messages; returns its ID."""
    with host.open("notes", "mock") as conversation:
        for _ in range(messages // 2):
            conversation.say(_TEXT)
        assert conversation.record_error is None
        return conversation.id


def _opening(host: Host, id: str) -> Callable[[], object]:
    def call() -> object:
        with host.conversation(id) as conversation:
            return conversation.history

    return call


def _turn(host: Host, store: Store, id: str, *, call_model: bool) -> Callable[[], object]:
    conversation = host.conversation(store.fork(id))
    conversation.configure(call_model=call_model)
    return lambda: conversation.say(_TEXT)


def _report(title: str, calls: list[Callable[[], object]], rounds: int, repeats: list[int]) -> None:
    print(f"{title:24} {'ms, CPU':>10} {'us/message':>13} {'x shortest':>15}")
    times = median_cpu_times(calls, rounds, repeats)
    for size, micros in zip(_SIZES, times, strict=True):
        print(
            f"{f'  {size:,} messages':24} {micros / 1000:10.2f} {micros / size:13.2f} "
            f"{micros / times[0]:15.2f}"
        )


if __name__ == "__main__":
    main()

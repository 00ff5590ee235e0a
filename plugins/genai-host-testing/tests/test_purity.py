"""What a feature must not call, found while it runs; damaged replies and samples of schemas."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import random
import secrets
import socket
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from genai_host.api import Answer, FeatureSteps, Message, NoSettings, Now, Turn
from genai_host_testing.purity import Watched, damaged
from genai_host_testing.suites.codec import sample_of

TURN = Turn(Message("user", "hi"), (), NoSettings())


def connect() -> None:
    with socket.socket() as sock, contextlib.suppress(OSError):
        sock.settimeout(0.1)
        sock.connect(("127.0.0.1", 9))


def drive(watched: Watched, *results: Any) -> Answer:
    """Send results to a story; one that is an exception is thrown."""
    story = watched(TURN)
    next(story)
    for result in results:
        try:
            story.throw(result) if isinstance(result, Exception) else story.send(result)
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer
    raise AssertionError("the story has not ended")


def calling(act: Callable[[], object]) -> list[str]:
    """What is found of what a feature calls, after its first step."""

    def respond(turn: Turn[Any]) -> FeatureSteps:
        yield from Now()
        act()
        return Answer("")

    watched = Watched(respond)
    drive(watched, "now")
    return watched.calls


@pytest.mark.part
@pytest.mark.parametrize("act", [
    time.time, time.monotonic, time.perf_counter, lambda: time.sleep(0), datetime.datetime.now,
    datetime.date.today, lambda: datetime.datetime.now(datetime.UTC), random.random,
    lambda: random.choice("ab"), lambda: random.shuffle([1, 2]), uuid.uuid4, secrets.token_hex,
    lambda: os.urandom(1), connect,
])  # fmt: skip
def test_time_chance_and_networks_are_found(act: Callable[[], object]) -> None:
    assert calling(act)


@pytest.mark.parametrize("act", [
    lambda: random.Random(7).random(), lambda: datetime.date(2026, 1, 1).isoformat(),
    lambda: datetime.date.fromisoformat("2026-01-01"), lambda: sorted({"a", "b"}),
    lambda: uuid.uuid5(uuid.NAMESPACE_URL, "a"), lambda: None,
])  # fmt: skip
def test_what_is_the_same_each_time_is_not(act: Callable[[], object]) -> None:
    assert calling(act) == []


def test_a_watched_feature_does_what_it_does() -> None:
    def respond(turn: Turn[Any]) -> FeatureSteps:
        first = yield from Now()
        try:
            yield from Now()
        except ValueError as error:
            return Answer(f"{first} {error}")
        return Answer("no")

    watched = Watched(respond)
    assert drive(watched, "one", ValueError("two")) == Answer("one two")
    assert sys.getprofile() is None
    assert watched.calls == []


def test_what_others_do_when_garbage_is_collected_is_not_its_doing() -> None:
    def look_at_the_clock(phase: str, info: Any) -> None:
        time.time()

    def make_garbage() -> None:
        for _ in range(2000):
            cycle: list[Any] = []
            cycle.append(cycle)

    gc.callbacks.append(look_at_the_clock)
    try:
        assert calling(make_garbage) == []
    finally:
        gc.callbacks.remove(look_at_the_clock)
    assert gc.isenabled()


def test_a_watched_feature_can_be_closed() -> None:
    closed = []

    def respond(turn: Turn[Any]) -> FeatureSteps:
        try:
            yield from Now()
        finally:
            closed.append(True)
        return Answer("")

    story = Watched(respond)(TURN)
    next(story)
    story.close()
    assert closed == [True]


def test_every_value_of_a_reply_is_damaged_in_turn() -> None:
    variants = list(damaged(b'{"a": [1, "x"]}'))
    assert b'{"a": [1' in variants
    assert b"{}" in variants
    assert b'{"a": null}' in variants
    assert b'{"a": [null, "x"]}' in variants
    assert b'{"a": [1, []]}' in variants
    assert list(damaged(b"no")) == [b"", b"n"]


@pytest.mark.parametrize(("schema", "value"), [
    ({"type": "string"}, "sample"), ({"type": "integer", "minimum": 3}, 3),
    ({"enum": ["low", "high"]}, "low"), ({"const": 7}, 7),
    ({"default": 8, "type": "integer"}, 8), ({"type": ["boolean", "null"]}, True),
    ({"type": "array", "items": {"type": "number"}}, [1]),
    ({"type": "object", "properties": {"a": {"type": "null"}}}, {"a": None}),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, {}), (True, "sample"), ({}, "sample"),
])  # fmt: skip
def test_a_simple_schema_has_a_sample(schema: Any, value: Any) -> None:
    assert sample_of(schema) == value

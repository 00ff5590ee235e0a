"""Delays, pace and cancelling of the mock, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from genai_vendor_mock import MockProvider, ScriptedReply, Settings

from genai_host import Answer, Event, TurnLimits
from genai_host.api import Cancellation, ProviderReply, ProviderRequest, Services
from genai_host.errors import Cancelled, ProviderRemoved
from genai_host_testing import ManualClock
from genai_host_testing.internal.fixtures import NO_HTTP, MakeHost
from genai_host_testing.internal.vendors import Watched

Background = Callable[..., Future[Any]]

MODELS = ["mock", "whole"]
"""Streamed, and in one piece."""

UNTIMED = TurnLimits(seconds=None)
"""No alarm but those of the mock, and those of the call's deadlines."""

LONG = 12.5
"""Seconds in which no deadline is due."""

REQUEST = ProviderRequest("chat", "plain", "mock", {"messages": []}, stream=True)


def provider_of(clock: ManualClock, folder: Path, *replies: ScriptedReply) -> MockProvider:
    return MockProvider(Settings(replies=replies), Services("mock", clock, folder, NO_HTTP))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("reply", "waits"),
    [
        (ScriptedReply("one two three"), []),
        (ScriptedReply("at last", delay=2.5), [2.5]),
        (ScriptedReply("one two three", pace=1), [1, 1]),  # before each further piece
        (ScriptedReply("one two", delay=3, pace=1), [3, 1]),
    ],
    ids=["neither", "delay", "pace", "both"],
)
def test_a_reply_waits_for_its_delay_and_its_pace(
    scripted: MakeHost,
    clock: ManualClock,
    background: Background,
    model: str,
    reply: ScriptedReply,
    waits: list[float],
) -> None:
    host = scripted(reply, clock=clock)
    future: Future[Answer] = background(host.open(model=model, turn_limits=UNTIMED).say, "hi")
    for seconds in waits:
        for seconds_left in (seconds, seconds / 2):
            clock.wait_for_alarm_in(seconds_left)
            assert not future.done()
            clock.advance(seconds / 2)
    answer = future.result(30)
    assert answer.text == reply.text
    assert answer.details[0].data["seconds"] == sum(waits)
    assert clock.due_in() == []


def test_each_further_piece_waits_for_its_pace(
    scripted: MakeHost, clock: ManualClock, background: Background
) -> None:
    host = scripted(ScriptedReply("one two three", pace=0.25), clock=clock)
    events = host.open(model="mock", turn_limits=UNTIMED).stream("hi")
    assert next(events).text == "one"  # at once
    for piece in (" two", " three"):
        following: Future[Event] = background(next, events)
        clock.wait_for_alarm_in(0.25)
        clock.advance(0.25)
        assert following.result(30).text == piece
    answer = [event.answer for event in events][-1]
    assert answer is not None
    assert answer.text == "one two three"
    assert clock.monotonic() == 0.5


@pytest.mark.parametrize("how", ["send", "stream"])
@pytest.mark.parametrize(
    "reply", [ScriptedReply(fault="hang"), ScriptedReply("x", delay=LONG)], ids=["hang", "delay"]
)
def test_a_provider_that_waits_is_woken_by_its_limits(
    clock: ManualClock, tmp_path: Path, background: Background, how: str, reply: ScriptedReply
) -> None:
    provider = provider_of(clock, tmp_path, reply)
    limits = Watched()
    replied: Future[ProviderReply] = background(getattr(provider, how), REQUEST, limits)
    assert limits.is_waited_for.wait(30)
    assert not replied.done()
    limits.cancel(ProviderRemoved("told to"))
    assert replied.exception(30) == ProviderRemoved("told to")


@pytest.mark.parametrize("how", ["send", "stream"])
@pytest.mark.parametrize("fault", ["hang", None])
def test_a_call_that_is_cancelled_already_brings_nothing(
    clock: ManualClock, tmp_path: Path, how: str, fault: Any
) -> None:
    provider = provider_of(clock, tmp_path, ScriptedReply("unheard", fault=fault))
    limits = Cancellation()
    limits.cancel()
    with pytest.raises(Cancelled):
        getattr(provider, how)(REQUEST, limits)


def test_closing_a_stream_ends_an_iteration_that_is_blocked(
    clock: ManualClock, tmp_path: Path, background: Background
) -> None:
    """As `ReplyStream.close` promises, whatever the limits of the call do."""
    provider = provider_of(clock, tmp_path, ScriptedReply("one two three", pace=LONG))
    limits = Cancellation()
    stream = provider.stream(REQUEST, limits)
    assert not isinstance(stream, ProviderReply)
    chunks: Future[list[Any]] = background(list, stream)
    clock.wait_for_alarm_in(LONG)
    stream.close()
    try:
        assert len(chunks.result(30)) == 1
    finally:
        limits.cancel()


def test_a_closed_stream_brings_no_more(clock: ManualClock, tmp_path: Path) -> None:
    stream = provider_of(clock, tmp_path, ScriptedReply("one two")).stream(REQUEST, Cancellation())
    assert not isinstance(stream, ProviderReply)
    stream.close()
    stream.close()  # any number of times
    assert list(stream) == []

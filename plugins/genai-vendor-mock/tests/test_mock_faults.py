"""Faults and delays of replies."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, get_args
from unittest.mock import ANY

import pytest
from genai_vendor_mock import Fault, MockProvider, ScriptedReply, Settings

from genai_host import Answer, Config, Event, TurnLimits, errors
from genai_host.api import Cancellation, ProviderReply, ProviderRequest, Services
from genai_host.errors import Cancelled, ProviderRemoved
from genai_host_testing import ManualClock
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import NO_HTTP, Background, MakeHost
from genai_host_testing.internal.vendors import Watched

MODELS = ["mock", "whole"]
"""Streamed, and in one piece."""

TOO_LONG = "the prompt is longer than the window"
AT_ONCE: list[tuple[ScriptedReply, type[errors.GenaiError], dict[str, Any], str]] = [
    (ScriptedReply(fault="refused"), errors.ServiceUnavailable, {}, "the connection was refused"),
    (ScriptedReply(fault="reset"), errors.ServiceUnavailable, {}, "the connection was reset"),
    (
        ScriptedReply("text", fault="garbage"),
        errors.MalformedReply,
        {},
        "the reply is malformed: it is not JSON: ",
    ),
    (
        ScriptedReply("text", fault="html"), errors.MalformedReply, {"hint": ANY},
        "the reply is a page of HTML, not JSON: 502 Bad Gateway",
    ),
    (
        ScriptedReply("text", fault="empty"), errors.MalformedReply, {"hint": ANY},
        "the reply is empty",
    ),
    (ScriptedReply("text", fault="overflow"), errors.ContextOverflow, {"status": 400}, TOO_LONG),
    (
        ScriptedReply("text", fault="overflow", status=413),
        errors.ContextOverflow, {"status": 413}, TOO_LONG,
    ),
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("reply", "kind", "fields", "message"), AT_ONCE, ids=lambda value: getattr(value, "fault", "")
)
def test_a_fault_of_the_service_is_an_error_of_its_own(
    scripted: MakeHost, model: str, reply: ScriptedReply, kind: type[errors.GenaiError],
    fields: dict[str, Any], message: str,
) -> None:  # fmt: skip
    conversation = scripted(reply, "fine again").open(model=model)
    with pytest.raises(errors.GenaiError) as caught:
        conversation.say("hi")
    error = caught.value
    assert type(error) is kind
    where = {"provider": "mock", "model": model}
    assert error.fields() == {"retryable": kind is errors.ServiceUnavailable, **where, **fields}
    assert error.message.startswith(message)
    assert "\n" not in error.message
    assert conversation.history == ()
    assert conversation.say("hi").text == "fine again"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("status", "kind", "retryable"), [
    (401, errors.AuthenticationFailed, False), (422, errors.BadRequest, False),
    (429, errors.RateLimited, True), (529, errors.ServiceUnavailable, True),
])  # fmt: skip
def test_a_status_is_the_error_that_it_means(
    scripted: MakeHost, model: str, status: int, kind: type[errors.GenaiError], retryable: bool
) -> None:
    conversation = scripted(ScriptedReply("unheard", status=status)).open(model=model)
    with pytest.raises(errors.GenaiError) as caught:
        conversation.say("hi")
    assert caught.value == kind(
        f"the service answered with status {status}",
        status=status, retryable=retryable, provider="mock", model=model,
    )  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("status", "seconds"), [(429, 2.0), (429, 0.0), (503, 86_400.0)])
def test_retry_after_reaches_user(
    scripted: MakeHost, model: str, status: int, seconds: float
) -> None:
    conversation = scripted(ScriptedReply(status=status, retry_after=seconds)).open(model=model)
    with pytest.raises((errors.RateLimited, errors.ServiceUnavailable)) as caught:
        conversation.say("hi")
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize("model", MODELS)
def test_a_crash_is_a_fault_of_the_plugin(scripted: MakeHost, model: str) -> None:
    conversation = scripted(ScriptedReply(fault="crash"), "fine again").open(model=model)
    with pytest.raises(errors.PluginError) as caught:
        conversation.say("hi")
    assert caught.value == errors.PluginError(
        f"{model}@mock failed: RuntimeError: the mock crashed as configured",
        hint="this is a fault of a plugin; -v shows where", provider="mock", model=model,
    )  # fmt: skip
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert conversation.say("hi").text == "fine again"


@pytest.mark.parametrize("model", MODELS)
def test_a_filtered_answer_is_an_unexpected_finish(scripted: MakeHost, model: str) -> None:
    conversation = scripted(ScriptedReply("As an AI", fault="filtered")).open(model=model)
    with pytest.raises(errors.UnexpectedFinish) as caught:
        conversation.say("hi")
    assert caught.value == errors.UnexpectedFinish(
        "the model stopped because of content_filter",
        reason="content_filter", detail="As an AI", provider="mock", model=model,
    )  # fmt: skip
    assert conversation.history == ()


@pytest.mark.parametrize(("model", "reasoning", "pieces", "text"), [
    ("mock", "", 0, ""), ("mock", "", 1, "one"), ("mock", "", 2, "one two"),
    ("mock", "", 3, "one two three"), ("mock", "", 9, "one two three"),
    ("mock", "let me see", 2, "one"),  # a piece as well
    ("whole", "", 1, ""),
])  # fmt: skip
def test_cut_stream(scripted: MakeHost, model: str, reasoning: str, pieces: int, text: str) -> None:
    reply = ScriptedReply("one two three", reasoning=reasoning, fault="cut", pieces=pieces)
    conversation = scripted(reply).open(model=model)
    texts: list[str] = []
    with pytest.raises(errors.IncompleteReply) as caught:
        texts.extend(event.text for event in conversation.stream("hi"))
    assert "".join(texts) == text
    assert caught.value == errors.IncompleteReply(
        "the reply was interrupted before its end", text=text, provider="mock", model=model
    )
    assert conversation.history == ()


@pytest.mark.parametrize("model", MODELS)
def test_a_reply_that_hangs_ends_with_the_time_of_the_turn(
    scripted: MakeHost, clock: ManualClock, background: Callable[..., Future[Answer]], model: str
) -> None:
    host = scripted(ScriptedReply("unheard", fault="hang"), "fine again", clock=clock)
    conversation = host.open(model=model, turn_limits=TurnLimits(seconds=5))
    answer = background(conversation.say, "hi")
    clock.wait_for_alarms(2)  # of the turn, and of the call: it is heard before the time is up
    clock.advance(5)
    error = answer.exception(30)
    assert type(error) is errors.LimitExceeded
    assert error.message == "the turn took longer than 5 seconds"
    assert error.limit == "seconds"
    assert conversation.history == ()
    assert conversation.say("hi").text == "fine again"


def test_every_kind_of_fault_is_tested_here() -> None:
    elsewhere = {"crash", "filtered", "cut", "hang"}  # each in a test of its own
    assert {reply.fault for reply, *_ in AT_ONCE} | elsewhere == set(get_args(Fault))


@pytest.mark.parametrize("fault", get_args(Fault))
def test_a_fault_of_one_instance_disturbs_no_other(
    make_host: MakeHost, background: Callable[..., Future[Answer]], fault: Fault
) -> None:
    providers = {
        "faulty": provider_config("mock", replies=[ScriptedReply("x", fault=fault)]),
        "sound": provider_config("mock", replies=["fine", "still fine"]),
    }
    host = make_host(config=Config(providers=providers))
    faulty, sound = host.open(model="mock@faulty"), host.open(model="mock@sound")
    failing = background(faulty.say, "hi")
    assert sound.say("hi").text == "fine"
    if fault == "hang":
        faulty.cancel()
    assert isinstance(failing.exception(30), errors.GenaiError)
    assert sound.say("hi").text == "still fine"


UNTIMED = TurnLimits(seconds=None)
"""No alarm but those of the mock, and those of the call's deadlines."""

LONG = 12.5
"""Seconds in which no deadline is due."""

REQUEST = ProviderRequest("chat", "plain", "mock", {"messages": []}, stream=True)


def provider_of(clock: ManualClock, folder: Path, *replies: ScriptedReply) -> MockProvider:
    return MockProvider(Settings(replies=replies), Services("mock", clock, folder, NO_HTTP))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("reply", "waits"), [
    (ScriptedReply("one two three"), []),
    (ScriptedReply("at last", delay=2.5), [2.5]),
    (ScriptedReply("one two three", pace=1), [1, 1]),  # before each further piece
    (ScriptedReply("one two", delay=3, pace=1), [3, 1]),
], ids=["neither", "delay", "pace", "both"])  # fmt: skip
def test_a_reply_waits_for_its_delay_and_its_pace(
    scripted: MakeHost, clock: ManualClock, background: Background, model: str,
    reply: ScriptedReply, waits: list[float],
) -> None:  # fmt: skip
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


def test_pieces_have_a_pace(scripted: MakeHost, clock: ManualClock, background: Background) -> None:
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
def test_cancelled_before_it(clock: ManualClock, tmp_path: Path, how: str, fault: Any) -> None:
    provider = provider_of(clock, tmp_path, ScriptedReply("unheard", fault=fault))
    limits = Cancellation()
    limits.cancel()
    with pytest.raises(Cancelled):
        getattr(provider, how)(REQUEST, limits)


def test_closing_ends_a_read(clock: ManualClock, tmp_path: Path, background: Background) -> None:
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

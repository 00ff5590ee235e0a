"""The script of the mock: replies in sequence, from code and from a configuration."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from genai_vendor_mock import Script, ScriptedReply, Settings

from genai_host import Config
from genai_host.api import ToolCall, Usage
from genai_host.config import read_config
from genai_host.errors import ConfigurationError, NoRoute, ServiceUnavailable
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost


def test_replies_come_in_sequence(scripted: MakeHost) -> None:
    conversation = scripted("one", ScriptedReply("two"), {"text": "three"}).open(model="mock")
    assert [conversation.say("go on").text for _ in range(3)] == ["one", "two", "three"]


def test_a_script_counts_what_it_gave_and_starts_anew_when_it_is_reset() -> None:
    script = Script(["one", "two"])
    for _ in range(2):
        assert script.index == 0
        assert [script.next().text, script.next().text] == ["one", "two"]
        assert script.index == 2
        script.reset()


def test_an_exhausted_script_says_which_call_it_was(scripted: MakeHost) -> None:
    host = scripted("one", "two")
    conversation = host.open(model="mock")
    conversation.say("first")
    conversation.say("second")
    for _ in range(2):  # and so it stays
        with pytest.raises(ServiceUnavailable) as caught:
            conversation.say("third")
        assert caught.value == ServiceUnavailable(
            "the script has 2 replies, and this is call 3",
            retryable=False,
            provider="mock",
            model="mock",
        )
    assert [message.text for message in conversation.history] == ["first", "one", "second", "two"]


def test_a_repeated_script_starts_again(scripted: MakeHost) -> None:
    conversation = scripted("one", "two", repeat=True).open(model="mock")
    assert [conversation.say("go on").text for _ in range(3)] == ["one", "two", "one"]


@pytest.mark.parametrize("repeat", [False, True])
def test_a_script_without_replies_has_nothing_to_say(repeat: bool) -> None:
    assert Script(["one"], repeat)
    assert not Script([], repeat)
    with pytest.raises(ServiceUnavailable, match="the script has 0 replies, and this is call 1"):
        Script([], repeat).next()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("hello", ScriptedReply("hello")),
        ("", ScriptedReply("")),
        (
            ScriptedReply("hello", fault="cut", pieces=1),
            ScriptedReply("hello", fault="cut", pieces=1),
        ),
        ({"text": "hello"}, ScriptedReply("hello")),
        ({}, ScriptedReply()),
        (
            {"reasoning": "hm", "delay": 1, "pace": 0.5, "finish": "length"},
            ScriptedReply(reasoning="hm", delay=1.0, pace=0.5, finish="length"),
        ),
        (
            {"fault": "overflow", "status": 429, "retry_after": 2, "pieces": 3},
            ScriptedReply(fault="overflow", status=429, retry_after=2.0, pieces=3),
        ),
        ({"usage": {"input_tokens": 3, "output_tokens": 4}}, ScriptedReply(usage=Usage(3, 4))),
        (
            {"tool_calls": [{"id": "1", "name": "f", "arguments": {"x": 1}}]},
            ScriptedReply(tool_calls=(ToolCall("1", "f", {"x": 1}),)),
        ),
        (
            {"tool_calls": [{"type": "tool_call", "id": "1", "name": "f"}]},
            ScriptedReply(tool_calls=(ToolCall("1", "f"),)),
        ),
    ],
)
def test_replies_are_strings_or_tables_or_replies(written: Any, expected: ScriptedReply) -> None:
    assert Script([written]).next() == expected


BAD = [
    {"txt": "a misspelt name"},
    {"text": 3},
    {"text": None},
    {"fault": "explode"},
    {"finish": "bored"},
    {"delay": "1"},
    {"pieces": 1.5},
    {"status": "429"},
    {"usage": {"in": 1}},
    {"usage": 3},
    {"tool_calls": [{"name": "no id"}]},
    {"tool_calls": ["a string"]},
    {"tool_calls": [{"type": "text", "text": "another part"}]},
    {"tool_calls": 3},
    {"tool_calls": None},
    None,
    3,
    ["text"],
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_reply_is_named_by_its_number(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^reply 2 of the script: ."):
        Script(["fine", {"text": "fine, too"}, bad])


def test_a_bad_script_is_why_the_model_cannot_run(scripted: MakeHost) -> None:
    host = scripted("fine", {"text": 3})
    with pytest.raises(NoRoute) as caught:
        host.open(model="mock")
    (reason,) = caught.value.reasons
    assert reason.startswith("reply 1 of the script: expected a string, not an integer")
    with pytest.raises(ConfigurationError, match="reply 1 of the script") as wrong:
        _ = host.instances["mock"].provider
    assert wrong.value.provider == "mock"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replies": "hello"}, "replies: expected a list, not a string"),
        ({"repeat": "yes"}, "repeat: expected a boolean, not a string"),
        ({"replys": ["hello"]}, "unknown setting 'replys'"),
    ],
)
def test_wrong_settings_are_an_error_of_the_configuration(
    make_host: MakeHost, settings: dict[str, Any], message: str
) -> None:
    providers = {"tester": provider_config("mock", **settings)}
    host = make_host(config=Config(providers=providers))
    with pytest.raises(ConfigurationError, match="provider tester: ") as caught:
        _ = host.instances["tester"].provider
    assert message in str(caught.value)


def test_instances_of_a_configuration_have_scripts_of_their_own(make_host: MakeHost) -> None:
    providers = {
        "left": provider_config("mock", replies=["l1", {"text": "l2"}]),
        "right": provider_config("mock", replies=["r1"], repeat=True),
    }
    host = make_host(config=Config(providers=providers))
    left, right = host.open(model="mock@left"), host.open(model="mock@right")
    texts = [conversation.say("hi").text for conversation in (left, right, left, right)]
    assert texts == ["l1", "r1", "l2", "r1"]
    assert host.open(model="mock@mock").say("echo").text == "echo"


def test_a_script_may_stand_in_the_configuration_file(home: Path, make_host: MakeHost) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        """
        [providers.tester]
        type = "mock"
        replies = [
            "one",
            { text = "two", usage = { input_tokens = 7, output_tokens = 5 } },
            { fault = "overflow" },
        ]
        """,
        encoding="utf-8",
    )
    conversation = make_host(config=read_config()).open(model="mock@tester")
    assert conversation.say("hi").text == "one"
    assert conversation.say("hi").usage == Usage(7, 5)


@pytest.fixture
def _restless() -> Iterator[None]:
    """Within a script, threads take turns after every line, as far as no lock is held."""

    def take_turns(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not Script.next.__code__:
            return None
        os.stat(os.curdir)  # as all that waits for the system, it lets another thread run
        return take_turns

    traced = threading.gettrace()
    threading.settrace(take_turns)
    yield
    threading.settrace(traced)


@pytest.mark.usefixtures("_restless")
@pytest.mark.parametrize("repeat", [False, True])
def test_threads_share_a_script_and_lose_no_reply(repeat: bool) -> None:
    threads, each = 16, 200
    length = threads * each // (2 if repeat else 1)
    script = Script([str(number) for number in range(length)], repeat)
    barrier = threading.Barrier(threads)
    received: list[list[str]] = [[] for _ in range(threads)]

    def listen(into: list[str]) -> None:
        barrier.wait(30)
        into.extend(script.next().text for _ in range(each))

    listeners = [threading.Thread(target=listen, args=(into,)) for into in received]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join(30)
    times = 2 if repeat else 1
    expected = sorted(str(number) for number in range(length) for _ in range(times))
    assert sorted(text for texts in received for text in texts) == expected
    assert script.index == threads * each


def test_settings_say_nothing_unless_told() -> None:
    assert Settings() == Settings(replies=(), repeat=False, missing="")

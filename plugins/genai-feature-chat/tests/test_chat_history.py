"""What the chat shows to its model, and what it adds to its history."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from genai_feature_chat import Settings
from genai_feature_chat.chat import visible
from genai_feature_chat.chat_model import reply_file
from genai_vendor_mock import ScriptedReply
from hypothesis import given, strategies as some, strategies as st

from genai_host import Host, Message, Usage
from genai_host.api import FinishReason, ToolCall, ToolResult
from genai_host.errors import ConfigurationError, UnexpectedFinish
from genai_host_testing.internal.fixtures import MakeHost, requests_of

CALL = ToolCall("1", "weather", {"city": "Oslo"})
RESULT = ToolResult("1", "weather", ("rain",))

TURN_1 = [Message("user", "one"), Message("assistant", "1")]
TURN_2 = [
    Message("user", "weather?"), Message("assistant", ["let me look", CALL]),
    Message("tool", RESULT), Message("assistant", "It rains."),
]  # fmt: skip
TURN_3 = [Message("user", "three"), Message("assistant", "3")]
TOLD = Message("system", "The user is in Oslo.")
HISTORY = [*TURN_1, *TURN_2, *TURN_3]


def sent(host: Host) -> list[dict[str, Any]]:
    """The messages of the last request."""
    messages: list[dict[str, Any]] = requests_of(host)[-1]["messages"]
    return messages


@pytest.mark.parametrize(
    ("turns", "shown"),
    [(None, HISTORY), (0, []), (1, TURN_3), (2, [*TURN_2, *TURN_3]), (3, HISTORY), (99, HISTORY)],
)
def test_last_turns_are_shown_whole(host: Host, turns: int | None, shown: list[Message]) -> None:
    settings = {"system_prompt": "", "history_turns": turns}
    conversation = host.open("chat", "mock", settings=settings, history=HISTORY)
    conversation.say("now")
    assert sent(host) == host.codec.to_json([*shown, Message("user", "now")])
    assert conversation.history[: len(HISTORY)] == tuple(HISTORY)  # itself it stays whole
    assert len(conversation.history) == len(HISTORY) + 2


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_system_messages_are_shown_in_any_case(host: Host, turns: int) -> None:
    settings = {"system_prompt": "Be brief.", "history_turns": turns}
    host.open("chat", "mock", settings=settings, history=[TOLD, *HISTORY]).say("now")
    roles = [message["role"] for message in sent(host)]
    assert roles[:2] == ["system", "system"]
    assert sent(host)[1] == host.codec.to_json(TOLD)
    assert roles.count("user") == turns + 1


def test_how_much_is_shown_may_change_and_come_back(host: Host) -> None:
    conversation = host.open("chat", "mock", settings={"system_prompt": ""}, history=HISTORY)
    counts = []
    for turns in (0, 1, None):
        conversation.configure(history_turns=turns)
        conversation.say("now")
        counts.append(len(sent(host)))
    assert counts == [1, 3, len(HISTORY) + 5]


def test_a_chat_that_keeps_no_history_forgets_each_turn(host: Host) -> None:
    settings = {"system_prompt": "", "keep_history": False}
    conversation = host.open("chat", "mock", settings=settings, history=TURN_1)
    for text in ("two", "three"):
        assert conversation.say(text).text == text
        assert conversation.history == tuple(TURN_1)
        assert sent(host) == host.codec.to_json([*TURN_1, Message("user", text)])


def test_keeping_history_may_be_switched_on_later(host: Host) -> None:
    conversation = host.open("chat", "mock", settings={"keep_history": False})
    conversation.say("unkept")
    conversation.configure(keep_history=True)
    conversation.say("kept")
    assert [message.text for message in conversation.history] == ["kept", "kept"]


def _turn(text: str, tools: int) -> list[Message]:
    """A turn in which so many tools were called, one after the other."""
    called: list[Message] = []
    for number in range(tools):
        id = f"{text}-{number}"
        called.append(Message("assistant", ToolCall(id, "weather")))
        called.append(Message("tool", ToolResult(id, "weather", ("rain",))))
    return [Message("user", text), *called, Message("assistant", f"answer to {text}")]


ITEMS = st.lists(st.one_of(st.integers(0, 3), st.just(None)), max_size=12)
"""A history: for each turn how many tools it called; None is a system message."""


@given(items=ITEMS, turns=st.one_of(st.none(), st.integers(0, 14)))
def test_no_result_without_its_call(items: Sequence[int | None], turns: int | None) -> None:
    history: list[Message] = []
    for number, tools in enumerate(items):
        history += [TOLD] if tools is None else _turn(str(number), tools)
    shown = list(visible(history, turns))
    remaining = iter(history)
    assert all(message in remaining for message in shown)  # in their order, none made up
    calls = {call.id for message in shown for call in message.tool_calls}
    results = {
        part.id for message in shown for part in message.content if isinstance(part, ToolResult)
    }
    assert calls == results
    assert shown.count(TOLD) == history.count(TOLD)
    users = [message for message in history if message.role == "user"]
    expected = users if turns is None else users[max(0, len(users) - turns) :]
    assert [message for message in shown if message.role == "user"] == expected
    others = [message for message in shown if message.role != "system"]
    assert not others or others[0].role == "user"


def test_what_came_before_the_first_turn_goes_with_it() -> None:
    greeting = Message("assistant", "Welcome!")
    assert list(visible([greeting, *TURN_1], 1)) == [greeting, *TURN_1]
    assert list(visible([greeting, *TURN_1, *TURN_3], 1)) == TURN_3
    assert list(visible([greeting], 1)) == [greeting]


@pytest.mark.parametrize("history", [[], TURN_1, [Message("assistant", "Welcome!")], HISTORY])
def test_no_turns_are_none_whatever_the_history(history: list[Message]) -> None:
    assert list(visible([TOLD, *history], 0)) == [TOLD]


MODELS = ["mock", "whole"]
"""Streamed, and in one piece."""


def requests(host: Host) -> list[list[tuple[str, str]]]:
    """For each request, who said what in it."""
    return [[_said(each) for each in request["messages"]] for request in requests_of(host)]


def _said(message: dict[str, Any]) -> tuple[str, str]:
    return message["role"], "".join(part.get("text", "") for part in message["content"])


@pytest.mark.parametrize(("settings", "first"), [
    ({}, [("system", Settings().system_prompt)]),
    ({"system_prompt": "Be brief."}, [("system", "Be brief.")]),
    ({"system_prompt": ""}, []),
])  # fmt: skip
def test_system_prompt_comes_first(host: Host, settings: Any, first: list[tuple[str, str]]) -> None:
    assert Settings().system_prompt
    conversation = host.open("chat", "mock", settings=settings)
    conversation.say("one")
    conversation.say("two")
    messages = [("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two")]
    assert requests(host) == [[*first, *messages[:1]], [*first, *messages[:3]]]
    assert [(message.role, message.text) for message in conversation.history] == messages


def test_a_changed_system_prompt_holds_from_the_next_turn_on(host: Host) -> None:
    conversation = host.open("chat", "mock", settings={"system_prompt": "Be brief."})
    conversation.say("one")
    conversation.configure(system_prompt="Be polite.")
    conversation.say("two")
    conversation.configure(system_prompt="")
    conversation.say("three")
    first, second, third = requests(host)
    assert first[0] == ("system", "Be brief.")
    assert second[0] == ("system", "Be polite.")
    assert [each for each in second + third if each == ("system", "Be brief.")] == []
    assert [role for role, _ in third] == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize(("settings", "message"), [
    ({"system_prompt": 3}, "feature chat: system_prompt: expected a string, not an integer"),
    ({"system_promt": "x"}, "feature chat: unknown setting 'system_promt'"),
    ({"history_turns": -1}, "feature chat: "),
    ({"history_turns": "2"}, "feature chat: history_turns: "),
    ({"keep_history": "no"}, "feature chat: keep_history: expected a boolean, not a string"),
])  # fmt: skip
def test_wrong_settings_change_nothing(host: Host, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        host.open("chat", "mock", settings=settings)
    assert caught.value.message.startswith(message)
    conversation = host.open("chat", "mock", settings={"system_prompt": "Be brief."})
    with pytest.raises(ConfigurationError):
        conversation.configure(**settings)
    conversation.say("hi")
    assert requests(host) == [[("system", "Be brief."), ("user", "hi")]]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("reply", "reason"), [
    (ScriptedReply("half an answ", fault="filtered"), "content_filter"),
    (ScriptedReply("half an answ", tool_calls=[ToolCall("1", "search", {})]), "tool_calls"),
    (ScriptedReply("", tool_calls=[ToolCall("1", "search", {})]), "tool_calls"),
])  # fmt: skip
def test_unexpected_finish(
    scripted: MakeHost, model: str, reply: ScriptedReply, reason: str
) -> None:
    conversation = scripted("fine", reply, "fine again").open("chat", model)
    conversation.say("one")
    before = conversation.history
    with pytest.raises(UnexpectedFinish) as caught:
        conversation.say("two")
    assert caught.value == UnexpectedFinish(
        f"the model stopped because of {reason}",
        reason=reason, detail=reply.text, provider="mock", model=model,
    )  # fmt: skip
    assert conversation.history == before
    assert conversation.status == "idle"
    assert conversation.say("three").text == "fine again"


@pytest.mark.parametrize(("finish", "expected"), [
    *(("stop", True), ("length", True)),
    *(("content_filter", False), ("tool_calls", False), ("other", False)),
])  # fmt: skip
def test_unexpected_finishes(scripted: MakeHost, finish: FinishReason, expected: bool) -> None:
    conversation = scripted(ScriptedReply("half an answ", finish=finish)).open("chat", "mock")
    with nullcontext() if expected else pytest.raises(UnexpectedFinish):
        assert conversation.say("hi").text == "half an answ"
    messages = (Message("user", "hi"), Message("assistant", "half an answ"))
    assert conversation.history == (messages if expected else ())


def test_the_details_tell_of_the_prompt(scripted: MakeHost) -> None:
    host = scripted("first", ScriptedReply("second", usage=Usage(7, 5)))
    conversation = host.open("chat", "mock", settings={"system_prompt": "Be brief."})
    conversation.say("one")
    answer = conversation.say("two")
    (detail,) = answer.details
    assert (detail.kind, detail.title) == ("prompt", "prompt of main to mock@mock")
    data = dict(detail.data)
    assert data.pop("seconds") >= 0
    assert data == {
        "role": "main",
        "messages": 4,
        "added": [  # the history is told already
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "text", "text": "two"}]},
        ],
        "model": "mock", "provider": "mock", "dialect": "plain",
        "answer": {"role": "assistant", "content": [{"type": "text", "text": "second"}]},
        "finish": "stop",
        "usage": {"input_tokens": 7, "output_tokens": 5},
    }  # fmt: skip
    assert answer.usage == Usage(7, 5)
    assert answer.data is None


def test_the_events_are_the_pieces_the_detail_and_the_answer(scripted: MakeHost) -> None:
    events = list(scripted("one two").open("chat", "mock").stream("hi"))
    assert [event.kind for event in events] == ["delta", "delta", "step", "answer"]
    answer = events[-1].answer
    assert answer is not None
    assert answer.details == (events[-2].data,)
    assert "".join(event.text for event in events) == answer.text == "one two"


def test_a_message_of_several_parts_is_sent_as_it_is(host: Host) -> None:
    host.open("chat", "mock", settings={"system_prompt": ""}).say(["one ", "two"])
    (request,) = requests_of(host)
    texts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert request["messages"] == [{"role": "user", "content": texts}]


def test_parameters_of_the_conversation_are_those_of_the_prompt(host: Host) -> None:
    conversation = host.open("chat", "mock", parameters={"temperature": 0.5})
    conversation.say("hi")
    conversation.use(temperature=None, seed=3)
    conversation.say("hi")
    assert [each["parameters"] for each in requests_of(host)] == [{"temperature": 0.5}, {"seed": 3}]


RESERVED = re.compile(r"(?i)(con|prn|aux|nul|(com|lpt)[0-9])( *\..*)?")
BEGAN = "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize(("session", "agent", "expected"), [
    ("s", "a", "raw/s/a_2026-01-02_03-04-05.txt"),
    ("", "a", "raw/a_2026-01-02_03-04-05.txt"),
    ("", "", "raw/_2026-01-02_03-04-05.txt"),
    ("my session", "agent-1.2", "raw/my session/agent-1.2_2026-01-02_03-04-05.txt"),
])  # fmt: skip
def test_the_usual_names(session: str, agent: str, expected: str) -> None:
    assert PurePosixPath(reply_file("raw", session, agent, BEGAN)) == PurePosixPath(expected)


UNSAFE = [
    "..", ".", "../x", "..\\x", "/etc", "C:", "c:\\x", "a/b", "a\\b", "a\0b", "x" * 300, "con",
    "NUL", "com1.log", "lpt9 .x", "a\nb", " a", "a ", "a.", ".hidden", "~", "é", "\ud800", "a:b",
    "x.txt", "a*",
]  # fmt: skip


@pytest.mark.parametrize("id", UNSAFE)
def test_an_id_that_is_no_safe_name_gets_one(id: str) -> None:
    for session, agent in ((id, "a"), ("s", id), (id, id)):
        _must_be_inside(reply_file("raw", session, agent, BEGAN), 3)
    _must_be_inside(reply_file("raw", "", id, BEGAN), 2)


ids = some.one_of(some.text(min_size=1), some.sampled_from(UNSAFE), some.text("a.~-", min_size=1))


@given(ids, ids)
def test_no_two_ids_have_one_file(one: str, other: str) -> None:
    files = {reply_file("raw", id, "a", BEGAN) for id in (one, other)}
    files |= {reply_file("raw", "", id, BEGAN) for id in (one, other)}
    files |= {reply_file("raw", "s", id, BEGAN) for id in (one, other)}
    assert len(files) == (3 if one == other else 6)
    for file in files:
        _must_be_inside(file)


def _must_be_inside(file: str, depth: int | None = None) -> None:
    for kind in (PurePosixPath, PureWindowsPath):
        parts = kind(file).parts
        assert parts[0] == "raw"
        assert len(parts) == (depth or len(file.split("/")))
        for part in parts:
            assert part.isprintable()
            assert part.isascii()
            assert len(part) < 200
            assert part.strip(" .") == part or part[0] == "_"
            assert not RESERVED.fullmatch(part)

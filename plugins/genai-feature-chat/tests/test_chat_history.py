"""Which part of the history the chat shows to its model, and what it adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from genai_feature_chat.chat import visible
from genai_vendor_mock import MockProvider
from hypothesis import given, strategies as st

from genai_host import Host, Message
from genai_host.api import ToolCall, ToolResult

CALL = ToolCall("1", "weather", {"city": "Oslo"})
RESULT = ToolResult("1", "weather", ("rain",))

TURN_1 = [Message("user", "one"), Message("assistant", "1")]
TURN_2 = [
    Message("user", "weather?"),
    Message("assistant", ["let me look", CALL]),
    Message("tool", RESULT),
    Message("assistant", "It rains."),
]
TURN_3 = [Message("user", "three"), Message("assistant", "3")]
TOLD = Message("system", "The user is in Oslo.")
HISTORY = [*TURN_1, *TURN_2, *TURN_3]


def sent(host: Host) -> list[dict[str, Any]]:
    """The messages of the last request."""
    provider = host.instances["mock"].provider
    assert isinstance(provider, MockProvider)
    messages: list[dict[str, Any]] = provider.requests[-1]["messages"]
    return messages


@pytest.mark.parametrize(
    ("turns", "shown"),
    [(None, HISTORY), (0, []), (1, TURN_3), (2, [*TURN_2, *TURN_3]), (3, HISTORY), (99, HISTORY)],
)
def test_the_model_is_shown_the_last_turns_whole(
    host: Host, turns: int | None, shown: list[Message]
) -> None:
    settings = {"system_prompt": "", "history_turns": turns}
    conversation = host.open("chat", "mock", settings=settings, history=HISTORY)
    conversation.say("now")
    assert sent(host) == host.codec.to_json([*shown, Message("user", "now")])
    assert conversation.history[: len(HISTORY)] == tuple(HISTORY)  # itself it stays whole
    assert len(conversation.history) == len(HISTORY) + 2


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_system_messages_are_shown_in_any_case(host: Host, turns: int) -> None:
    settings = {"system_prompt": "Be brief.", "history_turns": turns}
    history = [TOLD, *HISTORY]
    host.open("chat", "mock", settings=settings, history=history).say("now")
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
    for said in ("two", "three"):
        assert conversation.say(said).text == said
        assert conversation.history == tuple(TURN_1)
        assert sent(host) == host.codec.to_json([*TURN_1, Message("user", said)])


def test_keeping_history_may_be_switched_on_later(host: Host) -> None:
    conversation = host.open("chat", "mock", settings={"keep_history": False})
    conversation.say("unkept")
    conversation.configure(keep_history=True)
    conversation.say("kept")
    assert [message.text for message in conversation.history] == ["kept", "kept"]


def _turn(said: str, tools: int) -> list[Message]:
    """A turn in which so many tools were called, one after the other."""
    called: list[Message] = []
    for number in range(tools):
        id = f"{said}-{number}"
        called.append(Message("assistant", ToolCall(id, "weather")))
        called.append(Message("tool", ToolResult(id, "weather", ("rain",))))
    return [Message("user", said), *called, Message("assistant", f"answer to {said}")]


ITEMS = st.lists(st.one_of(st.integers(0, 3), st.just(None)), max_size=12)
"""A history: for each turn how many tools it called; None is a system message."""


@given(items=ITEMS, turns=st.one_of(st.none(), st.integers(0, 14)))
def test_no_result_is_ever_shown_without_its_call(
    items: Sequence[int | None], turns: int | None
) -> None:
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
    kept = users if turns is None else users[max(0, len(users) - turns) :]
    assert [message for message in shown if message.role == "user"] == kept
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

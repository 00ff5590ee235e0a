"""Names of tools that services accept, in place of others."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Message,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorTool,
)
from genai_host.calls.tool_names import accepted_name, with_accepted_names, with_own_names

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EVERYWHERE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
READ = "fs.read:file"


@pytest.mark.parametrize("name", [READ, "x" * 65, "1.a", "-" * 99, "é", "\ud800", "Ⅷ", " "])
def test_a_new_name_is_accepted_everywhere_and_always_the_same(name: str) -> None:
    assert EVERYWHERE.fullmatch(accepted_name(name))
    assert accepted_name(name) == accepted_name(name) != accepted_name(name + ".")


def test_names_are_replaced_in_all_places_of_a_call() -> None:
    messages = [
        Message("user", "hi"),
        Message("assistant", ["so", ToolCall("1", READ), ToolCall("2", "look")]),
        Message("tool", [ToolResult("1", READ, "a"), ToolResult("2", "", "b")]),
    ]
    tools = [ToolSchema(READ, "reads"), ToolSchema("look", ""), VendorTool("web.search", "")]
    call = ChatCall(model_id="m", messages=messages, tools=tools, tool_choice=READ)
    new = accepted_name(READ)
    fitted, names = with_accepted_names(call, messages[1:], ACCEPTED)
    assert names == {new: READ}
    assert ([tool.name for tool in fitted.tools], fitted.tool_choice) == (
        [new, "look", "web.search"],
        new,
    )
    assert list(fitted.messages) == [
        messages[0],
        Message("assistant", ["so", ToolCall("1", new), ToolCall("2", "look")]),
        Message("tool", [ToolResult("1", new, "a"), ToolResult("2", "", "b")]),
    ]
    again, _ = with_accepted_names(call, messages[1:], ACCEPTED)
    assert again.messages[1] is fitted.messages[1]  # so that it is encoded once


@pytest.mark.parametrize("accepted", [None, re.compile(".+")])
def test_a_call_that_is_accepted_is_unchanged(accepted: re.Pattern[str] | None) -> None:
    asked = Message("assistant", ToolCall("1", READ))
    call = ChatCall(model_id="m", messages=[asked], tools=[ToolSchema(READ, "")])
    assert with_accepted_names(call, [asked], accepted) == (call, {})


@pytest.mark.parametrize("names", [{}, {"short": READ}])
def test_names_are_restored_in_an_answer(names: dict[str, str]) -> None:
    calls = [ToolCall("1", "short"), ToolCall("2", "look")]

    def pieces() -> Generator[Delta, None, Completion]:
        yield Delta("so")
        yield from (Delta(tool_call=call) for call in calls)
        return Completion(Message("assistant", [Text("so"), *calls]), "tool_calls")

    answer = with_own_names(pieces(), names)
    deltas: list[Delta] = []
    while True:
        try:
            deltas.append(next(answer))
        except StopIteration as end:
            completion: Completion = end.value
            break
    expected = [ToolCall("1", names.get("short", "short")), ToolCall("2", "look")]
    assert deltas == [Delta("so"), *(Delta(tool_call=call) for call in expected)]
    assert completion == Completion(Message("assistant", [Text("so"), *expected]), "tool_calls")


@pytest.mark.parametrize("names", [{}, {"short": READ}])
def test_an_answer_that_is_closed_ends_its_call(names: dict[str, str]) -> None:
    ended = []

    def pieces() -> Generator[Delta, None, Completion]:
        try:
            yield Delta("so")
        finally:
            ended.append(True)
        raise AssertionError

    answer = with_own_names(pieces(), names)
    next(answer)
    answer.close()
    assert ended

"""The agent in a turn of many round trips, with several tools in each. The mock has a script
of them all; what they cost is counted, not timed."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import genai_feature_agent
import pytest
from genai_vendor_mock import ScriptedReply

import genai_host.conversations.record
from genai_host import Conversation, Host, InMemoryRecord, Message, TurnLimits
from genai_host.api import Tool, ToolCall, ToolContext, ToolResult
from genai_host.dialects.plain import Plain
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost, mock_of

ROUNDS, FEWER = 200, 25
NAMES = ("first", "second", "third")
"""Tools that are asked for in each round trip."""


def script(rounds: int, names: Sequence[str] = NAMES) -> list[ScriptedReply]:
    """Replies that ask for all tools in each round trip, and an answer."""
    asking = [
        ScriptedReply(
            f"Round {number}.",
            tool_calls=[
                ToolCall(f"{number}-{place}", name, {"round": number})
                for place, name in enumerate(names)
            ],
        )
        for number in range(rounds)
    ]
    return [*asking, ScriptedReply("It is done.")]


class Tools:
    """Tools that give their name and the round that they were asked in.

    Attributes:
        ran: The same, in the order in which they ended.
    """

    def __init__(self, *names: str) -> None:
        self.ran: list[str] = []
        self.names = names or NAMES

    @property
    def plugins(self) -> dict[str, Any]:
        tools = [self._tool(name) for name in self.names]
        return {"agent": genai_feature_agent, "tools": InlinePlugin(tools=tools)}

    def run(self, name: str, number: int) -> str:
        self.ran.append(f"{name} {number}")
        return self.ran[-1]

    def _tool(self, name: str) -> Tool:
        def run(arguments: Mapping[str, Any], run: ToolContext) -> str:
            return self.run(name, arguments["round"])

        return Tool(name, f"does {name}", run, idempotent=True)


class LastFirst(Tools):
    """Those that are asked for last end first: each waits for the one after it."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = {name: threading.Semaphore(0) for name in self.names}

    def run(self, name: str, number: int) -> str:
        after = self.names.index(name) + 1
        if after < len(self.names):
            assert self._ended[self.names[after]].acquire(timeout=30)
        self.ran.append(f"{name} {number}")
        self._ended[name].release()
        return f"{name} {number}"


def opened(host: Host, rounds: int = ROUNDS, **caps: int) -> Conversation:
    settings: dict[str, Any] = {"max_model_calls": rounds + 1, "steps": 10 * rounds, **caps}
    allowed = TurnLimits(**settings)
    return host.open("agent", "mock", settings={"round_trips": rounds + 1}, turn_limits=allowed)


def expected(rounds: int) -> list[Message]:
    """What is said in a turn, in its order."""
    messages = [Message("user", "go")]
    for number, reply in enumerate(script(rounds)[:-1]):
        results = [
            ToolResult(call.id, call.name, f"{call.name} {number}") for call in reply.tool_calls
        ]
        messages += [
            Message("assistant", [reply.text, *reply.tool_calls]),
            Message("tool", results),
        ]
    return [*messages, Message("assistant", "It is done.")]


def written(conversation: Conversation, host: Host) -> list[dict[str, Any]]:
    """Its record, as it would be kept in a file."""
    assert isinstance(conversation.record, InMemoryRecord)
    entries: list[dict[str, Any]] = json.loads(json.dumps(conversation.record.to_json(host.codec)))
    return entries


def on_record(entries: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """How often the model was asked, and how many calls of tools were done."""
    steps = {
        tuple(each["path"]): each["step"] for each in entries if each["entry"] == "step_started"
    }
    ended = [steps[tuple(each["path"])] for each in entries if each["entry"] == "step_ended"]
    return ended.count("prompt"), ended.count("call_tool")


def test_each_of_200_round_trips_is_answered_in_the_order_of_its_calls(scripted: MakeHost) -> None:
    tools = LastFirst()
    host = scripted(*script(ROUNDS), plugins=tools.plugins)
    conversation = opened(host)
    answer = conversation.say("go")
    assert list(conversation.history) == expected(ROUNDS)
    assert answer.text.startswith("Round 0.\nRound 1.\n")
    assert answer.text.endswith("Round 199.\nIt is done.")
    assert tools.ran == [f"{name} {number}" for number in range(ROUNDS) for name in reversed(NAMES)]
    assert mock_of(host).script.index == ROUNDS + 1
    # each request is the one before it, and what was said since
    sent = [request["messages"] for request in mock_of(host).requests]
    assert len(sent[-1]) == 2 * ROUNDS + 2
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
        assert [message["role"] for message in after[len(before) :]] == ["assistant", "tool"]


def test_a_round_trip_encodes_what_is_new_however_long_the_turn(
    scripted: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a turn of n round trips would encode n * n messages."""
    counts: dict[str, int] = {}

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return function(*arguments)

        return call

    monkeypatch.setattr(Plain, "_write", counted("written", Plain._write))
    digest = counted("digested", genai_host.conversations.digests._of_message)
    monkeypatch.setattr(genai_host.conversations.digests, "_of_message", digest)
    costs = {}
    compared = (FEWER, 4 * FEWER)
    for rounds in compared:
        counts.clear()
        opened(scripted(*script(rounds), plugins=Tools().plugins), rounds).say("go")
        costs[rounds] = dict(counts)
    # the answer and the results of its tools; a digest is also taken of these without marks
    for name, each in {"written": 2, "digested": 3}.items():
        for rounds in compared:
            assert costs[rounds][name] == each * rounds + 2, (name, costs)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_long_turn_that_was_cut_does_nothing_twice(scripted: MakeHost, share: float) -> None:
    host = scripted(*script(FEWER), plugins=Tools().plugins)
    conversation = opened(host, FEWER)
    answer = conversation.say("go")
    entries = written(conversation, host)
    cut = entries[: int(len(entries) * share)]
    requests, done = on_record(cut)
    tools = Tools()
    other = scripted(*script(FEWER)[requests:], plugins=tools.plugins)
    resumed = other.reopen(
        InMemoryRecord.from_json(cut, other.codec),
        turn_limits=TurnLimits(max_model_calls=FEWER + 1),
    )
    assert resumed.resume().text == answer.text
    assert list(resumed.history) == expected(FEWER)
    assert mock_of(other).script.index == FEWER + 1 - requests
    assert len(tools.ran) == len(NAMES) * FEWER - done


def test_tools_run_at_once_under_the_cap_in_each_round_trip(scripted: MakeHost) -> None:
    most, now, lock, both = [0], [0], threading.Lock(), threading.Barrier(2)

    class ParallelRunner(Tools):
        def run(self, name: str, number: int) -> str:
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            both.wait(30)  # so that it takes two at once to end at all
            with lock:
                now[0] -= 1
            return super().run(name, number)

    tools = ParallelRunner()
    replies = script(FEWER, [*NAMES, *NAMES])
    conversation = opened(scripted(*replies, plugins=tools.plugins), FEWER, parallel=2)
    conversation.say("go")
    assert most == [2]
    assert sorted(tools.ran) == sorted(
        f"{name} {number}" for number in range(FEWER) for name in (*NAMES, *NAMES)
    )

"""Acceptance, agent.md, items 6 and 12: whatever a tool does, its call is answered, the model
is told, and the next call works; and a turn ends where its caps or its user say so."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import evolve

from genai_host import Conversation, Image
from genai_host.api import ToolOutput, ToolResult
from genai_host.errors import Cancelled, LimitExceeded, TurnPaused
from genai_host.tools.toolbox import MOST_DATA, MOST_IMAGES, MOST_TEXT
from genai_host_testing import ManualClock
from genai_host_testing.internal.agents import Counting, agent_host, calls, in_turn
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.suites.base import in_background


def doing(name: str, run: Callable[..., Any], **fields: Any) -> Counting:
    """A tool that does what a function does."""
    made = Counting(name, **fields)
    made.tool = evolve(made.tool, run=run)
    return made


def wrong_then_right(
    make_host: MakeHost, run: Callable[..., Any], *, seconds: float = 60.0, **given: Any
) -> Conversation:
    """A conversation with a model that asks for what is wrong beside what is right, then for
    what is right alone, then says that it is done."""
    model = in_turn(calls("wrong", "right"), calls("right", prefix="2-"), "done")
    wrong = doing("wrong", run, timeout=seconds)
    host = agent_host(make_host, model, wrong, Counting("right", "fine"), **given)
    return host.open("agent", "fake")


def told(conversation: Conversation) -> ToolResult:
    """What the model was told of the wrong one, after a turn in which all the others
    worked."""
    assert [message.role for message in conversation.history] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant")
    ]
    wrong, right = conversation.history[2].content
    [again] = conversation.history[4].content
    assert isinstance(wrong, ToolResult)
    assert right == ToolResult("right-1", "right", "fine")
    assert again == ToolResult("2-right-0", "right", "fine")
    assert wrong.id == "wrong-0"
    return wrong


def text_of(result: ToolResult) -> str:
    [part] = result.content
    return part.text  # type: ignore[union-attr]  # a failure is a text


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("it cannot be said")


class _Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class _OfItsOwn(BaseException):
    pass


class _Large(Exception):
    def __str__(self) -> str:
        return "x" * 10**7 + "\n\x1b[2J"


class TestRaising:
    @pytest.mark.parametrize(
        "error",
        [
            ValueError("as it is"),
            SystemExit(3),
            SystemExit(),
            KeyboardInterrupt(),
            GeneratorExit(),
            StopIteration("x"),
            MemoryError(),
            RecursionError("too deep"),
            _OfItsOwn("x"),
            _Mute(),
            _Deadly(),
            _Large(),
            TurnPaused("not its affair"),
            Cancelled("not its affair"),
            LimitExceeded("not its affair", limit="steps"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_what_it_raises_is_told(self, make_host: MakeHost, error: BaseException) -> None:
        def run(*_: Any) -> Any:
            raise error

        conversation = wrong_then_right(make_host, run)
        assert conversation.say("hi").text == "done"
        result = told(conversation)
        assert result.error
        assert text_of(result).startswith("wrong failed")
        assert len(text_of(result)) < 1000


class TestHanging:
    def test_it_is_given_up_when_its_time_is_over(self, make_host: MakeHost) -> None:
        """It waits in C, for a lock that nobody releases, and asks no limits."""
        clock, begun, never = ManualClock(), threading.Event(), threading.Lock()
        never.acquire()

        def run(*_: Any) -> Any:
            begun.set()
            never.acquire()

        conversation = wrong_then_right(make_host, run, seconds=7.0, clock=clock)
        saying = in_background(conversation.say, "hi")
        assert begun.wait(30)
        clock.advance(7)
        assert saying.result(60).text == "done"
        assert "took longer than 7 seconds" in text_of(told(conversation))
        never.release()

    @pytest.mark.smoke
    @pytest.mark.process
    def test_a_process_ends_while_one_hangs(self) -> None:
        """With a clock of its own: what is given up keeps nobody from leaving."""
        code = (
            "import threading, genai_feature_agent, genai_host.dialects\n"
            "from genai_host import Config, Host, StaticPlugins\n"
            "from genai_host.api import Completion, Message, Tool, ToolCall\n"
            "from genai_host_testing import FakeModel, InlinePlugin\n"
            "calls = [ToolCall(str(n), 'hang') for n in range(3)]\n"
            "def says(heard):\n"
            "    if heard.messages[-1].role == 'tool':\n"
            "        return 'done'\n"
            "    return Completion(Message('assistant', calls), 'tool_calls')\n"
            "def hang(*_):\n"
            "    threading.Event().wait()\n"
            "tools = InlinePlugin(tools=[Tool('hang', 'hangs', hang, timeout=0.2)])\n"
            "plugins = {'d': genai_host.dialects, 'a': genai_feature_agent, 't': tools,\n"
            "           'm': FakeModel(says)}\n"
            "host = Host(config=Config(), discovery=StaticPlugins(plugins))\n"
            "print(host.open('agent', 'fake').say('hi').text)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100
        )
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def _without_end(*_: Any) -> Iterator[str]:
    return itertools.repeat("x" * 1000)


class TestFlooding:
    def test_a_text_is_cut(self, make_host: MakeHost) -> None:
        conversation = wrong_then_right(make_host, lambda *_: "x" * 100_000_000)
        assert conversation.say("hi").text == "done"
        text = text_of(told(conversation))
        assert text == "x" * MOST_TEXT + "\n(truncated: 99900000 more characters)"

    def test_a_generator_is_no_output(self, make_host: MakeHost) -> None:
        conversation = wrong_then_right(make_host, _without_end)
        assert conversation.say("hi").text == "done"
        assert "is not an output" in text_of(told(conversation))

    def test_reactions_are_bounded_by_their_size(self, make_host: MakeHost) -> None:
        few = [{"type": "message", "message": str(number)} for number in range(10_000)]
        conversation = wrong_then_right(make_host, lambda *_: ToolOutput("x", reactions=few))
        answer = conversation.say("hi")
        assert answer.data["reactions"][1:] == few
        assert not told(conversation).error

    def test_more_of_them_are_a_failure(self, make_host: MakeHost) -> None:
        most = [{"type": "message", "message": "x" * (MOST_DATA // 10_000)}] * 10_000
        conversation = wrong_then_right(make_host, lambda *_: ToolOutput("x", reactions=most))
        answer = conversation.say("hi")
        assert answer.data["reactions"] == [{"type": "message", "message": "done"}]
        assert "its reactions and its context have" in text_of(told(conversation))

    def test_pictures_are_left_out(self, make_host: MakeHost) -> None:
        giant = Image(bytes(MOST_IMAGES + 1), "image/png")
        conversation = wrong_then_right(make_host, lambda *_: [giant] * 3)
        assert conversation.say("hi").text == "done"
        result = told(conversation)
        assert [getattr(part, "text", "")[:9] for part in result.content] == ["(a pictur"] * 3


def _cycle() -> Any:
    made: dict[str, Any] = {}
    made["self"] = made
    return made


def _deep() -> Any:
    made: Any = {}
    for _ in range(100_000):
        made = {"in": made}
    return made


class _Texts(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise SystemExit(3)


class TestGarbage:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: 7,
            lambda: b"bytes",
            lambda: {"text": "x"},
            lambda: object(),
            lambda: ["x", b"y"],
            lambda: _Texts(),
            lambda: ToolOutput(7),  # type: ignore[arg-type]  # as a tool may do it
            lambda: ToolOutput("x", context={"x": float("nan")}),
            lambda: ToolOutput("x", context={"x": float("inf")}),
            lambda: ToolOutput("x", context=_cycle()),
            lambda: ToolOutput("x", context=_deep()),
            lambda: ToolOutput("x", context={"x": object()}),
            lambda: ToolOutput("x", reactions=[{"type": "m", "in": _deep()}]),
            lambda: ToolOutput("x", reactions=[_cycle()]),
            lambda: ToolOutput("x", reactions=[{"type": ["m"]}]),
            lambda: ToolOutput("x", reactions=[{"no": "type"}]),
        ],
        ids=range(16),
    )
    def test_it_is_told(self, make_host: MakeHost, make: Callable[[], Any]) -> None:
        conversation = wrong_then_right(make_host, lambda *_: make())
        assert conversation.say("hi").text == "done"
        result = told(conversation)
        assert result.error
        assert text_of(result).startswith("wrong failed")
        assert len(text_of(result)) < 1000

    @pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00\x1b[2J\u202e"])
    def test_odd_characters_harm_nobody(self, make_host: MakeHost, text: str) -> None:
        """Half of a surrogate pair is in no text that services take: the turn would fail."""
        conversation = wrong_then_right(make_host, lambda *_: text)
        assert conversation.say("hi").text == "done"
        result = told(conversation)
        [part] = result.content
        part.text.encode()  # type: ignore[union-attr]  # it is a text, and can be sent

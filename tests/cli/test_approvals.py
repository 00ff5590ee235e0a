"""Approval of tool calls on the command line."""

from __future__ import annotations

import json
from typing import Any

import click
import genai_feature_agent
import pytest
from hypothesis import given, strategies as st
from support import Terminal

import genai_host.dialects
from genai_host import StaticPlugins
from genai_host.api import Completion, Message, Pause, Text, ToolCall, ToolResult
from genai_host.cli.session import calls_of, visible
from genai_host.cli.terminal import safe
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.internal.agents import Counting, calls

Tools = dict[str, Counting]
HOSTILE = "\x1b[2J \u202e\u200b\u2028 é"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Installed plugins bring the agent, two tools that ask, one that does not, and a model
    that asks for all three, then says what they gave; to `more` it asks for one more."""
    by_name = {
        "wipe": Counting("wipe", "wiped", approval="ask"),
        "drop": Counting("drop", "dropped", approval="ask"),
        "look": Counting("look", "found"),
    }
    plugins = {
        "dialects": genai_host.dialects,
        "agent": genai_feature_agent,
        "tools": InlinePlugin(tools=[each.tool for each in by_name.values()]),
        "fake": FakeModel(_says),
    }
    monkeypatch.setattr("genai_host.host.parts.InstalledPlugins", lambda: StaticPlugins(plugins))
    return by_name


def _says(prompt: RecordedPrompt) -> FakeAnswer:
    results = [message for message in prompt.messages if message.role == "tool"]
    users = [message.text for message in prompt.messages if message.role == "user"]
    if users[-1] == "hostile":
        call = ToolCall(f"w\x1b-{len(results)}", "wipe", {"what": HOSTILE, HOSTILE: "x" * 5000})
        return "so be it" if results else Completion(Message("assistant", call), "tool_calls")
    if not results:
        return calls("wipe", "drop", "look", text="I will.", what="all")
    if users[-1] == "more" and len(results) == 1:
        return calls("wipe", prefix="2-")
    parts = [part for message in results for part in message.content]
    return " ".join(_first_word(part) for part in parts if isinstance(part, ToolResult))


def _first_word(result: ToolResult) -> str:
    """Return the first characters of the output, which is between marks."""
    [part] = result.content
    assert isinstance(part, Text)
    return part.text.split("\n")[1][:7]


def ask(terminal: Terminal, text: str = "go", *options: str) -> tuple[int, str, str]:
    return terminal("ask -f agent -m fake", text, *options)


def ran(tools: Tools) -> list[str]:
    return [name for name, each in tools.items() for _ in each.calls]


class TestWaiting:
    def test_calls_are_shown_and_it_exits_with_3(self, terminal: Terminal, tools: Tools) -> None:
        code, out, err = ask(terminal)
        [row] = terminal.json("conversations list")
        assert (code, out, row["status"]) == (3, "I will.\n", "paused")
        assert 'wipe (wipe-0)\n  {"what": "all"}\ndrop (drop-1)\n' in err
        assert f"conversations resume {row['id']} --approve-all" in err
        assert ran(tools) == []

    def test_json_has_what_it_waits_for(self, terminal: Terminal, tools: Tools) -> None:
        code, out, _ = ask(terminal, "go", "--json")
        result = json.loads(out)
        assert (code, result["pause"]["kind"]) == (3, "approval")
        [call, _] = result["pause"]["payload"]["calls"]
        assert call == {"id": "wipe-0", "tool": "wipe", "arguments": {"what": "all"}}
        [waits] = terminal.json("conversations paused")
        assert waits == {
            "conversation": result["conversation"],
            "title": "go",
            "feature": "agent",
            **result["pause"],
        }
        code, _, err = ask(terminal, "go", "--no-record")
        assert (code, "the conversation is not saved" in err, "resume" in err) == (3, True, False)

    def test_those_that_wait_are_listed(self, terminal: Terminal, tools: Tools) -> None:
        assert terminal.json("conversations paused") == []
        ask(terminal)
        ask(terminal, "more")
        assert len(terminal.json("conversations paused")) == 2
        code, out, _ = terminal("conversations paused last")
        id = terminal.json("conversations list")[0]["id"]
        assert (code, out) == (
            0,
            f'{id}  more\n  wipe-0  wipe  {{"what": "all"}}\n  drop-1  drop  {{"what": "all"}}\n',
        )
        terminal("conversations resume last --deny-all")
        assert terminal.json("conversations paused", id) != []  # it asks for one more
        terminal("conversations resume last --deny-all")
        assert terminal.json("conversations paused", id) == []

    def test_nothing_in_a_call_is_hidden(self, terminal: Terminal, tools: Tools) -> None:
        _, _, err = ask(terminal, "hostile")
        _, out, _ = terminal("conversations paused")
        for shown in (err, out):
            assert not any(each in shown for each in "\x1b\u202e\u200b\u2028")
            assert "\\u001b[2J \\u202e\\u200b\\u2028 é" in shown
            assert "w\\u001b-0" in shown
        assert "characters more" in err
        assert "x" * 5000 in out


class TestResume:
    @pytest.mark.parametrize(("options", "expected"), [
        (["--yes"], ["wipe", "drop", "look"]),
        (["--deny-all"], ["look"]),
        (["--approve", "drop-1"], ["drop", "look"]),
        (["--approve", "drop-1", "--approve", "wipe-0"], ["wipe", "drop", "look"]),
        (["true"], ["wipe", "drop", "look"]),
        (["false"], ["look"]),
        (['{"wipe-0": true}'], ["wipe", "look"]),
    ])  # fmt: skip
    def test_yes_or_no_is_said_of_each(
        self, terminal: Terminal, tools: Tools, options: list[str], expected: list[str]
    ) -> None:
        ask(terminal)
        out = terminal.out("conversations resume last", *options)
        assert ran(tools) == expected
        assert ("wiped" in out, "dropped" in out) == ("wipe" in expected, "drop" in expected)
        assert terminal("conversations resume last", *options)[0] in (1, 2)
        assert ran(tools) == expected

    def test_it_may_wait_again(self, terminal: Terminal, tools: Tools) -> None:
        ask(terminal, "more")
        err = terminal.error("conversations resume last --deny-all", code=3)
        assert "wipe (2-wipe-0)" in err
        terminal.out("conversations resume last --yes")
        assert ran(tools) == ["wipe", "look"]
        err = terminal.error("conversations resume last --yes", code=2)
        assert "require calls that wait" in err

    def test_where_nobody_can_be_asked_it_waits_on(self, terminal: Terminal, tools: Tools) -> None:
        ask(terminal)
        err = terminal.error("conversations resume last", stdin="y\ny\n", code=3)
        assert "the conversation waits for approval of 2 calls" in err
        assert "wipe (wipe-0)" in err
        assert terminal.json("conversations list")[0]["status"] == "paused"
        assert ran(tools) == []

    @pytest.mark.parametrize(("options", "code", "message"), [
        (["--yes", "--deny-all"], 2, "use only one of"),
        (["--yes", "--approve", "wipe-0"], 2, "use only one of"),
        (["--approve", "wipe"], 2, "unknown call 'wipe': choose from wipe-0, drop-1"),
        (["--approve", "look-2"], 2, "unknown call 'look-2'"),  # which asks nobody
        (["true", "--deny-all"], 2, "use either VALUE or"),
        *(([value], 1, "true, false, or an object") for value in ("yes", "null", "1", "[]")),
        (['"true"'], 1, "true, false, or an object"),
    ])  # fmt: skip
    def test_wrong_use(
        self, terminal: Terminal, tools: Tools, options: list[str], code: int, message: str
    ) -> None:
        ask(terminal)
        assert message in terminal.error("conversations resume last", *options, code=code)
        assert terminal.json("conversations list")[0]["status"] == "paused"
        assert ran(tools) == []


def test_in_a_piped_chat_a_value_decides(terminal: Terminal, tools: Tools) -> None:
    code, out, err = terminal("chat -f agent -m fake", stdin="go\n/resume\nhi\n/resume true\n")
    assert (code, ran(tools)) == (0, ["wipe", "drop", "look"])
    assert "wiped dropped found" in out
    for message in (
        *("wipe (wipe-0)", "the conversation waits for approval of 2 calls"),
        "decide: /resume; or for all calls: /resume true, /resume false; or send the last message",
    ):
        assert message in err


class TestAsking:
    """At a simulated terminal."""

    @pytest.fixture
    def answers(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Answers of the user, in order; then the end of input."""
        answers: list[bool] = []

        def confirm(text: str, **how: Any) -> bool:
            if not answers:
                raise click.Abort
            return answers.pop(0)

        monkeypatch.setattr("genai_host.cli.ask.can_ask", lambda: True)
        monkeypatch.setattr("click.confirm", confirm)
        return answers

    def test_it_goes_on(self, terminal: Terminal, tools: Tools, answers: list[bool]) -> None:
        answers += [True, False]
        code, out, err = ask(terminal)
        assert code == 0
        assert out == "I will.\nwiped the use found\n"
        assert ran(tools) == ["wipe", "look"]
        assert err.count("asks for wipe, drop, look") == 1

    @pytest.mark.parametrize(("text", "given", "code", "expected"), [
        ("go", [True], 3, []),  # no answer lets it wait
        ("more", [True, True, True], 0, ["wipe", "wipe", "drop", "look"]),
    ])  # fmt: skip
    def test_each_wait_is_asked(
        self, terminal: Terminal, tools: Tools, answers: list[bool],
        text: str, given: list[bool], code: int, expected: list[str],
    ) -> None:  # fmt: skip
        answers += given
        assert (ask(terminal, text)[0], ran(tools)) == (code, expected)

    def test_it_is_asked_again(self, terminal: Terminal, tools: Tools, answers: list[bool]) -> None:
        ask(terminal)
        answers += [False, True]
        assert terminal("conversations resume last")[0] == 0
        assert ran(tools) == ["drop", "look"]


@pytest.mark.parametrize(("kind", "payload"), [
    ("approval", None),
    ("approval", {"calls": []}),
    ("approval", {"calls": "ab"}),
    ("approval", {"calls": [{"tool": "x"}]}),
    ("approval", {"calls": [{"id": 1, "tool": "x"}]}),
    ("approval", {"calls": [{"id": "1", "tool": "x"}, {"id": "1", "tool": "y"}]}),
    ("other", {"calls": [{"id": "1", "tool": "x"}]}),
])  # fmt: skip
def test_what_is_no_approval_of_calls_is_given_a_value(kind: str, payload: Any) -> None:
    assert calls_of(Pause(kind, payload)) is None


@given(st.text())
def test_what_is_visible_drives_no_terminal_and_says_the_same(text: str) -> None:
    shown = visible(json.dumps(text, ensure_ascii=False))
    assert shown.isprintable()
    assert safe(shown) == shown
    assert json.loads(shown) == text

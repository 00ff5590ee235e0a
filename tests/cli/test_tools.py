"""`genai-host tools`: lists, shows and calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Terminal

from genai_host_testing import make_distribution

_SOURCE = '''
from typing import Annotated

from genai_host.api import Image, Tool, ToolOutput, ToolContext, hookimpl, tool


@tool
def repeat(
    text: Annotated[str, "what to say"], run: ToolContext, times: int = 1, where: dict = {}
) -> ToolOutput:
    """Say it again.

    As often as is wanted."""
    if times < 1:
        return ToolOutput("nothing\\x1b[2J to say", error=True)
    page = run.context.get("page", "")
    return ToolOutput([text * times + page], reactions=[{"type": "message", "message": "told"}])


@tool(approval="ask", idempotent=True, timeout=5)
def draw() -> ToolOutput:
    """Draw."""
    return ToolOutput([Image(data=b"123", media_type="image/png"), Image(url="https://a.example/")])


@tool(approval="deny")
def wipe() -> None:
    """Wipe all."""


@tool
def fail() -> None:
    """Fail."""
    raise ValueError("oh \x1b[2J")


@tool(available_when=lambda context: "page" in context)
def later() -> None:
    """Wait."""


@hookimpl
def genai_tools():
    picky = {"type": "object", "properties": {"a": {"type": "string", "pattern": "["}}}
    return [
        fail, later, repeat, draw, wipe, Tool("odd", "is wrong", print, {"type": 5}),
        Tool("picky", "Look.", print, picky),
    ]
'''


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make_distribution(tmp_path, "zz-some-tools", files={"zz_some_tools.py": _SOURCE})
    monkeypatch.syspath_prepend(str(tmp_path))
    return iter(())


class TestList:
    def test_they_are_lines_with_tabs_when_piped(self, terminal: Terminal) -> None:
        code, out, err = terminal("tools")
        assert (code, err) == (0, "")
        # those of the bundled plugins are there as well
        assert [line for line in out.splitlines() if "\tzz-some-tools\t" in line] == [
            "draw\tzz-some-tools\task\tyes\tDraw.",
            "fail\tzz-some-tools\tallow\tyes\tFail.",
            "later\tzz-some-tools\tallow\tno: it does not apply in this context\tWait.",
            "odd\tzz-some-tools\tallow\tno: its parameters are not an object\tis wrong",
            "picky\tzz-some-tools\tallow\tyes\tLook.",
            "repeat\tzz-some-tools\tallow\tyes\tSay it again.",
            "wipe\tzz-some-tools\tdeny\tno: it is denied\tWipe all.",
        ]

    def test_json_has_their_parameters(self, terminal: Terminal) -> None:
        rows = {row["name"]: row for row in json.loads(terminal("tools", "--json")[1])}
        assert rows["repeat"]["parameters"]["required"] == ["text"]
        assert rows["draw"] == {
            "name": "draw",
            "plugin": "zz-some-tools",
            "approval": "ask",
            "offered": True,
            "why_not": "",
            "description": "Draw.",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
            "idempotent": True,
            "seconds": 5,
            "fault": "",
            "unenforced": [],
        }
        assert rows["odd"]["parameters"] is None
        assert rows["odd"]["fault"] == "its parameters are not an object"

    def test_plugins_count_them(self, terminal: Terminal) -> None:
        [row] = json.loads(terminal("plugins", "check", "zz-some-tools", "--json")[1])
        assert row["provides"] == {
            "tools": ["fail", "later", "repeat", "draw", "wipe", "odd", "picky"]
        }
        assert (
            "tools: fail, later, repeat, draw, wipe, odd, picky"
            in terminal("plugins", "show", "zz-some-tools")[1]
        )


class TestShow:
    def test_all_of_one(self, terminal: Terminal) -> None:
        code, out, err = terminal("tools", "show", "repeat")
        assert (code, err) == (0, "")
        assert out == (
            "repeat (of zz-some-tools)\n\nSay it again.\n\nAs often as is wanted.\n\n"
            "  text, string, required: what to say\n"
            "  times, integer, default 1\n"
            "  where, object, default {}\n"
            "approval: allow\noffered: yes\nidempotent: no\nseconds: 60\n"
        )
        assert json.loads(terminal("tools", "show", "draw", "--json")[1])["approval"] == "ask"

    def test_a_pattern_that_is_not_enforced_is_noted(self, terminal: Terminal) -> None:
        note = "the pattern '[' is not enforced: unterminated character set"
        code, out, err = terminal("tools", "show", "picky")
        assert (code, err) == (0, "")
        assert f"\nnote: {note}\n" in out
        assert json.loads(terminal("tools", "show", "picky", "--json")[1])["unenforced"] == [note]

    def test_a_wrong_one_says_why(self, terminal: Terminal) -> None:
        code, _, err = terminal("tools", "show", "odd")
        assert (code, err) == (
            0,
            "warning: the tool cannot be called: its parameters are not an object\n",
        )

    @pytest.mark.parametrize(
        ("name", "hint"), [("repaet", "did you mean repeat?"), ("x", "choose from ")]
    )
    def test_one_that_is_not_there(self, terminal: Terminal, name: str, hint: str) -> None:
        for command in ("show", "call"):
            code, out, err = terminal("tools", command, name)
            assert (code, out) == (1, "")
            assert err.startswith(f"error: unknown tool {name!r}\n  {hint}")
            assert "repeat" in err


class TestCall:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["text=a", "times=3"], "aaa"),
            (["text=12", "times=2"], "1212"),
            (["text={}"], "{}"),
            (['{"text": "a", "times": 2}'], "aa"),
            (["text=a b", "--context", '{"page": "!"}'], "a b!"),
            (["text=a", 'where={"x": 1}'], "a"),
        ],
    )
    def test_its_output_is_the_output(
        self, terminal: Terminal, arguments: list[str], said: str
    ) -> None:
        code, out, err = terminal("tools", "call", "repeat", *arguments)
        assert (code, out, err) == (0, f"{said}\ntold\n", "")

    def test_pictures_are_told_of(self, terminal: Terminal) -> None:
        code, out, err = terminal("tools", "call", "draw")
        assert (code, out) == (0, "")
        assert err == "image: image/png, 3 bytes\nimage: https://a.example/\n"

    def test_all_of_it_as_json(self, terminal: Terminal) -> None:
        code, out, _ = terminal("tools", "call", "repeat", "text=a", "--json")
        assert code == 0
        assert json.loads(out) == {
            "content": [{"type": "text", "text": "a"}],
            "reactions": [{"type": "message", "message": "told"}],
        }

    @pytest.mark.parametrize(
        ("arguments", "wrong"),
        [
            (["repeat", "text=a", "times=0"], "nothing\u241b[2J to say"),
            (["repeat"], "invalid arguments for repeat: 'text' is required"),
            (["repeat", "txet=a", "text=b"], "Additional properties are not allowed ('txet'"),
            (["wipe"], "tool 'wipe' is denied"),
            (["odd"], "tool 'odd' is unavailable: its parameters are not an object"),
        ],
    )
    def test_a_failure_is_an_error_and_exits_with_1(
        self, terminal: Terminal, arguments: list[str], wrong: str
    ) -> None:
        code, out, err = terminal("tools", "call", *arguments)
        assert (code, out) == (1, "")
        assert f"error: {wrong}" in err or wrong in err.splitlines()[0]
        assert "\x1b" not in err
        code, out, _ = terminal("tools", "call", *arguments, "--json")
        assert (code, json.loads(out)["error"]) == (1, True)

    def test_where_one_failed_is_for_those_who_ask(self, terminal: Terminal) -> None:
        code, out, err = terminal("tools", "call", "fail")
        assert (code, out) == (1, "")
        assert err == (
            "warning: the tool fail failed\nerror: fail failed: ValueError: oh \u241b[2J\n"
        )
        _, _, err = terminal("-v", "tools", "call", "fail")
        assert "Traceback" in err
        assert "\x1b" not in err

    @pytest.mark.parametrize(
        "arguments", [["a"], ["=a"], ["{"], ["{}", "a=1"], ["--context", "5"], ["--context", "{"]]
    )
    def test_a_wrong_use(self, terminal: Terminal, arguments: list[str]) -> None:
        assert terminal("tools", "call", "repeat", *arguments)[0] == 2


def test_each_says_whether_it_is_offered(terminal: Terminal) -> None:
    rows = [line.split("\t") for line in terminal("tools")[1].splitlines()[1:]]
    offered = {row[0]: row[3] for row in rows}
    assert offered["repeat"] == offered["draw"] == "yes"
    assert offered["wipe"] == "no: it is denied"
    assert offered["later"] == "no: it does not apply in this context"
    assert offered["odd"].startswith("no: ")
    found = {row["name"]: row for row in json.loads(terminal("tools", "--json")[1])}
    assert (found["draw"]["offered"], found["draw"]["approval"]) == (True, "ask")
    assert (found["wipe"]["offered"], found["wipe"]["why_not"]) == (False, "it is denied")
    assert "offered: no: it does not apply" in terminal("tools", "show", "later")[1]


class TestApprovals:
    """The user's setting for a tool takes precedence over its own."""

    def approval(self, terminal: Terminal, name: str) -> str:
        found = json.loads(terminal("tools", "show", name, "--json")[1])["approval"]
        assert isinstance(found, str)
        return found

    def test_one_is_forbidden_and_allowed_again(self, terminal: Terminal) -> None:
        assert terminal("config", "set", "approvals.repeat=deny")[0] == 0
        assert "approvals.repeat\tdeny\tfile" in terminal("config", "show")[1]
        assert self.approval(terminal, "repeat") == "deny"
        assert "repeat\tzz-some-tools\tdeny" in terminal("tools")[1]
        code, _, err = terminal("tools", "call", "repeat", "text=a")
        assert (code, err) == (1, "error: tool 'repeat' is denied\n")
        assert terminal("config", "unset", "approvals.repeat")[0] == 0
        assert terminal("tools", "call", "repeat", "text=a")[:2] == (0, "a\ntold\n")

    def test_one_that_is_denied_by_itself_can_be_allowed(self, terminal: Terminal) -> None:
        terminal("config", "set", "approvals.wipe=allow")
        assert self.approval(terminal, "wipe") == "allow"
        assert terminal("tools", "call", "wipe")[0] == 0

    def test_it_is_for_a_tool_that_there_is(self, terminal: Terminal) -> None:
        code, _, err = terminal("config", "set", "approvals.drow=deny")
        assert code == 1
        assert "unknown tool 'drow'" in err
        assert "did you mean draw?" in err

    def test_one_that_says_nothing_is_refused(self, terminal: Terminal) -> None:
        code, _, err = terminal("config", "set", "approvals.draw=never")
        assert code == 1
        assert "must be one of allow, ask, deny" in err

    def test_one_for_a_tool_that_is_gone_is_told_of(self, terminal: Terminal, home: Path) -> None:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("[approvals]\ngone = 'deny'\n")
        code, _, err = terminal("tools", "call", "repeat", "text=a")
        assert code == 0
        assert "approvals: unknown tool 'gone'" in err

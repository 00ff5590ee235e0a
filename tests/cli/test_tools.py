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
            "later\tzz-some-tools\tallow\tno: available_when is false in this context\tWait.",
            "odd\tzz-some-tools\tallow\tno: its parameters are not an object\tis wrong",
            "picky\tzz-some-tools\tallow\tyes\tLook.",
            "repeat\tzz-some-tools\tallow\tyes\tSay it again.",
            "wipe\tzz-some-tools\tdeny\tno: it is denied\tWipe all.",
        ]

    def test_json_has_their_parameters(self, terminal: Terminal) -> None:
        rows = {row["name"]: row for row in terminal.json("tools")}
        assert rows["repeat"]["parameters"]["required"] == ["text"]
        assert rows["draw"] == {
            "name": "draw", "plugin": "zz-some-tools", "approval": "ask", "description": "Draw.",
            "offered": True, "why_not": "", "idempotent": True, "seconds": 5, "fault": "",
            "unenforced": [],
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        }  # fmt: skip
        assert rows["odd"]["parameters"] is None
        assert rows["odd"]["fault"] == "its parameters are not an object"
        assert (rows["wipe"]["offered"], rows["wipe"]["why_not"]) == (False, "it is denied")

    def test_plugins_count_them(self, terminal: Terminal) -> None:
        [row] = terminal.json("plugins check zz-some-tools")
        names = ["fail", "later", "repeat", "draw", "wipe", "odd", "picky"]
        assert row["provides"] == {"tools": names}
        assert f"tools: {', '.join(names)}" in terminal("plugins show zz-some-tools")[1]


class TestShow:
    def test_all_of_one(self, terminal: Terminal) -> None:
        code, out, err = terminal("tools show repeat")
        assert (code, err) == (0, "")
        assert out == (
            "repeat (of zz-some-tools)\n\nSay it again.\n\nAs often as is wanted.\n\n"
            "  text, string, required: what to say\n"
            "  times, integer, default 1\n"
            "  where, object, default {}\n"
            "approval: allow\noffered: yes\nidempotent: no\nseconds: 60\n"
        )
        assert terminal.json("tools show draw")["approval"] == "ask"

    def test_a_pattern_that_is_not_enforced_is_noted(self, terminal: Terminal) -> None:
        note = "the pattern '[' is not enforced: unterminated character set"
        code, out, err = terminal("tools show picky")
        assert (code, err) == (0, "")
        assert f"\nnote: {note}\n" in out
        assert terminal.json("tools show picky")["unenforced"] == [note]

    def test_a_wrong_one_says_why(self, terminal: Terminal) -> None:
        code, _, err = terminal("tools show odd")
        warning = "warning: the tool cannot be called: its parameters are not an object\n"
        assert (code, err) == (0, warning)
        assert "offered: no: available_when is false" in terminal("tools show later")[1]

    @pytest.mark.parametrize(
        ("name", "hint"), [("repaet", "did you mean repeat?"), ("x", "choose from ")]
    )
    def test_one_that_is_not_there(self, terminal: Terminal, name: str, hint: str) -> None:
        for command in ("show", "call"):
            err = terminal.error("tools", command, name)
            assert err.startswith(f"error: unknown tool {name!r}\n  {hint}")
            assert "repeat" in err


class TestCall:
    @pytest.mark.parametrize(("arguments", "text"), [
        (["text=a", "times=3"], "aaa"),
        (["text=12", "times=2"], "1212"),
        (["text={}"], "{}"),
        (['{"text": "a", "times": 2}'], "aa"),
        (["text=a b", "--context", '{"page": "!"}'], "a b!"),
        (["text=a", 'where={"x": 1}'], "a"),
    ])  # fmt: skip
    def test_its_output(self, terminal: Terminal, arguments: list[str], text: str) -> None:
        assert terminal("tools call repeat", *arguments) == (0, f"{text}\ntold\n", "")

    def test_pictures_are_told_of(self, terminal: Terminal) -> None:
        images = "image: image/png, 3 bytes\nimage: https://a.example/\n"
        assert terminal("tools call draw") == (0, "", images)

    def test_all_of_it_as_json(self, terminal: Terminal) -> None:
        assert terminal.json("tools call repeat text=a") == {
            "content": [{"type": "text", "text": "a"}],
            "reactions": [{"type": "message", "message": "told"}],
        }

    @pytest.mark.parametrize(("arguments", "wrong"), [
        (["repeat", "text=a", "times=0"], "nothing\u241b[2J to say"),
        (["repeat"], "invalid arguments for repeat: 'text' is required"),
        (["repeat", "txet=a", "text=b"], "Additional properties are not allowed ('txet'"),
        (["wipe"], "tool 'wipe' is denied"),
        (["odd"], "tool 'odd' is unavailable: its parameters are not an object"),
    ])  # fmt: skip
    def test_failure(self, terminal: Terminal, arguments: list[str], wrong: str) -> None:
        err = terminal.error("tools call", *arguments)
        assert f"error: {wrong}" in err or wrong in err.splitlines()[0]
        assert "\x1b" not in err
        code, out, _ = terminal("tools call", *arguments, "--json")
        assert (code, json.loads(out)["error"]) == (1, True)

    def test_where_one_failed_is_for_those_who_ask(self, terminal: Terminal) -> None:
        err = terminal.error("tools call fail")
        assert err == (
            "warning: the tool fail failed\nerror: fail failed: ValueError: oh \u241b[2J\n"
        )
        _, _, err = terminal("-v tools call fail")
        assert "Traceback" in err
        assert "\x1b" not in err

    @pytest.mark.parametrize(
        "arguments", [["a"], ["=a"], ["{"], ["{}", "a=1"], ["--context", "5"], ["--context", "{"]]
    )
    def test_a_wrong_use(self, terminal: Terminal, arguments: list[str]) -> None:
        assert terminal("tools call repeat", *arguments)[0] == 2


class TestApprovals:
    """The user's setting for a tool takes precedence over its own."""

    def test_one_is_forbidden_and_allowed_again(self, terminal: Terminal) -> None:
        terminal.out("config set approvals.repeat=deny")
        assert "approvals.repeat\tdeny\tfile" in terminal("config show")[1]
        assert terminal.json("tools show repeat")["approval"] == "deny"
        assert "repeat\tzz-some-tools\tdeny" in terminal("tools")[1]
        assert terminal.error("tools call repeat text=a") == "error: tool 'repeat' is denied\n"
        terminal.out("config unset approvals.repeat")
        assert terminal.out("tools call repeat text=a") == "a\ntold\n"

    def test_one_that_is_denied_by_itself_can_be_allowed(self, terminal: Terminal) -> None:
        terminal.out("config set approvals.wipe=allow")
        assert terminal.json("tools show wipe")["approval"] == "allow"
        terminal.out("tools call wipe")

    def test_a_wrong_one_is_refused(self, terminal: Terminal) -> None:
        err = terminal.error("config set approvals.drow=deny")
        assert ("unknown tool 'drow'" in err, "did you mean draw?" in err) == (True, True)
        err = terminal.error("config set approvals.draw=never")
        assert "must be one of allow, ask, deny" in err

    def test_one_for_a_tool_that_is_gone_is_told_of(self, terminal: Terminal) -> None:
        terminal.configure("[approvals]\ngone = 'deny'\n")
        code, _, err = terminal("tools call repeat text=a")
        assert code == 0
        assert "approvals: unknown tool 'gone'" in err

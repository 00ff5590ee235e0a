"""What goes into the tool, and what comes out of it: bounded, whatever a process answers."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
from genai_tools_sandbox import Settings, tools
from genai_tools_sandbox.process import Ended, can_run
from genai_tools_sandbox.pyodide import KNOWN
from genai_tools_sandbox.tools import GivenFile, SandboxTools

from genai_host import Config, Host
from genai_host.api import Cancellation, Image, Text
from genai_host.errors import ValidationError
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.suites.tool import Run

ANSWER: dict[str, Any] = {
    "error": False,
    "images": [],
    "unseen": 0,
    "files": [],
    "left_out": [],
    "text": "",
    "dropped": 0,
}


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read(most: int = 100, **others: Any) -> Any:
    return tools._output({**ANSWER, **others}, most)


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxTools:
    """As if Pyodide had been pulled; a process that starts is a failure."""
    (tmp_path / "pulled").write_text(KNOWN.integrity)

    def start(*args: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(tools, "Process", start)
    monkeypatch.setattr(tools, "can_run", lambda: True)
    return SandboxTools(Settings(folder=str(tmp_path)))


def test_it_is_offered_once_pyodide_is_there(sandbox: SandboxTools, tmp_path: Path) -> None:
    assert [each.name for each in sandbox.tools(Cancellation())] == ["run"]
    assert sandbox.unavailable_reason() is None
    (tmp_path / "pulled").write_text("another")
    assert not list(sandbox.tools(Cancellation()))
    assert "genai-host sandbox pull" in str(sandbox.unavailable_reason())


def test_it_is_not_offered_elsewhere(
    sandbox: SandboxTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "can_run", lambda: False)
    assert not list(sandbox.tools(Cancellation()))
    monkeypatch.setattr(sys, "platform", "win32")
    assert not can_run()


def test_a_host_says_that_there_is_none(tmp_path: Path) -> None:
    table = {"sandbox": tools_config(folder=str(tmp_path))}
    with Host(config=Config(tools=table)) as host:
        assert "sandbox__run" not in host.tools()


@pytest.mark.parametrize(
    "settings",
    [
        {"seconds": 0},
        {"seconds": float("nan")},
        {"memory": 1},
        {"sessions": 0},
        {"idle_seconds": -1},
        {"output_characters": 10**9},
        {"file_bytes": 0},
    ],
)
def test_settings_have_bounds(settings: dict[str, Any]) -> None:
    [name] = settings
    with pytest.raises(ValueError, match=f"{name} must be a number from"):
        Settings(**settings)


@pytest.mark.parametrize(
    "name",
    ["", "/x", "../x", "a/../x", "a//x", ".", "x/", "x\n", "x\x00", "x" * 201, "\ud800", "/" * 9],
)
def test_names_of_files_lead_nowhere_else(sandbox: SandboxTools, name: str) -> None:
    with pytest.raises(ValidationError):
        sandbox.run("1", Run({}, Cancellation()), files=[GivenFile(name, "")])


@pytest.mark.parametrize(
    ("code", "files", "session", "message"),
    [
        ("1", [GivenFile("x", "?")], "", "not base64"),
        ("1", [GivenFile("x", "é")], "", "not base64"),
        ("1", [GivenFile("x", "")] * 101, "", "100 files"),
        ("1", [GivenFile("x", _b64(bytes(10_500_000)))] * 2, "", "bytes"),
        ("x" * 1_000_001, [], "", "characters"),
        ("1", [], "x" * 201, "session"),
    ],
    ids=range(6),
)
def test_what_is_given_has_bounds(
    sandbox: SandboxTools, code: str, files: list[GivenFile], session: str, message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        sandbox.run(code, Run({}, Cancellation()), session, files=files)


def test_output_is_text_and_pictures() -> None:
    output = _read(text="one\n2\n", images=[["image/png", _b64(b"png")]])
    assert output.content == (Text("one\n2"), Image(b"png", "image/png"))
    assert not output.error
    assert output.reactions == ()


def test_output_is_cut_with_a_note() -> None:
    assert (
        _read(text="x" * 101).text
        == "x" * 100 + "\n[the output was truncated after 100 characters]"
    )
    assert _read(text="x", dropped=5).text == "x\n[the output was truncated after 1 characters]"
    assert _read(text="x" * 100).text == "x" * 100


def test_files_are_a_reaction() -> None:
    files = [{"name": "a.txt", "data": _b64(b"a")}]
    output = _read(files=files, left_out=["b.bin"])
    assert output.reactions == ({"type": "sandbox_files", "files": files},)
    assert output.text == "[files omitted, as they are too large or too many: b.bin]"


def test_what_a_terminal_would_act_on_is_left_out() -> None:
    text = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\y\x1bc\x07\x9b1m a\rb\r\nc\td"
    assert _read(text=text).text == "red  y\ufffd\ufffd1m a\nb\nc\td"
    assert _read(text="\ud800\x00").text == "\ufffd\ufffd"
    [reaction] = _read(files=[{"name": "\x1b[2Ja\nb", "data": ""}]).reactions
    assert reaction["files"][0]["name"] == "a b"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "..", "", "a//b", "..\\x"])
def test_names_that_come_back_lead_nowhere_else(name: str) -> None:
    """Whoever gets a file may write it where its name says."""
    output = _read(files=[{"name": name, "data": ""}, {"name": "a/b.txt", "data": ""}])
    assert [each["name"] for each in output.reactions[0]["files"]] == ["a/b.txt"]
    assert output.text == f"[files omitted, as their names are invalid: {name}]"


def test_files_are_as_many_and_as_large_as_the_host_takes() -> None:
    large = {"name": "x", "data": _b64(bytes(700_000))}
    output = _read(files=[large, {**large, "name": "y"}] + [{"name": "z", "data": ""}] * 50)
    names = [each["name"] for each in output.reactions[0]["files"]]
    assert names[0] == "x"
    assert "y" not in names
    assert len(names) <= tools.MOST_FILES
    assert "y" in output.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": 5},
        {"text": None},
        {"files": None},
        {"files": 5},
        {"files": ["x"]},
        {"files": [{"name": 5, "data": ""}]},
        {"files": [{"name": "x", "data": "?"}]},
        {"files": [{"name": "x", "data": 5}]},
        {"left_out": 5},
        {"left_out": [[]]},
        {"unseen": "x"},
        {"images": {"a": 1}},
        {"images": [5]},
        {"images": [["image/png", "?"]]},
        {"images": [["image/png", None]]},
    ],
)
def test_an_answer_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    """Python may be broken into; what it answers is not trusted."""
    with pytest.raises(Ended):
        _read(**wrong)


def test_pictures_that_are_left_out_are_told() -> None:
    many = [["image/png", _b64(bytes(3_000_000))]] * 4
    assert _read(images=many).text == "[images omitted, as they are too large or too many: 2]"
    assert _read(images=many[:1], unseen=3).text.endswith("too many: 3]")
    assert _read(images=many[:2]).text == ""


def test_pictures_are_those_of_known_kinds() -> None:
    images = [["image/svg+xml", _b64(b"x")], ["image/png", ""], ["image/jpeg", _b64(b"j")]]
    assert _read(images=images).content[1:] == (Image(b"j", "image/jpeg"),)
    many = [["image/png", _b64(bytes(3_000_000))]] * 10
    assert len(_read(images=many).content) == 3

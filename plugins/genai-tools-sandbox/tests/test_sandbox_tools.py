"""What goes into the tool, and what comes out of it: bounded, whatever a process answers."""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_tools_sandbox import Settings, tools
from genai_tools_sandbox.process import Ended, can_run
from genai_tools_sandbox.pyodide import KNOWN
from genai_tools_sandbox.sessions import Sessions
from genai_tools_sandbox.tools import GivenFile, SandboxTools

from genai_host import Config, Host
from genai_host.api import Cancellation, Image, Text
from genai_host.errors import Cancelled, ServiceUnavailable, ValidationError
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.suites.tool import Run

ANSWER: dict[str, Any] = {
    "error": False, "images": [], "unseen": 0, "files": [], "left_out": [], "text": "",
    "dropped": 0,
}  # fmt: skip


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


def test_is_not_offered_elsewhere(sandbox: SandboxTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "can_run", lambda: False)
    assert not list(sandbox.tools(Cancellation()))
    monkeypatch.setattr(sys, "platform", "win32")
    assert not can_run()


def test_a_host_says_that_there_is_none(tmp_path: Path) -> None:
    table = {"sandbox": tools_config(folder=str(tmp_path))}
    with Host(config=Config(tools=table)) as host:
        assert "sandbox__run" not in host.tools()


@pytest.mark.parametrize("settings", [
    {"seconds": 0}, {"seconds": float("nan")}, {"memory": 1}, {"sessions": 0},
    {"idle_seconds": -1}, {"output_characters": 10**9}, {"file_bytes": 0},
])  # fmt: skip
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


@pytest.mark.parametrize(("code", "files", "session", "message"), [
    ("1", [GivenFile("x", "?")], "", "not base64"),
    ("1", [GivenFile("x", "é")], "", "not base64"),
    ("1", [GivenFile("x", "")] * 101, "", "100 files"),
    ("1", [GivenFile("x", _b64(bytes(10_500_000)))] * 2, "", "bytes"),
    ("x" * 1_000_001, [], "", "characters"),
    ("1", [], "x" * 201, "session"),
], ids=range(6))  # fmt: skip
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
    assert len(names) <= tools.MAX_FILES
    assert "y" in output.text


@pytest.mark.parametrize("wrong", [
    {"text": 5}, {"text": None}, {"files": None}, {"files": 5}, {"files": ["x"]},
    {"files": [{"name": 5, "data": ""}]}, {"files": [{"name": "x", "data": "?"}]},
    {"files": [{"name": "x", "data": 5}]}, {"left_out": 5}, {"left_out": [[]]}, {"unseen": "x"},
    {"images": {"a": 1}}, {"images": [5]}, {"images": [["image/png", "?"]]},
    {"images": [["image/png", None]]},
])  # fmt: skip
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


class _Made:
    """A process that is none."""

    def __init__(self) -> None:
        self.alive = True
        self.closed = 0
        self.killed = threading.Event()

    def kill(self) -> None:
        self.alive = False
        self.killed.set()

    def close(self) -> None:
        self.alive = False
        self.closed += 1


class _Waiting(Cancellation):
    """Cancel token with an event for its second check, which only a waiting caller makes."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0
        self.waiting = threading.Event()

    def check(self) -> None:
        self._looks += 1
        if self._looks > 1:
            self.waiting.set()
        super().check()


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def sessions(clock: _Clock) -> Iterator[Sessions[_Made]]:
    sessions: Sessions[_Made] = Sessions(2, 600.0, clock)
    yield sessions
    sessions.close()


def _used(sessions: Sessions[_Made], name: str, limits: Cancellation | None = None) -> _Made:
    with sessions.use(name, _Made, limits or Cancellation()) as process:
        return process


def test_a_session_keeps_its_process(sessions: Sessions[_Made]) -> None:
    one = _used(sessions, "one")
    assert _used(sessions, "one") is one
    assert _used(sessions, "two") is not one
    assert one.alive


def test_without_a_name_each_use_has_its_own(sessions: Sessions[_Made]) -> None:
    one, two = _used(sessions, ""), _used(sessions, "")
    assert one is not two
    assert (one.closed, two.closed) == (1, 1)


def test_the_one_that_was_used_longest_ago_goes(sessions: Sessions[_Made], clock: _Clock) -> None:
    one = _used(sessions, "one")
    clock.now = 1.0
    two = _used(sessions, "two")
    clock.now = 2.0
    _used(sessions, "one")
    _used(sessions, "three")
    assert (one.closed, two.closed) == (0, 1)


def test_a_session_that_failed_is_gone(sessions: Sessions[_Made]) -> None:
    one = _used(sessions, "one")
    with pytest.raises(ZeroDivisionError), sessions.use("one", _Made, Cancellation()):
        raise ZeroDivisionError
    assert one.closed == 1
    assert _used(sessions, "one") is not one


def test_one_that_did_not_start_takes_no_room(sessions: Sessions[_Made]) -> None:
    def fail() -> _Made:
        raise OSError

    for _ in range(5):
        with pytest.raises(OSError), sessions.use("x", fail, Cancellation()):  # noqa: PT011
            pass
    assert _used(sessions, "x").alive


def test_one_whose_process_ended_gets_another(sessions: Sessions[_Made]) -> None:
    one = _used(sessions, "one")
    one.alive = False
    assert _used(sessions, "one") is not one
    assert one.closed == 1


def test_waits_while_all_are_used(
    sessions: Sessions[_Made], background: Callable[..., Any]
) -> None:
    with sessions.use("one", _Made, Cancellation()) as one, sessions.use("", _Made, Cancellation()):
        waits = _Waiting(), _Waiting()
        same = background(_used, sessions, "one", waits[0])
        other = background(_used, sessions, "three", waits[1])
        assert all(each.waiting.wait(30) for each in waits)
        assert not same.done()
        assert not other.done()
    assert same.result(30) is one or one.closed
    assert other.result(30) is not one


def test_wait_ends_with_limits(sessions: Sessions[_Made], background: Callable[..., Any]) -> None:
    limits = Cancellation()

    def wait() -> None:
        with sessions.use("one", _Made, limits):
            pass

    with sessions.use("one", _Made, Cancellation()):
        waiting = background(wait)
        limits.cancel()
        with pytest.raises(Cancelled):
            waiting.result(30)


def test_a_session_that_nobody_uses_ends(sessions: Sessions[_Made], clock: _Clock) -> None:
    one = _used(sessions, "one")
    clock.now = 300.0
    two = _used(sessions, "two")
    clock.now = 600.0
    sessions.sweep()
    assert (one.closed, two.closed) == (1, 0)


def test_it_ends_by_itself() -> None:
    sessions: Sessions[_Made] = Sessions(2, 0.01)
    closed = threading.Event()

    class Told(_Made):
        def close(self) -> None:
            super().close()
            closed.set()

    with sessions.use("one", Told, Cancellation()):
        pass
    assert closed.wait(30)
    sessions.close()


def test_closing_ends_all(sessions: Sessions[_Made], background: Callable[..., Any]) -> None:
    idle = _used(sessions, "idle")
    with sessions.use("busy", _Made, Cancellation()) as busy:
        sessions.close()
        assert busy.killed.is_set()
        assert idle.closed == 1
        assert busy.closed == 0  # who uses it does that
    assert busy.closed == 1
    with pytest.raises(ServiceUnavailable):
        _used(sessions, "one")
    sessions.close()


def test_one_that_was_starting_while_all_was_closed_ends(sessions: Sessions[_Made]) -> None:
    session = _Made()

    def start() -> _Made:
        sessions.close()
        return session

    with pytest.raises(ServiceUnavailable), sessions.use("one", start, Cancellation()):
        pass
    assert session.closed == 1

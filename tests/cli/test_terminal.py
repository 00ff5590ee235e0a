"""Terminal output: tables, notes, errors, escaped control characters, exact text when piped, and
the log as JSON lines."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import datetime
from typing import Any

import pytest
from genai_server import AccessLogEntry, Server
from genai_server.command import json_log
from hypothesis import given, strategies as st
from screens import HOSTILE, Full, Screen
from support import Terminal

from genai_host.cli.log import show_error, show_log
from genai_host.cli.terminal import (
    ProgressLine,
    echo,
    echo_json,
    echo_table,
    is_terminal,
    note,
    piped_lines,
    piped_text,
    safe,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    Cancelled,
    CircuitOpen,
    GenaiError,
    NoRoute,
    RateLimited,
    ServiceUnavailable,
)

any_text = st.text(st.characters() | st.sampled_from(HOSTILE))


@given(text=any_text)
def test_no_control_character_comes_through(text: str) -> None:
    shown = safe(text)
    assert not set(shown) & set(HOSTILE)
    assert safe(shown) == shown
    assert shown.count("\n") == text.count("\n")
    assert shown.count("\t") == text.count("\t")


@given(text=st.text(st.characters(exclude_characters=HOSTILE)))
def test_other_text_is_left_alone(text: str) -> None:
    assert safe(text) == text


def test_each_hostile_character_leaves_a_visible_sign() -> None:
    assert len(HOSTILE) == 65 - 2 + 9 + 3
    for character in HOSTILE:
        sign = safe(f"a{character}b")[1:-1]
        assert sign
        assert sign.isprintable()
    assert len({safe(character) for character in HOSTILE}) == len(HOSTILE)


@pytest.mark.parametrize(("text", "shown"), [
    ("a\tb\nc", "a\tb\nc"),
    ("a\r\nb", "a\nb"),
    ("password: \rnone", "password: ␍none"),
    ("\r\r\n", "␍\n"),
    ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
    ("\x1b]52;c;cm0gLXJm\x07", "␛]52;c;cm0gLXJm␇"),
    ("\x9b2J\x9d0;title\x9c", "<009B>2J<009D>0;title<009C>"),
    ("\x08\x7f\x00", "␈␡␀"),
    ("user\u202etxt.exe", "user<202E>txt.exe"),
    ("\u2066a\u2069\u061c\u200f", "<2066>a<2069><061C><200F>"),
    ("\x85", "<0085>"),
    ("héllo ␛ \U0001f600 \u200d", "héllo ␛ \U0001f600 \u200d"),
    ("", ""),
], ids=ascii)  # fmt: skip
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_a_terminal_gets_what_is_safe_unless_it_is_asked_for_raw() -> None:
    with redirect_stdout(Screen()) as screen:
        echo("\x1b[2Ja\r")
        echo("\x1b[1mb", end="", raw=True)
        echo("", end="!")
    assert screen.bytes.getvalue().decode() == "␛[2Ja␍\n\x1b[1mb!"  # without a flush
    assert [is_terminal(each) for each in (None, io.StringIO(), Screen())] == [False, False, True]


@pytest.mark.parametrize("raw", [False, True])
def test_what_is_piped_is_exact(capsys: pytest.CaptureFixture[str], raw: bool) -> None:
    text = "\x1b[31mred\x1b[0m\x1b]52;c;x\x07 \u202e\x9b \t\r\x00é"
    echo(text, end="", raw=raw)
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(("text", "encoding"), [("a \ud83d!", "utf-8"), ("a é!", "ascii")])
def test_text_that_cannot_be_encoded_is_shown_all_the_same(text: str, encoding: str) -> None:
    with redirect_stdout(Screen(encoding)) as screen:
        echo(text)
    assert screen.shown.startswith("a ")
    assert screen.shown.endswith("!\n")


def test_notes_are_safe_and_no_part_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    note("\x1b]0;title\x07 é", fg="red")
    assert capsys.readouterr() == ("", "␛]0;title␇ é\n")


def test_json_is_ascii_and_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"é": ["\x1b\x9b\u202e\ud800", 1.5, None]}
    echo_json(value)
    output = capsys.readouterr().out
    assert output.isascii()
    assert not re.search(r"[^\n -~]", output)
    assert json.loads(output) == value
    assert output.startswith('{\n  "')


def test_a_table_is_for_people_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100")
    with redirect_stdout(Screen()) as screen:
        echo_table(["NAME", "STATUS"], [["one", "ok"], ["\x1b[2J[red]two", None], [("a", "b"), 5]])
    head, *rows = [line.rstrip() for line in screen.shown.splitlines()]
    assert head.split() == ["NAME", "STATUS"]
    assert [row.split() for row in rows] == [["one", "ok"], ["␛[2J[red]two"], ["a,", "b", "5"]]
    assert head.index("STATUS") == rows[0].index("ok") == rows[2].index("5")


def test_a_table_is_for_programs_where_it_is_piped(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[list[object]] = [["one", 5], ["two\nlines", None], [["a", "b"], True], ["a\tb", "c"]]
    echo_table(["NAME", "VALUE"], rows)
    lines = capsys.readouterr().out.split("\n")
    assert lines[:3] == ["one\t5", "two lines\t", "a, b\tTrue"]
    assert lines[3].count("\t") == 1
    assert lines[4:] == [""]


PLACE: Any = {"model": "mock", "provider": "script"}


@pytest.mark.parametrize(("error", "text"), [
    (Cancelled("stop"), "stop"),
    (BadRequest("stop", status=400), "stop"),
    (BadRequest("stop", **PLACE), "stop (mock@script)"),
    (BadRequest("stop", provider="script"), "stop (script)"),
    (BadRequest("stop", model="mock"), "stop (mock)"),
    (BadRequest("script stops", **PLACE), "script stops (mock@script)"),
    (BadRequest("mock@script stops", **PLACE), "mock@script stops"),
    (BadRequest("stop", hint="go on", **PLACE), "stop (mock@script)\n  go on"),
    (AuthenticationFailed("stop"), "stop\n  check the key: genai-host doctor"),
    (AuthenticationFailed("stop", hint="set X_KEY"), "stop\n  set X_KEY"),
    (RateLimited("stop"), "stop\n  wait a while, then try again"),
    (RateLimited("stop", retry_after=4.2), "stop\n  wait 5 s, then try again"),
    (RateLimited("stop", retry_after=0.0), "stop\n  wait 0 s, then try again"),
    (CircuitOpen("stop", retry_after=30), "stop\n  wait 30 s, then try again"),
    (ServiceUnavailable("stop", provider="script"),
     "stop (script)\n  try again, or check its settings: genai-host config show script"),
    (ServiceUnavailable("https://a.b/c cannot be read"), "https://a.b/c cannot be read"),
    (NoRoute("no key", reasons=["no key", "the mock is \x1bout"], hint="set X_KEY"),
     "no key\n  - the mock is ␛out\n  set X_KEY"),
])  # fmt: skip
def test_error_and_hint(capsys: pytest.CaptureFixture[str], error: GenaiError, text: str) -> None:
    show_error(error)
    assert capsys.readouterr() == ("", f"error: {text}\n")


def test_an_output_that_takes_nothing_is_named() -> None:
    with redirect_stdout(Full()), pytest.raises(OSError, match="No space left") as caught:
        echo("x")
    assert caught.value.filename == "standard output"


@pytest.mark.parametrize("stream", [Full(), None])
def test_note_without_standard_error(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    note("x")


def test_reading_lines_leaves_the_input_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\r\n\nb\nc"), "utf-8"))
    lines = piped_lines()
    assert [next(lines), next(lines), next(lines)] == ["a", "", "b"]
    del lines
    assert piped_text() == "c"


@pytest.mark.parametrize(("at_terminal", "quiet", "shown"), [
    (True, False, "\r1 MB\x1b[K\r\u241b MB\x1b[K\n\r3 MB\x1b[K\n"),
    (True, True, ""),
    (False, False, ""),
])  # fmt: skip
def test_a_line_of_progress_is_overwritten_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, at_terminal: bool,
    quiet: bool, shown: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys.stderr, "isatty", lambda: at_terminal)
    with ProgressLine(quiet=quiet) as line:
        line.show("1 MB")
        line.show("\x1b MB")
        line.end()
        line.show("3 MB")
    assert capsys.readouterr().err == shown


Lines = Callable[[], list[dict[str, Any]]]
_log = logging.getLogger("genai_host.somewhere")


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.fixture
def log() -> Iterator[None]:
    end = show_log(0, as_json=True)
    yield
    end()


@pytest.mark.usefixtures("log")
def test_item_4_a_record_is_a_line_with_its_time_and_place(lines: Lines) -> None:
    _log.warning("it is %s", "late")
    _log.info("nobody asked")
    [line] = lines()
    assert datetime.fromisoformat(line.pop("time").replace("Z", "+00:00")).tzinfo is not None
    assert line == {"level": "warning", "logger": "genai_host.somewhere", "message": "it is late"}


@pytest.mark.parametrize("verbose", [0, 1])
def test_where_an_exception_came_from_is_for_those_who_ask(lines: Lines, verbose: int) -> None:
    end = show_log(verbose, as_json=True)
    try:
        raise ValueError("a secret")
    except ValueError:
        _log.exception("it broke")
    finally:
        end()
    [line] = lines()
    assert (line["level"], line["exception"]) == ("error", "ValueError")
    assert ("trace" in line) == bool(verbose)
    assert ("a secret" in str(line)) == bool(verbose)


@pytest.mark.usefixtures("log")
def test_nothing_in_it_drives_a_terminal_or_ends_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    _log.warning("one\ntwo \x1b[31m \u202e")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.isascii()
    assert not set(err[:-1]) & set(map(chr, range(32)))
    assert json.loads(err)["message"] == "one\ntwo \x1b[31m \u202e"


@pytest.mark.usefixtures("log")
def test_wrong_values(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    _log.warning("%d", "no number")
    assert capsys.readouterr().err == ""


def test_a_request_has_fields(lines: Lines) -> None:
    json_log().answered(AccessLogEntry("GET", "/v1/models", 200, 0.01234567, "ann", "a1"))
    [line] = lines()
    del line["time"]
    assert line == {
        "level": "info", "logger": "genai_host.requests", "method": "GET", "status": 200,
        "path": "/v1/models", "seconds": 0.012346, "user": "ann", "request_id": "a1",
        "message": "GET /v1/models 200 0.012 s ann a1",
    }  # fmt: skip


def test_it_is_asked_for_by_the_command_or_the_configuration(terminal: Terminal) -> None:
    access_logs: list[Any] = []

    def run(server: Server, listening: Callable[[], None]) -> None:
        access_logs.append(server.settings.access_log)
        _log.warning("here")

    terminal.monkeypatch.setattr(Server, "run", run)
    code, _, err = terminal("serve --access-log --log-format json")
    assert (code, json.loads(err)["message"], access_logs) == (0, "here", [json_log().answered])
    assert terminal("serve")[2] == "warning: here\n"
    terminal.monkeypatch.setenv("GENAI_HOST_SERVER__LOG_FORMAT", "json")
    assert json.loads(terminal("serve")[2])["logger"] == "genai_host.somewhere"

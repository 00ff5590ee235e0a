"""The log as JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from genai_server import AccessLogEntry, Server
from genai_server.command import json_log
from support import Terminal

from genai_host.cli.log import show_log

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

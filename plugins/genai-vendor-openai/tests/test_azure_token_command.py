"""`token_command` of `azure-openai`: a program that prints tokens, run when one is needed."""

from __future__ import annotations

import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import genai_vendor_openai
import pytest

from genai_host import Config, Host
from genai_host.errors import AuthenticationFailed, Cancelled, GenaiError, NoRoute
from genai_host_testing import ManualClock
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import KEY, chat, failure

pytestmark = pytest.mark.part

SECRET = "eyJ-canary-5e1d"
LATER = 7_200  # seconds from the clock's beginning
COUNTING = """
import json, os, sys, time
folder, prints = sys.argv[1:]
number = len(os.listdir(folder)) + 1
open(os.path.join(folder, str(number)), "w").close()
"""


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService([chat("hello")]) as fake_service:
        yield fake_service


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The folder with a file for each run of the program."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


MakeAzure = Callable[..., Host]


@pytest.fixture
def azure(
    make_host: MakeHost, service: FakeService, clock: ManualClock, tmp_path: Path, runs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> MakeAzure:  # fmt: skip
    """Makes hosts whose command notes that it was run, and does this then: `number` is how often.
    A key and a token are in the environment as well."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "eyJ-other-token")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", service.url)
    program = tmp_path / "program.py"

    def make(then: str, *other: str) -> Host:
        program.write_text(COUNTING + then, encoding="utf-8")
        command = other or (sys.executable, str(program), str(runs), "two words; $HOME")
        mine = provider_config("azure-openai", token_command=[*command])
        config = Config(providers={"mine": mine})
        return make_host(config=config, openai=genai_vendor_openai, clock=clock)

    return make


def ask(host: Host) -> str:
    return host.open("chat", "gpt-4.1@mine").say("hi").text


def sent(service: FakeService) -> list[str]:
    assert not any("api-key" in request.headers for request in service.requests)
    return [request.headers["authorization"] for request in service.requests]


def as_az_prints(clock: ManualClock, *, text: bool = False) -> str:
    """A program's last line: JSON with a token that is valid until `LATER`."""
    end: Any = int(clock.now().timestamp()) + LATER
    fields = {"expires_on": str(end) if text else end, "tokenType": "Bearer"}
    return f'print(json.dumps({{"accessToken": f"token-{{number}}", **{fields!r}}}))'


@pytest.mark.process
@pytest.mark.parametrize("text", [False, True], ids=["number", "text"])
def test_its_token_is_sent_until_it_expires(
    azure: MakeAzure, service: FakeService, clock: ManualClock, text: bool
) -> None:
    host = azure(as_az_prints(clock, text=text))
    for seconds in (0, LATER - 61, 1):
        clock.advance(seconds)
        assert ask(host) == "hello"
    assert sent(service) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


@pytest.mark.process
def test_no_json_is_the_token(azure: MakeAzure, service: FakeService, clock: ManualClock) -> None:
    """Its end is not known: it is sent until it is refused."""
    host = azure('print(f"  token-{number}"); print("  ", file=sys.stderr)')
    ask(host)
    clock.advance(10 * LATER)
    service.replies = [chat("hello"), failure(401), chat("again")]
    assert ask(host) == "again"
    assert sent(service) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


@pytest.mark.smoke
@pytest.mark.process
def test_no_shell_reads_it(azure: MakeAzure, service: FakeService) -> None:
    ask(azure("print(prints.replace(' ', '_'))"))
    assert sent(service) == ["Bearer two_words;_$HOME"]


def test_it_is_not_run_before_it_is_needed(azure: MakeAzure, runs: Path) -> None:
    assert azure("print('token')").open("chat", "gpt-4.1@mine").models
    assert not list(runs.iterdir())


@pytest.mark.process
@pytest.mark.parametrize(("then", "why"), [
    (f"print('{SECRET}'); sys.exit(3)", "exited with code 3"),
    (f"print('{SECRET}', file=sys.stderr); sys.exit(3)", "exited with code 3"),
    ("", "printed no token"),
    (f"print('{{\"{SECRET}\"')", "printed invalid JSON"),
    (f"print('{{\"token\": \"{SECRET}\"}}')", "printed no token"),
    (f"print('{{\"accessToken\": [\"{SECRET}\"]}}')", "printed no token"),
    (f"print('{SECRET}' * 9999)", "printed too much"),
    (f"print('{SECRET}\\nX: y')", "contains invalid characters"),
])  # fmt: skip
def test_what_it_prints_is_not_shown_where_it_fails(
    azure: MakeAzure, service: FakeService, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str], then: str, why: str,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    host = azure(then)
    with pytest.raises(GenaiError, match=why) as caught:
        ask(host)
    assert caught.value.provider == "mine"
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert SECRET not in shown + repr(caught.value.fields()) + "".join(capfd.readouterr())
    assert not service.requests


@pytest.mark.process
def test_a_token_that_the_service_repeats(azure: MakeAzure, service: FakeService) -> None:
    service.replies = [failure(401, message=f"no: {SECRET}")]
    with pytest.raises(AuthenticationFailed, match=r"no: \*\*\*"):
        ask(azure(f"print('{SECRET}')"))
    assert len(service.requests) == 2


def test_a_program_that_is_not_there_is_missing(azure: MakeAzure) -> None:
    with pytest.raises(NoRoute, match="no such program: no-such-program"):
        ask(azure("", "no-such-program", SECRET))


HANGING = """
import subprocess
waiting = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(1)"
subprocess.run([sys.executable, "-c", waiting, os.environ["TEST_PORT"]])
"""
"""As one does that is a script: what it runs has its output open as well."""


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="elsewhere what a program starts is not ended")
@pytest.mark.parametrize("end", ["its time", "cancelled", "closed"])
def test_one_that_does_not_end_is_ended(
    azure: MakeAzure, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    host = azure(HANGING)
    conversation = host.open("chat", "gpt-4.1@mine")
    with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        monkeypatch.setenv("TEST_PORT", str(server.getsockname()[1]))
        saying = pool.submit(conversation.say, "hi")
        clock.wait_for_alarm_in(30)
        innermost, _ = server.accept()
        if end == "its time":
            clock.advance(30)
            with pytest.raises(AuthenticationFailed, match="did not finish within 30 s"):
                saying.result(60)
        else:
            (conversation.cancel if end == "cancelled" else host.close)()
            with pytest.raises(Cancelled if end == "cancelled" else GenaiError):
                saying.result(60)
        with innermost:
            innermost.settimeout(60)
            assert innermost.recv(1) == b""


@pytest.mark.process
def test_it_is_run_once_for_all(azure: MakeAzure, service: FakeService, runs: Path) -> None:
    host = azure("print('token')")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: ask(host), range(8))) == {"hello"}
    assert len(list(runs.iterdir())) == 1
    assert set(sent(service)) == {"Bearer token"}

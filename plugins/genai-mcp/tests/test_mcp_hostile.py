"""MCP servers that violate the protocol: errors for the model, and no call that hangs."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_mcp.client import stdio
from genai_mcp.client.servers import McpServer
from genai_mcp.client.source import McpSource

from genai_host import Config, Host
from genai_host.api import Cancellation
from genai_host.api.cancellation import Registration
from genai_host.errors import GenaiError, ProviderTimeout, ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import Background, MakeHost
from genai_host_testing.internal.servers import wait_until, wait_until_ended

pytestmark = pytest.mark.process

HEAD = """
import json, os, signal, subprocess, sys, time

def say(value):
    sys.stdout.write((value if isinstance(value, str) else json.dumps(value)) + "\\n")
    sys.stdout.flush()

def answer(id, result):
    say({"jsonrpc": "2.0", "id": id, "result": result})

def text(id, text):
    answer(id, {"content": [{"type": "text", "text": text}]})

def refuse(id):
    say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})

CAPABLE = {"tools": {}}
TOOLS = [{"name": "go", "inputSchema": {"type": "object"}}]

def listed(message):
    answer(message["id"], {"tools": TOOLS})

def called(message):
    text(message["id"], "done")

def told(message):
    pass

def main():
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            answer(message["id"], {"protocolVersion": "2025-06-18", "capabilities": CAPABLE,
                                   "serverInfo": {"name": "odd", "version": "1"}})
        elif method == "tools/list":
            listed(message)
        elif method == "tools/call":
            called(message)
        elif "id" in message and method:
            refuse(message["id"])
        else:
            told(message)
"""

Program = Callable[..., McpSource]


@pytest.fixture
def program() -> Iterator[Program]:
    """Makes sources of servers with such a program: `program("def called(message): ...")`."""
    sources = []

    def make(code: str = "", *, end: str = "main()", **env: str) -> McpSource:
        server = McpServer(
            "odd", command=sys.executable, args=("-c", f"{HEAD}\n{code}\n{end}"), env=env
        )
        sources.append(McpSource(server))
        return sources[-1]

    yield make
    for source in sources:
        source.close()


@pytest.fixture
def hosted(make_host: MakeHost) -> Callable[[McpSource], Host]:
    def make(source: McpSource) -> Host:
        plugin = InlinePlugin(tool_sources=[source])
        return make_host(plugin=plugin, config=Config(approvals={"odd__*": "allow"}))

    return make


def called(source: McpSource, limits: Any = None) -> str:
    """What its tool `go` gives."""
    scope = limits or Cancellation()
    [tool] = [tool for tool in source.tools(scope) if tool.name == "go"]

    class Run:
        context: dict[str, Any] = {}
        limits = scope

    output: Any = tool.run({}, Run())
    return str(output.text)


def test_old_server_ignores_new_methods(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 0.5)
    source = program("def refuse(id): pass")
    assert called(source) == "done"
    assert source.about() == ("odd 1", "2025-06-18")


MODERN = """
CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

def refuse(id):
    answer(id, {"supportedVersions": ["2026-07-28"], "capabilities": CAPABLE, **CACHED})

def listed(message):
    answer(message["id"], {"tools": TOOLS, **CACHED})

def text(id, text):
    answer(id, {"content": [{"type": "text", "text": text}], "resultType": "complete"})
"""


def test_one_that_refuses_the_version_that_it_speaks_is_asked_again(program: Program) -> None:
    source = program(
        MODERN
        + """
asked, discovered = [], refuse

def refuse(id):
    asked.append(id)
    if len(asked) > 1:
        return discovered(id)
    data = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
    error = {"code": -32022, "message": "unsupported", "data": data}
    say({"jsonrpc": "2.0", "id": id, "error": error})
"""
    )
    assert called(source) == "done"
    assert source.about() == ("", "2026-07-28")


@pytest.mark.parametrize(
    "code",
    [
        'say("INFO: starting"); say(""); say("[]"); say("{}"); say("[" * 100000)',
        "sys.stdout.buffer.write(bytes(range(256)) + b'\\n'); sys.stdout.flush()",
        'answer(12345, {}); answer("x", {}); answer(True, {}); answer(None, {}); answer([], {})',
        'say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})',
        'say({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"})',
        'say({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "what?"}})',
        'sys.stderr.write("x" * 1000000)',
        'say([{"jsonrpc": "2.0", "method": "a"}, {"jsonrpc": "2.0", "id": "b", "result": 1}])',
    ],
    ids=["garbage", "bytes", "wrong ids", "notification", "request", "error", "stderr", "batch"],
)
def test_unsolicited_messages_are_ignored(program: Program, code: str) -> None:
    source = program(f"def called(message):\n    {code}\n    text(message['id'], 'done')")
    assert called(source) == "done"


def test_server_requests_except_ping_are_refused(program: Program) -> None:
    source = program("""
def called(message):
    say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
    say({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})
    pong, refusal = json.loads(sys.stdin.readline()), json.loads(sys.stdin.readline())
    text(message["id"], f"{pong['result']} {refusal['error']['code']}")
""")
    assert called(source) == "{} -32600"


def test_answers_in_any_order(program: Program, background: Background) -> None:
    source = program("""
waiting = []
def called(message):
    waiting.append(message["id"])
    if len(waiting) == 3:
        for id in reversed(waiting):
            text(id, "done")
""")
    with Cancellation() as limits:
        source.tools(limits)
    calls = [background(called, source) for _ in range(3)]
    assert [call.result(60) for call in calls] == ["done"] * 3


@pytest.mark.parametrize(("limit", "code", "message"), [
    ("MAX_SIZE", 'sys.stdout.write("x" * 512)', "a line is longer than 1000 bytes"),
    ("MAX_UNSOLICITED", 'say({"jsonrpc": "2.0", "method": "x"})', "it wrote too much output"),
], ids=["line", "flood"])  # fmt: skip
def test_endless_output_ends_the_session(
    program: Program, monkeypatch: pytest.MonkeyPatch, limit: str, code: str, message: str
) -> None:
    monkeypatch.setattr(stdio, limit, 1000)
    with pytest.raises(ServiceUnavailable, match=message):
        called(program(f"def called(message):\n    while True:\n        {code}"))


def test_one_that_ends_amid_a_call(
    program: Program, hosted: Callable[[McpSource], Host], tmp_path: Path
) -> None:
    source = program(
        """
def called(message):
    if os.path.exists(os.environ["MARK"]):
        return text(message["id"], "done")
    open(os.environ["MARK"], "w").close()
    sys.stderr.write("first\\n\\x1b[31mno more memory\\n")
    sys.exit(3)
""",
        MARK=str(tmp_path / "mark"),
    )
    host = hosted(source)
    output = host.call_tool("odd__go")
    assert output.error
    expected = "odd has ended with exit code 3; its last output: first / [31mno more memory"
    assert expected in output.text
    assert host.call_tool("odd__go").text == "done"


def test_killed_server_is_restarted(program: Program, hosted: Callable[[McpSource], Host]) -> None:
    source = program("def called(message): text(message['id'], str(os.getpid()))")
    host = hosted(source)
    first = int(host.call_tool("odd__go").text)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(source))
    assert int(host.call_tool("odd__go").text) != first


@pytest.mark.parametrize(("end", "message"), [
    ("sys.exit('no configuration')", "has ended with exit code 1; its last output: no conf"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "odd has ended by signal 9"),
    ("os.close(1); time.sleep(600)", "odd has ended: it closed its output"),
], ids=["exit", "signal", "closed"])  # fmt: skip
def test_one_that_ends_at_once_is_told(
    program: Program, hosted: Callable[[McpSource], Host], caplog: pytest.LogCaptureFixture,
    end: str, message: str,
) -> None:  # fmt: skip
    with caplog.at_level(logging.WARNING):
        assert hosted(program(end=end)).tools() == {}
    assert message in caplog.text


def test_hanging_call_is_cancelled(
    program: Program, background: Background, tmp_path: Path
) -> None:
    source = program(
        """
def called(message):
    open(os.environ["CALLED"], "w").close()
def told(message):
    if message["method"] == "notifications/cancelled":
        open(os.environ["TOLD"], "w").close()
        os.rename(os.environ["TOLD"], os.environ["CANCELLED"])
""",
        CALLED=str(tmp_path / "called"),
        TOLD=str(tmp_path / "told"),
        CANCELLED=str(tmp_path / "cancelled"),
    )
    with Cancellation() as limits:
        source.tools(limits)
    limits = Cancellation()
    call = background(called, source, limits)
    wait_until((tmp_path / "called").exists)
    limits.cancel(ProviderTimeout("the call took too long"))
    with pytest.raises(ProviderTimeout, match="the call"):
        call.result(60)
    wait_until((tmp_path / "cancelled").exists)


class Awaited(Cancellation):
    """A cancellation that reports the first wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        self.waits.set()
        return super().on_cancel(wake)


def test_listing_can_be_cancelled(program: Program, background: Background) -> None:
    source = program(end="time.sleep(600)")
    for _ in range(2):
        limits = Awaited()
        listing = background(source.tools, limits)
        assert limits.waits.wait(60)
        limits.cancel(ProviderTimeout("it took too long"))
        with pytest.raises(ProviderTimeout):
            listing.result(60)


def test_closing_ends_one_that_does_not_want_to(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.2)
    source = program(
        """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
def called(message):
    text(message["id"], f"{os.getpid()} {child.pid}")
""",
        end="main()\ntime.sleep(600)",
    )
    pids = [int(each) for each in called(source).split()]
    source.close()
    for pid in pids:
        wait_until_ended(pid)


def is_alive(source: McpSource) -> bool:
    return source._connection is not None and source._connection.alive


def test_closing_ends_its_calls(program: Program, background: Background, tmp_path: Path) -> None:
    source = program(
        "def called(message): open(os.environ['CALLED'], 'w').close()",
        CALLED=str(tmp_path / "called"),
    )
    with Cancellation() as limits:
        source.tools(limits)
    call = background(called, source)
    wait_until((tmp_path / "called").exists)
    [thread] = [each for each in threading.enumerate() if each.name == "mcp odd"]
    source.close()
    with pytest.raises(ServiceUnavailable, match="odd was closed"):
        call.result(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("dies", [True, False])
def test_exited_is_left_alone(
    program: Program, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    source = program("def called(message): text(message['id'], str(os.getpid()))")
    pid = int(called(source))
    if dies:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(source))
    else:
        source.close()
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signalled.append(group))
    source.close()
    source.close()
    assert signalled == []


def test_environment_is_reduced(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("MINE", "mine")
    source = program(
        "def called(message): text(message['id'], json.dumps(dict(os.environ)))", GIVEN="${MINE}"
    )
    environment = called(source)
    assert "secret" not in environment
    assert '"GIVEN": "mine"' in environment
    assert '"PATH"' in environment


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "def listed(message): answer(message['id'], {'tools': {}})",
            "invalid result: tools: Input should be",
        ),
        (
            "def listed(message): refuse(message['id'])",
            r"returned an error: no such method \(error -32601",
        ),
        (
            "def called(message): answer(message['id'], {'content': 5})",
            "invalid result: content: Input should be",
        ),
        (
            f"""{MODERN}
def called(message):
    params = {{"message": "m", "requestedSchema": {{"type": "object", "properties": {{}}}}}}
    asked = {{"a": {{"method": "elicitation/create", "params": params}}}}
    answer(message["id"], {{"resultType": "input_required", "inputRequests": asked}})
""",
            "requires input, .* elicitation/create",
        ),
        (
            f"{MODERN}\ndef called(message): answer(message['id'], {{'resultType': 'task'}})",
            "invalid result",
        ),
    ],
)
def test_answers_that_cannot_be(program: Program, code: str, message: str) -> None:
    with pytest.raises(GenaiError, match=message):
        called(program(code))


def test_a_version_that_nobody_knows(program: Program) -> None:
    source = program("""
def answer(id, result):
    if "protocolVersion" in result:
        result["protocolVersion"] = "1999-01-01\\x1b[1m"
    say({"jsonrpc": "2.0", "id": id, "result": result})
""")
    with pytest.raises(GenaiError, match=r"Unsupported protocol version .*: 1999-01-01 \[1m"):
        called(source)


@pytest.mark.smoke
def test_a_server_may_have_no_tools(program: Program) -> None:
    with Cancellation() as limits:
        assert program("CAPABLE = {}").tools(limits) == []


def test_lists_have_some_pages(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    code = """
def listed(message):
    number = int((message.get("params") or {}).get("cursor") or "0")
    tools = [{"name": f"go{number}", "inputSchema": {"type": "object"}}]
    more = {"nextCursor": str(number + 1)} if number < LAST else {}
    answer(message["id"], {"tools": tools, **more})
"""
    with Cancellation() as limits:
        assert len(program(f"LAST = 2\n{code}").tools(limits)) == 3
        with caplog.at_level(logging.WARNING):
            assert len(program(f"LAST = 1e9\n{code}").tools(limits)) == 100
    assert "more than 100 pages" in caplog.text


def test_old_server_tells_changes(program: Program, hosted: Callable[[McpSource], Host]) -> None:
    host = hosted(
        program("""
CAPABLE = {"tools": {"listChanged": True}}
def called(message):
    TOOLS.append({"name": "other", "inputSchema": {"type": "object"}})
    say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    text(message["id"], "done")
""")
    )
    assert list(host.tools()) == ["odd__go"]
    host.call_tool("odd__go")
    assert list(host.tools()) == ["odd__go", "odd__other"]

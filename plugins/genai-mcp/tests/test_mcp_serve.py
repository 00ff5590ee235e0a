"""`genai-host mcp serve` as a process, with the official client and with strangers."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types
import pytest
from genai_mcp.server.stdio import MAX_SIZE
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from genai_host_testing import make_distribution
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.servers import TOKEN, configure, serving
from genai_host_testing.services.openai import chat

from .mcp_clients import META, MODES, buy_with_consent, with_client

pytestmark = pytest.mark.process

PLUGIN = """
import os, subprocess, sys, threading
from genai_host.api import Feature, NoSettings, Tool, hookimpl

print("this is printed while it loads")

def noisy(arguments, run):
    print("this is printed by a tool")
    os.write(1, b"this is written by one\\n")
    subprocess.run([sys.executable, "-c", "print(input('this is printed by a program'))"])
    return "done"

def hang(arguments, run):
    ended = threading.Event()
    with run.limits.on_cancel(ended.set):
        print("hangs", file=sys.stderr, flush=True)
        ended.wait(100)
    print("has ended", file=sys.stderr, flush=True)

def large(arguments, run):
    return "x" * 100_000

def block(turn):
    print("hangs", file=sys.stderr, flush=True)
    threading.Event().wait(1000)
    yield

@hookimpl
def genai_features():
    yield Feature("block", NoSettings, block, roles={})

@hookimpl
def genai_tools():
    yield Tool("noisy", "It prints.", noisy)
    yield Tool("hang", "It takes very long.", hang)
    yield Tool("large", "It says much.", large)
    yield Tool("buy", "It asks.", lambda arguments, run: "bought", approval="ask")
"""


@pytest.fixture(scope="module")
def prepared(
    tmp_path_factory: pytest.TempPathFactory, mcp_shop: tuple[str, ...]
) -> Mapping[str, str]:
    """Variables of all processes. The first one tries the plugin in another process."""
    folder = tmp_path_factory.mktemp("serve")
    make_distribution(folder / "site", "zz-noisy", files={"zz_noisy.py": PLUGIN})
    file = folder / "mcp.json"
    shop = {"command": mcp_shop[0], "args": mcp_shop[1:]}
    file.write_text(json.dumps({"mcpServers": {"shop": shop}}), encoding="utf-8")
    return {
        "GENAI_HOST_HOME": str(folder / "home"),
        "GENAI_MCP": str(file),
        "PYTHONPATH": str(folder / "site"),
        "PYTHONUNBUFFERED": "1",  # what is printed is not held back
    }


@pytest.fixture
def environment(prepared: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **prepared}


def arguments(*options: str) -> list[str]:
    return ["-m", "genai_host", "mcp", "serve", *options]


class Process:
    """A client that writes lines, and reads them."""

    def __init__(self, environment: Mapping[str, str], *options: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, *arguments(*options)], env=environment, stdin=pipe, stdout=pipe,
            stderr=pipe,
        )  # fmt: skip
        self.errors: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read_errors, daemon=True)
        self._reading.start()

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def write_until_it_ends(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with pytest.raises(BrokenPipeError):
            for _ in range(10_000):
                self.process.stdin.write(data)
        assert self.process.wait(60) == 0

    def say(self, id: Any, method: str, **params: Any) -> None:
        params = {"_meta": META, **params}
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.write(json.dumps(message).encode())

    def receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def wait_for_error(self, text: str) -> None:
        while text not in self.errors.get(timeout=60):
            pass

    def end(self) -> int:
        """Close its input; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)

    def all_errors(self) -> str:
        """What it has said until its end."""
        self._reading.join(60)
        return "".join(self.errors.queue)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            for line in errors:
                self.errors.put(line.decode())


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*options: str) -> Process:
        started.append(Process(environment, *options))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait(60)
        for stream in (each.process.stdin, each.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # it ended before it had read all
                stream.close()


def official(environment: Mapping[str, str], *options: str) -> Any:
    """What the official client starts."""
    server = StdioServerParameters(
        command=sys.executable, args=arguments(*options), env=dict(environment)
    )
    return stdio_client(server)


@pytest.mark.parametrize(("mode", "version"), MODES[:2])
def test_official_client_is_served(environment: dict[str, str], mode: str, version: str) -> None:
    async def use(client: Client) -> None:
        assert client.protocol_version == version
        assert client.server_info is None or client.server_info.name == "genai-host"
        listed = await client.list_tools()
        names = [each.name for each in listed.tools]
        assert {"ask_chat", "ask_agent", "noisy", "shop__add", "calculate"} <= set(names)
        news: list[str | None] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            news.append(message)

        reply = await client.call_tool("ask_chat", {"message": "hi"}, progress_callback=on_progress)
        assert reply.content == [mcp_types.TextContent(type="text", text="hi")]
        assert news == ["prompt of main to mock@mock"]
        [image] = (await client.call_tool("shop__look", {})).content
        assert isinstance(image, mcp_types.ImageContent)
        assert (await client.call_tool("shop__fail", {})).is_error
        noisy = await client.call_tool("noisy", {})
        assert noisy.content == [mcp_types.TextContent(type="text", text="done")]
        large = await client.call_tool("large", {})
        assert large.content == [mcp_types.TextContent(type="text", text="x" * 100_000)]
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(client.call_tool, "ask_chat", {"message": "hi"})

    options = ("--model", "mock", "--auto-approve", "shop__*")
    with_client(official(environment, *options), mode, use)


@pytest.mark.parametrize(("mode", "version"), MODES[:2])
def test_official_client_asks_user(environment: dict[str, str], mode: str, version: str) -> None:
    buy_with_consent(official(environment, "--no-features"), mode)


def test_what_it_cannot_ask_is_refused(environment: dict[str, str]) -> None:
    async def use(client: Client) -> None:
        result = await client.call_tool("buy", {})
        assert result.is_error
        assert "--auto-approve buy" in str(result.content)
        listed = await client.list_tools()
        assert [each.name for each in listed.tools] == ["ask_chat", "buy"]

    options = ("--tool", "buy", "--feature", "chat")
    with_client(official(environment, *options), "legacy", use)


class TestStrangers:
    def test_only_messages_are_on_standard_output(self, start: Callable[..., Process]) -> None:
        process = start("--no-features")
        process.say("a", "tools/call", name="noisy")
        answer = process.receive()
        assert (answer["id"], answer["result"]["isError"]) == ("a", False)
        assert process.end() == 0
        assert process.process.stdout is not None
        assert process.process.stdout.read() == b""
        output = process.all_errors()
        for each in ("while it loads", "printed by a tool", "written by one"):
            assert each in output

    def test_garbage_is_answered_and_survived(self, start: Callable[..., Process]) -> None:
        process = start()
        lines = {
            b"garbage": -32700, b"\xff\xfe": -32700, b"[" * 10_000: -32700, b"5": -32600,
            b"{}": -32600, b"[]": -32600,
            b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]': -32600,
            b'{"jsonrpc": "2.0", "id": 1, "method": 5}': -32600,
            b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}': -32600,
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}': -32602,
        }  # fmt: skip
        for line, code in lines.items():
            process.write(line)
            answer = process.receive()
            assert answer["error"]["code"] == code, line
            assert answer["id"] == (1 if code == -32602 else None)
        process.write(b"")
        process.write(b'{"jsonrpc": "2.0", "id": "x", "result": {}}')
        process.write(b'{"jsonrpc": "2.0", "method": "notifications/x"}')
        process.write(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\r')
        assert process.receive() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert process.end() == 0

    def test_a_line_without_an_end_ends_it(self, start: Callable[..., Process]) -> None:
        process = start()
        process.write_until_it_ends(b"x" * (MAX_SIZE // 4))
        assert process.receive()["error"]["code"] == -32600

    def test_a_client_that_does_not_read_ends_it(self, start: Callable[..., Process]) -> None:
        line = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
        start().write_until_it_ends(line * 1000)

    def test_calls_of_a_client_that_reads_nothing(self, start: Callable[..., Process]) -> None:
        process = start()
        for number in range(200):
            process.say(number, "tools/call", name="large")
        assert sorted(process.receive()["id"] for _ in range(200)) == list(range(200))
        assert process.end() == 0

    def test_calls_end_with_its_input(self, start: Callable[..., Process]) -> None:
        process = start()
        process.say(1, "tools/call", name="hang")
        process.wait_for_error("hangs")
        assert process.end() == 0
        process.wait_for_error("has ended")

    def test_a_call_that_hangs_does_not_keep_it(self, start: Callable[..., Process]) -> None:
        process = start()
        process.say(1, "tools/call", name="ask_block", arguments={"message": "hi"})
        process.wait_for_error("hangs")
        assert process.end() == 0

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
    @pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
    def test_signals_end_it(self, start: Callable[..., Process], number: str) -> None:
        process = start()
        process.say(1, "tools/call", name="hang")
        process.wait_for_error("hangs")
        process.process.send_signal(getattr(signal, number))
        assert process.process.wait(60) == 128 + getattr(signal, number)
        process.wait_for_error("has ended")
        assert process.process.stdout is not None
        assert process.process.stdout.read() == b""

    def test_a_feature_that_is_not_there_is_told(self, start: Callable[..., Process]) -> None:
        process = start("--feature", "caht")
        assert process.process.wait(60) == 1
        assert "unknown feature 'caht'" in process.all_errors()

    def test_a_client_that_is_gone_ends_it(self, start: Callable[..., Process]) -> None:
        process = start()
        assert process.process.stdout is not None
        process.process.stdout.close()
        process.say(1, "server/discover")
        assert process.end() == 0


HEADERS = {"authorization": f"Bearer {TOKEN}"}
ASKED = {"message": "hi", "model": "remote/m"}


@pytest.mark.skipif(sys.platform == "win32", reason="several workers need Unix")
def test_any_worker_answers(home: Path) -> None:
    async def use(url: str, mode: Any, version: str) -> None:
        results: list[str] = []

        async def call() -> None:
            results.append(str((await client.call_tool("ask_chat", ASKED)).content))

        async with (
            httpx2.AsyncClient(headers=HEADERS, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            anyio.create_task_group() as tasks,
        ):
            assert client.protocol_version == version
            for _ in range(16):  # over several connections, which the workers share
                tasks.start_soon(call)
        assert len(results) == 16
        assert all("done" in each for each in results)

    with FakeService(answer=lambda received: chat("done")) as service:
        configure(home, service)
        with serving("--workers", "2") as server:
            for mode, version in MODES:
                anyio.run(use, f"{server.url}/mcp", mode, version)

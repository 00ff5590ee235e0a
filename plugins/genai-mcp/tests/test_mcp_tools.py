"""Servers made with the official package: over stdio, and over HTTP in both eras of the
protocol."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from attrs import field, frozen
from genai_mcp.client import connection
from genai_mcp.client.servers import McpServer
from genai_mcp.client.source import McpSource
from mcp import Client

from genai_host import Config, Host
from genai_host.api import Cancellation, Image, Text
from genai_host.errors import Cancelled, ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import wait_until
from genai_host_testing.services import mcp as mcp_service
from genai_host_testing.services.mcp import PIXEL

NEW, OLD = "2026-07-28", "2025-11-25"


@frozen
class Shop:
    """A server that can be reached, and what has happened at it."""

    server: McpServer
    version: str
    happened: queue.Queue[str]
    forgets: threading.Event = field(factory=threading.Event)


@pytest.fixture(params=["stdio", "old stdio", "http", "old http", "old http in one piece"])
def shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    if "stdio" in request.param:
        is_old = "old" in request.param
        if is_old:  # the server speaks both: it is not asked for the new one
            monkeypatch.setattr(connection, "Client", partial(Client, mode="legacy"))
        server = McpServer("shop", command=sys.executable, args=("-m", mcp_service.__name__))
        yield Shop(server, OLD if is_old else NEW, queue.Queue())
        return
    happened: queue.Queue[str] = queue.Queue()
    forgets = threading.Event()
    whole = "one piece" in request.param
    app: Any = mcp_service.make_server(happened.put).streamable_http_app(json_response=whole)
    version = NEW
    if "old" in request.param:
        app, version = mcp_service.only_old(app, forgets), OLD
    with mcp_service.served(app) as url:
        yield Shop(McpServer("shop", url=url), version, happened, forgets)


@pytest.fixture
def source(shop: Shop) -> Iterator[McpSource]:
    made = McpSource(shop.server)
    yield made
    made.close()


@pytest.fixture
def host(make_host: MakeHost, source: McpSource) -> Host:
    config = Config(approvals={"shop__*": "allow", "shop__fail": "ask"})
    return make_host(plugin=InlinePlugin(tool_sources=[source]), config=config)


@pytest.mark.process
def test_tools_of_a_server_are_tools_of_the_host(host: Host, source: McpSource, shop: Shop) -> None:
    tools = host.tools()
    names = ["add", "dotted_name_1", "fail", "grow", "kinds", "look", "price", "wait"]
    assert list(tools) == [f"shop__{name}" for name in names]
    assert source.about() == ("shop 1.5", shop.version)
    add = tools["shop__add"]
    assert add.description == "Add two numbers."
    assert list(add.schema.parameters["properties"]) == ["a", "b"]
    assert not add.idempotent
    assert [tools[name].approval for name in ("shop__add", "shop__fail")] == ["allow", "ask"]

    assert host.call_tool("shop__add", {"a": 1, "b": 2}).text == "3"
    assert host.call_tool("shop__dotted_name_1").text == "dotted"
    assert "invalid arguments" in host.call_tool("shop__add", {"a": "x", "b": 2}).text
    assert host.call_tool("shop__look").content == (Image(PIXEL, "image/png"),)
    assert host.call_tool("shop__price", {"what": "tea"}).text == '{\n  "tea": 3\n}'
    failed = host.call_tool("shop__fail", approved=True)
    assert failed.error
    assert "sold out" in failed.text
    assert host.call_tool("shop__kinds").content == (
        Text("a text"),
        Text("(audio, audio/wav, 5 bytes)"),
        Text("(a resource: file:///b.txt, b)"),
        Text("(a resource: file:///a.txt)\nwhat is in it"),
    )


@pytest.mark.process
def test_approval_is_asked_for_unless_the_user_says_otherwise(
    make_host: MakeHost, source: McpSource
) -> None:
    host = make_host(plugin=InlinePlugin(tool_sources=[source]))
    assert {tool.approval for tool in host.tools().values()} == {"ask"}
    assert "needs the approval" in host.call_tool("shop__add", {"a": 1, "b": 2}).text


@pytest.mark.process
def test_calls_may_be_under_way_at_once(host: Host, background: Callable[..., Future[Any]]) -> None:
    calls = [background(host.call_tool, "shop__add", {"a": number, "b": 0}) for number in range(10)]
    assert [call.result(60).text for call in calls] == [str(number) for number in range(10)]


@pytest.mark.process
def test_what_there_is_may_change(
    host: Host, source: McpSource, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genai_mcp.client.source.FRESH", 3600.0)
    assert "shop__grown" not in host.tools()
    assert host.call_tool("shop__grow").text == "grown"
    if shop.version == OLD and shop.server.transport == "http":
        source.expire()  # as after a while: it says that it does not tell
    wait_until(lambda: "shop__grown" in host.tools())
    assert host.call_tool("shop__grown").text == "new"


@pytest.mark.process
def test_a_call_can_be_given_up(
    source: McpSource, shop: Shop, background: Callable[..., Future[Any]]
) -> None:
    with Cancellation() as limits:
        [wait] = [tool for tool in source.tools(limits) if tool.name == "wait"]
        [add] = [tool for tool in source.tools(limits) if tool.name == "add"]
    until = Cancellation()

    class Run:
        context: dict[str, Any] = {}
        limits = until

    call = background(wait.run, {}, Run())
    if shop.server.transport == "http":  # this process is the server, and can tell
        assert shop.happened.get(timeout=60) == "waiting"
    until.cancel()
    with pytest.raises(Cancelled):
        call.result(60)
    if shop.server.transport == "http":
        assert shop.happened.get(timeout=60) == "cancelled"
    Run.limits = Cancellation()
    assert add.run({"a": 1, "b": 1}, Run()).text == "2"  # type: ignore[union-attr]  # ours


@pytest.mark.process
def test_a_forgotten_session_is_opened_anew(host: Host, shop: Shop, source: McpSource) -> None:
    host.tools()
    shop.forgets.set()
    assert host.call_tool("shop__add", {"a": 1, "b": 2}).text == "3"
    if shop.version == OLD and shop.server.transport == "http":
        assert not shop.forgets.is_set()
    shop.forgets.clear()


@pytest.mark.process
def test_one_that_is_closed_stays_closed(host: Host, source: McpSource) -> None:
    host.tools()
    source.close()
    with Cancellation() as limits, pytest.raises(ServiceUnavailable, match="shop is closed"):
        source.tools(limits)
    assert "shop is closed" in host.call_tool("shop__add", {"a": 1, "b": 2}).text


def test_nothing_is_started_before_it_is_asked_for(make_host: MakeHost) -> None:
    source = McpSource(McpServer("shop", command="no-such-program"))
    host = make_host(plugin=InlinePlugin(tool_sources=[source]))
    assert not host.plugins.broken


@pytest.mark.smoke
@pytest.mark.process
def test_one_that_cannot_be_started_has_no_tools(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    sources = [
        McpSource(McpServer("none", command="no-such-program", args=("secret",))),
        McpSource(McpServer("gone", url="http://127.0.0.1:9/mcp")),
        McpSource(McpServer("odd", url="ftp://127.0.0.1/mcp")),
    ]
    with caplog.at_level(logging.WARNING):
        assert make_host(plugin=InlinePlugin(tool_sources=sources)).tools() == {}
    assert "none cannot be started" in caplog.text
    assert "cannot connect to http://127.0.0.1:9" in caplog.text
    assert "the url of odd" in caplog.text
    assert "secret" not in caplog.text

"""Servers of tools, made with the official package, and what a stranger says of its tools."""

from __future__ import annotations

import base64
import logging
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from attrs import field, frozen
from genai_mcp.client import connection
from genai_mcp.client.servers import McpServer
from genai_mcp.client.source import (
    MAX_DESCRIPTION,
    MAX_TOOLS,
    McpSource,
    output_of,
    tools_of,
    usable_name,
)
from genai_mcp.text import Lines, clean, one_line
from hypothesis import given, strategies as st
from mcp import Client
from mcp_types import CallToolResult, Tool as McpTool
from pydantic import ValidationError

from genai_host import Config, Host
from genai_host.api import Cancellation, Image, Text, Tool, ToolContext, ToolOutput
from genai_host.errors import Cancelled, MalformedReply, ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import Background, MakeHost
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
def shop(
    request: pytest.FixtureRequest, mcp_shop: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    if "stdio" in request.param:
        is_old = "old" in request.param
        if is_old:  # the server speaks both: it is not asked for the new one
            monkeypatch.setattr(connection, "Client", partial(Client, mode="legacy"))
        server = McpServer("shop", command=mcp_shop[0], args=mcp_shop[1:])
        yield Shop(server, OLD if is_old else NEW, queue.Queue())
        return
    happened: queue.Queue[str] = queue.Queue()
    forgets = threading.Event()
    is_json = "one piece" in request.param
    app: Any = mcp_service.make_server(happened.put).streamable_http_app(json_response=is_json)
    version = NEW
    if "old" in request.param:
        app, version = mcp_service.only_old(app, forgets), OLD
    with mcp_service.served(app) as url:
        yield Shop(McpServer("shop", url=url), version, happened, forgets)


@pytest.fixture
def source(shop: Shop) -> Iterator[McpSource]:
    source = McpSource(shop.server)
    yield source
    source.close()


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
        Text("a text"), Text("(audio, audio/wav, 5 bytes)"), Text("(a resource: file:///b.txt, b)"),
        Text("(a resource: file:///a.txt)\nwhat is in it"),
    )  # fmt: skip


@pytest.mark.process
def test_approval_is_asked_for_unless_configured(make_host: MakeHost, source: McpSource) -> None:
    host = make_host(plugin=InlinePlugin(tool_sources=[source]))
    assert {tool.approval for tool in host.tools().values()} == {"ask"}
    assert "needs the approval" in host.call_tool("shop__add", {"a": 1, "b": 2}).text


@pytest.mark.process
def test_calls_may_be_under_way_at_once(host: Host, background: Background) -> None:
    calls = [background(host.call_tool, "shop__add", {"a": number, "b": 0}) for number in range(10)]
    assert [call.result(60).text for call in calls] == [str(number) for number in range(10)]


@pytest.mark.process
def test_tool_list_is_reloaded_after_change(
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
def test_a_call_can_be_given_up(source: McpSource, shop: Shop, background: Background) -> None:
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
    assert not make_host(plugin=InlinePlugin(tool_sources=[source])).plugins.broken


@pytest.mark.smoke
@pytest.mark.process
def test_server_that_cannot_start(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
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


OBJECT = {"type": "object"}


def called(name: str, arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
    return ToolOutput(name)


def load(*definitions: dict[str, Any]) -> list[Tool]:
    return tools_of("shop", [McpTool.model_validate(each) for each in definitions], called)


def output(**fields: Any) -> ToolOutput:
    return output_of(CallToolResult.model_validate(fields))


def test_annotations_are_not_believed() -> None:
    hints = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False}
    [tool] = load({"name": "a", "inputSchema": OBJECT, "annotations": hints})
    assert (tool.approval, tool.idempotent) == ("ask", False)


@pytest.mark.parametrize("wrong", [
    {"name": "", "inputSchema": OBJECT},
    {"name": "\r", "inputSchema": OBJECT},
    {"name": "b\x1b[1m", "inputSchema": {**OBJECT, "description": "x" * 100_000}},
], ids=lambda wrong: repr(wrong)[:40])  # fmt: skip
def test_one_that_cannot_be_used_is_left_out(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert [tool.name for tool in load(wrong, {"name": "c", "inputSchema": OBJECT})] == ["c"]
    assert "is ignored: " in caplog.text
    assert "\x1b" not in caplog.text


def test_two_of_one_name_are_one(caplog: pytest.LogCaptureFixture) -> None:
    names = [{"name": name, "inputSchema": OBJECT} for name in ("a.b", "a b", "a_b")]
    with caplog.at_level(logging.WARNING):
        [tool] = load(*names)
    assert tool.run({}, None).text == "a.b"  # type: ignore[arg-type,union-attr]  # ours
    assert caplog.text.count("its name a_b is already used") == 2


def test_there_are_not_too_many(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        tools = load(*({"name": f"t{n}", "inputSchema": OBJECT} for n in range(MAX_TOOLS + 1)))
    assert len(tools) == MAX_TOOLS
    assert "further tools are ignored" in caplog.text


def test_descriptions_are_short_and_can_be_seen() -> None:
    text = "Look.\n\x1b[31m\u202ehidden\U000e0041" + "x" * 5000
    [tool] = load({"name": "a", "description": text, "inputSchema": OBJECT})
    assert tool.description.startswith("Look.\n [31m hidden x")
    assert tool.description.endswith("(truncated)")
    assert len(tool.description) == MAX_DESCRIPTION
    [titled] = load({"name": "a", "title": "A title", "description": " ", "inputSchema": OBJECT})
    assert titled.description == "A title"
    [named] = load({"name": "a.b", "inputSchema": OBJECT})
    assert named.description == "a.b"


@given(st.text(min_size=1), st.integers(20, 62))
def test_any_name_becomes_one_that_a_tool_can_have(name: str, most: int) -> None:
    usable = usable_name(name, most)
    assert len(usable) <= most
    assert Tool(usable, "it", lambda arguments, run: None).name == usable
    assert usable_name(name, most) == usable


def test_names_that_are_good_stay() -> None:
    assert usable_name("getUser_2-x", 20) == "getUser_2-x"
    assert usable_name("2fast", 20) == "_2fast"
    long = [usable_name(f"{'x' * 30}{end}", 20) for end in "ab"]
    assert long[0] != long[1]


def test_content_of_each_kind() -> None:
    data = base64.b64encode(b"123").decode()
    result = output(
        content=[
            {"type": "text", "text": "a"},
            {"type": "image", "data": data, "mimeType": "image/png"},
            {"type": "image", "data": "no base64", "mimeType": "image/png"},
            {"type": "audio", "data": data, "mimeType": ""},
            {"type": "resource_link", "uri": "u:\x1b", "name": "n"},
            {"type": "resource", "resource": {"uri": "u", "blob": data}},
            {"type": "resource", "resource": {"uri": "", "text": "t"}},
        ],
        structuredContent={"a": 1},
        isError=True,
    )
    assert result.error
    assert result.content == (
        Text("a"), Image(b"123", "image/png"), Text("(an image without data)"),
        Text("(audio, of unknown type, 3 bytes)"), Text("(a resource: u:, n)"),
        Text("(a resource: u, 3 bytes)"), Text("(a resource: without a name)\nt"),
    )  # fmt: skip


def test_data_is_given_where_there_is_nothing_else() -> None:
    assert output(content=[], structuredContent={"a": [1]}).text == '{"a":[1]}'
    assert output(content=[], structuredContent=None).text == "null"
    assert output(content=[]) == ToolOutput()


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.text(st.characters(), max_size=9) | VALUES
KINDS = st.sampled_from(["text", "image", "audio", "resource_link", "resource"])
PARTS = st.fixed_dictionaries(
    {"type": KINDS, "text": TEXTS, "data": TEXTS, "mimeType": TEXTS, "uri": TEXTS, "name": TEXTS},
    optional={"resource": st.fixed_dictionaries({"uri": TEXTS, "text": TEXTS}) | VALUES},
)
RESULTS = st.fixed_dictionaries(
    {"content": st.lists(PARTS, max_size=3)}, optional={"structuredContent": VALUES}
)


@given(RESULTS)
def test_any_result_is_an_output_or_is_refused(result: dict[str, Any]) -> None:
    try:
        valid = CallToolResult.model_validate(result)
    except ValidationError:
        return
    try:
        output = output_of(valid)
    except MalformedReply:
        return
    assert all(isinstance(part, (Text, Image)) for part in output.content)


@given(st.lists(st.fixed_dictionaries({"name": TEXTS, "inputSchema": VALUES}), max_size=4))
def test_any_definitions_are_tools_or_are_left_out(definitions: list[Any]) -> None:
    valid = []
    for each in definitions:
        with suppress(ValidationError):
            valid.append(McpTool.model_validate(each))
    assert {tool.approval for tool in tools_of("shop", valid, called)} <= {"ask"}


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_come_out_as_they_went_in(lines: list[bytes], data: st.DataObject) -> None:
    joined = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(joined)))))
    reader, lines_read = Lines(10_000), []
    for start, end in zip([0, *cuts], [*cuts, len(joined)], strict=True):
        lines_read += reader.feed(joined[start:end])
    assert lines_read == [line.strip() for line in lines if line.strip()]


@pytest.mark.parametrize("blocks", [[b"12345", b"678901"], [b"a\n12345678901\n"]])
def test_a_line_may_be_too_long(blocks: list[bytes]) -> None:
    reader = Lines(10)
    with pytest.raises(MalformedReply, match="longer than 10 bytes"):
        for block in blocks:
            reader.feed(block)


@given(st.text(), st.integers(20, 50))
def test_texts_can_be_shown(text: str, most: int) -> None:
    shown = clean(text, most)
    assert len(shown) <= most
    assert all(each.isprintable() or each in "\n\t" for each in shown)
    assert one_line(text).isprintable()

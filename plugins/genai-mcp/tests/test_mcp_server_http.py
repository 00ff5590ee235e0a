"""The server over HTTP: with the official client, and with strangers."""

from __future__ import annotations

import gc
import http.client
import json
import queue
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import genai_mcp
import mcp_types
import pytest
import requests
from attrs import frozen
from genai_mcp.server import http as server_http
from genai_mcp.server.http import McpEndpoint
from hypothesis import given, strategies as st
from mcp import Client

from genai_host import Config, Host, StaticPlugins, api
from genai_host.config import ServerConfig
from genai_host_testing import InlinePlugin, RouteServer
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served
from genai_host_testing.services.mcp import PIXEL

from .mcp_clients import META, MODES, NEW, OLD, OWN, buy_with_consent, tool, with_client

pytestmark = pytest.mark.part

HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
MARKED = {
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    }
}


@frozen
class Place:
    """A served host, and what happens at it."""

    url: str
    happened: queue.Queue[str]
    go: threading.Event
    host: Host


@pytest.fixture
def place(make_host: MakeHost) -> Iterator[Place]:
    happened: queue.Queue[str] = queue.Queue()
    go = threading.Event()

    def hang(arguments: Mapping[str, Any], run: api.ToolContext) -> str:
        ended = threading.Event()
        with run.limits.on_cancel(ended.set):
            happened.put("begun")
            ended.wait(60)
        happened.put("ended")
        return "never"

    def wait(arguments: Mapping[str, Any], run: api.ToolContext) -> str:
        happened.put("begun")
        go.wait(60)
        happened.put("done")
        return "done"

    def tell(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
        yield api.Progress("one")
        yield api.Progress("two")
        return api.Answer("done")

    tools = [
        api.Tool("hang", "It takes very long.", hang),
        api.Tool("wait", "It waits.", wait),
        api.Tool("look", "A picture.", lambda *_: api.Image(PIXEL)),
        api.Tool("buy", "It asks.", lambda *_: "bought", approval="ask"),
        api.Tool("mark", "It is routed.", lambda arguments, run: str(arguments), MARKED),
    ]
    own = InlinePlugin(tools=tools, features=[api.Feature("tell", api.NoSettings, tell, roles={})])
    host = make_host(own=own, mcp=genai_mcp)
    with RouteServer(host) as server:
        yield Place(f"{server.url}/mcp", happened, go, host)
        go.set()


@pytest.mark.parametrize(("mode", "version"), MODES)
def test_the_official_client_is_served(place: Place, mode: str, version: str) -> None:
    async def use(client: Client) -> None:
        assert client.protocol_version == version
        names = [each.name for each in (await client.list_tools()).tools]
        assert names[:3] == ["ask_chat", "ask_chat-model", "ask_tell"]
        news: list[str | None] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            news.append(message)

        result = await client.call_tool("ask_tell", {"message": "hi"}, progress_callback=report)
        assert result.content == [mcp_types.TextContent(type="text", text="done")]
        assert news == ["one", "two"]
        [image] = (await client.call_tool("look", {})).content
        assert isinstance(image, mcp_types.ImageContent)
        marked = await client.call_tool("mark", {"region": "é", "count": 3})
        expected = mcp_types.TextContent(type="text", text="{'region': 'é', 'count': 3}")
        assert marked.content == [expected]
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(client.call_tool, "ask_tell", {"message": "hi"})

    with_client(place.url, mode, use)


@pytest.mark.parametrize(("mode", "version"), MODES)
def test_the_official_client_asks_its_user(place: Place, mode: str, version: str) -> None:
    buy_with_consent(place.url, mode)


@pytest.mark.parametrize(("mode", "version"), MODES)
def test_the_official_client_cancels(place: Place, mode: str, version: str) -> None:
    async def use(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "hang", {})
            assert await anyio.to_thread.run_sync(lambda: place.happened.get(timeout=60)) == "begun"
            tasks.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(lambda: place.happened.get(timeout=60)) == "ended"

    with_client(place.url, mode, use)


class Raw:
    """A client that sends what it likes."""

    def __init__(self, url: str) -> None:
        self.address = url.removeprefix("http://").removesuffix("/mcp")

    def send(
        self, body: Any, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Status, JSON of the reply, or of the last of its events, and its headers."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            all_headers = {**HEADERS, **(headers or {})}
            connection.request(method, "/mcp", data, {n: v for n, v in all_headers.items() if v})
            reply = connection.getresponse()
            read = reply.read()
            kind = reply.headers.get("content-type", "")
            if kind == "text/event-stream":
                *_, read = (each[6:] for each in read.splitlines() if each[:6] == b"data: ")
            value = json.loads(read) if read[:1] == b"{" else None
            return reply.status, value, dict(reply.headers.items())
        finally:
            connection.close()

    def refused(self, body: Any, headers: Mapping[str, str] | None = None) -> tuple[int, int]:
        """Status, and the code of the error."""
        status, answer, _ = self.send(body, headers)
        return status, answer["error"]["code"]

    def alone(
        self, method: str, headers: Mapping[str, str] | None = None, meta: Any = None, **params: Any
    ) -> tuple[int, Any]:
        """A request of 2026-07-28, with the headers that it needs."""
        params["_meta"] = META if meta is None else meta
        usual = {"mcp-protocol-version": NEW, "mcp-method": method}
        if isinstance(params.get("name"), str):
            usual["mcp-name"] = params["name"]
        status, answer, _ = self.send(request(method, **params), {**usual, **(headers or {})})
        return status, answer

    def opened(self, version: str = OLD) -> dict[str, str]:
        """Open a session; the headers that belong to it."""
        own = {"name": "raw", "version": "1"}
        opening = request("initialize", protocolVersion=version, capabilities={}, clientInfo=own)
        status, answer, headers = self.send(opening)
        assert status == 200
        assert answer["result"]["protocolVersion"] == version
        return {"mcp-session-id": headers["mcp-session-id"], "mcp-protocol-version": version}


def request(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


class TestSessions:
    @pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
    def test_they_are_opened_and_ended(self, place: Place, version: str) -> None:
        raw = Raw(place.url)
        headers = raw.opened(version)
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert raw.send(note, headers)[:2] == (202, None)
        status, answer, _ = raw.send(request("tools/list", 2), headers)
        assert status == 200
        assert len(answer["result"]["tools"]) == 8
        assert raw.send(b"", headers, "DELETE")[0] == 200
        assert raw.send(request("tools/list", 3), headers)[0] == 404
        assert raw.send(b"", headers, "DELETE")[0] == 404

    def test_one_is_needed(self, place: Place) -> None:
        raw = Raw(place.url)
        assert raw.refused(request("tools/list", "a")) == (400, -32600)
        headers = raw.opened()
        assert raw.send(request("tools/list"), {**headers, "mcp-session-id": "other"})[0] == 404
        other = {**headers, "mcp-protocol-version": "2031-01-01"}
        assert raw.refused(request("tools/list"), other) == (400, -32602)

    def test_there_are_not_too_many(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server_http, "MAX_SESSIONS", 2)
        raw = Raw(place.url)
        one, two = raw.opened(), raw.opened()
        assert raw.refused(request("initialize")) == (503, -32603)
        assert raw.send(b"", one, "DELETE")[0] == 200
        three = raw.opened()
        assert [raw.send(request("ping"), each)[0] for each in (one, two, three)] == [404, 200, 200]

    def test_there_is_no_stream_of_its_own(self, place: Place) -> None:
        status, _, headers = Raw(place.url).send(b"", {"accept": "text/event-stream"}, "GET")
        assert status == 405
        assert headers["allow"] == "DELETE, POST"

    def test_a_client_that_goes_has_not_cancelled(self, place: Place) -> None:
        raw = Raw(place.url)
        leave(raw, request("tools/call", 2, name="wait"), raw.opened("2025-03-26"), place)
        place.go.set()
        assert place.happened.get(timeout=60) == "done"

    def test_a_client_that_waits_is_told_that_it_goes_on(self, place: Place) -> None:
        with (
            served(place.host, head_delay=0.0, keepalive_interval=0.01) as server,
            requests.Session() as client,
        ):
            url = f"{server.url}/mcp"
            headers = {**HEADERS, **Raw(url).opened("2025-03-26")}
            body = request("tools/call", 2, name="wait")
            with client.post(url, json=body, headers=headers, stream=True, timeout=60) as reply:
                assert reply.headers["content-type"] == "text/event-stream"
                pieces = reply.iter_content(None)
                received = next(pieces)
                while received.count(b": ping\n\n") < 3:
                    received += next(pieces)
                place.go.set()
                received += b"".join(pieces)
        [data] = [each[6:] for each in received.splitlines() if each.startswith(b"data: ")]
        assert json.loads(data)["result"]["content"] == [{"type": "text", "text": "done"}]


class TestStandingAlone:
    def test_errors_have_a_status(self, place: Place) -> None:
        raw = Raw(place.url)
        assert raw.alone("ping")[0] == 404
        assert raw.alone("initialize")[0] == 404
        status, answer = raw.alone("tools/call", name="missing")
        assert (status, answer["error"]["code"]) == (400, -32602)
        status, answer = raw.alone("tools/call", name="buy")
        assert (status, answer["error"]["code"]) == (400, -32021)
        assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}

    def test_the_version_is_one_that_is_spoken(self, place: Place) -> None:
        raw = Raw(place.url)
        other = {f"{OWN}protocolVersion": "2027-01-01", f"{OWN}clientCapabilities": {}}
        headers = {"mcp-protocol-version": "2027-01-01"}
        for chosen, meta, code in (
            (headers, other, -32022),
            (headers, {}, -32602),
            ({}, {}, -32602),
        ):
            status, answer = raw.alone("tools/list", chosen, meta)
            assert (status, answer["error"]["code"]) == (400, code)

    @pytest.mark.parametrize("headers", [
        {"mcp-protocol-version": ""}, {"mcp-protocol-version": OLD}, {"mcp-method": ""},
        {"mcp-method": "tools/list"}, {"mcp-method": "Tools/Call"}, {"mcp-name": ""},
        {"mcp-name": "look"}, {"mcp-name": "=?base64?****?="}, {"mcp-name": "mark\xe9"},
        {"mcp-param-region": "us"}, {"mcp-param-region": "eu", "mcp-param-count": "4"},
        {"mcp-param-region": "eu", "mcp-param-count": ""},
        {"mcp-param-region": "eu", "mcp-param-count": "x"},
    ], ids=str)  # fmt: skip
    def test_headers_say_what_the_body_says(self, place: Place, headers: Any) -> None:
        raw = Raw(place.url)
        call: Any = {"name": "mark", "arguments": {"region": "eu", "count": 3}}
        right = {"mcp-param-region": "eu", "mcp-param-count": "3"}
        assert raw.alone("tools/call", right, **call)[0] == 200
        encoded = {
            "mcp-name": f"=?base64?{b64encode(b'mark').decode()}?=",
            "mcp-param-region": f"  =?base64?{b64encode(b'eu').decode()}?= ",
            "mcp-param-count": "3.0",
        }
        assert raw.alone("tools/call", encoded, **call)[0] == 200
        status, answer = raw.alone("tools/call", {**right, **headers}, **call)
        code = -32600 if "mcp-protocol-version" in headers else -32020  # a session is missing
        assert (status, answer["error"]["code"]) == (400, code)

    def test_a_header_says_nothing_that_the_body_does_not(self, place: Place) -> None:
        raw = Raw(place.url)
        call: Any = {"name": "mark", "arguments": {"region": None}}
        assert raw.alone("tools/call", {"mcp-param-region": "eu"}, **call)[0] == 400
        assert raw.alone("tools/call", **call)[0] == 200

    def test_a_client_that_goes_has_cancelled(self, place: Place) -> None:
        headers = {"mcp-protocol-version": NEW, "mcp-method": "tools/call", "mcp-name": "hang"}
        leave(Raw(place.url), request("tools/call", name="hang", _meta=META), headers, place)
        assert place.happened.get(timeout=60) == "ended"

    def test_what_else_is_told_is_taken(self, place: Place) -> None:
        raw = Raw(place.url)
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert raw.send(note, {"mcp-protocol-version": NEW})[:2] == (202, None)


def leave(raw: Raw, message: Any, headers: Mapping[str, str], place: Place) -> None:
    """Ask for something, and go once it has begun."""
    connection = http.client.HTTPConnection(raw.address, timeout=60)
    connection.request("POST", "/mcp", json.dumps(message).encode(), {**HEADERS, **headers})
    assert place.happened.get(timeout=60) == "begun"
    connection.close()


class TestStrangers:
    @pytest.mark.parametrize(("headers", "status"), [
        ({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403),
        ({"origin": "http://[::1"}, 403), ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "http://localhost:5173"}, 404), ({"origin": "http://127.0.0.1"}, 404),
        ({"origin": "https://[::1]:99"}, 404), ({"content-type": "text/plain"}, 400),
        ({"content-type": ""}, 400), ({"content-type": "application/json; charset=utf-8"}, 404),
        ({"accept": "application/json"}, 406), ({"accept": "text/event-stream"}, 406),
        ({"accept": "*/*"}, 404),
    ], ids=str)  # fmt: skip
    def test_foreign_origins_are_refused(self, place: Place, headers: Any, status: int) -> None:
        raw = Raw(place.url)
        assert raw.alone("ping", headers)[0] == status
        if status == 403:
            assert raw.send(b"", {**raw.opened(), **headers}, "DELETE")[0] == 403

    @pytest.mark.parametrize(("body", "code"), [
        (b"", -32700), (b"\xff", -32700), (b"[" * 100_000, -32700), (b"5", -32602),
        (b"{}", -32602), (b'{"jsonrpc": "2.0", "method": 5}', -32602),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', -32600),
        (b'{"jsonrpc": "2.0", "method": "notifications/x"}', -32600), (b"[]", -32602),
    ], ids=lambda value: repr(value)[:40])  # fmt: skip
    def test_garbage_is_refused(self, place: Place, body: bytes, code: int) -> None:
        assert Raw(place.url).refused(body) == (400, code)

    def test_a_body_is_bounded(self, place: Place) -> None:
        connection = http.client.HTTPConnection(Raw(place.url).address, timeout=60)
        connection.putrequest("POST", "/mcp")
        connection.putheader("content-length", str(2**40))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


def posted(body: Any, headers: Mapping[str, str]) -> api.RouteRequest:
    data = json.dumps(body).encode()
    return api.RouteRequest("POST", "/mcp", headers=headers, body=data, limits=api.Cancellation())


@pytest.fixture(scope="module")
def endpoint() -> Iterator[McpEndpoint]:
    with Host(config=Config(), discovery=StaticPlugins({})) as host:
        yield McpEndpoint(host)


METHODS = ["initialize", "ping", "tools/list", "server/discover", "subscriptions/listen", "x"]
HEADERS_GIVEN = st.dictionaries(
    st.sampled_from(
        ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "origin", "accept"]
    ),
    st.sampled_from([NEW, OLD, "2025-03-26", "*/*", "http://localhost", *METHODS]) | st.text(),
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers() | st.text() | st.none(),
        "method": st.sampled_from(METHODS),
        "params": st.dictionaries(
            st.sampled_from(["_meta", "protocolVersion", "capabilities", "name"]),
            st.sampled_from([META, OLD, {}]),
        ),
        "result": st.just({}),
    },
)


@pytest.mark.parametrize("begun", [False, True])
def test_exchange_closes_streams_after_its_endpoint(make_host: MakeHost, begun: bool) -> None:
    endpoint = McpEndpoint(make_host(mcp=genai_mcp))
    headers = {**HEADERS, "mcp-protocol-version": NEW, "mcp-method": "tools/list"}
    reply: Any = endpoint.post(posted(request("tools/list", _meta=META), headers))
    if begun:
        reply.begin()
    endpoint.close()
    if not begun:
        assert reply.begin().status == 500
    reply.body.close()
    del reply, endpoint
    gc.collect()  # a stream that is left open is a warning, and an error here


@given(MESSAGES | st.lists(MESSAGES, max_size=3), HEADERS_GIVEN)
def test_each_message_is_answered_or_taken(endpoint: McpEndpoint, body: Any, headers: Any) -> None:
    reply = endpoint.post(posted(body, {"content-type": "application/json", **headers}))
    if reply.begin is not None:
        reply = reply.begin() or reply
    sent = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    assert reply.status in (200, 202, 400, 403, 404, 406, 503)
    assert bool(sent) or reply.status in (202, 406)
    assert not sent or b'"jsonrpc":"2.0"' in sent


class TestSeveralWorkers:
    """The next request of a client may reach another worker."""

    @pytest.fixture
    def place(self, make_host: MakeHost) -> Iterator[str]:
        own = InlinePlugin(tools=[tool("buy", approval="ask"), tool("look")])
        config = Config(server=ServerConfig(workers=2))
        with RouteServer(make_host(own=own, mcp=genai_mcp, config=config)) as server:
            yield f"{server.url}/mcp"

    @pytest.mark.parametrize(("mode", "version"), MODES)
    def test_no_sessions_and_no_approvals(self, place: str, mode: str, version: str) -> None:
        async def decide(context: Any, params: Any) -> Any:
            raise AssertionError("the answer may reach another worker")

        async def use(client: Client) -> None:
            assert client.protocol_version == version
            looked = await client.call_tool("look", {"say": "x"})
            assert looked.content == [mcp_types.TextContent(type="text", text="x")]
            refused = await client.call_tool("buy", {})
            assert refused.is_error
            assert "a server with several workers cannot ask the user" in str(refused.content)
            assert "approvals.buy=allow" in str(refused.content)

        with_client(place, mode, use, elicitation_callback=decide)

    def test_none_opens_a_session(self, place: str) -> None:
        options = {
            "protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
        }  # fmt: skip
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": options}
        reply = requests.post(place, json=body, headers=HEADERS, timeout=60)
        assert reply.ok
        assert "mcp-session-id" not in reply.headers

"""MCP servers over HTTP that violate the protocol."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from genai_mcp.client import http
from genai_mcp.client.servers import McpServer
from genai_mcp.client.source import McpSource

from genai_host.api import Cancellation
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ConfigurationError,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ProviderTimeout,
    ServiceUnavailable,
)
from genai_host_testing.fake_service import (
    CUT,
    HANG,
    FakeService,
    Received,
    Reply,
    json_reply,
    reply,
    sse_reply,
)
from genai_host_testing.internal.fixtures import Background

pytestmark = pytest.mark.part

Answer = Callable[[int, Received], Reply]
TOOL = {
    "name": "go",
    "inputSchema": {
        "type": "object",
        "properties": {"where": {"type": "string", "x-mcp-header": "Where"}},
    },
}


CACHED = {"ttlMs": 0, "cacheScope": "private"}


def result(number: int, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        value = {"resultType": "complete", **value}
    return {"jsonrpc": "2.0", "id": number, "result": value}


def text(number: int, value: str) -> dict[str, Any]:
    return result(number, {"content": [{"type": "text", "text": value}]})


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


class Shop:
    """A server of a few lines. A test says what it does otherwise.

    is_old    whether it speaks 2025-11-25 alone
    answers   by the method that is asked for
    """

    def __init__(self, is_old: bool) -> None:
        self.is_old = is_old
        self.sessions = 0
        self.answers: dict[str, Answer] = {
            "server/discover": self._discover,
            "initialize": self._initialize,
            "notifications/initialized": lambda number, request: reply(status=202),
            "tools/list": lambda number, request: json_reply(
                result(number, {"tools": [TOOL], **CACHED})
            ),
            "tools/call": lambda number, request: json_reply(text(number, "done")),
        }

    def __call__(self, request: Received) -> Reply:
        if request.method != "POST":
            return reply(status=405)
        message = request.json()
        answer = self.answers.get(message.get("method"))
        return answer(message.get("id", 0), request) if answer else reply(status=202)

    def _discover(self, number: int, request: Received) -> Reply:
        if self.is_old:
            return reply(b"<html>no such page", 404)
        capable: dict[str, Any] = {"tools": {}}
        versions = ["2026-07-28"]
        return json_reply(
            result(number, {"supportedVersions": versions, "capabilities": capable, **CACHED})
        )

    def _initialize(self, number: int, request: Received) -> Reply:
        self.sessions += 1
        value = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        }
        return sse_reply(
            [line(result(number, value))], headers={"Mcp-Session-Id": f"s{self.sessions}"}
        )


def json_body(data: bytes, encoding: str = "identity") -> Reply:
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    return reply(data, headers=headers)


@pytest.fixture(params=["new", "old"])
def shop(request: pytest.FixtureRequest) -> Shop:
    return Shop(request.param == "old")


@pytest.fixture
def service(shop: Shop) -> Iterator[FakeService]:
    with FakeService(answer=shop) as service:
        yield service


@pytest.fixture
def source(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[McpSource]:
    monkeypatch.setenv("SHOP_TOKEN", "secret")
    headers = {"Authorization": "Bearer ${SHOP_TOKEN}"}
    source = McpSource(McpServer("shop", url=f"{service.url}/mcp", headers=headers))
    yield source
    source.close()


def test_a_key_in_the_url_is_not_logged(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHOP_KEY", "sk-in the url")
    source = McpSource(McpServer("shop", url=f"{service.url}/mcp?key=${{SHOP_KEY}}"))
    with caplog.at_level(logging.DEBUG):
        called(source)
        source.close()
    assert "key=" in service.requests[0].path
    assert "in the url" not in caplog.text.replace("%20", " ")
    assert caplog.records


@pytest.mark.parametrize(
    "value", ["sk-1\n", " sk-1", "sk-1\t", "sk\x01-1", "sk\x7f-1", "sk-1\u2028"]
)
def test_invalid_headers(service: FakeService, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SHOP_TOKEN", value)
    headers = {"X-Key": "${SHOP_TOKEN}"}
    source = McpSource(McpServer("shop", url=f"{service.url}/mcp", headers=headers))
    with pytest.raises(ConfigurationError, match="headers of shop have an invalid value") as caught:
        source.tools(Cancellation())
    source.close()
    assert "sk" not in str(caught.value)
    assert service.requests == []


def test_a_protocol_error_does_not_show_a_value() -> None:
    error = httpx2.LocalProtocolError("Illegal header value b'sk-1\\n'")
    assert http.reason_of(error) == "the request is invalid"


def called(source: McpSource, until: Cancellation | None = None, **arguments: Any) -> str:
    [tool] = source.tools(Cancellation())

    class Run:
        context: dict[str, Any] = {}
        limits = until or Cancellation()

    output: Any = tool.run(arguments, Run())
    return str(output.text)


def test_what_is_sent(source: McpSource, service: FakeService, shop: Shop) -> None:
    assert called(source, where="Zürich") == "done"
    *_, last = service.requests
    assert last.headers["authorization"] == "Bearer secret"
    assert last.headers["accept"] == "application/json, text/event-stream"
    assert last.headers["accept-encoding"] == "identity"
    if shop.is_old:
        assert last.headers["mcp-protocol-version"] == "2025-06-18"
        assert last.headers["mcp-session-id"] == "s1"
        assert "mcp-method" not in last.headers
    else:
        assert last.headers["mcp-protocol-version"] == "2026-07-28"
        assert last.headers["mcp-method"] == "tools/call"
        assert last.headers["mcp-name"] == "go"
        assert last.headers["mcp-param-where"] == "=?base64?WsO8cmljaA==?="
        own = last.json()["params"]["_meta"]
        assert own["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert own["io.modelcontextprotocol/clientCapabilities"] == {}
    source.close()
    deleted = [
        each.headers["mcp-session-id"] for each in service.requests if each.method == "DELETE"
    ]
    assert deleted == (["s1"] if shop.is_old else [])


@pytest.mark.parametrize(("answer", "error", "message"), [
    (lambda n, r: reply(b"no", 401), AuthenticationFailed, "status 401: no"),
    (lambda n, r: reply(b"\x1b[1mno", 400), BadRequest, r"status 400: \[1mno"),
    (lambda n, r: reply(b"", 503), ServiceUnavailable, "status 503: no reason"),
    (lambda n, r: reply(b"<p>", 400, {"Content-Type": "text/html"}), BadRequest, "a web page"),
    (lambda n, r: reply(b"<html>"), BadRequest, "Unexpected content type"),
    (lambda n, r: json_body(b"[" * 900), MalformedReply, "Failed to parse"),
    (lambda n, r: json_reply(text(n, "x")["result"]), MalformedReply, "Failed to parse"),
    (lambda n, r: json_reply([]), MalformedReply, "Failed to parse"),
    (lambda n, r: json_reply(result(n, None)), MalformedReply, "Failed to parse"),
    (lambda n, r: json_reply(text(n, "x" * 5000)), MalformedReply, "larger than 4000 bytes"),
    (lambda n, r: json_body(b"{}", encoding="gzip"), BadRequest, "compressed"),
    (lambda n, r: reply(status=202), BadRequest, "202 Accepted"),
    (lambda n, r: reply(status=302, headers={"Location": "http://x"}), BadRequest, "Redirect"),
    (lambda n, r: sse_reply([b"hi"]), MalformedReply, "Failed to parse"),
    (lambda n, r: sse_reply([b"", CUT]), IncompleteReply, "without a response"),
    (lambda n, r: sse_reply([line({"jsonrpc": "2.0", "method": "x"})] * 500), IncompleteReply,
     "without a response"),
    (
        lambda n, r: json_reply(
            {"jsonrpc": "2.0", "id": n, "error": {"code": -5, "message": "sold\nout"}}, 400
        ),
        BadRequest,
        r"shop returned an error: sold out \(error -5\)",
    ),
])  # fmt: skip
def test_replies_that_cannot_be(
    source: McpSource, shop: Shop, monkeypatch: pytest.MonkeyPatch, answer: Answer,
    error: type[GenaiError], message: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(http, "MAX_SIZE", 4000)
    shop.answers["tools/call"] = answer
    with pytest.raises(error) as caught:
        called(source)
    if message:
        caught.match(message)
    assert "secret" not in str(caught.value)
    shop.answers["tools/call"] = lambda number, request: json_reply(text(number, "done"))
    assert called(source) == "done"


@pytest.mark.parametrize(("reason", "expected"), [
    ("[Errno -2] Name or service not known", "Name or service not known"),
    ("[SSL: WRONG_VERSION] wrong version (_ssl.c:1020)", "wrong version"),
    ("", "ConnectError"),
])  # fmt: skip
def test_reasons_have_no_codes(reason: str, expected: str) -> None:
    assert http.reason_of(httpx2.ConnectError(reason)) == expected


@pytest.mark.parametrize("reply_to", [HANG, "events"], ids=["no head", "no events"])
def test_one_that_hangs_is_given_up(
    source: McpSource, service: FakeService, shop: Shop, background: Background, reply_to: Any
) -> None:
    requested = threading.Event()
    cancelled: queue.Queue[Any] = queue.Queue()

    def cancel(number: int, request: Received) -> Reply:
        cancelled.put(request.json()["params"])
        return reply(status=202)

    shop.answers["notifications/cancelled"] = cancel
    hang = Reply([HANG]) if reply_to is HANG else sse_reply([b"", HANG])

    def answer(number: int, request: Received) -> Reply:
        requested.set()
        return hang

    shop.answers["tools/call"] = answer
    until = Cancellation()
    call = background(called, source, until)
    assert requested.wait(60)
    until.cancel(ProviderTimeout("the call took too long"))
    with pytest.raises(ProviderTimeout, match="the call took too long"):
        call.result(60)
    if shop.is_old:
        calls = [each for each in service.requests if b"tools/call" in each.body]
        assert cancelled.get(timeout=60)["requestId"] == calls[-1].json()["id"]


def test_closing_ends_its_calls(source: McpSource, shop: Shop, background: Background) -> None:
    requested = threading.Event()

    def hang(number: int, request: Received) -> Reply:
        requested.set()
        return Reply([HANG])

    shop.answers["tools/call"] = hang
    call = background(called, source)
    assert requested.wait(60)
    source.close()
    with pytest.raises(ServiceUnavailable, match="shop was closed"):
        call.result(60)


def test_call_after_closing_fails(source: McpSource, monkeypatch: pytest.MonkeyPatch) -> None:
    [tool] = source.tools(Cancellation())
    connection = source._connection
    assert connection is not None
    connection.close()
    monkeypatch.setattr(type(connection), "alive", True)  # it was, just before
    with pytest.raises(ServiceUnavailable, match="shop was closed"):
        connection.call(tool.name, {}, Cancellation())


def test_events_come_before_the_answer(source: McpSource, shop: Shop) -> None:
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    notification = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    lists = 0

    def listed(number: int, request: Received) -> Reply:
        nonlocal lists
        lists += 1
        return json_reply(result(number, {"tools": [TOOL], **CACHED, "ttlMs": 3_600_000}))

    shop.answers["tools/list"] = listed
    assert called(source) == "done"
    assert called(source) == "done"
    assert lists == 1
    shop.answers["tools/call"] = lambda number, request: sse_reply(
        [b"", line(ping), line(notification), line(text(number, "streamed"))]
    )
    assert called(source) == "streamed"
    assert called(source) == "streamed"
    assert lists == 2


def test_session_is_always_gone(source: McpSource, service: FakeService, shop: Shop) -> None:
    shop.answers["tools/call"] = lambda number, request: json_reply({"error": "gone"}, 404)
    with pytest.raises(ServiceUnavailable if shop.is_old else BadRequest):
        called(source)
    assert shop.sessions == (2 if shop.is_old else 0)


def test_server_names_versions(source: McpSource, service: FakeService, shop: Shop) -> None:
    def refuse(number: int, request: Received) -> Reply:
        supported = ["2025-11-25"] if shop.is_old else ["2030-01-01"]
        error = {"code": -32022, "message": "Unsupported", "data": {"supported": supported}}
        return json_reply({"jsonrpc": "2.0", "id": number, "error": error}, 400)

    shop.answers["server/discover"] = refuse
    if shop.is_old:
        assert called(source) == "done"
        return
    shop.answers["initialize"] = refuse
    with pytest.raises(BadRequest, match="Unsupported"):
        called(source)

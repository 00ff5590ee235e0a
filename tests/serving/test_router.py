"""Routes of plugins: declared, found, answered, and over real HTTP."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from genai_host import Config, Host, StaticPlugins
from genai_host.api import (
    Answer,
    Cancellation,
    Feature,
    FeatureSteps,
    HttpApi,
    HttpProblem,
    HttpRoute,
    NoSettings,
    Now,
    RouteRequest,
    RouteResponse,
    Turn,
    json_response,
)
from genai_host.errors import (
    NotFound,
    PluginError,
    RateLimited,
    ServiceUnavailable,
    UnexpectedFinish,
    ValidationError,
)
from genai_host.plugins.discovery import Plugins
from genai_host.serving.router import HttpRoutes
from genai_host.util.names import HTTP_PATHS
from genai_host_testing import InlinePlugin, RouteServer
from genai_host_testing.pytest_plugin import MakeHost

HERE = __name__


def route(method: Any, path: str, name: str = "echo", **more: Any) -> HttpRoute:
    return HttpRoute(method, path, f"{HERE}:{name}", **more)


def echo(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(
        {
            "method": request.method,
            "parameters": dict(request.parameters),
            "query": dict(request.query),
            "body": request.body.decode(),
            "knows_its_host": "echoed" in host.registry.features,
        }
    )


def other(request: RouteRequest, host: Host) -> RouteResponse:
    return RouteResponse(b"other")


def read(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(request.json())


class Needy:
    """Cannot be made here, and says so."""

    def __init__(self, host: Host) -> None:
        raise ValidationError("nothing is kept here")


class Counter:
    """Counts the requests of one host."""

    made = 0

    def __init__(self, host: Host) -> None:
        Counter.made += 1
        self.host = host
        self.count = 0

    def add(self, request: RouteRequest) -> RouteResponse:
        self.count += 1
        return json_response(self.count)

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response([self.count, self.host is not None])

    def close(self) -> None:
        raise RuntimeError("a fault, which is logged")


def missing(request: RouteRequest, host: Host) -> RouteResponse:
    raise NotFound("there is no such order", hint="list them")


arrived, left = threading.Event(), threading.Event()


def waits(request: RouteRequest, host: Host) -> RouteResponse:
    arrived.set()
    with request.limits.on_cancel(left.set):
        left.wait(30)
    request.limits.check()
    return RouteResponse()


def bug(request: RouteRequest, host: Host) -> RouteResponse:
    raise RuntimeError("key sk-123")


def nothing(request: RouteRequest, host: Host) -> None:
    return None


class Pieces:
    """A reply in pieces that knows when it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def reply(self, request: RouteRequest, host: Host) -> RouteResponse:
        return RouteResponse(self._pieces(), headers={"content-type": "text/plain"})

    def _pieces(self) -> Iterator[bytes]:
        try:
            yield b"one"
            yield b""
            yield b"two"
            while request_wants_more.is_set():
                yield b"more" * 1000
        finally:
            self.closed.set()


request_wants_more = threading.Event()
pieces = Pieces()
left_out = Pieces()


def elsewhere(request: RouteRequest, host: Host) -> RouteResponse:
    body = left_out._pieces()
    next(body)
    return RouteResponse(body, begin=lambda: RouteResponse(b"instead", status=202))


def breaks(request: RouteRequest, host: Host) -> RouteResponse:
    def chunks() -> Iterator[bytes]:
        yield b"one"
        raise RuntimeError("in the middle")

    return RouteResponse(chunks())


def silent(turn: Turn[NoSettings]) -> FeatureSteps:
    return Answer((yield from Now()))


def route_request(method: str, path: str, body: bytes = b"") -> RouteRequest:
    return RouteRequest(method, path, body=body, limits=Cancellation())


def body_of(reply: RouteResponse) -> bytes:
    assert isinstance(reply.body, bytes)
    return reply.body


def routes_of(make_host: MakeHost, *routes: HttpRoute) -> HttpRoutes:
    return HttpRoutes(make_host(mine=InlinePlugin(http_routes=routes)))


def test_a_route_gets_what_stands_in_its_path(make_host: MakeHost) -> None:
    routes = routes_of(make_host, route("GET", "/shop/{kind}/orders/{id}"))
    reply = routes.answer(route_request("GET", "/shop/toys/orders/a%2Fb%20c"))
    assert reply.status == 200
    assert b'"parameters":{"kind":"toys","id":"a/b c"}' in body_of(reply)


@pytest.mark.parametrize(("method", "path", "status"), [
    *(("GET", path, 404) for path in ("/shop", "/shop/", "/shop/a/", "//a", "")),
    *((method, "/shop/a", 405) for method in ("POST", "BREW")),
    *(("GET", path, 200) for path in ("/shop/a", "/shop/%", "/shop/last")),
])  # fmt: skip
def test_what_is_no_route_says_so(make_host: MakeHost, method: str, path: str, status: int) -> None:
    routes = routes_of(make_host, route("GET", "/shop/{id}"), route("GET", "/shop/last", "other"))
    reply = routes.answer(route_request(method, path))
    assert (reply.status, reply.headers.get("allow")) == (status, "GET" if status == 405 else None)
    assert (reply.body == b"other") == path.endswith("last")  # a word comes before a name
    assert routes.limit(method, path) == (2**20 if status == 200 else 0)


def test_one_object_for_each_host(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
    paths = (route("POST", "/count", "Counter.add"), route("GET", "/count", "Counter.show"))
    before = Counter.made
    first, second = routes_of(make_host, *paths), routes_of(make_host, *paths)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: first.answer(route_request("POST", "/count")), range(20)))
    assert first.answer(route_request("GET", "/count")).body == b"[20,true]"
    assert second.answer(route_request("GET", "/count")).body == b"[0,true]"
    assert Counter.made == before + 2
    first.close()
    assert "close() of Counter failed" in caplog.text
    assert first.answer(route_request("GET", "/count")).body == b"[0,true]"  # as at the beginning


def test_errors_are_replies(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
    names = ("read", "missing", "bug", "nothing")
    gone = HttpRoute("GET", "/gone", "no_such_module_here:name")
    paths = [route("POST", f"/{name}", name, max_body_size=3) for name in names]
    routes = routes_of(make_host, *paths, gone)
    wrong = routes.answer(route_request("POST", "/read", body=b"{"))
    assert wrong.status == 400
    assert b'"code":"invalid_data"' in body_of(wrong)
    assert b'"path":"$"' in body_of(wrong)
    for body, status in ((b"123", 200), (b"1234", 413)):
        assert routes.answer(route_request("POST", "/read", body=body)).status == status
    lost = routes.answer(route_request("POST", "/missing"))
    assert (lost.status, b'"hint":"list them"' in body_of(lost)) == (404, True)
    for method, path in (("POST", "/bug"), ("POST", "/nothing"), ("GET", "/gone")):
        failed = routes.answer(route_request(method, path))
        assert (failed.status, b"sk-123" in body_of(failed)) == (500, False)
    assert "key sk-123" in caplog.text  # which the log may say: it is the plugin's bug


@pytest.mark.parametrize(("error", "status"), [
    (ValidationError("x"), 400),
    (NotFound("x"), 404),
    (RateLimited("x"), 429),
    (ServiceUnavailable("x"), 503),
    (UnexpectedFinish("x", reason="other"), 502),
    (PluginError("x"), 500),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_each_error_has_its_status(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fails(request: RouteRequest, host: Host) -> RouteResponse:
        raise error

    monkeypatch.setattr(f"{HERE}.other", fails)
    routes = routes_of(make_host, route("GET", "/x", "other"))
    assert routes.answer(route_request("GET", "/x")).status == status


@pytest.mark.parametrize("path", [
    "", "x", "//", "/a/", "/a//b", "/a b", "/a/..", "/./a", "/a?b", "/{A}", "/a/{b}/{b}",
    "/a/{b:path}/{c:path}", "/ä", 3,
])  # fmt: skip
def test_a_path_that_is_none_is_refused_where_it_is_declared(path: Any) -> None:
    with pytest.raises(TypeError, match="path"):
        HttpRoute("GET", path, "a:b")


@pytest.mark.parametrize(("first", "second"), [
    ("/shop/{id}", "/shop/{name}"),
    *((path, "/ok") for path in ("/", "/{any}", "/v1", "/v1/{any}/x")),
    *((f"{path}/x", "/ok") for path in HTTP_PATHS),
])  # fmt: skip
def test_a_plugin_that_takes_a_path_of_others_is_broken(first: str, second: str) -> None:
    inline = {
        "mine": InlinePlugin(http_routes=[route("GET", second), route("POST", "/shop/{id}")]),
        "theirs": InlinePlugin(http_routes=[route("GET", first)]),
    }
    plugins = Plugins(StaticPlugins(inline), Config())
    if second == "/ok":
        assert [broken.found.name for broken in plugins.broken] == ["theirs"]
    else:
        assert len(plugins.broken) == 1
    assert "GET /ok" in plugins.registry.http_routes or second != "/ok"


@pytest.mark.parametrize(("path", "parameters"), [
    ("/s/a", {"name": "a"}),
    ("/s/a/b%2Fc/d/e", {"name": "a/b/c/d/e"}),
    ("/s/a/b/c/end", {"of": "a/b/c"}),
    ("/s/a/end", {"of": "a"}),
    ("/s/x/end", {"x": "end"}),
    ("/s/a//b", None),
    ("/s/", None),
    ("/s", None),
    ("/s/end", {"name": "end"}),
    ("/t/1/2", {"a": "1", "b": "2"}),
    ("/t/1/end", {"name": "1"}),
])  # fmt: skip
def test_a_parameter_of_several_segments(make_host: MakeHost, path: str, parameters: Any) -> None:
    paths = ("/s/{name:path}", "/s/{of:path}/end", "/s/x/{x}", "/t/{a}/{b}", "/t/{name:path}/end")
    plugin = InlinePlugin(http_routes=[route("GET", each) for each in paths])
    reply = HttpRoutes(make_host(shop=plugin)).answer(route_request("GET", path))
    found = json.loads(body_of(reply)).get("parameters") if reply.status == 200 else None
    assert found == parameters


ALIASES = {"/other/v1": "/shop", "/other": "/shop", "/last": "/shop/last"}


@pytest.mark.parametrize(("method", "path", "status", "id"), [
    ("GET", "/other/v1/a%2Fb", 200, "a/b"),
    ("GET", "/other/a", 200, "a"),
    ("GET", "/other/own", 200, None),
    ("GET", "/last", 200, "last"),
    ("POST", "/last", 405, None),
    ("POST", "/other/own", 405, None),
    ("GET", "/other/v1", 200, "v1"),
    ("GET", "/others/a", 404, None),
    ("GET", "/other/a/b", 404, None),
    ("GET", "/last/a", 404, None),
])  # fmt: skip
def test_aliases_of_an_api_have_the_routes_of_its_paths(
    make_host: MakeHost, method: str, path: str, status: int, id: str | None
) -> None:
    plugin = InlinePlugin(
        http_routes=[route("GET", "/shop/{id}"), route("GET", "/other/own")],
        http_apis=[HttpApi("shop", f"{HERE}:other", aliases=ALIASES)],
    )
    reply = HttpRoutes(make_host(mine=plugin)).answer(route_request(method, path))
    assert reply.status == status
    if status == 200:
        assert json.loads(body_of(reply))["parameters"] == ({} if id is None else {"id": id})


@pytest.mark.part
def test_over_http(make_host: MakeHost) -> None:
    features = [Feature("echoed", NoSettings, silent)]
    routes = [route("POST", "/shop/{id}"), route("POST", "/b", max_body_size=5)]
    host = make_host(mine=InlinePlugin(features=features, http_routes=routes))
    with RouteServer(host) as server, requests.Session() as session:
        reply = session.post(f"{server.url}/shop/7?a=1&a=2&b=", data="hello")
        assert reply.json() == {
            "method": "POST", "parameters": {"id": "7"}, "query": {"a": "2", "b": ""},
            "body": "hello", "knows_its_host": True,
        }  # fmt: skip
        assert session.post(f"{server.url}/b", data="123456").status_code == 413
        assert session.get(f"{server.url}/b").status_code == 405


@pytest.mark.part
def test_pieces_are_sent_as_they_come_and_closed_when_the_client_goes(make_host: MakeHost) -> None:
    routes = [route("GET", "/pieces", "pieces.reply"), route("GET", "/breaks", "breaks")]
    with RouteServer(make_host(mine=InlinePlugin(http_routes=routes))) as server:
        pieces.closed.clear()
        assert requests.get(f"{server.url}/pieces", timeout=30).text == "onetwo"
        assert pieces.closed.wait(30)

        request_wants_more.set()
        pieces.closed.clear()
        try:
            with dial(server) as client:
                client.sendall(b"GET /pieces HTTP/1.1\r\nhost: x\r\n\r\n")
                assert client.recv(100)
            assert pieces.closed.wait(30)
        finally:
            request_wants_more.clear()

        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            requests.get(f"{server.url}/breaks", timeout=30)


def test_what_begins_may_be_another_reply(make_host: MakeHost) -> None:
    routes = routes_of(make_host, route("GET", "/other", "elsewhere"))
    reply = routes.answer(route_request("GET", "/other"))
    assert (reply.status, reply.body) == (202, b"instead")
    assert left_out.closed.is_set()


@pytest.mark.part
def test_a_client_that_goes_ends_what_it_asked_for(make_host: MakeHost) -> None:
    host = make_host(mine=InlinePlugin(http_routes=[route("GET", "/waits", "waits")]))
    with RouteServer(host) as server:
        with dial(server) as client:
            client.sendall(b"GET /waits HTTP/1.1\r\nhost: x\r\n\r\n")
            assert arrived.wait(30)
            assert not left.is_set()
        assert left.wait(30)


@pytest.mark.part
@pytest.mark.parametrize(
    "header", ["transfer-encoding: chunked", "content-length: -1", "content-length: 1, 1"]
)
def test_a_body_of_unknown_length_is_not_read(make_host: MakeHost, header: str) -> None:
    host = make_host(mine=InlinePlugin(http_routes=[route("POST", "/shop")]))
    with RouteServer(host) as server, dial(server) as client:
        client.sendall(f"POST /shop HTTP/1.1\r\n{header}\r\n\r\n".encode())
        reply = b"".join(iter(lambda: client.recv(4096), b""))  # until it is closed
    assert reply.startswith(b"HTTP/1.1 411 ")


def dial(server: RouteServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=30)


@pytest.mark.parametrize("is_own", [False, True])
def test_routes_with_work_are_loaded_at_once(make_host: MakeHost, is_own: bool) -> None:
    Counter.made = 0
    routes = [
        route("GET", "/broken", "Missing.none", run_at_startup=True),
        route("GET", "/early", "Counter.add", run_at_startup=True),
        route("GET", "/late", "other"),
    ]
    with make_host(mine=InlinePlugin(http_routes=[] if is_own else routes)) as host:
        http_routes = HttpRoutes(host, routes if is_own else ())
        http_routes.start()
        assert Counter.made == 1
        http_routes.close()


def test_what_cannot_go_on_with_work_for_a_known_reason_is_not_logged_as_a_fault(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    needy = route("GET", "/a", "Needy.add", run_at_startup=True)
    with make_host(mine=InlinePlugin(http_routes=[needy])) as host:
        http_routes = HttpRoutes(host)
        http_routes.start()
        assert [each for each in caplog.records if each.levelno > logging.INFO] == []
        assert http_routes.answer(route_request("GET", "/a")).status == 400
        http_routes.close()


def test_without_api_formats_a_missing_path_names_our_plugins_for_them() -> None:
    with Host(config=Config(), discovery=StaticPlugins({})) as host:
        problem = HttpRoutes(host).find("POST", "/v1/chat/completions")
    assert isinstance(problem, HttpProblem)
    assert (problem.status, problem.message) == (404, "unknown path '/v1/chat/completions'")
    assert "genai-host install" in problem.hint
    assert "genai-wire-openai" in problem.hint

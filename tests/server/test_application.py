"""Requests and responses over real connections."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from genai_server.settings import AccessLogEntry
from genai_server.state import Workers
from raw_http import dial, until
from reference_cycles import left_in_cycles

from genai_host import Host
from genai_host.api import (
    HttpApi,
    HttpProblem,
    HttpRoute,
    RouteRequest,
    RouteResponse,
    json_response,
)
from genai_host.errors import RateLimited, ValidationError
from genai_host.plugins.observers import Observers
from genai_host.plugins.watchdog import HANGS, Watchdog
from genai_host.util.clock import SystemClock
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

pytestmark = pytest.mark.part

HERE = __name__


def route(method: Any, path: str, name: str, **more: Any) -> HttpRoute:
    return HttpRoute(method, path, f"{HERE}:{name}", **more)


def echo(request: RouteRequest, host: Host) -> RouteResponse:
    names = ("method", "path", "parameters", "query", "user", "root", "request_id")
    values = {name: getattr(request, name) for name in names}
    return json_response({**values, "body": request.body.decode()}, headers={"x-mine": "1"})


def error_reply(problem: HttpProblem) -> RouteResponse:
    return RouteResponse(problem.request_id.encode(), status=problem.status)


def large(request: RouteRequest, host: Host) -> RouteResponse:
    return RouteResponse(b"0123456789" * 100_000)


def pieces(request: RouteRequest, host: Host) -> RouteResponse:
    return RouteResponse(iter([b"one", b"", b"two" * 500, b"three"]))


def breaks(request: RouteRequest, host: Host) -> RouteResponse:
    def chunks() -> Iterator[bytes]:
        yield b"one"
        raise RuntimeError("in the middle")

    return RouteResponse(chunks())


def fails(request: RouteRequest, host: Host) -> RouteResponse:
    raise {
        "invalid": ValidationError("wrong", path="$.a"),
        "rate": RateLimited("x", retry_after=3),
    }[request.parameters["how"]]


def leaves(request: RouteRequest, host: Host) -> RouteResponse:
    raise SystemExit(3)


def splits(request: RouteRequest, host: Host) -> RouteResponse:
    return RouteResponse(b"x", headers={"x-a": "1\r\nset-cookie: a=b"})


def own(request: RouteRequest, host: Host) -> RouteResponse:
    headers = {"cache-control": "max-age=60", "content-security-policy": "default-src 'self'"}
    return RouteResponse(b"", status=204, headers=headers)


ROUTES = [
    route("POST", "/shop/{id}", "echo", max_body_size=100),
    route("GET", "/shop/{id}", "echo"),
    route("GET", "/fails/{how}", "fails"),
    *(route("GET", f"/{name}", name) for name in ("large", "pieces", "breaks", "leaves", "splits")),
    route("GET", "/own", "own"),
]


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    return make_host(mine=InlinePlugin(http_routes=ROUTES))


@pytest.fixture
def url(host: Host) -> Iterator[str]:
    with served(host) as server:
        yield server.url


def test_a_request_and_its_reply(url: str, client: requests.Session) -> None:
    reply = client.post(f"{url}/shop/a%2Fb?x=1&y=&x=%C3%A9", json={"a": 1})
    assert reply.json() == {
        "method": "POST", "path": "/shop/a%2Fb", "parameters": {"id": "a/b"},
        "query": {"x": "é", "y": ""}, "body": '{"a": 1}', "user": "", "root": "",
        "request_id": reply.headers["x-request-id"],
    }  # fmt: skip
    assert reply.headers["x-mine"] == "1"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    assert "server" not in reply.headers


@pytest.mark.parametrize(("sent_id", "is_used"), [
    ("", False), ("0af7651916cd43dd8448eb211c80319c", True),
    ("Root=1-67891233-abcdef012345678912345678", True),
    ("a" * 128, True), ("a" * 129, False), ("two words", False), ('"quoted"', False),
    ("\xe9", False), ("first, second", False),
])  # fmt: skip
def test_request_ids(host: Host, client: requests.Session, sent_id: str, is_used: bool) -> None:
    answered: list[AccessLogEntry] = []
    with served(host, access_log=answered.append) as server:
        headers = {"x-request-id": sent_id} if sent_id else {}
        for path in ("/shop/7", "/fails/rate", "/nope", f"/x?{'a&' * 1001}", "/health"):
            reply = client.get(f"{server.url}{path}", headers=headers)
            id = reply.headers["x-request-id"]
            assert (id == sent_id) == is_used
            assert re.fullmatch("[!-~]{16,128}", id)
            if path == "/shop/7":
                assert reply.json()["request_id"] == id
        sent = client.options(
            f"{server.url}/shop/7", headers={"access-control-request-method": "POST", **headers}
        ).headers["x-request-id"]
    assert [each.request_id for each in answered][-2:] == [id, sent]
    assert str(answered[-1]).endswith(f" {sent}")
    assert is_used or len({each.request_id for each in answered}) == 6


def test_an_api_can_have_a_header_and_a_form_with_the_request_id(
    make_host: MakeHost, client: requests.Session
) -> None:
    api = HttpApi("shop", f"{HERE}:error_reply", paths="/shop/.*", request_id_header="shop-id")
    host = make_host(mine=InlinePlugin(http_routes=ROUTES, http_apis=[api]))
    with served(host) as server:
        reply = client.get(f"{server.url}/shop/7")
        assert reply.headers["shop-id"] == reply.headers["x-request-id"]
        failed = client.get(f"{server.url}/shop/a/b")
        id = failed.headers["x-request-id"]
        assert (failed.headers["shop-id"], failed.text) == (id, id)
        assert "shop-id" not in client.get(f"{server.url}/large").headers


def test_own_headers_large_bodies_and_pieces(url: str, client: requests.Session) -> None:
    reply = client.get(f"{url}/own")
    assert (reply.status_code, reply.headers["cache-control"]) == (204, "max-age=60")
    assert reply.headers["content-security-policy"] == "default-src 'self'"
    assert "content-length" not in reply.headers
    assert client.get(f"{url}/large").content == b"0123456789" * 100_000
    reply = client.get(f"{url}/pieces")
    assert reply.text == "one" + "two" * 500 + "three"
    assert reply.headers["transfer-encoding"] == "chunked"


def test_a_head_is_that_of_get(url: str, client: requests.Session) -> None:
    reply = client.head(f"{url}/large")
    assert (reply.headers["content-length"], reply.content) == ("1000000", b"")
    for _ in range(20):  # each over the connection of the one before
        assert client.head(f"{url}/pieces").status_code == 200
    assert client.head(f"{url}/shop/1").headers["x-mine"] == "1"


def test_a_reply_that_breaks_off_does_not_seem_whole(
    url: str, client: requests.Session, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[bytes] = []
    with (
        pytest.raises(requests.exceptions.ChunkedEncodingError),
        client.get(f"{url}/breaks", stream=True) as reply,
    ):
        got.extend(reply.iter_content(None))
    assert got == [b"one"]
    assert "in the middle" in caplog.text


def test_errors(url: str, client: requests.Session, caplog: pytest.LogCaptureFixture) -> None:
    wrong = client.get(f"{url}/fails/invalid")
    assert (wrong.status_code, wrong.json()["error"]["path"]) == (400, "$.a")
    rate = client.get(f"{url}/fails/rate")
    assert (rate.status_code, rate.headers["retry-after"]) == (429, "3")
    assert client.get(f"{url}/nope").status_code == 404
    assert client.put(f"{url}/large", json={}).headers["allow"] == "GET"
    for path in ("leaves", "splits"):
        reply = client.get(f"{url}/{path}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal")
        assert "set-cookie" not in reply.headers
        assert reply.headers["x-request-id"] in caplog.text


@pytest.mark.parametrize("place", ["/large", "/pieces"])
def test_a_request_leaves_nothing_that_has_to_be_looked_for(url: str, place: str) -> None:
    """A request leaves no reference cycles, whose collection would delay other requests."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)

    def ask() -> None:
        connection.request("GET", place)
        with connection.getresponse() as reply:
            assert reply.read()

    with closing(connection):
        assert left_in_cycles(ask) < 10


def test_a_request_that_gets_no_thread_is_refused(
    url: str, client: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Workers, work: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Workers, "submit", refuse)
        refused = client.get(f"{url}/shop/a")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "no thread is available" in refused.text
    assert client.get(f"{url}/shop/a").status_code == 200


class TestWorkers:
    @pytest.fixture
    def workers(self) -> Iterator[Workers]:
        workers = Workers("test", SystemClock())
        yield workers
        assert workers.close(60)

    def ran(self, workers: Workers) -> threading.Thread:
        """The thread that ran a piece of work."""
        threads: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()
        workers.submit(lambda: threads.put(threading.current_thread()))
        return threads.get(timeout=60)

    def test_a_thread_that_fails(self, workers: Workers, caplog: pytest.LogCaptureFixture) -> None:
        done = threading.Event()

        def fail() -> None:
            done.set()
            raise SystemExit(3)

        workers.submit(fail)
        assert done.wait(60)
        assert workers.close(60)
        assert [record.getMessage() for record in caplog.records] == ["handling a request failed"]
        with pytest.raises(RuntimeError, match="closed"):
            workers.submit(fail)

    def test_an_idle_thread_ends(self, workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("genai_server.state._IDLE_SECONDS", 0.0)
        first = self.ran(workers)
        first.join(60)
        assert not first.is_alive()
        assert self.ran(workers) is not first


def test_the_prefix_of_a_proxy(host: Host, client: requests.Session) -> None:
    with served(host, root_path="/host/") as server:
        for path in ("/host/shop/1", "/shop/1"):
            body = client.get(f"{server.url}{path}").json()
            assert (body["path"], body["root"]) == ("/shop/1", "/host")
        assert client.get(f"{server.url}/hostile").status_code == 404
        moved = client.get(f"{server.url}/host", allow_redirects=False)
        assert (moved.status_code, moved.headers["location"]) == (308, "/host/")


HELD = threading.Event()
HOLDS = threading.Event()  # the body is in its second chunk


def holds(request: RouteRequest, host: Host) -> RouteResponse:
    """Its client leaves after the first chunk, and the second never comes."""

    def chunks() -> Iterator[bytes]:
        yield b"one"
        HOLDS.set()
        HELD.wait(60)

    return RouteResponse(chunks())


def test_a_body_that_hangs_is_named(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
    HELD.clear()
    HOLDS.clear()
    clock = ManualClock()
    host = make_host(mine=InlinePlugin(http_routes=[route("GET", "/holds", "holds")]))
    host.observers = Observers(host.plugins.manager, Watchdog(clock, host.registry.owner))
    with served(host) as server:
        with dial(server.url) as client:
            client.sendall(b"GET /holds HTTP/1.1\r\nhost: localhost\r\n\r\n")
            until(client, b"one")
            assert HOLDS.wait(60)
            clock.advance(HANGS)
            assert "mine" not in caplog.text  # it may take as long as its client waits
        while "plugin mine has not returned from body of the HTTP route" not in caplog.text:
            clock.advance(HANGS)
            requests.get(f"{server.url}/health", timeout=30)
        HELD.set()

"""Invalid requests."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from raw_http import dial, exchange, receive_all, statuses, until

from genai_host import Host
from genai_host.api import HttpRoute, RouteRequest, RouteResponse, json_response
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

pytestmark = pytest.mark.part

GET = b"GET /x HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /x HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LAST = b"connection: close\r\n"
seen: list[RouteRequest] = []


def see(request: RouteRequest, host: Host) -> RouteResponse:
    seen.append(request)
    return json_response(request.body.decode())


PIECES = (b"0\r\n\r\n", b"data: \n\n", b"\r\n5\r\n", b"x" * 20_000)


def stream(request: RouteRequest, host: Host) -> RouteResponse:
    return RouteResponse(iter(PIECES))


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    seen.clear()
    routes = [HttpRoute(method, "/x", f"{__name__}:see") for method in ("GET", "POST")]
    routes.append(HttpRoute("GET", "/stream", f"{__name__}:stream"))
    return make_host(mine=InlinePlugin(http_routes=routes))


@pytest.fixture
def url(host: Host) -> Iterator[str]:
    with served(host, head_size=4096) as server:
        yield server.url


@pytest.mark.parametrize("request_", [
    # two bodies, or none
    POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
    POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\nGET /x",
    POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    POST + b"content-length: 2, 2\r\n\r\n{}",
    POST + b"content-length: +2\r\n\r\n{}",
    POST + b"content-length: -1\r\n\r\n",
    POST + b"content-length: 0x2\r\n\r\n{}",
    POST + b"content-length: 99999999999999999999999\r\n\r\n",
    POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\n2\n{}\n0\n\n",
    POST + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    POST + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    # heads that others may read differently
    GET + b" folded: 1\r\n\r\n",
    GET + b"a b: 1\r\n\r\n",
    GET + b"a: 1\rb: 2\r\n\r\n",
    GET + b"a: 1\x002\r\n\r\n",
    GET + b": 1\r\n\r\n",
    GET + b"host: localhost\r\n\r\n",
    GET + b"authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
    POST + b"content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}",
    b"GET /x HTTP/1.1\r\n\r\n",
    # paths that are none
    b"GET ftp://localhost/x HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET http:///x HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET http://a@localhost/x HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET http://localhost/x HTTP/1.1\r\n\r\n",
    b"GET * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET x HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /\xc3\xa9 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /x y HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /x\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    # no HTTP at all, or not that of this server
    b"GET /x\r\n\r\n",
    b"GET /x HTTP/9.9\r\nhost: localhost\r\n\r\n",
    b"BREW /x HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x00" * 100,
], ids=lambda sent: sent[-60:].decode("latin-1").encode("unicode_escape").decode())  # fmt: skip
def test_what_is_no_request_is_refused(url: str, request_: bytes) -> None:
    with dial(url) as client:
        client.sendall(request_)
        client.shutdown(socket.SHUT_WR)
        assert statuses(receive_all(client)) in ([400], [])
    assert seen == []


@pytest.mark.parametrize("head", [
    GET + b"x: " + b"a" * 5000 + b"\r\n\r\n", GET + b"x: 1\r\n" * 1000 + b"\r\n",
    b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /" + b"a" * 5000, GET + b"x: " + b"a" * 5000, b"\r\n" * 3000,
], ids=["value", "many", "path", "endless path", "endless value", "nothing"])  # fmt: skip
def test_a_head_has_a_size(url: str, head: bytes) -> None:
    assert statuses(exchange(url, head)) == [431]
    assert seen == []


@pytest.mark.parametrize(("begun", "status"), [
    (b"GET /" + b"a" * 5000, 431),
    (b"no request\r\n\r\n", 400),
    (POST.replace(b"localhost", b"evil.example") + LAST + b"content-length: 999\r\n\r\n", 421),
], ids=["large", "wrong", "refused"])  # fmt: skip
def test_who_still_sends_reads_why_it_is_refused(url: str, begun: bytes, status: int) -> None:
    with dial(url) as client:
        client.sendall(begun)
        assert statuses(receive_all(client)) == [status]
        for _ in range(3):  # a connection that is reset fails at the second
            client.sendall(b"more")


def test_endless_sender_is_disconnected(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_server.connection._LINGER_SECONDS", 0.1)
    with dial(url) as client, pytest.raises(OSError, match=r"reset|aborted|Broken pipe"):
        client.sendall(b"GET /" + b"a" * 5000)
        while True:
            client.sendall(b"more")


def test_a_head_has_a_time(host: Host) -> None:
    with served(host, head_seconds=0.5) as server:
        for begun in (b"", b"GET /x HTTP/1.1\r\nhost", b"\r\n", GET + b"\r\n" + b"GET /x"):
            assert statuses(exchange(server.url, begun)) == [200] * begun.count(b"\r\n\r\n")


def test_what_follows_a_body_is_no_header(url: str) -> None:
    """Trailers (RFC 9110, section 6.5) may not say who asks, nor what for."""
    trailers = b"authorization: Bearer x\r\nhost: evil.example\r\nx-late: 1\r\n\r\n"
    body = b"transfer-encoding: chunked\r\n\r\n2;ext=1\r\n{}\r\n0\r\n" + trailers
    assert statuses(exchange(url, POST + LAST + body)) == [200]
    [request] = seen
    assert request.body == b"{}"
    assert request.headers["host"] == "localhost"
    assert not {"authorization", "x-late"} & set(request.headers)


def test_connections_are_used_again(url: str) -> None:
    with dial(url) as client:
        for _ in range(3):
            client.sendall(POST + b"content-length: 2\r\n\r\n{}")
            assert statuses(until(client, b'"{}"')) == [200]
        client.sendall(GET + LAST + b"\r\n")
        assert statuses(receive_all(client)) == [200]
    assert len(seen) == 4


def test_a_request_that_follows_before_the_answer_is_not_read(url: str) -> None:
    assert statuses(exchange(url, (GET + b"\r\n") * 3)) == [200]
    assert len(seen) == 1


def test_what_follows_a_refused_body_is_read_anew(url: str) -> None:
    refused = POST.replace(b"localhost", b"evil.example") + b"content-length: 40\r\n\r\n"
    with dial(url) as client:
        client.sendall(refused)
        assert statuses(until(client, b"}}")) == [421]
        client.sendall((GET + b"\r\n")[:40].ljust(40) + GET + LAST + b"\r\n")
        assert statuses(receive_all(client)) == [200]
    assert len(seen) == 1


def test_who_waits_before_they_send_is_told(url: str) -> None:
    expects = POST + b"expect: 100-continue\r\ncontent-length: 2\r\n"
    with dial(url) as client:
        client.sendall(expects + LAST + b"\r\n")
        assert until(client, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"{}")
        assert statuses(receive_all(client)) == [200]
    # without that, what comes next may be a body, or another request
    assert statuses(exchange(url, expects.replace(b"localhost", b"evil") + b"\r\n")) == [421]


def test_who_asks_for_another_protocol_gets_http(url: str) -> None:
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n\r\n"
    assert statuses(exchange(url, GET + upgrade)) == [200]
    through_proxy = upgrade.replace(b"connection", b"proxy-connection")
    assert statuses(exchange(url, GET + through_proxy)) == [200]
    h2c = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: x\r\n"
    assert statuses(exchange(url, POST + h2c + b"content-length: 2\r\n\r\n{}")) == [200]
    assert [request.body for request in seen] == [b"", b"", b"{}"]


def test_an_old_client_gets_all_of_a_reply(url: str) -> None:
    reply = exchange(url, b"GET /x HTTP/1.0\r\nhost: localhost\r\n\r\n")
    assert statuses(reply) == [200]
    assert reply.endswith(b'""')


def test_an_old_client_gets_a_stream_without_chunks(url: str) -> None:
    """It ends with the connection (RFC 9112, section 6.1)."""
    stream = b"GET /stream HTTP/1.%d\r\nhost: localhost\r\nconnection: keep-alive\r\n\r\n"
    head, _, body = exchange(url, stream % 0).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert body == b"".join(PIECES)
    with dial(url) as client:
        client.sendall(stream % 1)
        assert b"\r\ntransfer-encoding: chunked\r\n" in until(client, b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("target", [b"http://localhost/x?a=b", b"HTTP://LOCALHOST:80/x?a=b"])
def test_a_target_can_be_an_address(url: str, target: bytes) -> None:
    """As proxies get it; `Host` does not count then (RFC 9112, section 3.2.2)."""
    for host in (b"localhost", b"evil"):
        request = b"GET %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (target, host, LAST)
        assert statuses(exchange(url, request)) == [200]
    assert [(each.path, dict(each.query)) for each in seen] == [("/x", {"a": "b"})] * 2
    evil = b"GET http://evil/x HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % LAST
    assert statuses(exchange(url, evil)) == [421]
    root = b"GET http://localhost?a HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % LAST
    assert statuses(exchange(url, root)) == statuses(
        exchange(url, b"GET /?a HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % LAST)
    )


def test_the_options_of_the_server(url: str) -> None:
    reply = exchange(url, b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert (statuses(reply), seen) == ([204], [])


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"identity, chunked", b"xchunked"])
def test_codings_other_than_chunked_are_refused(url: str, coding: bytes) -> None:
    body = b"2\r\n{}\r\n0\r\n\r\n"
    reply = exchange(url, POST + b"transfer-encoding: " + coding + b"\r\n\r\n" + body)
    assert statuses(reply) == [501]
    assert seen == []
    chunked = POST + LAST + b"transfer-encoding: Chunked\r\n\r\n" + body
    assert statuses(exchange(url, chunked)) == [200]


def test_fields_of_a_query_have_an_end(url: str) -> None:
    path = b"/x?" + b"a&" * 1001
    assert statuses(exchange(url, GET.replace(b"/x", path) + LAST + b"\r\n")) == [400]
    assert seen == []


def test_a_length_may_begin_with_zeros(url: str) -> None:
    length = b"0" * 30 + b"2"
    assert statuses(exchange(url, POST + LAST + b"content-length: " + length + b"\r\n\r\n{}")) == [
        200
    ]
    assert [request.body for request in seen] == [b"{}"]

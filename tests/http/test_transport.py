"""HTTP over real sockets: what is sent, what comes back, and what ends it."""

from __future__ import annotations

import gzip
import inspect
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import trustme
from tunnel import Tunnel
from urllib3.exceptions import (
    ConnectTimeoutError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
)

from genai_host.api import Cancellation, HttpRequest, ProviderReply
from genai_host.errors import (
    BadRequest,
    Cancelled,
    ConfigurationError,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ProviderTimeout,
    ServiceUnavailable,
)
from genai_host.http.transport import EventStream, Transport, _head, _system_reason, _write
from genai_host.providers.limits import CallLimits
from genai_host.util.names import __version__
from genai_host_testing.fake_service import (
    CUT,
    HANG,
    HOLD,
    RESET,
    FakeService,
    Reply,
    json_reply,
    reply,
    sse_reply,
    stream_reply,
)

pytestmark = pytest.mark.part

SECRET = "sk-canary-5f2b"


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService([json_reply({"ok": True})]) as made:
        yield made


@pytest.fixture
def transport() -> Iterator[Transport]:
    made = Transport(connect_timeout=5, timeout=60, proxy="")
    yield made
    made.close()


def request(service: FakeService, path: str = "/v1/x", body: bytes = b"{}") -> HttpRequest:
    headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
    return HttpRequest("POST", service.url + path, headers, body)


def stream(transport: Transport, service: FakeService, limits: Cancellation) -> EventStream:
    found = transport.stream(request(service), limits)
    assert isinstance(found, EventStream)
    return found


def cancel_amid_a_stream(transport: Transport, service: FakeService) -> None:
    """From another thread than the one that has read an event, and waits for more."""
    limits = Cancellation()
    events = stream(transport, service, limits)
    reading = threading.Event()

    def read() -> None:
        for _ in events:
            reading.set()

    with limits.on_cancel(events.close), ThreadPoolExecutor(1) as pool:
        pending = pool.submit(read)
        assert reading.wait(10)
        limits.cancel()
        with pytest.raises(Cancelled):
            pending.result(timeout=10)


class TestSending:
    def test_a_request_goes_out_as_it_is(self, transport: Transport, service: FakeService) -> None:
        found = transport.send(request(service, "/v1/x?a=b", b'{"a":1}'), Cancellation())
        assert (found.status, found.body) == (200, b'{"ok": true}')
        (sent,) = service.requests
        assert (sent.method, sent.path, sent.body) == ("POST", "/v1/x?a=b", b'{"a":1}')
        assert sent.headers["authorization"] == f"Bearer {SECRET}"
        assert set(sent.headers) == {
            "accept-encoding", "authorization", "content-length", "content-type", "host",
            "user-agent",
        }  # fmt: skip

    def test_connections_are_used_again(self, transport: Transport, service: FakeService) -> None:
        for _ in range(5):
            transport.send(request(service), Cancellation())
        assert service.connections == 1

    def test_the_connection_of_a_stream_is_used_again(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [sse_reply([b"a", b"b"])]
        for _ in range(3):
            assert len(list(stream(transport, service, Cancellation()))) == 2
        assert service.connections == 1

    def test_a_kept_connection_that_is_closed_is_no_failure(
        self, transport: Transport, service: FakeService
    ) -> None:
        """Some services close, a little after their reply, what they said they keep."""
        service.replies = [json_reply(1), Reply([CUT]), json_reply(3)]
        assert transport.send(request(service), Cancellation()).body == b"1"
        assert transport.send(request(service), Cancellation()).body == b"3"
        assert (service.connections, len(service.requests)) == (2, 3)

    def test_a_kept_connection_that_breaks_amid_a_reply_is_one(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [json_reply(1), Reply([b"HTTP/1.1 200", CUT]), json_reply(3)]
        assert transport.send(request(service), Cancellation()).body == b"1"
        with pytest.raises(ServiceUnavailable):
            transport.send(request(service), Cancellation())
        assert len(service.requests) == 2

    def test_a_new_connection_that_is_closed_is_one(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [Reply([CUT]), json_reply(2)]
        with pytest.raises(ServiceUnavailable, match="closed the connection"):
            transport.send(request(service), Cancellation())
        assert len(service.requests) == 1

    @pytest.mark.parametrize(
        "headers", [{"X-A": "a\r\nX-B: b"}, {"X-A": "a\nb"}, {"X-A\0": "b"}, {"X-A": "\u20ac"}]
    )
    def test_no_header_holds_another(
        self, transport: Transport, service: FakeService, headers: dict[str, str]
    ) -> None:
        with pytest.raises(ConfigurationError, match="header"):
            transport.send(HttpRequest("GET", service.url, headers), Cancellation())
        assert not service.requests

    def test_a_failure_is_a_reply(self, transport: Transport, service: FakeService) -> None:
        service.replies = [json_reply({"error": "x"}, 429, {"Retry-After": "7"})]
        for act in (transport.send, transport.stream):
            found = act(request(service), Cancellation())
            assert isinstance(found, ProviderReply)
            assert (found.status, found.body) == (429, b'{"error": "x"}')
            assert found.headers["retry-after"] == "7"

    @pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
    def test_a_large_body_is_sent_whole(
        self, transport: Transport, service: FakeService, size: int
    ) -> None:
        with Cancellation() as limits:
            timer = threading.Timer(20, limits.cancel)
            timer.start()
            try:
                transport.send(request(service, body=b"x" * size), limits)
            finally:
                timer.cancel()
        assert len(service.requests[0].body) == size

    def test_no_redirect_is_followed(self, transport: Transport, service: FakeService) -> None:
        with FakeService([json_reply({})]) as elsewhere:
            service.replies = [reply(b"", 307, {"Location": elsewhere.url})]
            with pytest.raises(BadRequest, match="redirects") as caught:
                transport.send(request(service), Cancellation())
            assert caught.value.status == 307
            assert not elsewhere.requests

    def test_netrc_is_not_read(
        self,
        transport: Transport,
        service: FakeService,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password other\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        transport.send(request(service), Cancellation())
        assert service.requests[0].headers["authorization"] == f"Bearer {SECRET}"

    def test_the_environment_names_a_proxy(
        self, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", service.url)
        monkeypatch.delenv("no_proxy", raising=False)
        transport = Transport()
        transport.send(HttpRequest("GET", "http://service.invalid/x"), Cancellation())
        transport.close()
        assert service.requests[0].path == "http://service.invalid/x"

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_item_7_no_proxy_of_the_environment_is_asked_for_this_machine(
        self, service: FakeService, monkeypatch: pytest.MonkeyPatch, host: str
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        transport = Transport()
        url = service.url.replace("127.0.0.1", host)
        transport.send(HttpRequest("GET", f"{url}/x"), Cancellation())
        transport.close()
        assert service.requests[0].path == "/x"

    @pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
    def test_item_7_it_is_asked_for_others(
        self, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        for each in ("NO_PROXY", "no_proxy", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.delenv(each, raising=False)
        with Tunnel(refuses=403) as tunnel:
            monkeypatch.setenv(name, tunnel.url)
            transport = Transport()
            with pytest.raises(ServiceUnavailable, match="the proxy"):
                transport.send(HttpRequest("GET", "https://service.invalid/x"), Cancellation())
            transport.close()
        assert tunnel.asked[0].startswith("CONNECT service.invalid:443 ")

    def test_a_proxy_can_be_named_and_its_password_is_its_own(self, service: FakeService) -> None:
        transport = Transport(proxy=service.url.replace("://", "://me:pass@"))
        transport.send(HttpRequest("GET", "http://service.invalid/x"), Cancellation())
        transport.close()
        assert service.requests[0].headers["proxy-authorization"].startswith("Basic ")

    @pytest.mark.parametrize("scheme", ["http", "https"])
    @pytest.mark.parametrize(
        ("proxy", "told"),
        [
            ("socks5://me:pass@127.0.0.1:9", "the proxy socks5://127.0.0.1:9 is a SOCKS proxy"),
            ("socks5h://127.0.0.1", "the proxy socks5h://127.0.0.1 is a SOCKS proxy"),
            ("ftp://127.0.0.1:9", "the proxy ftp://127.0.0.1:9 is not an HTTP proxy"),
            ("http://", "the URL of the proxy is not valid"),
            ("http://me:pass@[::1", "the URL of the proxy is not valid"),
            ("http://me:pass@host:port", "the URL of the proxy is not valid"),
            ("http://me:1/pass@host", "the URL of the proxy is not valid"),
        ],
    )
    def test_a_proxy_that_cannot_be_used_is_not_told_as_the_address(
        self, monkeypatch: pytest.MonkeyPatch, scheme: str, proxy: str, told: str
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("ALL_PROXY", proxy)
        for given, where in ((proxy, "limits.proxy"), (None, "ALL_PROXY")):
            transport = Transport(proxy=given)
            with pytest.raises(ConfigurationError) as caught:
                transport.send(HttpRequest("GET", f"{scheme}://service.invalid/"), Cancellation())
            transport.close()
            assert caught.value.message.startswith(told)
            assert where in caught.value.hint
            assert "pass" not in caught.value.message + caught.value.hint

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_a_proxy_that_is_not_there_is_named(self, service: FakeService, scheme: str) -> None:
        service.stop()
        transport = Transport(proxy=f"http://me:pass@127.0.0.1:{service.port}")
        told = f"cannot connect to the proxy http://127.0.0.1:{service.port}: Connection refused"
        with pytest.raises(ServiceUnavailable, match=told) as caught:
            transport.send(HttpRequest("GET", f"{scheme}://service.invalid/"), Cancellation())
        transport.close()
        assert "limits.proxy" in caught.value.hint
        assert caught.value.status is None

    def test_a_proxy_that_wants_a_password_is_named(self, service: FakeService) -> None:
        service.replies = [reply(b"<title>Proxy</title>", 407)]
        transport = Transport(proxy=service.url)
        with pytest.raises(
            ServiceUnavailable, match="requires another user and password"
        ) as caught:
            transport.send(HttpRequest("GET", "http://service.invalid/"), Cancellation())
        transport.close()
        assert (caught.value.status, caught.value.retryable) == (407, False)
        assert "limits.proxy" in caught.value.hint

    def test_a_proxy_that_is_none_is_named(self, service: FakeService) -> None:
        service.replies = [Reply([b"SSH-2.0-OpenSSH_9.6\r\n"], keep=False)]
        transport = Transport(proxy=service.url)
        with pytest.raises(ServiceUnavailable, match=f"the proxy {service.url} closed the"):
            transport.send(HttpRequest("GET", "https://service.invalid/"), Cancellation())
        transport.close()

    @pytest.mark.parametrize("url", ["http://", "http://[::1", "http://a:b/"])
    def test_an_address_that_is_none(self, url: str) -> None:
        for proxy in ("", None):
            transport = Transport(proxy=proxy)
            with pytest.raises(ConfigurationError, match="the URL is invalid"):
                transport.send(HttpRequest("GET", url), Cancellation())
            transport.close()

    def test_closing_closes_what_nobody_uses(
        self, transport: Transport, service: FakeService
    ) -> None:
        transport.send(request(service), Cancellation())
        pools = [address.pool for address in transport._addresses.values()]
        transport.close()
        service.wait_until_closed()
        assert pools  # whoever still holds them

    def test_nobody_there(self, transport: Transport, service: FakeService) -> None:
        service.stop()
        with pytest.raises(ServiceUnavailable, match=str(service.port)) as caught:
            transport.send(request(service), Cancellation())
        assert "Connection refused" in str(caught.value)
        assert SECRET not in repr(caught.value.__cause__)

    def test_the_repr_of_a_request_shows_no_key(self, service: FakeService) -> None:
        assert SECRET not in repr(request(service, body=SECRET.encode()))


class TestTrust:
    """Certificates: those of a known authority only, one that the user names included."""

    @pytest.fixture
    def authority(self) -> trustme.CA:
        return trustme.CA()

    @pytest.fixture
    def secure(self, authority: trustme.CA) -> Iterator[FakeService]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        with FakeService([json_reply({"ok": True})], tls=context) as made:
            yield made

    @pytest.fixture
    def trusting(self, authority: trustme.CA, tmp_path: Path) -> Iterator[Transport]:
        file = tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(str(file))
        made = Transport(proxy="", ca_file=str(file))
        yield made
        made.close()

    def test_a_stranger_is_not_trusted(self, transport: Transport, secure: FakeService) -> None:
        with pytest.raises(ConfigurationError, match="cannot verify the certificate") as caught:
            transport.send(request(secure), Cancellation())
        assert "ca_file" in caught.value.hint
        assert not secure.requests

    def test_an_authority_can_be_named(self, trusting: Transport, secure: FakeService) -> None:
        for _ in range(3):
            assert trusting.send(request(secure), Cancellation()).body == b'{"ok": true}'
        assert secure.connections == 1

    def test_a_proxy_tunnels_and_sees_no_key(
        self, authority: trustme.CA, secure: FakeService, tmp_path: Path
    ) -> None:
        file = tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(str(file))
        with Tunnel() as tunnel:
            transport = Transport(proxy=tunnel.url, ca_file=str(file))
            for _ in range(2):
                assert transport.send(request(secure), Cancellation()).body == b'{"ok": true}'
            transport.close()
            (asked,) = tunnel.asked
        assert asked.startswith(f"CONNECT localhost:{secure.port} ")
        assert "Proxy-Authorization: Basic " in asked
        assert SECRET not in asked
        assert "proxy-authorization" not in secure.requests[0].headers

    @pytest.mark.parametrize("status", [407, 502])
    def test_a_proxy_that_refuses_is_named(self, secure: FakeService, status: int) -> None:
        with Tunnel(refuses=status) as tunnel:
            transport = Transport(proxy=tunnel.url)
            with pytest.raises(ServiceUnavailable, match="the proxy http://127") as caught:
                transport.send(request(secure), Cancellation())
            transport.close()
        assert str(status) in caught.value.message
        assert caught.value.retryable is (status != 407)
        assert "me:" not in caught.value.message + caught.value.hint
        assert not secure.requests

    def test_a_certificate_behind_a_proxy_is_no_fault_of_the_proxy(
        self, secure: FakeService
    ) -> None:
        with Tunnel() as tunnel:
            transport = Transport(proxy=tunnel.url)
            with pytest.raises(ConfigurationError, match="certificate of https://localhost"):
                transport.send(request(secure), Cancellation())
            transport.close()

    def test_the_name_must_be_the_certificates(
        self, trusting: Transport, secure: FakeService
    ) -> None:
        url = secure.url.replace("localhost", "127.0.0.1")
        with pytest.raises(ConfigurationError, match="cannot verify the certificate"):
            trusting.send(HttpRequest("GET", url), Cancellation())

    def test_one_that_closes_amid_the_handshake_is_not_there(self, trusting: Transport) -> None:
        def close() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)

        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
            server.settimeout(10)
            closed = pool.submit(close)
            url = f"https://127.0.0.1:{server.getsockname()[1]}/"
            with pytest.raises(ServiceUnavailable, match="closed the connection"):
                trusting.send(HttpRequest("GET", url), Cancellation())
            closed.result()

    def test_a_file_that_is_none(self, secure: FakeService, tmp_path: Path) -> None:
        transport = Transport(proxy="", ca_file=str(tmp_path / "none.pem"))
        with pytest.raises(ConfigurationError, match="ca_file"):
            transport.send(request(secure), Cancellation())

    def test_a_stream_can_be_cancelled(self, trusting: Transport, secure: FakeService) -> None:
        secure.replies = [sse_reply([b"one", HANG])]
        cancel_amid_a_stream(trusting, secure)
        secure.wait_until_closed()


class TestReading:
    def test_a_compressed_reply_is_unpacked(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [reply(gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"})]
        assert transport.send(request(service), Cancellation()).body == b"hello"

    def test_a_bomb_is_stopped(self, transport: Transport, service: FakeService) -> None:
        bomb = gzip.compress(bytes(200 << 20), 9)
        service.replies = [reply(bomb, headers={"Content-Encoding": "gzip"})]
        with pytest.raises(MalformedReply, match="longer than"):
            transport.send(request(service), Cancellation())

    def test_wrong_compression_is_malformed(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [reply(b"not gzip", headers={"Content-Encoding": "gzip"})]
        with pytest.raises(MalformedReply, match="compressed"):
            transport.send(request(service), Cancellation())

    @pytest.mark.parametrize("act", [CUT, RESET])
    @pytest.mark.parametrize("length", [0, 20, 90])
    def test_a_reply_that_is_cut_is_never_whole(
        self, transport: Transport, service: FakeService, act: object, length: int
    ) -> None:
        whole = reply(b"x" * 100).steps[0]
        assert isinstance(whole, bytes)
        service.replies = [Reply([whole[:length] if length < 30 else whole[:-10], act])]  # type: ignore[list-item]
        with pytest.raises((ServiceUnavailable, IncompleteReply)) as caught:
            transport.send(request(service), Cancellation())
        assert caught.value.retryable

    @pytest.mark.parametrize("act", [CUT, RESET])
    def test_a_stream_that_is_cut_gives_what_came(
        self, transport: Transport, service: FakeService, act: object
    ) -> None:
        service.replies = [sse_reply([b"one", HOLD, act])]  # type: ignore[list-item]
        events = iter(stream(transport, service, Cancellation()))
        assert next(events).data == b"one"
        service.let_go()
        with pytest.raises(IncompleteReply):
            next(events)

    def test_a_reply_that_is_no_stream_comes_whole(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [reply(b"<html>", headers={"Content-Type": "text/html"})]
        found = transport.stream(request(service), Cancellation())
        assert isinstance(found, ProviderReply)
        assert found.body == b"<html>"

    @pytest.mark.parametrize("status", [400, 503])
    def test_a_failure_is_no_stream(
        self, transport: Transport, service: FakeService, status: int
    ) -> None:
        headers = {"Content-Type": "text/event-stream"}
        service.replies = [reply(b"data: 1\n\n", status, headers=headers)]
        found = transport.stream(request(service), Cancellation())
        assert isinstance(found, ProviderReply)
        assert (found.status, found.body) == (status, b"data: 1\n\n")

    def test_the_length_of_a_reply_is_limited(
        self, transport: Transport, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("genai_host.http.transport._LARGEST_REPLY", 10)
        service.replies = [reply(b"x" * 10), reply(b"x" * 11)]
        assert transport.send(request(service), Cancellation()).body == b"x" * 10
        with pytest.raises(MalformedReply, match="longer than 10 bytes"):
            transport.send(request(service), Cancellation())

    @pytest.mark.parametrize(
        ("rest", "body"),
        [
            (b"200 OK\r\n\r\nhello", b"hello"),
            (b"200 OK\r\nContent-Length: 0\r\n\r\n", b""),
            (b"204 No Content\r\n\r\n", b""),
            (b"200 OK\r\n\r\n", None),
        ],
    )
    def test_a_reply_without_a_length_has_a_body(
        self, transport: Transport, service: FakeService, rest: bytes, body: bytes | None
    ) -> None:
        service.replies = [Reply([b"HTTP/1.0 " + rest], keep=False)]
        if body is not None:
            assert transport.send(request(service), Cancellation()).body == body
        else:
            with pytest.raises(IncompleteReply, match="before its body"):
                transport.send(request(service), Cancellation())

    def test_a_stream_that_nobody_reads_can_be_closed(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [sse_reply([b"one", HANG])]
        stream(transport, service, Cancellation()).close()
        service.wait_until_closed()

    def test_lines_of_json_are_events(self, transport: Transport, service: FakeService) -> None:
        service.replies = [
            stream_reply([b'{"a":1}\n{"b"', b":2}\n"], content_type="application/x-ndjson")
        ]
        events = stream(transport, service, Cancellation())
        assert [event.data for event in events] == [b'{"a":1}', b'{"b":2}']

    def test_a_stream_that_never_ends_is_stopped(
        self, transport: Transport, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("genai_host.http.transport._LARGEST_STREAM", 1000)
        service.replies = [sse_reply([b"x" * 300] * 10)]
        with pytest.raises(MalformedReply, match="longer than"):
            list(stream(transport, service, Cancellation()))


class TestDeadlines:
    """Of the transport itself, where nobody else watches, or looks at the same moment."""

    @pytest.mark.parametrize("steps", [[], [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"]])
    def test_a_reply_that_takes_too_long_is_not_said_to_be_cut(
        self, service: FakeService, steps: list[bytes]
    ) -> None:
        """Else it would be tried again, for as long once more."""
        service.replies = [Reply([*steps, HANG])]
        impatient = Transport(timeout=0.05, proxy="")
        with Cancellation() as limits, pytest.raises(ProviderTimeout) as caught:
            impatient.send(request(service), limits)
        impatient.close()
        assert (caught.value.deadline, caught.value.retryable) == ("timeout", False)
        assert caught.value.message == "the reply took longer than 0.05 s"

    def test_the_usual_ones_are_those_of_a_provider(self) -> None:
        usual, parameters = CallLimits(), inspect.signature(Transport).parameters
        for name in ("connect_timeout", "timeout"):
            assert parameters[name].default == getattr(usual, name)

    def test_nor_is_a_stream(self, service: FakeService) -> None:
        service.replies = [sse_reply([b"1", HANG])]
        impatient = Transport(timeout=0.05, proxy="")
        with Cancellation() as limits, pytest.raises(ProviderTimeout):
            list(stream(impatient, service, limits))
        impatient.close()


class TestCancelling:
    """From another thread, wherever the reply is: the caller ends, and the service sees
    the connection closed."""

    @pytest.mark.parametrize(
        "steps",
        [
            [HANG],
            [b"HTTP/1.1 200 OK\r\nContent-Le", HANG],
            [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", HANG],
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf", HANG],
            [b"HTTP/1.0 200 OK\r\n\r\nuntil the end", HANG],
        ],
        ids=["awaiting headers", "in headers", "in the body", "in a chunk", "until closed"],
    )
    def test_a_whole_reply(
        self, transport: Transport, service: FakeService, steps: list[object]
    ) -> None:
        service.replies = [Reply(steps)]  # type: ignore[arg-type]
        limits = Cancellation()
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(transport.send, request(service), limits)
            service.wait_for_requests(1)
            limits.cancel()
            with pytest.raises(Cancelled):
                pending.result(timeout=10)
        service.wait_until_closed()

    @pytest.mark.parametrize(
        "pieces",
        [[b"data: one\n\n", HANG], [b"data: one\n\ndata: tw", HANG]],
        ids=["between events", "in an event"],
    )
    def test_a_stream(
        self, transport: Transport, service: FakeService, pieces: list[bytes]
    ) -> None:
        service.replies = [stream_reply(pieces)]
        cancel_amid_a_stream(transport, service)
        service.wait_until_closed()

    def test_before_there_is_a_connection(self, transport: Transport, service: FakeService) -> None:
        limits = Cancellation()
        limits.cancel()
        with pytest.raises(Cancelled):
            transport.send(request(service), limits)

    def test_a_stream_that_is_left_is_closed(
        self, transport: Transport, service: FakeService
    ) -> None:
        service.replies = [sse_reply([b"one", HANG])]
        events = iter(stream(transport, service, Cancellation()))
        next(events)
        del events
        service.wait_until_closed()

    def test_a_late_cancel_meets_nobody(self, transport: Transport, service: FakeService) -> None:
        """The connection is another call's by then."""
        for _ in range(50):
            limits = Cancellation()
            transport.send(request(service), limits)
            limits.cancel()
        assert service.connections == 1

    def test_a_stream_that_is_closed_late_meets_nobody(
        self, transport: Transport, service: FakeService
    ) -> None:
        """All of it has come, so that its connection is another call's, but not all of its
        events were taken."""
        kind = {"Content-Type": "text/event-stream"}
        held = Reply([HOLD, *json_reply({}).steps], keep=True)
        service.replies = [reply(b"data: one\n\ndata: two\n\n", headers=kind), held]
        events = stream(transport, service, Cancellation())
        taken = iter(events)
        assert next(taken).data == b"one"
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(transport.send, request(service), Cancellation())
            service.wait_for_requests(2)
            events.close()
            service.let_go()
            assert other.result(30).body == b"{}"
        assert next(taken).data == b"two"
        assert service.connections == 1

    def test_calls_that_nobody_cancels_succeed(
        self, transport: Transport, service: FakeService
    ) -> None:
        """While others are cancelled at any moment, over the same few connections."""

        def call(number: int) -> None:
            limits = Cancellation()
            if number % 2:
                timer = threading.Timer((number % 17) / 4000, limits.cancel)
                timer.start()
            try:
                transport.send(request(service), limits)
            except Cancelled:
                assert number % 2
            finally:
                if number % 2:
                    timer.join()

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(call, range(1500)))


CONNECTION: Any = object()
REFUSED = NewConnectionError(CONNECTION, "urllib3 says this")
REFUSED.__cause__ = ConnectionRefusedError(111, "Connection refused")
UNVERIFIED = ssl.SSLCertVerificationError("certificate verify failed")
UNVERIFIED.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            NameResolutionError("h", CONNECTION, socket.gaierror(-2, "unknown")),
            ServiceUnavailable,
            "cannot connect to http://h: unknown host name",
        ),
        (REFUSED, ServiceUnavailable, "cannot connect to http://h: Connection refused"),
        (ConnectTimeoutError(), ProviderTimeout, "cannot connect to http://h within 2.5 s"),
        (
            UNVERIFIED,
            ConfigurationError,
            "cannot verify the certificate of http://h: self-signed certificate",
        ),
        (
            ssl.SSLEOFError(8, "EOF occurred"),
            ServiceUnavailable,
            "http://h closed the connection: EOF occurred",
        ),
        (ValueError("x"), ServiceUnavailable, "http://h closed the connection: ValueError"),
        (
            ProxyError("x", REFUSED),
            ServiceUnavailable,
            "cannot connect to the proxy http://p: Connection refused",
        ),
        (
            ProxyError("x", OSError("Tunnel connection failed: 502 Bad Gateway")),
            ServiceUnavailable,
            "the proxy http://p refused to connect with status 502",
        ),
        (
            ProxyError("x", OSError("Tunnel connection failed: 407 Authenticate")),
            ServiceUnavailable,
            "the proxy http://p requires another user and password (status 407)",
        ),
    ],
)
def test_why_a_request_was_not_sent(error: Exception, kind: type[GenaiError], message: str) -> None:
    transport = Transport(connect_timeout=2.5, proxy="http://p")
    found = transport._not_sent(error, "http://h", "http://p")
    assert type(found) is kind
    assert found.message == message
    assert ("limits.proxy" in found.hint) == isinstance(error, ProxyError)
    if isinstance(found, ProviderTimeout):
        assert (found.deadline, found.retryable) == ("connect_timeout", True)
    if isinstance(found, ConfigurationError):
        assert "ca_file" in found.hint


def test_a_proxy_of_an_unknown_name_is_a_proxy() -> None:
    found = Transport()._refused_by_proxy("", 407)
    assert found.message.startswith("a proxy requires")
    assert "HTTPS_PROXY" in found.hint


@pytest.mark.parametrize(("depth", "reason"), [(0, "down"), (7, "down"), (8, "ValueError")])
@pytest.mark.parametrize("link", ["args", "__cause__", "__context__"])
def test_the_reason_of_the_system_is_found(depth: int, reason: str, link: str) -> None:
    error: Exception = OSError(1, "down")
    for _ in range(depth):
        outer = ValueError("x", error) if link == "args" else ValueError("x")
        if link != "args":
            setattr(outer, link, error)
        error = outer
    assert _system_reason(error) == reason


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("POST", b"", "0"), ("POST", b"abc", "3"), ("GET", b"", None), ("GET", b"abc", "3")],
)
def test_the_head_of_a_request(method: str, body: bytes, length: str | None) -> None:
    address = Transport(proxy="")._address("http://host:81/path?query")
    asked = HttpRequest(method, "http://host:81/path?query", {"X-A": "é"}, body)
    first, *lines, blank, rest = _head(asked, address, "gzip").decode("latin-1").split("\r\n")
    assert (first, blank, rest) == (f"{method} /path?query HTTP/1.1", "", "")
    assert lines == [
        "Host: host:81",
        f"User-Agent: genai-host/{__version__}",
        "Accept-Encoding: gzip",
        "X-A: é",
        *([f"Content-Length: {length}"] if length else []),
    ]


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\r\nb", "a\0b", "€"])
def test_a_header_has_valid_characters(value: str) -> None:
    address = Transport(proxy="")._address("http://host/")
    with pytest.raises(ConfigurationError, match="a header"):
        _head(HttpRequest("GET", "http://host/", {"X-A": value}), address, "gzip")


def test_addresses_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_host.http.transport._MOST_ADDRESSES", 2)
    transport = Transport(proxy="")
    for number in (1, 2, 1):
        transport._address(f"http://host/{number}")
    assert list(transport._addresses) == ["http://host/1", "http://host/2"]
    transport._address("http://host/3")
    assert list(transport._addresses) == ["http://host/3"]


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
def test_a_large_body_is_not_copied(size: int) -> None:
    sock = mock.Mock()
    _write(sock, b"head", bytes(size))
    written = [call.args[0] for call in sock.sendall.mock_calls]
    assert list(map(len, written)) == ([size + 4] if size == 1 << 20 else [4, size])
    assert b"".join(written) == b"head" + bytes(size)

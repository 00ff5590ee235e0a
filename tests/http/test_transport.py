"""HTTP over real sockets: what is sent, what comes back, and what ends it."""

from __future__ import annotations

import gzip
import inspect
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
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
GZIP = {"Content-Encoding": "gzip"}


class Wire:
    """A transport, and the service that it asks."""

    def __init__(self, transport: Transport, service: FakeService) -> None:
        self.transport = transport
        self.service = service

    def send(
        self, path: str = "/v1/x", body: bytes = b"{}", limits: Cancellation | None = None
    ) -> ProviderReply:
        return self.transport.send(request(self.service, path, body), limits or Cancellation())

    def answer(self) -> EventStream | ProviderReply:
        return self.transport.stream(request(self.service), Cancellation())

    def stream(self, limits: Cancellation | None = None) -> EventStream:
        events = self.transport.stream(request(self.service), limits or Cancellation())
        assert isinstance(events, EventStream)
        return events

    def cancel_amid_a_stream(self) -> None:
        """From another thread than the one that has read an event, and waits for more."""
        limits = Cancellation()
        events = self.stream(limits)
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
        self.service.wait_until_closed()


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService([json_reply({"ok": True})]) as service:
        yield service


@pytest.fixture
def wire(service: FakeService) -> Iterator[Wire]:
    with closing(Transport(connect_timeout=5, timeout=60, proxy="")) as transport:
        yield Wire(transport, service)


def request(service: FakeService, path: str = "/v1/x", body: bytes = b"{}") -> HttpRequest:
    headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
    return HttpRequest("POST", service.url + path, headers, body)


def get(url: str, **options: Any) -> ProviderReply:
    """Ask with a transport of its own."""
    with closing(Transport(**options)) as transport:
        return transport.send(HttpRequest("GET", url), Cancellation())


class TestSending:
    def test_a_request_goes_out_as_it_is(self, wire: Wire) -> None:
        received = wire.send("/v1/x?a=b", b'{"a":1}')
        assert (received.status, received.body) == (200, b'{"ok": true}')
        (sent,) = wire.service.requests
        assert (sent.method, sent.path, sent.body) == ("POST", "/v1/x?a=b", b'{"a":1}')
        assert sent.headers["authorization"] == f"Bearer {SECRET}"
        assert set(sent.headers) == {
            "accept-encoding", "authorization", "content-length", "content-type", "host",
            "user-agent",
        }  # fmt: skip

    def test_connections_are_used_again(self, wire: Wire) -> None:
        for _ in range(5):
            wire.send()
        wire.service.replies = [sse_reply([b"a", b"b"])]
        for _ in range(3):
            assert len(list(wire.stream())) == 2
        assert wire.service.connections == 1

    def test_a_kept_connection_that_is_closed_is_no_failure(self, wire: Wire) -> None:
        """Some services close, a little after their reply, what they said they keep."""
        wire.service.replies = [json_reply(1), Reply([CUT]), json_reply(3)]
        assert (wire.send().body, wire.send().body) == (b"1", b"3")
        assert (wire.service.connections, len(wire.service.requests)) == (2, 3)

    def test_a_kept_connection_that_breaks_amid_a_reply_is_one(self, wire: Wire) -> None:
        wire.service.replies = [json_reply(1), Reply([b"HTTP/1.1 200", CUT]), json_reply(3)]
        assert wire.send().body == b"1"
        with pytest.raises(ServiceUnavailable):
            wire.send()
        assert len(wire.service.requests) == 2

    def test_a_new_connection_that_is_closed_is_one(self, wire: Wire) -> None:
        wire.service.replies = [Reply([CUT]), json_reply(2)]
        with pytest.raises(ServiceUnavailable, match="closed the connection"):
            wire.send()
        assert len(wire.service.requests) == 1

    @pytest.mark.parametrize(
        "headers", [{"X-A": "a\r\nX-B: b"}, {"X-A": "a\nb"}, {"X-A\0": "b"}, {"X-A": "\u20ac"}]
    )
    def test_no_header_holds_another(self, wire: Wire, headers: dict[str, str]) -> None:
        with pytest.raises(ConfigurationError, match="header"):
            wire.transport.send(HttpRequest("GET", wire.service.url, headers), Cancellation())
        assert not wire.service.requests

    def test_a_failure_is_a_reply(self, wire: Wire) -> None:
        wire.service.replies = [json_reply({"error": "x"}, 429, {"Retry-After": "7"})]
        for received in (wire.send(), wire.answer()):
            assert isinstance(received, ProviderReply)
            assert (received.status, received.body) == (429, b'{"error": "x"}')
            assert received.headers["retry-after"] == "7"

    @pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
    def test_a_large_body_is_sent_whole(self, wire: Wire, size: int) -> None:
        with Cancellation() as limits:
            timer = threading.Timer(20, limits.cancel)
            timer.start()
            try:
                wire.send(body=b"x" * size, limits=limits)
            finally:
                timer.cancel()
        assert len(wire.service.requests[0].body) == size

    def test_no_redirect_is_followed(self, wire: Wire) -> None:
        with FakeService([json_reply({})]) as elsewhere:
            wire.service.replies = [reply(b"", 307, {"Location": elsewhere.url})]
            with pytest.raises(ServiceUnavailable, match="redirects") as caught:
                wire.send()
            assert caught.value.status == 307
            assert not elsewhere.requests

    def test_netrc_is_not_read(
        self, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password other\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        wire.send()
        assert wire.service.requests[0].headers["authorization"] == f"Bearer {SECRET}"

    @pytest.mark.parametrize("url", ["http://", "http://[::1", "http://a:b/"])
    def test_an_address_that_is_none(self, url: str) -> None:
        for proxy in ("", None):
            with pytest.raises(ConfigurationError, match="the URL is invalid"):
                get(url, proxy=proxy)

    def test_closing_closes_what_nobody_uses(self, wire: Wire) -> None:
        wire.send()
        pools = [address.pool for address in wire.transport._addresses.values()]
        wire.transport.close()
        wire.service.wait_until_closed()
        assert pools  # whoever still holds them
        assert wire.send().status == 200  # with new pools

    def test_refused_connection_is_unavailable(self, wire: Wire) -> None:
        wire.service.stop()
        with pytest.raises(ServiceUnavailable, match=str(wire.service.port)) as caught:
            wire.send()
        assert "Connection refused" in str(caught.value)
        assert SECRET not in repr(caught.value.__cause__)

    def test_the_repr_of_a_request_shows_no_key(self, service: FakeService) -> None:
        assert SECRET not in repr(request(service, body=SECRET.encode()))


@pytest.mark.usefixtures("no_proxies")
class TestProxies:
    def test_named_by_variable(self, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", service.url)
        get("http://service.invalid/x")
        assert service.requests[0].path == "http://service.invalid/x"

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_item_7_none_of_the_environment_is_asked_for_this_machine(
        self, service: FakeService, monkeypatch: pytest.MonkeyPatch, host: str
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        get(f"{service.url.replace('127.0.0.1', host)}/x")
        assert service.requests[0].path == "/x"

    @pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
    def test_item_7_asked_for_others(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        with Tunnel(refuses=403) as tunnel:
            monkeypatch.setenv(name, tunnel.url)
            with pytest.raises(ServiceUnavailable, match="the proxy"):
                get("https://service.invalid/x")
        assert tunnel.heads[0].startswith("CONNECT service.invalid:443 ")

    def test_one_can_be_named_and_its_password_is_its_own(self, service: FakeService) -> None:
        get("http://service.invalid/x", proxy=service.url.replace("://", "://me:pass@"))
        assert service.requests[0].headers["proxy-authorization"].startswith("Basic ")

    @pytest.mark.parametrize("scheme", ["http", "https"])
    @pytest.mark.parametrize(("proxy", "message"), [
        ("socks5://me:pass@127.0.0.1:9", "the proxy socks5://127.0.0.1:9 is a SOCKS proxy"),
        ("socks5h://127.0.0.1", "the proxy socks5h://127.0.0.1 is a SOCKS proxy"),
        ("ftp://127.0.0.1:9", "the proxy ftp://127.0.0.1:9 is not an HTTP proxy"),
        ("http://", "the URL of the proxy is not valid"),
        ("http://me:pass@[::1", "the URL of the proxy is not valid"),
        ("http://me:pass@host:port", "the URL of the proxy is not valid"),
        ("http://me:1/pass@host", "the URL of the proxy is not valid"),
    ])  # fmt: skip
    def test_one_that_cannot_be_used_is_not_told_as_the_address(
        self, monkeypatch: pytest.MonkeyPatch, scheme: str, proxy: str, message: str
    ) -> None:
        monkeypatch.setenv("ALL_PROXY", proxy)
        for address, where in ((proxy, "limits.proxy"), (None, "ALL_PROXY")):
            with pytest.raises(ConfigurationError) as caught:
                get(f"{scheme}://service.invalid/", proxy=address)
            assert caught.value.message.startswith(message)
            assert where in caught.value.hint
            assert "pass" not in caught.value.message + caught.value.hint

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_one_that_is_not_there_is_named(self, service: FakeService, scheme: str) -> None:
        service.stop()
        message = f"cannot connect to the proxy http://127.0.0.1:{service.port}: Connection refused"
        with pytest.raises(ServiceUnavailable, match=message) as caught:
            get(f"{scheme}://service.invalid/", proxy=f"http://me:pass@127.0.0.1:{service.port}")
        assert "limits.proxy" in caught.value.hint
        assert caught.value.status is None

    def test_one_that_wants_a_password_is_named(self, service: FakeService) -> None:
        service.replies = [reply(b"<title>Proxy</title>", 407)]
        with pytest.raises(
            ServiceUnavailable, match="requires another user and password"
        ) as caught:
            get("http://service.invalid/", proxy=service.url)
        assert (caught.value.status, caught.value.retryable) == (407, False)
        assert "limits.proxy" in caught.value.hint

    def test_one_that_is_none_is_named(self, service: FakeService) -> None:
        service.replies = [Reply([b"SSH-2.0-OpenSSH_9.6\r\n"], keep=False)]
        with pytest.raises(ServiceUnavailable, match=f"the proxy {service.url} closed the"):
            get("https://service.invalid/", proxy=service.url)


class TestTrust:
    """Certificates: those of a known authority only, one that the user names included."""

    @pytest.fixture
    def authority(self) -> trustme.CA:
        return trustme.CA()

    @pytest.fixture
    def secure(self, authority: trustme.CA) -> Iterator[FakeService]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        with FakeService([json_reply({"ok": True})], tls=context) as service:
            yield service

    @pytest.fixture
    def ca_file(self, authority: trustme.CA, tmp_path: Path) -> str:
        file = str(tmp_path / "ca.pem")
        authority.cert_pem.write_to_path(file)
        return file

    @pytest.fixture
    def trusting(self, ca_file: str, secure: FakeService) -> Iterator[Wire]:
        with closing(Transport(proxy="", ca_file=ca_file)) as transport:
            yield Wire(transport, secure)

    def test_a_stranger_is_not_trusted(self, wire: Wire, secure: FakeService) -> None:
        with pytest.raises(ConfigurationError, match="cannot verify the certificate") as caught:
            wire.transport.send(request(secure), Cancellation())
        assert "ca_file" in caught.value.hint
        assert not secure.requests

    def test_an_authority_can_be_named(self, trusting: Wire) -> None:
        for _ in range(3):
            assert trusting.send().body == b'{"ok": true}'
        assert trusting.service.connections == 1

    def test_a_proxy_tunnels_and_sees_no_key(self, secure: FakeService, ca_file: str) -> None:
        with Tunnel() as tunnel:
            with closing(Transport(proxy=tunnel.url, ca_file=ca_file)) as transport:
                for _ in range(2):
                    assert Wire(transport, secure).send().body == b'{"ok": true}'
            (connect,) = tunnel.heads
        assert connect.startswith(f"CONNECT localhost:{secure.port} ")
        assert "Proxy-Authorization: Basic " in connect
        assert SECRET not in connect
        assert "proxy-authorization" not in secure.requests[0].headers

    @pytest.mark.parametrize("status", [407, 502])
    def test_a_proxy_that_refuses_is_named(self, secure: FakeService, status: int) -> None:
        with (
            Tunnel(refuses=status) as tunnel,
            pytest.raises(ServiceUnavailable, match="the proxy http://127") as caught,
        ):
            get(secure.url, proxy=tunnel.url)
        assert str(status) in caught.value.message
        assert caught.value.retryable is (status != 407)
        assert "me:" not in caught.value.message + caught.value.hint
        assert not secure.requests

    def test_a_certificate_behind_a_proxy_is_not_its_fault(self, secure: FakeService) -> None:
        with (
            Tunnel() as tunnel,
            pytest.raises(ConfigurationError, match="certificate of https://localhost"),
        ):
            get(secure.url, proxy=tunnel.url)

    def test_the_name_must_be_the_certificates(self, secure: FakeService, ca_file: str) -> None:
        url = secure.url.replace("localhost", "127.0.0.1")
        with pytest.raises(ConfigurationError, match="cannot verify the certificate"):
            get(url, proxy="", ca_file=ca_file)

    def test_one_that_closes_amid_the_handshake_is_not_there(self, ca_file: str) -> None:
        def close() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)

        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
            server.settimeout(10)
            closed = pool.submit(close)
            with pytest.raises(ServiceUnavailable, match="closed the connection"):
                get(f"https://127.0.0.1:{server.getsockname()[1]}/", proxy="", ca_file=ca_file)
            closed.result()

    def test_a_file_that_is_none(self, secure: FakeService, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="ca_file"):
            get(secure.url, proxy="", ca_file=str(tmp_path / "none.pem"))

    def test_a_stream_can_be_cancelled(self, trusting: Wire) -> None:
        trusting.service.replies = [sse_reply([b"one", HANG])]
        trusting.cancel_amid_a_stream()


class TestReading:
    def test_a_compressed_reply_is_unpacked(self, wire: Wire) -> None:
        wire.service.replies = [reply(gzip.compress(b"hello"), headers=GZIP)]
        assert wire.send().body == b"hello"

    def test_a_bomb_or_what_is_not_compressed_is_malformed(self, wire: Wire) -> None:
        bomb = gzip.compress(bytes(200 << 20), 9)
        for body, says in ((bomb, "longer than"), (b"not gzip", "compressed")):
            wire.service.replies = [reply(body, headers=GZIP)]
            with pytest.raises(MalformedReply, match=says):
                wire.send()

    @pytest.mark.parametrize("act", [CUT, RESET])
    @pytest.mark.parametrize("length", [0, 20, 90])
    def test_a_reply_that_is_cut_is_never_whole(self, wire: Wire, act: Any, length: int) -> None:
        data = reply(b"x" * 100).steps[0]
        assert isinstance(data, bytes)
        wire.service.replies = [Reply([data[:length] if length < 30 else data[:-10], act])]
        with pytest.raises((ServiceUnavailable, IncompleteReply)) as caught:
            wire.send()
        assert caught.value.retryable

    @pytest.mark.parametrize("act", [CUT, RESET])
    def test_a_stream_that_is_cut_gives_what_came(self, wire: Wire, act: Any) -> None:
        wire.service.replies = [sse_reply([b"one", HOLD, act])]
        events = iter(wire.stream())
        assert next(events).data == b"one"
        wire.service.let_go()
        with pytest.raises(IncompleteReply):
            next(events)

    @pytest.mark.parametrize(("status", "kind", "body"), [
        (200, "html", b"<html>"),
        (400, "event-stream", b"data: 1\n\n"),
        (503, "event-stream", b"data: 1\n\n"),
    ])  # fmt: skip
    def test_no_stream_comes_whole(self, wire: Wire, status: int, kind: str, body: bytes) -> None:
        wire.service.replies = [reply(body, status, {"Content-Type": f"text/{kind}"})]
        received = wire.answer()
        assert isinstance(received, ProviderReply)
        assert (received.status, received.body) == (status, body)

    def test_reply_length_is_limited(self, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("genai_host.http.transport._MAX_REPLY", 10)
        wire.service.replies = [reply(b"x" * 10), reply(b"x" * 11)]
        assert wire.send().body == b"x" * 10
        with pytest.raises(MalformedReply, match="longer than 10 bytes"):
            wire.send()

    @pytest.mark.parametrize(("rest", "body"), [
        (b"200 OK\r\n\r\nhello", b"hello"),
        (b"200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"204 No Content\r\n\r\n", b""),
    ])  # fmt: skip
    def test_a_reply_may_have_no_length(self, wire: Wire, rest: bytes, body: bytes) -> None:
        wire.service.replies = [Reply([b"HTTP/1.0 " + rest], keep=False)]
        assert wire.send().body == body

    def test_a_reply_without_a_length_has_a_body(self, wire: Wire) -> None:
        wire.service.replies = [Reply([b"HTTP/1.0 200 OK\r\n\r\n"], keep=False)]
        with pytest.raises(IncompleteReply, match="before its body"):
            wire.send()

    def test_lines_of_json_are_events(self, wire: Wire) -> None:
        blocks = [b'{"a":1}\n{"b"', b":2}\n"]
        wire.service.replies = [stream_reply(blocks, content_type="application/x-ndjson")]
        assert [event.data for event in wire.stream()] == [b'{"a":1}', b'{"b":2}']

    def test_endless_stream_is_stopped(self, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("genai_host.http.transport._MAX_STREAM", 1000)
        wire.service.replies = [sse_reply([b"x" * 300] * 10)]
        with pytest.raises(MalformedReply, match="longer than"):
            list(wire.stream())


class TestDeadlines:
    """Of the transport itself, where nobody else watches, or looks at the same moment."""

    @pytest.fixture
    def impatient(self, service: FakeService) -> Iterator[Wire]:
        with closing(Transport(timeout=0.05, proxy="")) as transport:
            yield Wire(transport, service)

    @pytest.mark.parametrize("steps", [[], [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"]])
    def test_a_reply_that_is_late_is_not_cut(self, impatient: Wire, steps: list[bytes]) -> None:
        """Else it would be tried again, for as long once more."""
        impatient.service.replies = [Reply([*steps, HANG])]
        with Cancellation() as limits, pytest.raises(ProviderTimeout) as caught:
            impatient.send(limits=limits)
        assert (caught.value.deadline, caught.value.retryable) == ("timeout", False)
        assert caught.value.message == "the reply took longer than 0.05 s"

    def test_nor_is_a_stream(self, impatient: Wire) -> None:
        impatient.service.replies = [sse_reply([b"1", HANG])]
        with Cancellation() as limits, pytest.raises(ProviderTimeout):
            list(impatient.stream(limits))

    def test_the_usual_ones_are_those_of_a_provider(self) -> None:
        usual, parameters = CallLimits(), inspect.signature(Transport).parameters
        for name in ("connect_timeout", "timeout"):
            assert parameters[name].default == getattr(usual, name)


class TestCancelling:
    """From another thread, wherever the reply is: the caller ends, and the service sees
    the connection closed."""

    @pytest.mark.parametrize("sent", [
        pytest.param(b"", id="awaiting headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="in headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", id="in the body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nh", id="chunk"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\nuntil the end", id="until closed"),
    ])  # fmt: skip
    def test_a_whole_reply(self, wire: Wire, sent: bytes) -> None:
        wire.service.replies = [Reply([sent, HANG] if sent else [HANG])]
        limits = Cancellation()
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(wire.send, limits=limits)
            wire.service.wait_for_requests(1)
            limits.cancel()
            with pytest.raises(Cancelled):
                pending.result(timeout=10)
        wire.service.wait_until_closed()

    @pytest.mark.parametrize("further", [b"", b"data: tw"], ids=["between events", "in an event"])
    def test_a_stream(self, wire: Wire, further: bytes) -> None:
        wire.service.replies = [stream_reply([b"data: one\n\n" + further, HANG])]
        wire.cancel_amid_a_stream()

    def test_before_there_is_a_connection(self, wire: Wire) -> None:
        limits = Cancellation()
        limits.cancel()
        with pytest.raises(Cancelled):
            wire.send(limits=limits)

    @pytest.mark.parametrize("is_read", [True, False])
    def test_a_stream_that_is_left_is_closed(self, wire: Wire, is_read: bool) -> None:
        wire.service.replies = [sse_reply([b"one", HANG])]
        if is_read:
            next(iter(wire.stream()))
        else:
            wire.stream().close()
        wire.service.wait_until_closed()

    def test_a_late_cancel_meets_nobody(self, wire: Wire) -> None:
        """The connection is another call's by then."""
        for _ in range(50):
            limits = Cancellation()
            wire.send(limits=limits)
            limits.cancel()
        assert wire.service.connections == 1

    def test_a_stream_that_is_closed_late_meets_nobody(self, wire: Wire) -> None:
        """All of it has come, so that its connection is another call's, but not all of its
        events were taken."""
        kind = {"Content-Type": "text/event-stream"}
        held = Reply([HOLD, *json_reply({}).steps], keep=True)
        wire.service.replies = [reply(b"data: one\n\ndata: two\n\n", headers=kind), held]
        events = wire.stream()
        pending = iter(events)
        assert next(pending).data == b"one"
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(wire.send)
            wire.service.wait_for_requests(2)
            events.close()
            wire.service.let_go()
            assert other.result(30).body == b"{}"
        assert next(pending).data == b"two"
        assert wire.service.connections == 1

    def test_calls_that_nobody_cancels_succeed(self, wire: Wire) -> None:
        """While others are cancelled at any moment, over the same few connections."""

        def call(number: int) -> None:
            limits = Cancellation()
            if number % 2:
                timer = threading.Timer((number % 17) / 4000, limits.cancel)
                timer.start()
            try:
                wire.send(limits=limits)
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


@pytest.mark.parametrize(("error", "kind", "message"), [
    (NameResolutionError("h", CONNECTION, socket.gaierror(-2, "unknown")), ServiceUnavailable,
     "cannot connect to http://h: unknown host name"),
    (REFUSED, ServiceUnavailable, "cannot connect to http://h: Connection refused"),
    (ConnectTimeoutError(), ProviderTimeout, "cannot connect to http://h within 2.5 s"),
    (UNVERIFIED, ConfigurationError,
     "cannot verify the certificate of http://h: self-signed certificate"),
    (ssl.SSLEOFError(8, "EOF occurred"), ServiceUnavailable,
     "http://h closed the connection: EOF occurred"),
    (ValueError("x"), ServiceUnavailable, "http://h closed the connection: ValueError"),
    (ProxyError("x", REFUSED), ServiceUnavailable,
     "cannot connect to the proxy http://p: Connection refused"),
    (ProxyError("x", OSError("Tunnel connection failed: 502 Bad Gateway")), ServiceUnavailable,
     "the proxy http://p refused to connect with status 502"),
    (ProxyError("x", OSError("Tunnel connection failed: 407 Authenticate")),
     ServiceUnavailable, "the proxy http://p requires another user and password (status 407)"),
])  # fmt: skip
def test_why_a_request_was_not_sent(error: Exception, kind: type[GenaiError], message: str) -> None:
    transport = Transport(connect_timeout=2.5, proxy="http://p")
    raised = transport._not_sent(error, "http://h", "http://p")
    assert type(raised) is kind
    assert raised.message == message
    assert ("limits.proxy" in raised.hint) == isinstance(error, ProxyError)
    if isinstance(raised, ProviderTimeout):
        assert (raised.deadline, raised.retryable) == ("connect_timeout", True)
    if isinstance(raised, ConfigurationError):
        assert "ca_file" in raised.hint


def test_a_proxy_of_an_unknown_name_is_a_proxy() -> None:
    raised = Transport()._refused_by_proxy("", 407)
    assert raised.message.startswith("a proxy requires")
    assert "HTTPS_PROXY" in raised.hint


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
    sent = HttpRequest(method, "http://host:81/path?query", {"X-A": "é"}, body)
    first, *lines, blank, rest = _head(sent, address, "gzip").decode("latin-1").split("\r\n")
    assert (first, blank, rest) == (f"{method} /path?query HTTP/1.1", "", "")
    assert lines == [
        "Host: host:81", f"User-Agent: genai-host/{__version__}", "Accept-Encoding: gzip", "X-A: é",
        *([f"Content-Length: {length}"] if length else []),
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\r\nb", "a\0b", "€"])
def test_a_header_has_valid_characters(value: str) -> None:
    address = Transport(proxy="")._address("http://host/")
    with pytest.raises(ConfigurationError, match="a header"):
        _head(HttpRequest("GET", "http://host/", {"X-A": value}), address, "gzip")


def test_addresses_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_host.http.transport._MAX_ADDRESSES", 2)
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

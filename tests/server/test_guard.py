"""Access policy: tokens, hosts and origins."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
import requests
from genai_server.access import AccessPolicy, FailedAttempts
from genai_server.heads import Head, Refused, read_head
from genai_server.settings import AccessLogEntry, ServerSettings
from hypothesis import given, strategies as st

from genai_host import Host
from genai_host.api import HttpRoute, RouteRequest, RouteResponse, Secret
from genai_host.errors import ConfigurationError
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

JSON = {"content-type": "application/json"}
NAVIGATES = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
TOKENS = {"": Secret("the-token-of-all"), "ann": Secret("the-token-of-ann")}


def head(
    method: str = "GET", path: str = "/x", headers: Mapping[str, str] | None = None, **more: Any
) -> Head:
    fields = {"host": "localhost:8642", **(headers or {})}
    return Head(
        method, path, {}, fields, "127.0.0.1", more.get("length", 0), more.get("tls", False)
    )


def refusal(settings: ServerSettings, request_head: Head) -> int:
    """Return the status; 200 if the request is admitted."""
    try:
        AccessPolicy(settings).admit(request_head)
    except Refused as refused:
        return refused.problem.status
    return 200


ASKED_HOSTS = {
    200: ["localhost", "localhost:8642", "LOCALHOST.:1", "127.0.0.1:8642", "127.9.9.9",
          "[::1]:8642", "mine.example:8642"],
    421: ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.1.4"],
    400: ["", ":80", "[::1]evil", "me@localhost", "localhost/x", "localhost:80:80",
          "localhost, evil.example"],
}  # fmt: skip


@pytest.mark.parametrize("status", ASKED_HOSTS)
def test_the_host_that_is_asked_for(status: int) -> None:
    settings = ServerSettings(allowed_hosts=["Mine.example"])
    for host in ASKED_HOSTS[status]:
        assert refusal(settings, head(headers={"host": host})) == status, host


def test_ip_hosts_are_accepted_on_wildcard_bind() -> None:
    settings = ServerSettings(bind="0.0.0.0", tokens=TOKENS)
    bearer = {"authorization": "Bearer the-token-of-all"}
    for host, status in {"192.168.1.4:8642": 200, "[fe80::1]": 200, "a.example": 421}.items():
        assert refusal(settings, head(headers={"host": host, **bearer})) == status
    anywhere = ServerSettings(bind="192.168.1.4", tokens=TOKENS, allowed_hosts=["*"])
    assert refusal(anywhere, head(headers={"host": "a.example", **bearer})) == 200


@pytest.mark.parametrize(("headers", "status"), [
    ({"origin": "http://localhost:8642"}, 200),
    ({"origin": "https://localhost:8642"}, 200),  # a proxy ended TLS
    ({"origin": "HTTPS://App.example"}, 200),
    ({"origin": "http://app.example"}, 403),
    ({"origin": "http://localhost:3000"}, 403),
    ({"origin": "http://127.0.0.1:8642"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "https://evil.example"}, 403),
    ({"sec-fetch-site": "same-origin"}, 200),
    ({"sec-fetch-site": "none"}, 200),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
    ({"sec-fetch-site": "cross-site", "origin": "https://app.example"}, 200),
    ({"sec-fetch-site": "cross-site", "origin": "http://localhost:8642"}, 403),
    ({**NAVIGATES, "sec-fetch-dest": "document"}, 200),
    ({**NAVIGATES, "sec-fetch-dest": "iframe"}, 403),
])  # fmt: skip
def test_the_origin_of_a_page(headers: dict[str, str], status: int) -> None:
    settings = ServerSettings(cors_origins=["https://app.example"])
    assert refusal(settings, head(headers=headers)) == status


def test_over_tls_a_page_of_http_is_another_origin() -> None:
    request_head = head(headers={"origin": "http://localhost:8642"}, tls=True)
    assert refusal(ServerSettings(), request_head) == 403


@pytest.mark.parametrize(("allowed", "origin", "status"), [
    ("app://obsidian.md", "app://obsidian.md", 200),
    ("app://obsidian.md", "app://other.md", 403),
    ("app://obsidian.md", "http://obsidian.md", 403),
    ("App://-", "app://-", 200),
    ("app://obsidian.md", "app://Obsidian.md", 200),
    ("vscode-webview://*", "vscode-webview://a_b", 200),
    ("chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnop", 200),
    ("tauri://localhost", "tauri://localhost", 200),
    ("capacitor://localhost", "capacitor://localhost", 200),
    ("vscode-webview://*", "vscode-webview://0a1b2c3d", 200),
    ("vscode-webview://*", "vscode-webview://", 403),
    ("vscode-webview://*", "https://evil.example", 403),
    ("http://localhost:*", "http://localhost:3000", 200),
    ("http://localhost:*", "http://localhost", 200),
    ("http://localhost:*", "https://localhost:3000", 403),
    ("http://localhost:*", "http://localhost.evil.example:3000", 403),
    ("http://localhost:*", "http://localhost:3000.evil.example", 403),
    ("http://localhost:*", "http://localhost:", 403),
    ("http://[::1]:*", "http://[::1]:3000", 200), ("http://a.example", "http://aXexample", 403),
    ("app://obsidian.md", "null", 403), ("app://obsidian.md", "file://", 403),
])  # fmt: skip
def test_origins_of_apps_and_of_any_port(allowed: str, origin: str, status: int) -> None:
    settings = ServerSettings(cors_origins=["https://app.example", allowed])
    request_head = head(headers={"origin": origin, "sec-fetch-site": "cross-site"})
    assert refusal(settings, request_head) == status
    headers = AccessPolicy(settings).cors(request_head)
    assert headers.get("access-control-allow-origin") == (origin if status == 200 else None)
    assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize(("headers", "user"), [
    ({"authorization": "Bearer the-token-of-all"}, ""),
    ({"authorization": "bearer  the-token-of-ann"}, "ann"),
    ({"x-api-key": "the-token-of-ann"}, "ann"),
    ({"x-goog-api-key": "the-token-of-ann"}, "ann"),
    ({"api-key": "the-token-of-ann"}, "ann"),
    ({"authorization": "Basic abc", "x-api-key": "the-token-of-ann"}, "ann"),
    ({}, None), ({"authorization": "the-token-of-all"}, None),
    ({"authorization": "Bearer the-token-of-al"}, None),
    ({"authorization": "Bearer "}, None), ({"x-api-key": "\xff"}, None),
    ({"x-api-key": "the-token-of-ann, the-token-of-ann"}, None),
])  # fmt: skip
def test_tokens(headers: dict[str, str], user: str | None) -> None:
    guard = AccessPolicy(ServerSettings(tokens=TOKENS))
    if user is not None:
        assert guard.admit(head(headers=headers)) == user
        return
    with pytest.raises(Refused) as refused:
        guard.admit(head(headers=headers))
    assert refused.value.problem.status == 401
    assert refused.value.problem.headers == {"www-authenticate": "Bearer"}


def test_all_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    real = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(1)
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    for token, status in [("the-token-of-all", 200), ("the-token-of-ann", 200), ("wrong", 401)]:
        compared.clear()
        request_head = head(headers={"x-api-key": token})
        assert refusal(ServerSettings(tokens=TOKENS), request_head) == status
        assert len(compared) == 2


class TestFailedAttempts:
    def test_each_further_one_doubles_the_delay_up_to_a_limit(self) -> None:
        failed = FailedAttempts(2.0)
        delays = [failed.attempt("10.0.0.1", None, 0) for _ in range(200)]
        assert delays[:11] == [0, 0, 0, 0, 0, 0.125, 0.25, 0.5, 1, 2, 2]
        assert delays[-1] == 2

    def test_a_right_token_waits_as_long_as_a_wrong_one(self) -> None:
        for count in range(20):
            wrong = self.after(count, "10.0.0.1").attempt("10.0.0.1", None, 0)
            assert self.after(count, "10.0.0.1").attempt("10.0.0.1", "ann", 0) == wrong

    def test_one_that_was_right_there_before_does_not_wait(self) -> None:
        failed = FailedAttempts(2.0)
        assert failed.attempt("10.0.0.1", "ann", 0) == 0
        for _ in range(9):
            failed.attempt("10.0.0.1", None, 0)
        assert failed.attempt("10.0.0.1", "ann", 0) == 0
        assert failed.attempt("10.0.0.1", "bob", 0) == 2
        assert failed.attempt("10.0.0.1", "bob", 0) == 2  # what is guessed is not remembered

    @pytest.mark.parametrize(("before", "now", "seconds", "is_delayed"), [
        ("10.0.0.1", "10.0.0.2", 0, False),
        ("10.0.0.1", "", 0, False),
        # a client has a whole network of version 6
        ("2001:db8::1", "2001:db8::ffff", 0, True),
        ("2001:db8::1", "2001:db8:0:1::1", 0, False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", 0, False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1", 0, True),
        # they are forgotten after a minute without one
        ("10.0.0.1", "10.0.0.1", 60, True),
        ("10.0.0.1", "10.0.0.1", 61, False),
    ])  # fmt: skip
    def test_who_is_delayed(self, before: str, now: str, seconds: int, is_delayed: bool) -> None:
        assert (self.after(6, before).attempt(now, "ann", seconds) > 0) is is_delayed

    def test_the_latest_10000_addresses_are_known(self) -> None:
        failed = self.after(6, "10.0.0.1")
        for number in range(10_000):
            failed.attempt(f"client-{number}", None, 0)
        assert failed.attempt("10.0.0.1", "ann", 0) == 0

    def test_they_are_logged_ever_more_rarely(self, caplog: pytest.LogCaptureFixture) -> None:
        self.after(100, "10.0.0.1")
        counts = [int(line.split(" ")[0]) for line in caplog.messages]
        assert counts == [5, 10, 20, 40, 80]
        assert "10.0.0.1" in caplog.text

    def after(self, count: int, client: str) -> FailedAttempts:
        failed = FailedAttempts(2.0)
        for _ in range(count):
            failed.attempt(client, None, 0)
        return failed


OPEN_TO_ALL = {
    200: ["GET /", "HEAD /page/assets/app.js", "GET /health", "GET /ready",
          "GET /page/assets/../../api/v1"],  # which is a path of its own, and not there
    401: ["GET /page/", "GET /pages", "GET /page/../api/v1", "POST /page/", "GET /v1/models",
          "GET /api/v1", "GET /health/x"],
}  # fmt: skip


@pytest.mark.parametrize("status", OPEN_TO_ALL)
def test_what_is_open_to_all(status: int) -> None:
    for request in OPEN_TO_ALL[status]:
        method, path = request.split()
        assert refusal(ServerSettings(tokens=TOKENS), head(method, path)) == status, request


MEDIA_TYPES = {
    200: ["application/json", "Application/JSON; charset=utf-8", "application/octet-stream"],
    415: ["text/plain", "text/plain; x=application/json", "application/x-www-form-urlencoded",
          "multipart/form-data; boundary=x", " TEXT/PLAIN ", "", "json"],
}  # fmt: skip


@pytest.mark.parametrize("status", MEDIA_TYPES)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_a_form_can_send_is_refused(method: str, status: int) -> None:
    for media_type, length in product(MEDIA_TYPES[status], (3, None)):
        request_head = head(method, headers={"content-type": media_type}, length=length)
        assert refusal(ServerSettings(), request_head) == status, media_type
    assert refusal(ServerSettings(), head(method, length=0)) == 200


@pytest.mark.parametrize(("headers", "status"), [
    ({}, 200),
    ({"origin": "http://localhost:8642"}, 415),
    ({"sec-fetch-site": "same-origin"}, 415),
    ({"sec-fetch-mode": "no-cors"}, 415),
    ({"content-encoding": "gzip"}, 415),
])  # fmt: skip
def test_clients_other_than_browsers_may_leave_the_media_type_out(
    headers: dict[str, str], status: int
) -> None:
    for length in (3, None):
        request_head = head("POST", headers=headers, length=length)
        assert refusal(ServerSettings(), request_head) == status


@given(
    st.dictionaries(st.sampled_from(["host", "origin", "authorization", "content-type"]), st.text())
)
def test_no_header_breaks_it(headers: dict[str, str]) -> None:
    pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    scope = {"method": "POST", "raw_path": b"/x", "query_string": b"", "headers": pairs}
    assert refusal(ServerSettings(tokens=TOKENS), read_head(scope, "")) in (400, 401, 403, 421)


@pytest.mark.part
class TestOverHttp:
    calls: list[str] = []

    @pytest.fixture
    def host(self, make_host: MakeHost, clock: ManualClock) -> Host:
        self.calls.clear()
        routes = [HttpRoute(method, "/x", f"{__name__}:called") for method in ("GET", "POST")]
        return make_host(mine=InlinePlugin(http_routes=routes), clock=clock)

    def test_nothing_runs_for_who_is_not_let_in(self, host: Host, client: requests.Session) -> None:
        """No reply or log contains a token. test_faults_access.py does so with every route."""
        good = {"authorization": "Bearer the-token-of-ann", **JSON}
        wrong: list[tuple[dict[str, Any], int]] = [
            ({"host": "evil.example"}, 421),
            ({"origin": "https://evil.example"}, 403),
            ({"authorization": "Bearer the-token-of-anne"}, 401),
            ({"content-type": None, "sec-fetch-site": "same-origin"}, 415),
            ({"content-encoding": "gzip"}, 415),
        ]
        entries: list[AccessLogEntry] = []
        with served(host, tokens=TOKENS, access_log=entries.append) as server:
            for change, status in wrong:
                headers = {**good, **change}
                reply = client.post(f"{server.url}/x?key=secret", b"{}", headers=headers)
                assert reply.status_code == status
                assert "token-of" not in reply.text
                assert "access-control-allow-origin" not in reply.headers
            assert self.calls == []
            for headers in (good, {**good, "content-type": None}):
                reply = client.post(f"{server.url}/x?key=secret", b"{}", headers=headers)
                assert reply.text == "ann"
        assert self.calls == ["ann"] * 2
        lines = list(map(str, entries))
        statuses = [*(status for _, status in wrong), 200, 200]
        assert [line.split(" ")[:3] for line in lines] == [["POST", "/x", f"{s}"] for s in statuses]
        assert "secret" not in str(lines)
        assert "token-of" not in str(lines)

    def test_tokens_wait_after_wrong_ones(
        self, host: Host, client: requests.Session, clock: ManualClock
    ) -> None:
        with ThreadPoolExecutor(1) as pool, served(host, tokens=TOKENS) as server:

            def status(path: str = "/x", **headers: str) -> int:
                return client.get(f"{server.url}{path}", headers=headers).status_code

            for _ in range(5):
                assert status(authorization="Bearer wrong") == 401
            late = [("wrong", 0.125, 401), ("wrong", 0.25, 401), ("the-token-of-ann", 0.5, 200)]
            for token, seconds, expected in late:
                delayed = pool.submit(status, authorization=f"Bearer {token}")
                clock.wait_for_alarm_in(seconds)
                assert not delayed.done()
                clock.advance(seconds)
                assert delayed.result(30) == expected
            assert status() == 401  # not an attempt
            assert status("/health", authorization="Bearer wrong") == 200

    def test_a_page_of_another_origin_that_may(self, host: Host, client: requests.Session) -> None:
        origin = {"origin": "https://app.example"}
        asks = {
            **origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "Authorization, content-type, x y,(",
        }
        with served(host, tokens=TOKENS, cors_origins=["https://app.example"]) as server:
            preflight = client.options(f"{server.url}/x", headers=asks)
            assert preflight.status_code == 204
            assert preflight.headers["access-control-allow-origin"] == "https://app.example"
            allowed = preflight.headers["access-control-allow-headers"]
            assert allowed == "authorization, content-type"
            refused = client.get(f"{server.url}/x", headers=origin)  # which its page may read
            assert refused.status_code == 401
            assert refused.headers["access-control-allow-origin"] == "https://app.example"
            assert refused.headers["access-control-expose-headers"] == "*"
            reply = client.get(f"{server.url}/x", headers={"x-api-key": "the-token-of-all"})
            assert (reply.status_code, reply.headers["vary"]) == (200, "origin")
            assert "access-control-allow-origin" not in reply.headers
            other = {**asks, "origin": "https://evil.example"}
            assert client.options(f"{server.url}/x", headers=other).status_code == 403
        assert self.calls == [""]


def called(request: RouteRequest, host: Host) -> RouteResponse:
    TestOverHttp.calls.append(request.user)
    return RouteResponse(request.user.encode())


WRONG_ORIGINS = [
    "app.example", "https://app.example/", "*", "null", "file://", "http://*", "a:b",
    "https://*:443", "*://a", "app://*.md", "app://", "file://*", "data://*", "javascript://*",
]  # fmt: skip


@pytest.mark.parametrize("settings", [
    *({"bind": each} for each in ("0.0.0.0", "::", "192.168.1.4", "my-machine")),
    *({"tokens": {"": Secret(each)}} for each in ("", "two words of a token", "fifteen-letters")),
    {"tokens": {"a": Secret("the-same-for-both"), "b": Secret("the-same-for-both")}},
    {"port": 70000}, {"allowed_hosts": ["a b"]}, {"allowed_hosts": ["a:80"]},
    *({"cors_origins": [each]} for each in WRONG_ORIGINS),
    {"root_path": "host"}, {"root_path": "/a/../b"}, {"max_concurrency": 0}, {"queue_size": -1},
    {"rate_limit": 0}, {"graceful_timeout": float("nan")}, {"guess_delay": -1},
    {"keyfile": "key.pem"},
], ids=str)  # fmt: skip
def test_settings_that_do_not_fit(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as error:
        ServerSettings(**settings)
    assert "same" not in str(error.value) or "two users" in str(error.value)


def test_files_are_taken_from_who_says_who_they_are() -> None:
    form = {"content-type": "multipart/form-data; boundary=x"}
    foreign = {"origin": "https://evil.example"}
    for more, status in [
        ({"authorization": "Bearer anything"}, 200),
        ({"authorization": "Bearer anything", **foreign}, 403),
        ({"x-api-key": "anything"}, 200),
        ({"x-api-key": "anything", **foreign}, 403),
        ({}, 415),
    ]:
        request_head = head("POST", "/v1/files", {**form, **more}, length=9)
        assert refusal(ServerSettings(), request_head) == status, more


@pytest.mark.parametrize(("headers", "path", "message"), [
    ([(b"bad name", b"1")], b"/x", "invalid header name"),
    ([(b"host", b"a"), (b"host", b"b")], b"/x", "duplicate header host"),
    ([(b"content-length", b"2"), (b"transfer-encoding", b"chunked")], b"/x",
     "content-length and transfer-encoding cannot be combined"),
    ([(b"content-length", b"+2")], b"/x", "content-length is not a number"),
    ([], b"x", "the path must begin with /"),
])  # fmt: skip
def test_heads_that_a_parser_may_accept_are_refused(headers: Any, path: Any, message: str) -> None:
    scope = {"method": "POST", "raw_path": path, "query_string": b"", "headers": headers}
    with pytest.raises(Refused, match=f"^{message}$") as caught:
        read_head(scope, "")
    assert caught.value.problem.status == 400


def test_repeated_headers_are_joined() -> None:
    pairs = [(b"accept", b"a/b "), (b"cookie", b"a=1"), (b"accept", b"c/d"), (b"cookie", b"b=2")]
    scope = {"method": "GET", "path": "/x", "query_string": b"", "headers": pairs}
    assert read_head(scope, "").headers == {"accept": "a/b, c/d", "cookie": "a=1; b=2"}

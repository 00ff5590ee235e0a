"""Downloads have bounds, and take nothing along that is not theirs."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from genai_tools_pages.addresses import Addresses, is_usable
from genai_tools_pages.download import MAX_LINK, MAX_REDIRECTS, Downloader, link_of
from genai_tools_pages.process import check_type

from genai_host.errors import BadRequest, ProviderTimeout, ServiceUnavailable, ValidationError
from genai_host_testing.services.page_site import PageSite, redirect, reply, wait_for_end

pytestmark = pytest.mark.part

MAX = 100_000


@pytest.fixture
def site() -> Iterator[PageSite]:
    with PageSite({"/": reply("<p>hello</p>")}) as site:
        yield site


def data(link: str, addresses: Addresses | None = None, seconds: float = 20) -> bytes:
    downloader = Downloader(addresses or Addresses(is_usable), MAX, seconds)
    return downloader.body(link_of(link), check_type).data


class TestLinks:
    @pytest.mark.parametrize("link", [
        "", "page", "//example.org/", "file:///etc/passwd", "file://localhost/etc/passwd",
        "javascript:alert(1)", "data:text/html,<p>hello", "ftp://example.org/",
        "gopher://127.0.0.1:6379/_x", "view-source:http://example.org/", "http:///etc/passwd",
        "http:example.org", "http://user:word@example.org/", "http://user@example.org/",
        "http://example.org:0/", "http://example.org:65536/", "http://example.org\\@127.0.0.1/",
        "http://example.org/\r\nX-Header: 1", "http://exa mple.org/", "http://[::1/",
        "http://exa\u2044mple.org/", f"http://example.org/{'a' * MAX_LINK}",
    ])  # fmt: skip
    def test_one_that_leads_to_no_page_is_refused(self, link: str) -> None:
        with pytest.raises(ValidationError) as caught:
            link_of(link)
        assert "\n" not in caught.value.message
        assert "word" not in caught.value.message.replace("password", "")

    @pytest.mark.parametrize(("link", "address"), [
        (" HTTP://Example.ORG ", "http://example.org/"),
        ("https://example.org:443/a#b", "https://example.org/a"),
        ("http://example.org:8080?a=b", "http://example.org:8080/?a=b"),
        ("http://bücher.example/ä ö", "http://xn--bcher-kva.example/%C3%A4%20%C3%B6"),
        ("http://[2606:2800:21F::1]:81/", "http://[2606:2800:21f::1]:81/"),
    ])  # fmt: skip
    def test_one_to_a_page_is_taken_as_it_is_sent(self, link: str, address: str) -> None:
        assert link_of(link).address == address


class TestWhatIsSent:
    def test_nothing_of_the_user_is(
        self, site: PageSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password word\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
        site.answers["/"] = reply("one", headers={"Set-Cookie": "a=b", "Refresh": "0; url=/no"})
        site.answers["/there"] = redirect("/").replace(b"Location", b"Set-Cookie: c=d\r\nLocation")
        assert data(site.link("/there?a=b")[: -len("?a=b")]) == b"one"
        names = [line.partition(":")[0] for line in site.heads[1].split("\r\n")[1:] if line]
        assert sorted(names) == ["Accept", "Accept-Encoding", "Host", "User-Agent"]

    def test_no_line_can_be_added(self, site: PageSite) -> None:
        site.answers["/there"] = redirect("/%0d%0aX-Header:%201")
        with pytest.raises(BadRequest):
            data(site.link("/there"))
        assert all("\r\nX-Header" not in head for head in site.heads)


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_they_are_followed(self, site: PageSite, status: int) -> None:
        site.answers["/a/there"] = redirect("../", status)
        assert data(site.link("/a/there")) == b"<p>hello</p>"

    def test_they_are_followed_a_few_times(self, site: PageSite) -> None:
        for number in range(MAX_REDIRECTS):
            site.answers[f"/{number}"] = redirect(f"/{number - 1}" if number else "/")
        assert data(site.link(f"/{MAX_REDIRECTS - 1}")) == b"<p>hello</p>"
        site.answers["/"] = redirect("/")
        site.heads.clear()
        with pytest.raises(ValidationError, match="redirects more than 5 times"):
            data(site.link("/"))
        assert len(site.heads) == MAX_REDIRECTS + 1

    @pytest.mark.parametrize("to", [
        "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "ftp://127.0.0.1/",
        "http://u:p@127.0.0.1/", "http://[", "", "\\\\127.0.0.1\\share",
    ])  # fmt: skip
    def test_nor_to_what_is_no_page(self, site: PageSite, to: str) -> None:
        site.answers["/there"] = redirect(to)
        with pytest.raises(ValidationError, match="redirects"):
            data(site.link("/there"))

    def test_their_letters_may_be_of_any_language(self, site: PageSite) -> None:
        site.answers["/there"] = redirect("/ä").decode().encode()
        site.answers["/%C3%A4"] = reply("umlaut")
        assert data(site.link("/there")) == b"umlaut"


class TestStatus:
    @pytest.mark.parametrize(("status", "kind", "message"), [
        (302, BadRequest, "status 302"),  # without a place
        (404, BadRequest, "page not found"), (403, BadRequest, "the page is not public"),
        (401, BadRequest, "the page is not public"), (418, BadRequest, "status 418"),
        (429, ServiceUnavailable, "status 429"), (503, ServiceUnavailable, "status 503"),
    ])  # fmt: skip
    def test_it_is_named(
        self, site: PageSite, status: int, kind: type[Exception], message: str
    ) -> None:
        site.answers["/x?key=secret"] = reply("a page that says so", status=status)
        with pytest.raises(kind, match=message) as caught:
            data(site.link("/x?key=secret"))
        assert f"127.0.0.1:{site.port} responded with status {status}" in str(caught.value)
        assert "secret" not in str(caught.value)


class TestBounds:
    def test_a_body_without_an_end_is_left_at_the_bound(self, site: PageSite) -> None:
        """A gigabyte, of which the site can send as much as was read, and what lies between."""
        sent, gone = [0], threading.Event()

        def send(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
            try:
                for _ in range(2**14):
                    connection.sendall(b"a" * 2**16)
                    sent[0] += 2**16
            except OSError:
                gone.set()

        site.answers["/"] = send
        with pytest.raises(ValidationError, match="is larger than"):
            data(site.link())
        assert gone.wait(30)
        assert sent[0] < 2**26

    @pytest.mark.parametrize("rounds", [1, 2])
    def test_decompressed_size_is_bounded(self, site: PageSite, rounds: int) -> None:
        bomb = b"\0" * 2**27
        for _ in range(rounds):
            bomb = gzip.compress(bomb)
        encoding = ", ".join(["gzip"] * rounds)
        site.answers["/"] = reply(bomb, headers={"Content-Encoding": encoding})
        with pytest.raises(ValidationError, match="is larger than"):
            data(site.link())

    def test_what_is_compressed_is_read(self, site: PageSite) -> None:
        packed = gzip.compress(b"a" * MAX)
        site.answers["/"] = reply(packed, headers={"Content-Encoding": "gzip"})
        assert data(site.link()) == b"a" * MAX

    @pytest.mark.parametrize(("encoding", "message"), [
        *[(each, None) for each in ("br", "zstd", "gzip, br", ", ".join(["gzip"] * 50))],
        ("gzip", "cannot decompress"),
    ])  # fmt: skip
    def test_what_was_not_asked_for_or_is_not_as_it_says_is_refused(
        self, site: PageSite, encoding: str, message: str | None
    ) -> None:
        site.answers["/"] = reply(b"no gzip", headers={"Content-Encoding": encoding})
        with pytest.raises(ValidationError, match=message):
            data(site.link())

    @pytest.mark.parametrize("head", [
        b"X: " + b"a" * 2**20,
        b"\r\n".join(b"X-%d: 1" % number for number in range(1000)),
        b"Content-Length: -5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Content-Length: 100\r\n\r\nshort",
    ], ids=["long", "many", "chunks", "short"])  # fmt: skip
    def test_headers_have_bounds_and_a_body_its_end(self, site: PageSite, head: bytes) -> None:
        site.answers["/"] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + head + b"\r\n\r\n"
        with pytest.raises(ServiceUnavailable):
            data(site.link())

    @pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n", b"\0" * 100, b"<p>0.9</p>"])
    def test_non_http_server_is_reported(self, site: PageSite, answer: bytes) -> None:
        site.answers["/"] = answer
        with pytest.raises(ServiceUnavailable, match="does not use HTTP"):
            data(site.link())

    def test_one_that_does_not_answer_is_given_up(self, site: PageSite) -> None:
        site.answers["/"] = wait_for_end
        with pytest.raises(ProviderTimeout, match="did not respond"):
            data(site.link(), seconds=0.05)


class TestHttps:
    NAME = "pages.example"

    @pytest.fixture
    def authority(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        return authority

    @pytest.fixture
    def addresses(self) -> Addresses:
        return Addresses(is_usable, lambda host, port: ["127.0.0.1"])

    def site(self, authority: trustme.CA, *names: str) -> PageSite:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        self.asked_for: list[str | None] = []
        context.sni_callback = lambda _, name, __: self.asked_for.append(name)
        return PageSite({"/": reply("hello")}, context)

    def test_a_page_is_read_by_its_name(self, authority: trustme.CA, addresses: Addresses) -> None:
        with self.site(authority, self.NAME) as site:
            assert data(site.link("/", self.NAME), addresses) == b"hello"
        assert self.asked_for == [self.NAME]
        assert f"Host: {self.NAME}:{site.port}\r\n" in site.heads[0]

    def test_or_by_its_address(self, authority: trustme.CA, addresses: Addresses) -> None:
        with self.site(authority, "127.0.0.1") as site:
            assert data(site.link("/")) == b"hello"

    @pytest.mark.parametrize("name", ["other.example", "127.0.0.1", "*.pages.example", NAME])
    def test_a_certificate_of_another_name_or_an_unknown_authority_is_refused(
        self, authority: trustme.CA, addresses: Addresses, name: str
    ) -> None:
        authority = trustme.CA() if name == self.NAME else authority
        with (
            self.site(authority, name) as site,
            pytest.raises(ServiceUnavailable, match=r"pages\.example:\d+: TLS error"),
        ):
            data(site.link("/", self.NAME), addresses)
        assert not site.heads

"""Attachments: files and addresses as parts of a message, and what is refused."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import socket
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import define, field

from genai_host.api import File, Image, Part, Text
from genai_host.errors import ConfigurationError, GenaiError, ServiceUnavailable
from genai_host.prompts import attachments
from genai_host.prompts.attachments import attachment, part_of
from genai_host.util import files
from genai_host.util.files import MAX_BYTES
from genai_host_testing.fake_service import HANG, FakeService, Reply

pytestmark = [pytest.mark.part, pytest.mark.usefixtures("no_proxies")]

PNG = b"\x89PNG\r\n\x1a\n-and-more"
JPEG = b"\xff\xd8\xff\xe0-and-more"
WEBP = b"RIFF\x10\0\0\0WEBPVP8 \xff"
PDF = b"%PDF-1.7 text"
WAV = b"RIFF\x10\0\0\0WAVE\xff"
MP4 = b"\0\0\0\x18ftyp"


@define
class Web:
    """A web server of this test: what it answers, what it was asked, and whether what
    it sent was taken."""

    address: str = ""
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(factory=list)
    sent: queue.Queue[bool] = field(factory=queue.Queue)

    def page(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (status, {"Content-Length": str(len(body)), **named}, body)
        return self.address + path


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            status, headers, body = web.pages.get(self.path, (404, {"Content-Length": "0"}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
                web.sent.put(True)
            except ConnectionError:
                web.sent.put(False)

        def log_message(self, *_: Any) -> None:
            """It goes without saying."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        web.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield web
        server.shutdown()
        thread.join()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MAX_BYTES", 1_000)


@pytest.mark.parametrize(("name", "data", "part"), [
    ("a.txt", b"hi", Text("a.txt:\n\nhi")),
    ("a.py", "é = 1\n".encode(), Text("a.py:\n\né = 1\n")),
    ("Makefile", b"all:", Text("Makefile:\n\nall:")),
    ("empty.txt", b"", Text("empty.txt:\n\n")),
    ("bom.txt", b"\xef\xbb\xbfhi", Text("bom.txt:\n\nhi")),
    ("a.svg", b"<svg/>", Text("a.svg:\n\n<svg/>")),
    ("a.png", PNG, Image(PNG, "image/png")),
    ("a.jpg", JPEG, Image(JPEG, "image/jpeg")),
    ("a.gif", b"GIF89a\0", Image(b"GIF89a\0", "image/gif")),
    ("a.webp", WEBP, Image(WEBP, "image/webp")),
    ("picture", PNG, Image(PNG, "image/png")),
    ("photo", WEBP, Image(WEBP, "image/webp")),
    ("picture.txt", JPEG, Image(JPEG, "image/jpeg")),
    ("picture.png", JPEG, Image(JPEG, "image/jpeg")),
    ("a.pdf", PDF, File(PDF, "application/pdf", "a.pdf")),
    ("paper", PDF, File(PDF, "application/pdf", "paper")),
    ("sound", WAV, File(WAV, "audio/wav", "sound")),
    ("sound.mp3", WAV, File(WAV, "audio/mpeg", "sound.mp3")),
    ("song", b"ID3\x04\xff", File(b"ID3\x04\xff", "audio/mpeg", "song")),
    ("ID3", b"ID3 is a tag", Text("ID3:\n\nID3 is a tag")),
    ("film", MP4 + b"isom\xff", File(MP4 + b"isom\xff", "video/mp4", "film")),
    ("still", MP4 + b"avif\xff", Image(MP4 + b"avif\xff", "image/avif")),
    ("clip", b"\x1a\x45\xdf\xa3\0", File(b"\x1a\x45\xdf\xa3\0", "video/webm", "clip")),
    ("archive", b"PK\x03\x04\xff", File(b"PK\x03\x04\xff", "application/zip", "archive")),
    ("noise", b"\xfe\xfb", File(b"\xfe\xfb", "application/octet-stream", "noise")),
    ("a.zip", b"PK\x03\x04\xff", File(b"PK\x03\x04\xff", "application/zip", "a.zip")),
    ("latin", b"caf\xe9", File(b"caf\xe9", "application/octet-stream", "latin")),
    ("latin.txt", b"caf\xe9", Text("latin.txt:\n\ncafé")),
    ("wide.txt", "café".encode("utf-16"), Text("wide.txt:\n\ncafé")),
    ("wide", "café".encode("utf-16"), Text("wide:\n\ncafé")),
    ("unmarked.txt", "Grüße".encode("utf-16-le"), Text("unmarked.txt:\n\nGrüße")),
    ("null.txt", b"a\0b", File(b"a\0b", "text/plain", "null.txt")),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_a_file_becomes_what_it_holds(tmp_path: Path, name: str, data: bytes, part: Part) -> None:
    (tmp_path / name).write_bytes(data)
    assert attachment(tmp_path / name) == part
    assert attachment(str(tmp_path / name)) == part


@pytest.mark.parametrize(("data", "name", "media_type", "part"), [
    (b"hi", "", "", Text("hi")),
    (b"hi", "", "text/html; charset=utf-8", Text("hi")),
    ("日本語".encode("shift_jis"), "", "text/plain; charset=shift_jis", Text("日本語")),
    (b"\xef\xbb\xbfhi", "", "text/plain; charset=utf-8", Text("hi")),
    ("日本語".encode(), "", "text/plain; charset=no-such", Text("日本語")),
    ("日本語".encode(), "", "text/plain; charset=shift_jis", Text("日本語")),
    ("für €".encode(), "", "text/plain; charset=iso-8859-1", Text("für €")),
    ("für €".encode("cp1252"), "", "text/plain; charset=iso-8859-1", Text("für €")),
    (b"C:\\new", "", "text/plain; charset=unicode_escape", Text("C:\\new")),
    (b"\xff", "", "", File(b"\xff", "application/octet-stream")),
    (b"\xff", "x", "image/avif", Image(b"\xff", "image/avif")),
    (b"\xff", "x", " image/avif ; q=1", Image(b"\xff", "image/avif")),
    (b"\xff", "x.zip", "image/avif", File(b"\xff", "application/zip", "x.zip")),
    (PNG, "x.zip", "text/plain", Image(PNG, "image/png")),
    (b"hi", "x", "application/pdf", File(b"hi", "application/pdf", "x")),
    (b"<svg/>", "", "image/svg+xml", Text("<svg/>")),
])  # fmt: skip
def test_content_and_name_come_first(data: bytes, name: str, media_type: str, part: Part) -> None:
    assert part_of(data, name, media_type) == part


def test_what_is_given_twice_is_sent_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("hi")
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("hi")
    (tmp_path / "b.txt").write_text("hi")
    read = []

    def read_file(name: str) -> bytes:
        read.append(name)
        return Path(name).read_bytes()

    monkeypatch.setattr(attachments, "read_file", read_file)
    names = ["b.txt", "a.txt", "./a.txt", "link.txt", str(tmp_path / "a.txt"), "sub/a.txt"]
    assert attachments.attachments(names) == [Text("b.txt:\n\nhi"), Text("a.txt:\n\nhi")]
    assert read == ["b.txt", "a.txt", "sub/a.txt"]


def test_of_what_is_missing_the_first_is_told() -> None:
    with pytest.raises(ConfigurationError, match="no-1"):
        attachments.attachments(["no-1", "nul\0", "no-2"])


def test_a_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("hi")
    assert attachment("~/a.txt") == Text("a.txt:\n\nhi")


@pytest.mark.parametrize("name", [
    "missing.txt", ".", "a.txt/b", "x" * 5_000, "nul\0.txt", "//[bad", "[bad]",
    "~nobody-of-that-name/a.txt",
], ids=lambda name: repr(name[:12]))  # fmt: skip
def test_what_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("hi")
    with pytest.raises(ConfigurationError) as caught:
        attachment(name)
    assert caught.value.message.startswith(f"cannot read {name!r}")
    assert caught.value.file == name


def test_a_device_may_have_no_end() -> None:
    with pytest.raises(ConfigurationError, match="/dev/zero is larger than 20 MiB"):
        attachment("/dev/zero")


@pytest.mark.parametrize("name", ["empty.png", "empty.pdf"])
def test_an_empty_picture_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(GenaiError, match=name):
        attachment(tmp_path / name)


def test_a_file_may_have_20_mib_and_no_more(tmp_path: Path) -> None:
    assert MAX_BYTES == 20 * 1024 * 1024
    file = tmp_path / "large.bin"
    with file.open("wb") as stream:
        stream.truncate(MAX_BYTES)
    part = attachment(file)
    assert isinstance(part, File)
    assert len(part.data) == MAX_BYTES
    os.truncate(file, MAX_BYTES + 1)
    with pytest.raises(ConfigurationError, match=r"large\.bin is larger than 20 MiB"):
        attachment(file)


def test_a_pipe_without_a_writer_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_WRITER_SECONDS", 0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    before = set(threading.enumerate())
    with pytest.raises(ConfigurationError, match=r"cannot read '.*/pipe': no process writes to"):
        attachment(pipe)
    assert set(threading.enumerate()) == before


def test_a_named_pipe_is_read_when_it_has_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.write_bytes, args=[b"text"])
    thread.start()
    assert attachment(pipe) == Text("pipe:\n\ntext")
    thread.join()


def test_the_pipe_of_another_command_is_read_after_its_end() -> None:
    """A shell passes `<(command)` as the descriptor of a pipe."""
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    assert attachment(f"/dev/fd/{reader}") == Text(f"{reader}:\n\ntext")
    os.close(reader)


@pytest.mark.usefixtures("small")
def test_a_pipe_may_have_no_more_either(tmp_path: Path) -> None:
    """Its size is not known before, as with `/dev/zero`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def feed() -> None:
        with contextlib.suppress(BrokenPipeError), pipe.open("wb", buffering=0) as stream:
            stream.write(b"x" * 5_000)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        with pytest.raises(ConfigurationError):
            attachment(pipe)
    finally:
        os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # lets go of a feed nobody reads
        thread.join()


def test_an_address_is_fetched_now(web: Web) -> None:
    text_headers = {"Content_Type": "text/plain; charset=utf-8"}
    pages: list[tuple[str, bytes, dict[str, str], Part]] = [
        ("/notes/a%20b.txt?x=1", b"hi", text_headers, Text("a b.txt:\n\nhi")),
        ("/", b"hi", text_headers, Text("hi")),
        ("/pic", PNG, text_headers, Image(PNG, "image/png")),
        ("/x", b"\xff", {"Content_Type": "image/avif"}, Image(b"\xff", "image/avif")),
        ("/none", b"\xff", {}, File(b"\xff", "application/octet-stream", "none")),
    ]
    for path, data, headers, part in pages:
        assert attachment(web.page(path, data, 200, **headers)) == part
    assert [path for path, _ in web.asked] == [path for path, *_ in pages]
    assert attachment(web.page("/a", b"hi").replace("http", "HTTP")) == Text("a:\n\nhi")


def test_a_redirect_is_followed(web: Web) -> None:
    web.page("/there.txt", b"hi")
    part = attachment(web.page("/here", b"", 302, Location="/there.txt"))
    assert isinstance(part, Text)
    assert part.text.endswith("hi")


@pytest.mark.parametrize("status", [404, 403, 500])
def test_a_status_of_failure_is_told(web: Web, status: int) -> None:
    address = web.page("/a.txt", b"no", status)
    with pytest.raises(ServiceUnavailable) as caught:
        attachment(address)
    assert caught.value.message.startswith(f"cannot fetch {address}")
    assert caught.value.status == status
    assert caught.value.retryable is (status == 500)


_SECRETS = ("user", "p@ss", "canary", "sig", "fragment")


@pytest.mark.parametrize(("source", "shown"), [
    ("a.txt", "a.txt"),
    ("what?sig=x@y.txt", "what?sig=x@y.txt"),
    ("https://example.org/a.txt", "https://example.org/a.txt"),
    ("https://example.org:8080/@a/b.txt?x=1#y", "https://example.org:8080/@a/b.txt"),
    ("https://user:p@ssw0rd@example.org/a@b", "https://example.org/a@b"),
    ("HTTP://user@[::1]:80/a", "http://[::1]:80/a"),
    # where the password breaks the address, nobody knows where it ends
    ("https://user:p/ss@example.org/a", "the address"),
    ("https://user:p@ss?@example.org/a", "the address"),
    ("https://user:p@ss#@example.org/a", "the address"),
    ("http://user:canary@[bad/a?sig=x", "the address"),
])  # fmt: skip
def test_an_address_is_shown_without_its_secrets(source: str, shown: str) -> None:
    assert attachments.shown(source) == shown


@pytest.mark.parametrize("status", [404, 200, 302])
@pytest.mark.usefixtures("small")
def test_no_secret_of_an_address_is_told(web: Web, status: int) -> None:
    """Whether it refuses, is too large or leads round in a circle."""
    target = "/a.txt?sig=canary"
    address = web.page(target, b"x" * 2_000, status, Location=target)
    with pytest.raises(GenaiError) as caught:
        attachment(address.replace("//", "//user:p@ss@") + "#fragment")
    assert "/a.txt" in caught.value.message
    assert not any(secret in _all_said(caught.value) for secret in _SECRETS)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://[bad", "http://127.0.0.1:x"])
def test_no_secret_of_an_address_that_cannot_be_asked_is_told(address: str) -> None:
    with pytest.raises(GenaiError, match="cannot fetch ") as caught:
        attachment(address.replace("//", "//user:p@ss@") + "/a.txt?sig=canary#fragment")
    assert not any(secret in _all_said(caught.value) for secret in _SECRETS)


def _all_said(error: BaseException) -> str:
    """What a traceback of it says, its source lines left out."""
    lines = traceback.format_exception(error)
    return "".join(line for line in lines if not line.startswith(("  File", "    ")))


def test_a_redirect_may_not_lead_from_https_to_http() -> None:
    def reply(url: str, target: str) -> requests.Response:
        response = requests.Response()
        response.url, response.status_code, response.headers["Location"] = url, 302, target
        return response

    for target in ("http://example.org/b?sig=canary", "HTTP://example.org/b"):
        with pytest.raises(
            ServiceUnavailable, match=r"cannot fetch https://example\.org/a"
        ) as caught:
            attachments._must_stay_encrypted(reply("https://example.org/a?sig=canary", target))
        assert "canary" not in str(caught.value)
    for target in ("/b", "https://example.com/", "//example.com/"):
        attachments._must_stay_encrypted(reply("https://example.org/a", target))
    attachments._must_stay_encrypted(reply("http://example.org/a", "http://example.org/b"))


def test_a_slow_address_is_given_up(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it goes on: here it keeps sending, and never ends its headers."""
    monkeypatch.setattr(attachments, "_MAX_SECONDS", 0.2)
    service.replies.append(Reply([b"HTTP/1.1 200 OK\r\nX: ", HANG]))
    with pytest.raises(ServiceUnavailable, match=r"cannot fetch .*/a within 0\.2 s") as caught:
        attachment(f"{service.url}/a?sig=canary")
    assert caught.value.retryable
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("status", "headers"), [
    pytest.param(302, {"Location": "/page"}, id="a redirect to itself"),
    pytest.param(302, {"Location": "file:///etc/hostname"}, id="to a file"),
    pytest.param(302, {"Location": "ftp://127.0.0.1/x"}, id="to another scheme"),
    pytest.param(302, {"Location": "data:,x"}, id="to data"),
    pytest.param(200, {"Content_Length": "100"}, id="a body that is cut"),
    pytest.param(200, {"Content_Encoding": "gzip"}, id="a body that is not compressed as it says"),
])  # fmt: skip
def test_a_reply_may_be_none(web: Web, status: int, headers: dict[str, str]) -> None:
    with pytest.raises(ServiceUnavailable, match="cannot fetch"):
        attachment(web.page("/page", b"hi", status, **headers))


@pytest.mark.usefixtures("small")
def test_an_address_may_have_no_more_than_a_file(web: Web) -> None:
    assert attachment(web.page("/a", b"x" * 1_000)) == Text("a:\n\n" + "x" * 1_000)
    with pytest.raises(ConfigurationError, match="/b is larger than"):
        attachment(web.page("/b", b"x" * 1_001))


@pytest.mark.usefixtures("small")
def test_what_is_too_large_is_not_fetched_to_its_end(web: Web) -> None:
    with pytest.raises(ConfigurationError, match="is larger than"):
        attachment(web.page("/a", b"x" * (64 << 20)))
    assert not web.sent.get(timeout=30)


@pytest.mark.parametrize("address", [
    "http://", "http:///a", "http://.a/", "http://*/", "http://[bad", "http://127.0.0.1:99999999/",
    "http://127.0.0.1:x/", "http://" + "a" * 70 + ".x/",
])  # fmt: skip
def test_an_address_that_is_none_cannot_be_read(address: str) -> None:
    with pytest.raises((ServiceUnavailable, ConfigurationError), match=r"cannot (read|fetch)"):
        attachment(address)


def test_an_address_where_nobody_listens_cannot_be_read() -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ServiceUnavailable, match=r"cannot fetch .*/a: ") as caught:
            attachment(f"http://127.0.0.1:{bound.getsockname()[1]}/a")
    assert caught.value.message.endswith(os.strerror(errno.ECONNREFUSED))
    assert caught.value.retryable


def test_no_own_password_is_sent(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".netrc", "_netrc"):
        (tmp_path / name).write_text("default login me password secret\n")
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    web.page("/b", b"hi")
    attachment(web.page("/a", b"", 302, Location="/b"))
    assert [path for path, _ in web.asked] == ["/a", "/b"]
    assert not any("authorization" in headers for _, headers in web.asked)


def test_the_proxy_of_the_environment_is_asked(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.address)
    web.page("http://example.invalid/a", b"by proxy")
    assert attachment("http://example.invalid/a") == Text("a:\n\nby proxy")


@pytest.mark.parametrize(("proxy", "kind", "message"), [
    ("http://me:canary@127.0.0.1:9", ServiceUnavailable, "the proxy failed: Connection refused"),
    ("socks5://me:canary@127.0.0.1:9", ConfigurationError, "is a SOCKS proxy"),
])  # fmt: skip
def test_a_proxy_that_fails_is_not_told_as_the_address(
    monkeypatch: pytest.MonkeyPatch, proxy: str, kind: type[GenaiError], message: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(kind, match=message) as caught:
        attachment("http://example.invalid/a")
    assert "canary" not in str(caught.value)


def test_what_needs_no_proxy_is_asked_itself(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert attachment(web.page("/a", b"hi")) == Text("a:\n\nhi")

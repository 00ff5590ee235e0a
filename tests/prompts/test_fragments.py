"""Fragments: texts of files and addresses that are put before what is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genai_host.errors import ConfigurationError, GenaiError, ServiceUnavailable
from genai_host.prompts import attachments
from genai_host.prompts.attachments import fragment, read_fragments, with_fragments
from genai_host_testing.fake_service import CUT, FakeService, Reply, reply


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_proxies: None) -> Path:
    """The folder that one works in, and no proxies."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("data", "text"), [
    (b"", "a.txt:"),
    (b"hi", "a.txt:\n\nhi"),
    (b"hi\n\n", "a.txt:\n\nhi"),
    (b"  hi\r\nyou\n", "a.txt:\n\n  hi\nyou"),
    (b"\xef\xbb\xbfcaf\xc3\xa9", "a.txt:\n\ncaf\u00e9"),
])  # fmt: skip
def test_the_text_of_a_file_with_where_it_is_from(here: Path, data: bytes, text: str) -> None:
    (here / "a.txt").write_bytes(data)
    assert fragment("a.txt") == text


def test_a_relative_path_is_told_and_of_an_absolute_one_its_end(here: Path) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "a.txt").write_text("hi")
    assert fragment("sub/a.txt") == "sub/a.txt:\n\nhi"
    assert fragment(str(here / "sub" / "a.txt")) == "a.txt:\n\nhi"


@pytest.mark.parametrize("data", [b"\x01\xff", b"a\0b", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_text_is_for_attach(here: Path, data: bytes) -> None:
    (here / "a").write_bytes(data)
    with pytest.raises(ConfigurationError, match="a is not text") as caught:
        fragment("a")
    assert caught.value.hint == "attach it: --attach a"


@pytest.mark.parametrize("name", ["missing", ".", "nul\0", "x" * 5_000, "ftp://example.org/a"])
def test_what_is_no_file_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        fragment(name)


def test_a_file_may_have_5_mib_and_no_more(here: Path) -> None:
    assert attachments.MAX_FRAGMENT_BYTES == 5 * 1024 * 1024
    (here / "a").write_bytes(b"x" * attachments.MAX_FRAGMENT_BYTES)
    assert len(fragment("a")) == attachments.MAX_FRAGMENT_BYTES + 4
    with (here / "a").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(ConfigurationError, match="a is larger than 5 MiB"):
        fragment("a")


@pytest.mark.part
class TestAddresses:
    @pytest.mark.parametrize(("media_type", "data", "text"), [
        ("text/plain; charset=utf-8", b"caf\xc3\xa9", "caf\u00e9"),
        ('text/plain; charset="latin-1"', b"caf\xe9", "caf\u00e9"),
        ("text/plain; charset=iso-8859-1", b"caf\xc3\xa9", "caf\u00e9"),
        ("text/html", b"<b>", "<b>"),
        ("application/json", b"{}", "{}"),
        ("application/ld+json", b"{}", "{}"),
        ("", b"hi", "hi"),
    ])  # fmt: skip
    def test_text_is_fetched_now(
        self, service: FakeService, media_type: str, data: bytes, text: str
    ) -> None:
        headers = {"Content-Type": media_type} if media_type else None
        service.replies.append(reply(data, headers=headers))
        assert fragment(f"{service.url}/a/b.txt?sig=canary") == f"{service.url}/a/b.txt:\n\n{text}"

    @pytest.mark.parametrize(("media_type", "data"), [
        ("image/png", b"hi"),
        ("application/octet-stream", b"hi"),
        ("text/plain", b"\x01\xff"),
        ("text/plain; charset=no-such", b"hi"),
        ("text/plain; charset=unicode_escape", b"hi"),
        ("text/plain; charset=utf-7\0", b"hi\0"),
    ])  # fmt: skip
    def test_no_text_is_refused(self, service: FakeService, media_type: str, data: bytes) -> None:
        service.replies.append(reply(data, headers={"Content-Type": media_type}))
        with pytest.raises(GenaiError, match="/a "):
            fragment(f"{service.url}/a?sig=canary")

    def test_a_failure_is_told(self, service: FakeService) -> None:
        service.replies += [reply(b"no", 404), Reply([CUT])]
        with pytest.raises(ServiceUnavailable, match="/a: status 404"):
            fragment(f"{service.url}/a")
        with pytest.raises(ServiceUnavailable, match=r"cannot fetch .*/a"):
            fragment(f"{service.url}/a")

    def test_size_is_limited(self, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(attachments, "MAX_FRAGMENT_BYTES", 10)
        service.replies += [reply(b"x" * 10), reply(b"x" * 11)]
        assert fragment(f"{service.url}/a").endswith("x" * 10)
        with pytest.raises(ConfigurationError, match="/a is larger than"):
            fragment(f"{service.url}/a")


@pytest.mark.part
def test_each_is_read_once_and_given_once(here: Path, service: FakeService) -> None:
    (here / "a.txt").write_text("a")
    (here / "b.txt").write_text("b")
    os.symlink("a.txt", here / "c.txt")
    service.replies.append(reply(b"w"))
    address = f"{service.url}/w"
    names = ["b.txt", "a.txt", address, "./a.txt", "c.txt", address, "b.txt"]
    assert read_fragments(names) == ["b.txt:\n\nb", "a.txt:\n\na", f"{address}:\n\nw"]
    assert len(service.requests) == 1


def test_what_is_piped_in_has_no_name_and_its_place(here: Path) -> None:
    (here / "a.txt").write_text("a")
    assert read_fragments(["-", "a.txt"], lambda: "piped\n") == ["piped", "a.txt:\n\na"]
    assert read_fragments(["-"], str) == []
    with pytest.raises(ConfigurationError, match="cannot read '-'"):
        read_fragments(["-"])


def test_they_are_put_before_what_is_asked() -> None:
    assert with_fragments(["a", "b"], "c") == "a\n\nb\n\nc"
    assert with_fragments([], "c") == "c"
    assert with_fragments(["a"], "") == "a"

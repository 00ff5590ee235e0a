"""A read that takes more than there is ends, its process too, and the host goes on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import genai_tools_pages
import pytest
from attrs import frozen
from genai_tools_pages import PagesSettings, page_tools
from genai_tools_pages.page import Page
from genai_tools_pages.page_tools import MAX_WRITTEN, read_apart, written

from genai_host import Config, Host, errors
from genai_host.api import Cancellation
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.internal.fixtures import Background, MakeHost
from genai_host_testing.internal.samples import pdf
from genai_host_testing.services.page_site import PageSite, reply, wait_for_end

pytestmark = pytest.mark.part

PRIVATE = PagesSettings(private=True, megabytes=1)


@pytest.fixture
def site() -> Iterator[PageSite]:
    with PageSite({"/": reply("<title>T</title><p>hello</p>")}) as site:
        yield site


@frozen
class Begun:
    """A process that was started, and how."""

    process: subprocess.Popen[bytes]
    given: str


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Begun]:
    started: list[Begun] = []
    real = subprocess.Popen

    def start(*args: Any, **named: Any) -> subprocess.Popen[bytes]:
        started.append(Begun(real(*args, **named), f"{args} {named}"))
        return started[-1].process

    monkeypatch.setattr(subprocess, "Popen", start)
    return started


@pytest.mark.process
def test_a_page_is_read(site: PageSite, begun: list[Begun]) -> None:
    assert read_apart(site.link(), PRIVATE, Cancellation()) == Page(
        "T", site.link(), "hello", "html"
    )
    assert begun[0].process.returncode is not None


@pytest.mark.process
def test_private_ones_are_only_if_the_user_says_so(site: PageSite) -> None:
    with pytest.raises(errors.PermissionDenied, match="which is not public") as caught:
        read_apart(site.link("/?key=secret"), PagesSettings(), Cancellation())
    assert caught.value.hint.endswith("set tools.pages.private=true")
    assert "secret" not in str(caught.value)
    assert not site.heads


@pytest.mark.process
def test_what_is_wrong_comes_with_its_fields(site: PageSite) -> None:
    with pytest.raises(errors.BadRequest, match="status 404") as caught:
        read_apart(site.link("/none"), PRIVATE, Cancellation())
    assert caught.value.status == 404


@pytest.mark.process
def test_the_process_gets_no_keys(
    site: PageSite, begun: list[Begun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("HTTP_PROXY", "http://u:secret@127.0.0.1:1")
    read_apart(site.link(), PRIVATE, Cancellation())
    assert "secret" not in begun[0].given
    assert site.link() not in begun[0].given  # which others on the machine could see


@pytest.mark.process
def test_a_trickle_ends_with_the_time(site: PageSite, begun: list[Begun]) -> None:
    """Though bytes go on coming: as many as it takes."""
    gone = threading.Event()

    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while not gone.wait(0.05):
            try:
                connection.sendall(b"a")
            except OSError:
                gone.set()

    site.answers["/"] = trickle
    with pytest.raises(errors.ProviderTimeout, match="more than 5 seconds"):
        read_apart(site.link(), PagesSettings(private=True, seconds=5), Cancellation())
    assert gone.wait(30)
    assert begun[0].process.returncode is not None


@pytest.mark.process
def test_cancelling_ends_a_read(site: PageSite, background: Background, begun: list[Begun]) -> None:
    requested, gone, limits = threading.Event(), threading.Event(), Cancellation()

    def hang(connection: socket.socket) -> None:
        requested.set()
        wait_for_end(connection)
        gone.set()

    site.answers["/"] = hang
    slow = PagesSettings(private=True, seconds=300)
    ended = background(read_apart, site.link(), slow, limits)
    assert requested.wait(30)
    limits.cancel()
    assert isinstance(ended.exception(30), errors.Cancelled)
    assert begun[0].process.wait(30) != 0
    assert gone.wait(30)


@pytest.mark.process
def test_two_are_read_at_once(site: PageSite, background: Background) -> None:
    both = threading.Barrier(2, timeout=60)

    def answer(connection: socket.socket) -> None:
        both.wait()
        connection.sendall(reply("<p>together</p>"))

    site.answers["/"] = answer
    slow = PagesSettings(private=True, seconds=60)
    reads = [background(read_apart, site.link(), slow, Cancellation()) for _ in range(2)]
    assert [each.result(60).text for each in reads] == ["together", "together"]


@pytest.mark.process
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux bounds memory")
@pytest.mark.parametrize("kind", ["html", "pdf"])
def test_memory_is_bounded(site: PageSite, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(page_tools, "MAX_MEMORY", 48 * 2**20)
    content = b"BT " + b"(x) Tj " * 5_000_000
    site.answers["/"] = {
        "html": reply("<p><b>x</b>" * 90_000),
        "pdf": reply(pdf([zlib.compress(content)], filter="/FlateDecode"), "application/pdf"),
    }[kind]
    with pytest.raises(
        errors.ValidationError, match=r"memory or time limit|is damaged|has no text"
    ):
        read_apart(site.link(), PRIVATE, Cancellation())


@pytest.mark.smoke
@pytest.mark.process
def test_what_is_cancelled_before_is_not_read(site: PageSite) -> None:
    limits = Cancellation()
    limits.cancel()
    with pytest.raises(errors.Cancelled):
        read_apart(site.link(), PRIVATE, limits)


class TestTool:
    @pytest.fixture
    def host(self, make_host: MakeHost) -> Host:
        tables = {"pages": tools_config(private=True)}
        return make_host(config=Config(tools=tables), pages=genai_tools_pages)

    def test_a_human_is_asked(self, host: Host, site: PageSite) -> None:
        assert host.call_tool("pages__read", {"link": site.link()}).error
        assert not site.heads

    @pytest.mark.process
    def test_what_fails_is_told_in_a_line(self, host: Host) -> None:
        output = host.call_tool("pages__read", {"link": "file:///etc/passwd"}, approved=True)
        assert output.error
        assert "must begin with http:// or https://" in output.text
        assert "\n" not in output.text

    @pytest.mark.process
    @pytest.mark.parametrize("letter", ["a", '"', "\n", "\\", "ü", "\U0001f600"])
    def test_long_text_stays_json(self, host: Host, site: PageSite, letter: str) -> None:
        site.answers["/"] = reply(f"x{letter * 150_000}x", "text/plain")
        output = host.call_tool("pages__read", {"link": site.link()}, approved=True)
        assert len(output.text) <= MAX_WRITTEN
        text = json.loads(output.text)["text"]
        assert text.startswith("x")
        if letter != "\n":  # of which no more than two are kept together
            assert text.endswith(" more characters)")
            assert len(output.text) > MAX_WRITTEN * 0.9


def test_a_title_and_a_link_leave_room() -> None:
    form = json.loads(written(Page("t" * 300, "h" * 20_000, "x" * 10**6, "text")))
    assert form["text"].endswith("more characters)")


@pytest.mark.parametrize("settings", [{"seconds": 0}, {"megabytes": 0}, {"seconds": 10**9}])
def test_settings_have_bounds(settings: Any) -> None:
    with pytest.raises((ValueError, errors.GenaiError)):
        PagesSettings(**settings)

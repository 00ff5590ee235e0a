"""Reactions as text and as pictures by what their types say, and pages that an answer cites."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tomlkit
from cited_replies import FOUND, PAGE, SERVICES, TEXT, said
from hypothesis import given, strategies as st
from screens import HOSTILE
from support import Terminal

from genai_host.api import Answer, Citation, Image, ReactionType
from genai_host.dialects.sources import sources
from genai_host.tools.reactions import MAX_LINES, ReactionViews
from genai_host.util.clock import SystemClock
from genai_host_testing.fake_service import FakeService

PNG = b"\x89PNG\r\n"
BASE64 = base64.b64encode(PNG).decode()


class Hostile(str):
    """A string that is none."""

    __slots__ = ()

    def split(self, *_: Any, **__: Any) -> Any:
        raise SystemExit(3)


def _fails(reaction: Any, width: int) -> Any:
    raise ValueError("as the test wants it")


def _exits(reaction: Any, width: int) -> Any:
    raise SystemExit(3)


def _ends_badly(reaction: Any, width: int) -> Iterator[str]:
    yield "one"
    raise KeyboardInterrupt


def _is_endless(reaction: Any, width: int) -> Iterator[str]:
    while True:
        yield "x" * 10_000


def _takes_it_apart(reaction: Any, width: int) -> list[str]:
    reaction["rows"].clear()
    return [f"{reaction.pop('type')} {width}"]


class Views:
    """A class can have views as well."""

    @staticmethod
    def inner(reaction: Any, width: int) -> str:
        return "a\nb"


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ReactionViews]]:
    """Makes the host's view of one type `x`; its functions are those of this module."""
    module = ModuleType("zz_views")
    vars(module).update(globals())
    monkeypatch.setitem(sys.modules, "zz_views", module)
    clock = SystemClock()

    def make(name: str, seconds: float = 60.0, **fields: Any) -> ReactionViews:
        address = f"zz_views:{name}" if name else ""
        return ReactionViews({"x": ReactionType("x", text_view=address, **fields)}, clock, seconds)

    yield make
    clock.close()


class TestLines:
    def test_a_view_gets_a_reaction_of_its_own(self, views: Any) -> None:
        reaction = {"type": "x", "rows": [1]}
        assert views("_takes_it_apart").lines(reaction, 70) == ["x 70"]
        assert reaction == {"type": "x", "rows": [1]}

    def test_one_text_is_its_lines(self, views: Any) -> None:
        assert views("Views.inner").lines({"type": "x"}, 70) == ["a", "b"]

    def test_where_there_is_no_view_there_is_no_text(self, views: Any) -> None:
        assert views("").lines({"type": "x"}, 70) is None
        assert views("Views.inner").lines({"type": "unknown"}, 70) is None

    @pytest.mark.parametrize("name", ["_fails", "_exits", "_ends_badly", "missing", "PNG"])
    def test_failing_view(self, views: Any, caplog: pytest.LogCaptureFixture, name: str) -> None:
        assert views(name).lines({"type": "x"}, 70) is None
        assert "cannot render a reaction x" in caplog.text

    @pytest.mark.parametrize("value", [None, 5, [5], [b"x"], {1: 2}, [Hostile("x")], [["x"]]])
    def test_no_text(self, views: Any, monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
        viewer = views("gives")
        monkeypatch.setattr(sys.modules["zz_views"], "gives", lambda *_: value, raising=False)
        assert viewer.lines({"type": "x"}, 70) is None

    def test_it_is_bounded(self, views: Any) -> None:
        lines = views("_is_endless").lines({"type": "x"}, 20)
        assert len(lines) == MAX_LINES + 1
        assert lines[-1] == "(there is more)"
        assert max(map(len, lines)) == 200

    def test_one_that_hangs_is_left_alone(
        self, views: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        go = threading.Event()
        viewer = views("hangs", seconds=0.01)
        monkeypatch.setattr(sys.modules["zz_views"], "hangs", lambda *_: go.wait(), raising=False)
        assert viewer.lines({"type": "x"}, 70) is None
        go.set()
        assert "cannot render" in caplog.text


class TestPictures:
    @pytest.mark.parametrize(("reaction", "picture"), [
        ({"p": f"data:image/png;base64,{BASE64}"}, Image(PNG, "image/png")),
        ({"p": "data:IMAGE/SVG+XML,%3Csvg/%3E"}, Image(b"<svg/>", "image/svg+xml")),
        ({"p": "data:image/svg+xml;charset=utf-8,<svg/>"}, Image(b"<svg/>", "image/svg+xml")),
        ({"p": {"media_type": "image/png", "data": BASE64}}, Image(PNG, "image/png")),
        ({"p": BASE64, "media_type": "image/png"}, Image(PNG, "image/png")),
        ({"p": "https://a.example/x.png"}, Image(url="https://a.example/x.png")),
    ])  # fmt: skip
    def test_they_are_found(self, views: Any, reaction: Any, picture: Image) -> None:
        viewer = views("", pictures=["p", "q"])
        assert viewer.pictures({"type": "x", **reaction}) == [picture]
        assert viewer.pictures({"type": "y", **reaction}) == []

    @pytest.mark.parametrize("reaction", [
        *({}, {"p": None}, {"p": "data:"}, {"p": "data:image/png"}),
        {"p": "data:image/png;base64,"},
        {"p": "data:image/png;base64,%%%"},
        {"p": "data:image/png;base64,\udcff"},
        {"p": "data:text/html,<b>"},
        {"p": "file:///etc/passwd"},
        {"p": BASE64},
        {"p": BASE64, "media_type": "text/html"},
        {"p": "é", "media_type": "image/png"},
        {"p": {"media_type": 5, "data": BASE64}},
        {"p": {"media_type": "image/png", "data": [1]}},
        {"q": f"data:image/png;base64,{BASE64}"},
    ])  # fmt: skip
    def test_what_is_none_is_left_out(self, views: Any, reaction: Any) -> None:
        assert views("", pictures=["p"]).pictures({"type": "x", **reaction}) == []

    @given(text=st.text(), media_type=st.text() | st.none() | st.integers())
    def test_nothing_is_raised(self, text: str, media_type: Any) -> None:
        views = ReactionViews({"x": ReactionType("x", pictures=["p"])}, SystemClock())
        for given_ in (text, f"data:{text}", f"data:image/{text}", {"data": text}):
            reaction = {"type": "x", "p": given_, "media_type": media_type}
            assert all(isinstance(each, Image) for each in views.pictures(reaction))


@pytest.mark.parametrize("wrong", [{"text_view": "no address"}, {"pictures": "x"}])
def test_a_wrong_type_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        ReactionType("x", **wrong)


LONG = f"https://long.example/{'a' * 400}"
SHOWN = f"{TEXT}\n\n[1] {PAGE['title']}\n    {PAGE['url']}\n"
IN_MARKDOWN = f"{TEXT}\n\nSources:\n\n1. {PAGE['title']} <{PAGE['url']}>\n"


@pytest.fixture
def cited(terminal: Terminal, service: FakeService) -> Terminal:
    """A command line whose default model is at a service that cites a page."""
    gate = {"type": "openai-compatible", "base_url": service.url, "models": {"x": "m"}}
    terminal.configure(tomlkit.dumps({"defaults": {"model": "x"}, "providers": {"gate": gate}}))
    service.replies = [SERVICES["chat"][0](True)]
    return terminal


@pytest.mark.part
class TestCommands:
    def test_they_are_below_the_answer(self, cited: Terminal) -> None:
        assert cited("ask hi")[:2] == (0, SHOWN)
        assert cited.out("ask hi --no-stream") == SHOWN
        assert cited.out("chat", stdin="hi\n") == SHOWN
        code, out, _ = cited.interactive("ask hi")
        assert (code, out) == (0, SHOWN)

    def test_json_has_them(self, cited: Terminal) -> None:
        found = cited.json("ask hi")
        url, title, start, end = FOUND[0]
        citation = {"url": url, "title": title, "start": start, "end": end}
        assert (found["text"], found["citations"]) == (TEXT, [citation])
        [turn] = cited.json("conversations show last")["turns"]
        assert turn["answer"]["citations"] == [citation]

    def test_transcripts_have_them(self, cited: Terminal, tmp_path: Path) -> None:
        file = tmp_path / "saved.md"
        cited.out("chat", stdin=f"hi\n/save {file}\n")
        assert file.read_text().endswith(f"## assistant\n\n{IN_MARKDOWN}")
        assert cited.out("conversations show last").endswith(IN_MARKDOWN)
        assert cited.out("conversations export last --format markdown").endswith(IN_MARKDOWN)
        assert cited.out("ask hi --setting keep_history=false") == SHOWN
        assert cited.out("conversations show last").endswith(IN_MARKDOWN)

    def test_data_stays_alone_on_the_output(self, cited: Terminal, service: FakeService) -> None:
        service.replies = [said('{"a": 1}', [{"type": "url_citation", "url_citation": PAGE}])]
        code, out, err = cited("ask hi --schema", '{"type": "object"}')
        assert (code, json.loads(out)) == (0, {"a": 1})
        assert f"[1] {PAGE['title']}\n    {PAGE['url']}\n" in err

    def test_what_pages_say_is_not_interpreted(self, cited: Terminal, service: FakeService) -> None:
        urls = {
            LONG: "a\x1b[2J\n\x1b]0;b\x07 \u202ec " + "d" * 200,
            "javascript:alert(1)": "e",
            "https://x.example/\x1b[2J": "f",
        }
        notes: list[Any] = [
            {"type": "url_citation", "url_citation": {"url": url, "title": title}}
            for url, title in urls.items()
        ]
        service.replies = [said(TEXT, notes)]
        _, out, _ = cited.interactive("ask hi --no-stream")
        assert out == f"{TEXT}\n\n[1] a␛[2J ␛]0;b␇ <202E>c {'d' * 200}\n    {LONG}\n"
        _, out, _ = cited.interactive("conversations show last")
        assert out.endswith(f"1. a␛\\[2J ␛\\]0;b␇ <202E>c {'d' * 200} <{LONG}>\n")


def test_long_titles_are_folded() -> None:
    pages = [Citation("https://a.example", "word " * 9), Citation("https://b.example")]
    [reaction] = Answer(TEXT, citations=pages).reactions
    assert [*sources(reaction, 30)] == [
        "[1] word word word word word",
        "    word word word word",
        "    https://a.example",
        "[2] https://b.example",
    ]


@given(title=st.one_of(st.just(HOSTILE), st.text()), link=st.text())
def test_any_source_has_a_view(title: str, link: str) -> None:
    source = {"number": 1, "title": title, "link": link}
    lines = [*sources({"type": "sources", "sources": [source]}, 40)]
    if link:
        assert lines.pop().endswith(link)
    assert all(len(line) <= 40 for line in lines)

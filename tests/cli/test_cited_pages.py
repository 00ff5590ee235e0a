"""Web pages that an answer cites, on the command line, with a service on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from cited_replies import FOUND, PAGE, SERVICES, TEXT, said
from hypothesis import given, strategies as st
from screens import HOSTILE
from support import Terminal

from genai_host.api import Answer, Citation
from genai_host.dialects.sources import sources
from genai_host_testing.fake_service import FakeService

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

"""A search in another process, and what is found, made into what a model is given."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from genai_search_web import tools
from genai_search_web.tools import MOST_WRITTEN, WebResult, plain, sound, written
from hypothesis import given, strategies as st

from genai_host.api import Cancellation
from genai_host.errors import MalformedReply, RateLimited


def test_the_process_gets_the_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "HTTPS_PROXY": "http://p:1", "no_proxy": "localhost"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    values: list[Any] = []
    monkeypatch.setattr(tools, "run_in_child", lambda *_, **named: values.append(named))
    tools.search_apart("ddgs", {}, Cancellation())
    [named] = values
    assert named["environment"].items() >= {*environ.items()} - {("OPENAI_API_KEY", "sk-1")}
    assert "sk-1" not in named["environment"].values()


@pytest.mark.parametrize("engine", ["ddgs", "searxng"])
def test_results_are_sound_and_few(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    def search(request: Mapping[str, Any]) -> Iterator[WebResult]:
        for number in range(9):
            yield WebResult(f"<b>{request['query']}</b>", f"https://x.example/{number}", None)

    monkeypatch.setattr(f"genai_search_web.by_{engine}.search", search)
    assert tools.search(engine, {"query": "q", "limit": 2}) == [
        WebResult("q", "https://x.example/0", ""),
        WebResult("q", "https://x.example/1", ""),
    ]


@pytest.mark.parametrize(
    ("raised", "error", "says"),
    [
        (LookupError("x"), MalformedReply, r"unreadable results \(LookupError\)"),
        (RateLimited("later"), RateLimited, "later"),
        (MemoryError(), MemoryError, "^$"),
    ],
)
def test_errors_of_libraries_are_malformed_replies(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, error: type[Exception], says: str
) -> None:
    def search(request: Any) -> Any:
        raise raised

    monkeypatch.setattr("genai_search_web.by_searxng.search", search)
    with pytest.raises(error, match=says):
        tools.search("searxng", {"limit": 1})


ANYTHING = st.one_of(st.none(), st.integers(), st.lists(st.text()), st.text(), st.binary())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("Tom &amp; Jerry", "Tom & Jerry"),
        ("a <b>bold</b><br/> word<!-- x -->", "a bold word"),
        ("if a < b and c > d", "if a < b and c > d"),
        ("&lt;b&gt; is bold", "<b> is bold"),
        ("  a\n\tb\u2028c\x00d  ", "a b c d"),
        ("left\u202eright\u200b", "left right"),
        ("é 日本 🐔", "é 日本 🐔"),
        ("x" * 21, "x" * 19 + "…"),
        (None, ""),
        (5, ""),
    ],
)
def test_texts_are_plain(raw: Any, expected: str) -> None:
    assert plain(raw, 20) == expected


@given(st.lists(st.builds(WebResult, ANYTHING, ANYTHING, ANYTHING)))
def test_whatever_is_found_can_be_written(results: list[WebResult]) -> None:
    for each in json.loads(written(sound(results), 50)):
        assert sorted(each) == ["link", "text", "title"]
        assert each["link"].startswith(("http://", "https://"))


@given(st.text(max_size=200))
def test_texts_have_nothing_that_cannot_be_seen(raw: str) -> None:
    assert plain(raw, 100).isprintable()


def test_a_result_without_a_title_has_its_link_for_one() -> None:
    [result] = sound([WebResult(None, "https://a.example/", "x")])
    assert result == WebResult("https://a.example/", "https://a.example/", "x")


def test_what_would_be_too_long_is_left_out_whole() -> None:
    results = [WebResult("x", f"https://a.example/{number}", "é" * 1000) for number in range(200)]
    text = written(results, 200)
    assert MOST_WRITTEN * 0.9 < len(text) <= MOST_WRITTEN + 2
    assert len(json.loads(text)) < 200

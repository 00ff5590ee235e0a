"""What is found, made into what a model is given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_search_web.results import MOST_WRITTEN, WebResult, plain, sound, written
from hypothesis import given
from hypothesis import strategies as st

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
def test_whatever_is_found_can_be_written(found: list[WebResult]) -> None:
    for each in json.loads(written(sound(found), 50)):
        assert sorted(each) == ["link", "text", "title"]
        assert each["link"].startswith(("http://", "https://"))


@given(st.text(max_size=200))
def test_texts_have_nothing_that_cannot_be_seen(raw: str) -> None:
    assert plain(raw, 100).isprintable()


def test_a_result_without_a_title_has_its_link_for_one() -> None:
    [found] = sound([WebResult(None, "https://a.example/", "x")])
    assert found == WebResult("https://a.example/", "https://a.example/", "x")


def test_what_would_be_too_long_is_left_out_whole() -> None:
    found = [WebResult("x", f"https://a.example/{number}", "é" * 1000) for number in range(200)]
    text = written(found, 200)
    assert MOST_WRITTEN * 0.9 < len(text) <= MOST_WRITTEN + 2
    assert len(json.loads(text)) < 200

"""Words of texts and of queries."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.dialects import postgresql, sqlite

from genai_host.store.search import SearchWord, asked_for, having, pattern_for, tokenize


@pytest.mark.parametrize(("text", "words"), [
    ("", ""),
    ("One, one ONE two", "one two"),
    ("École cafe\u0301", "ecole cafe"),
    ("東京都", "東 京 都 東京 京都"),
    ("x" * 201, "x" * 200),
])  # fmt: skip
def test_a_text_is_split_into_distinct_words(text: str, words: str) -> None:
    assert tokenize(text) == words


def test_the_words_of_a_text_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_host.store.search._MOST", 6)
    assert tokenize("abc abc déf ghi") == "abc def"
    assert tokenize("東京") == "東 京"


@pytest.mark.parametrize(("query", "words"), [
    ("", []),
    ("One tw*", [SearchWord(("one",)), SearchWord(("tw",), begins=True)]),
    ("東", [SearchWord(("東",))]),
    ("東京", [SearchWord(("東京",))]),
    ("東京都", [SearchWord(("東京", "京都"), "東京都")]),
    ("* ,", []),
])  # fmt: skip
def test_a_query_is_parsed(query: str, words: list[SearchWord]) -> None:
    assert asked_for(query) == words


@pytest.mark.parametrize(("query", "text", "expected"), [
    ("oslo", "In OSLO, Oslogate", ["OSLO"]),
    ("osl*", "In OSLO, Oslogate", ["OSLO", "Oslogate"]),
    ("osl", "In OSLO", []),
    ("slo*", "In OSLO", []),
    ("oslo in", "In OSLO", ["In", "OSLO"]),
    ("a.b", "a.b axb", ["a", "b"]),
    ("京", "東京都", ["京"]),
    ("東京*", "東京都", ["東京"]),
    ("", "x", []),
])  # fmt: skip
def test_a_pattern_finds_the_words_in_a_text(query: str, text: str, expected: list[str]) -> None:
    assert pattern_for(query).findall(text) == expected


@pytest.mark.parametrize(("query", "on_sqlite", "on_postgresql"), [
    ("one tw*", ['"one" AND "tw"*'], ["'one' & 'tw':*"]),
    ("東京都", ['"東京" AND "京都"', "東京都", 0], ["'東京' & '京都'", "東京都", 0]),
])  # fmt: skip
def test_conditions_of_queries(query: str, on_sqlite: list[Any], on_postgresql: list[Any]) -> None:
    for name, dialect, find, match, expected in (
        ("sqlite", sqlite.dialect(), "instr(", " MATCH ", on_sqlite),
        ("postgresql", postgresql.dialect(), "strpos(", " @@ ", on_postgresql),  # type: ignore[no-untyped-call]  # so in SQLAlchemy
    ):
        condition = having(query, name).compile(dialect=dialect)
        assert list(condition.params.values()) == expected
        assert match in str(condition)
        assert (find in str(condition)) == (len(expected) > 1)


def test_a_query_without_words_matches_nothing() -> None:
    assert str(having("* ,", "sqlite")) == "false"

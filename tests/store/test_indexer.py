"""What is derived from entries, and words of texts and of queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import astuple
from sqlalchemy.dialects import postgresql, sqlite
from stored import append, turn

from genai_host import Message
from genai_host.api import Answer, Cost, RouteInfo, Usage
from genai_host.calls.retry import Attempt
from genai_host.conversations.record import (
    Entry,
    Rewound,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from genai_host.store import Store
from genai_host.store.indexer import Indexer, _taken_back
from genai_host.store.records import StoredTry
from genai_host.store.search import SearchWord, matching, parse_query, pattern_for, tokenize
from genai_host_testing.internal.stores import begin

NOON = 1_893_499_200.0
ROUTE: dict[str, Any] = {"model": "m", "provider": "p", "dialect": "d"}
TOKENS: dict[str, Any] = {
    "input_tokens": 4, "output_tokens": 3, "cached_tokens": 2, "reasoning_tokens": 1,
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "x.db", now=lambda: NOON) as store:
        yield store


def call(store: Store, result: Any, *tries: Attempt) -> list[StoredTry]:
    """The attempts of a step with this result."""
    record = begin(store)
    append(record, TurnStarted(0, Message("user", "hi"), "1", 0))
    append(record, StepStarted(0, (0, 1), "prompt", "d"), StepEnded(0, (0, 1), result, tries=tries))
    return store.attempts(record.id)


def test_the_attempts_of_a_call_have_all_its_fields(store: Store) -> None:
    failure = Attempt(RouteInfo("n", "q", "e"), 5.0, 1.5, "busy", 503, Usage(1, 2, 0, 0), 0.25)
    result = {"route": ROUTE, "seconds": 2.0, "cost": 0.5, "usage": TOKENS}
    common: dict[str, Any] = {"turn": 0, "path": "0.1"}
    assert call(store, result, failure) == [
        StoredTry(
            **common,
            number=0,
            model="n",
            provider="q",
            dialect="e",
            started=5.0,
            seconds=1.5,
            code="busy",
            http_status=503,
            input_tokens=1,
            output_tokens=2,
            cached_tokens=0,
            reasoning_tokens=0,
            cost=0.25,
        ),
        StoredTry(**common, number=1, **ROUTE, started=NOON - 2.0, seconds=2.0, **TOKENS, cost=0.5),
    ]


def test_a_failed_call_without_cost_is_not_among_those_of_known_cost(store: Store) -> None:
    costs = (0.0, 0.25, None)
    for cost in (0.5, 0.0, None):
        failures = [Attempt(RouteInfo("m", "p", "d"), 5.0, 1.0, "x", cost=each) for each in costs]
        call(store, {"route": ROUTE, "cost": cost}, *failures)
    stored = sorted((each.cost for each in store.conversations()), key=astuple)
    assert stored == [Cost(0.25, 1, 2), Cost(0.25, 2, 1), Cost(0.75, 2, 1)]


@pytest.mark.parametrize(("fields", "expected"), [
    ({}, (0.0, 0, None)),
    ({"usage": None}, (0.0, None, None)),
    ({"usage": {"input": 7}}, (0.0, 7, None)),
    ({"seconds": 1, "cost": 0}, (1.0, 0, 0.0)),
    ({"seconds": -1.0, "cost": -1}, (0.0, 0, None)),
    ({"cost": True}, (0.0, 0, None)),
], ids=str)  # fmt: skip
def test_missing_fields(store: Store, fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    [row] = call(store, {"route": ROUTE, **fields})
    assert (row.seconds, row.input_tokens, row.cost) == expected


@pytest.mark.parametrize(("result", "logged"), [
    ({"route": {**ROUTE, "model": 1}}, 1),
    ({"route": ROUTE, "seconds": "1"}, 1),
    ({"route": ROUTE, "seconds": True}, 1),
    *((each, 0) for each in (5, None, {"route": "x"}, {"route": {**ROUTE, "more": 1}})),
], ids=str)  # fmt: skip
def test_an_entry_with_an_invalid_call_is_skipped_and_other_results_are_no_calls(
    store: Store, caplog: pytest.LogCaptureFixture, result: Any, logged: int
) -> None:
    assert call(store, result) == []
    starts = [each.startswith("cannot read entry 3 of ") for each in caplog.messages]
    assert starts == [True] * logged


@pytest.mark.parametrize(
    ("status", "stored"), [(0, 0), (999, 999), (1000, None), (-1, None), (True, None), (4.0, None)]
)
def test_a_status_has_three_digits(store: Store, status: Any, stored: int | None) -> None:
    [row] = call(store, None, Attempt(RouteInfo("m", "p", "d"), 5.0, 1.0, "x", status))
    assert row.http_status == stored


def turns(number: int) -> list[Entry]:
    entries = [turn(each, f"word{each}", "said") for each in range(number)]
    return [entry for started, *_, ended in entries for entry in (started, ended)]


@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_parts_are_indexed(store: Store, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr("genai_host.store.indexer._AT_ONCE", number)
    append(record := begin(store), *turns(3))
    row = store.summary(record.id)
    assert (row.turns, row.entries, row.status, row.title) == (3, 7, "idle", "word0")
    assert [match.turn for match in store.search("said")] == [2, 1, 0]


def test_a_conversation_that_was_deleted_is_not_indexed(store: Store) -> None:
    id = begin(store).id
    store.conversations()
    indexer = Indexer(store._database)
    assert indexer._go_on(id) is False
    assert indexer._go_on("deleted") is False


def test_a_turn_that_is_regenerated_is_found_where_it_begins(store: Store) -> None:
    """Also if its end is indexed later than its start."""
    append(
        record := begin(store),
        *turns(2),
        TurnStarted(2, Message("user", "again"), "1", 2, again=True),
    )
    assert [match.turn for match in store.search("word1")] == [1]
    record.append(StepStarted(2, (0,), "wait", "d"))
    assert store.summary(record.id).status == "paused"
    record.append(StepEnded(2, (0,), None))
    assert store.summary(record.id).status == "running"
    record.append(TurnEnded(2, Answer("said")))
    assert store.search("word1") == []
    assert [match.turn for match in store.search("word0")] == [0]


def test_an_unreadable_removal_is_none(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    append(record := begin(store), *turns(2))
    store.conversations()
    with store._database.writing() as connection:
        connection.exec_driver_sql("UPDATE entries SET body = '{}' WHERE kind = 'turn_ended'")
    record.append(Rewound(0, 0))
    assert store.summary(record.id).status == "idle"
    assert len(store.search("word0")) == 1
    assert caplog.messages == [f"cannot read what was undone in {record.id}: 'entry'"]


def begun(turn: int, *, again: bool = False) -> dict[str, Any]:
    return {"entry": "turn_started", "turn": turn, "again": again}


def ended(turn: int, *, failed: bool = False) -> dict[str, Any]:
    return {"entry": "turn_ended", "turn": turn, "answer": None if failed else {}}


def rewound(history: int, left: int) -> dict[str, Any]:
    return {"entry": "rewound", "history": history, "turns": left}


@pytest.mark.parametrize(("forms", "gone"), [
    ([begun(0), ended(0), begun(1), ended(1)], set()),
    ([begun(0), ended(0), begun(1, again=True), ended(1)], {0}),
    ([begun(0), ended(0), begun(1, again=True), ended(1, failed=True)], set()),
    ([begun(0, again=True), ended(0)], set()),
    ([begun(0), ended(0), begun(1, again=True), ended(1), begun(2), ended(2)], {0}),
    ([begun(0), ended(0), begun(1), ended(1), rewound(2, 1)], {1}),
    ([begun(0), ended(0), begun(1), ended(1, failed=True), rewound(2, 1)], {1}),
    ([begun(0), ended(0), begun(1), ended(1), rewound(0, 0)], {None, 0, 1}),
    ([begun(0), ended(0), begun(1), ended(1), rewound(2, 1), begun(2), ended(2)], {1}),
    ([begun(0), ended(0), begun(1), ended(1), rewound(2, 1), begun(2, again=True), ended(2)],
     {0, 1}),
])  # fmt: skip
def test_turns_that_were_removed(forms: list[dict[str, Any]], gone: set[int | None]) -> None:
    assert _taken_back(forms) == gone


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
    monkeypatch.setattr("genai_host.store.search._MAX", 6)
    assert tokenize("abc abc déf ghi") == "abc def"
    assert tokenize("東京") == "東 京"


@pytest.mark.parametrize(("query", "words"), [
    ("", []),
    ("One tw*", [SearchWord(("one",)), SearchWord(("tw",), is_prefix=True)]),
    ("東", [SearchWord(("東",))]),
    ("東京", [SearchWord(("東京",))]),
    ("東京都", [SearchWord(("東京", "京都"), "東京都")]),
    ("* ,", []),
])  # fmt: skip
def test_a_query_is_parsed(query: str, words: list[SearchWord]) -> None:
    assert parse_query(query) == words


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
        condition = matching(query, name).compile(dialect=dialect)
        assert list(condition.params.values()) == expected
        assert match in str(condition)
        assert (find in str(condition)) == (len(expected) > 1)


def test_a_query_without_words_matches_nothing() -> None:
    assert str(matching("* ,", "sqlite")) == "false"

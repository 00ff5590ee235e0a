"""Queries in parts: they give what they say, and nothing gets into the SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from genai_tools_data.database import CASEFOLD, Column, casefold
from genai_tools_data.query import Aggregate, Filter, Order, SqlQuery, statement
from hypothesis import given, strategies as st

from genai_host.errors import ValidationError

NUMBER, TEXT = 'num"ber', "te;xt' --"
COLUMNS = (Column(NUMBER, "INTEGER"), Column(TEXT, "TEXT"))
TABLE = 'ta"b]le'

Row = tuple[int | None, str | None]

NUMBERS = st.integers(-3, 3)
TEXTS = st.sampled_from(["", "a", "A", "ab", "b'", '"', "%", "_", "\\", "ø"])
ROWS = st.lists(st.tuples(st.none() | NUMBERS, st.none() | TEXTS), max_size=12)


def run_query(rows: Sequence[Row], query: SqlQuery) -> list[tuple[Any, ...]]:
    sql, parameters = statement(query, COLUMNS)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function(CASEFOLD, 1, casefold)
        connection.execute('CREATE TABLE "ta""b]le" ("num""ber" INTEGER, "te;xt\' --" TEXT)')
        connection.executemany('INSERT INTO "ta""b]le" VALUES (?, ?)', rows)
        return connection.execute(sql, parameters).fetchall()


def holds(row: Row, condition: Filter) -> bool:
    """What a filter says, in Python."""
    value: Any = row[0] if condition.column == NUMBER else row[1]
    expected: Any = condition.value
    if condition.operator in ("is null", "is not null"):
        return (value is None) == (condition.operator == "is null")
    if condition.operator in ("=", "!="):
        return bool((value == expected) == (condition.operator == "="))
    if value is None:
        return condition.operator == "not in"
    if condition.operator in ("in", "not in"):
        return bool((value in expected) == (condition.operator == "in"))
    if condition.operator == "between":
        return bool(expected[0] <= value <= expected[1])
    if condition.operator in ("contains", "starts with"):
        lower = _lower if str(expected).isascii() else str.casefold
        text, part = lower(str(value)), lower(str(expected))
        return part in text if condition.operator == "contains" else text.startswith(part)
    compare = {"<": value < expected, "<=": value <= expected, ">": value > expected}
    return bool(compare.get(condition.operator, value >= expected))


@pytest.mark.parametrize(("condition", "expected"), [
    (Filter(TEXT, ">", 90), [1, 2]), (Filter(TEXT, "<=", 99.5), [1]),
    (Filter(TEXT, "between", [99, 100]), [1, 2]), (Filter(NUMBER, ">", 2), [3]),
    (Filter(TEXT, ">", "98"), [1, 3]),
])  # fmt: skip
def test_a_number_is_compared_with_numbers_alone(condition: Filter, expected: list[Any]) -> None:
    rows: Any = [(1, "99"), (2, "100"), (3, "n/a"), (None, None), ("n/a", "9 of 10")]
    assert [row[0] for row in run_query(rows, SqlQuery(TABLE, filters=[condition]))] == expected


def test_text_counts_for_no_sum_and_no_mean() -> None:
    rows: Any = [(1, "1,234.5"), (3, "2.5"), ("n/a", "4"), (None, None)]
    sums = [Aggregate(each, column) for column in (NUMBER, TEXT) for each in ("sum", "avg")]
    assert run_query(rows, SqlQuery(TABLE, aggregates=sums)) == [(4, 2.0, 6.5, 3.25)]


def _lower(value: str) -> str:
    """As SQLite does: of ASCII alone."""
    return "".join(each.lower() if each.isascii() else each for each in value)


@pytest.mark.parametrize("operator", ["contains", "starts with"])
def test_other_letters_than_ascii_are_found_in_any_case(operator: Any) -> None:
    rows: list[Row] = [(1, "MÜNCHEN"), (2, "München"), (3, "Munchen"), (4, None)]
    chosen = [Filter(TEXT, operator, "münch")]
    assert [row[0] for row in run_query(rows, SqlQuery(TABLE, filters=chosen))] == [1, 2]


@pytest.mark.parametrize(("condition", "expected"), [
    (Filter(TEXT, "=", True), [1, 2, 3]), (Filter(TEXT, "!=", True), [4, 5]),
    (Filter(TEXT, "=", False), [4]), (Filter(NUMBER, "=", True), [1]),
])  # fmt: skip
def test_booleans_are_text_and_numbers(condition: Filter, expected: list[int]) -> None:
    rows: list[Row] = [(1, "true"), (2, "TRUE"), (3, "1"), (4, "False"), (5, None)]
    result = run_query(rows, SqlQuery(TABLE, filters=[condition]))
    assert [row[0] for row in result] == expected


def filters(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    many = st.lists(values, max_size=4)
    return st.one_of(
        st.builds(Filter, st.just(column), st.sampled_from(["<", "<=", ">", ">="]), values),
        st.builds(Filter, st.just(column), st.sampled_from(["=", "!="]), st.none() | values),
        st.builds(Filter, st.just(column), st.sampled_from(["contains", "starts with"]), values),
        st.builds(Filter, st.just(column), st.sampled_from(["in", "not in"]), many),
        st.builds(Filter, st.just(column), st.sampled_from(["is null", "is not null"])),
        st.builds(
            Filter, st.just(column), st.just("between"), st.lists(values, min_size=2, max_size=2)
        ),
    )


FILTERS = st.lists(filters(NUMBER, NUMBERS) | filters(TEXT, TEXTS), max_size=3)


@given(rows=ROWS, chosen=FILTERS, limit=st.integers(1, 20), offset=st.integers(0, 5))
def test_filters_of_rows(rows: list[Row], chosen: list[Filter], limit: int, offset: int) -> None:
    result = run_query(rows, SqlQuery(TABLE, filters=chosen, limit=limit, offset=offset))
    expected = [row for row in rows if all(holds(row, each) for each in chosen)]
    assert result == expected[offset : offset + limit + 1], "with one that tells of more"


@given(rows=ROWS, chosen=FILTERS)
def test_groups_are_counted_and_summed_up(rows: list[Row], chosen: list[Filter]) -> None:
    sums = [Aggregate("sum", NUMBER), Aggregate("max", NUMBER)]
    sums = [Aggregate("count"), *sums, Aggregate("count distinct", NUMBER)]
    result = run_query(rows, SqlQuery(TABLE, filters=chosen, group_by=[TEXT], aggregates=sums))
    groups: dict[str | None, list[int | None]] = {}
    for number, text in rows:
        if all(holds((number, text), each) for each in chosen):
            groups.setdefault(text, []).append(number)
    expected = {}
    for text, numbers in groups.items():
        known = [each for each in numbers if each is not None]
        total, most = (sum(known), max(known)) if known else (None, None)
        expected[text] = (len(numbers), total, most, len(set(known)))
    assert {row[0]: row[1:] for row in result} == expected
    assert len(result) == len(expected)


@given(rows=ROWS, descending=st.booleans())
def test_rows_come_in_order(rows: list[Row], descending: bool) -> None:
    order = [Order(NUMBER, descending), Order(TEXT)]
    result = run_query(rows, SqlQuery(TABLE, columns=[TEXT], order_by=order))
    numbered = sorted(rows, key=lambda row: (row[1] is not None, (row[1] or "").encode()))
    numbered.sort(key=lambda row: -100 if row[0] is None else row[0], reverse=descending)
    assert result == [(text,) for _, text in numbered]


ANYTHING = st.text(max_size=20) | st.sampled_from(
    [NUMBER, TEXT, '"', "'; DROP TABLE x --", "\x00", "\udcff", "count(*)", "rowid"]
)
ANY_VALUE = st.none() | st.booleans() | st.integers() | st.floats() | ANYTHING
OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "contains", "starts with"]
OPERATORS += ["in", "not in", "between", "is null", "is not null"]
FUNCTIONS = ["count", "count distinct", "sum", "avg", "min", "max"]


@given(
    query=st.builds(
        SqlQuery, st.just(TABLE), st.lists(ANYTHING, max_size=2),
        st.lists(
            st.builds(
                Filter, ANYTHING, st.sampled_from(OPERATORS),
                ANY_VALUE | st.lists(ANY_VALUE, max_size=3),
            ),
            max_size=2,
        ),
        st.lists(ANYTHING, max_size=2),
        st.lists(st.builds(Aggregate, st.sampled_from(FUNCTIONS), ANYTHING), max_size=2),
        st.lists(st.builds(Order, ANYTHING), max_size=2), st.integers(), st.integers(),
    )
)  # fmt: skip
def test_whatever_is_asked_is_a_query_or_refused(query: SqlQuery) -> None:
    try:
        run_query([(1, "a")], query)
    except ValidationError as error:
        assert str(error)


def only(operator: Any, value: Any = None) -> SqlQuery:
    return SqlQuery("t", filters=[Filter("text", operator, value)])


COUNT = Aggregate("count")


@pytest.mark.parametrize(("query", "message"), [
    (SqlQuery("t", ["numbr"]), "unknown column of t 'numbr': did you mean number? choose"),
    (SqlQuery("t", ["zzz"]), "unknown column of t 'zzz': choose from: number, text"),
    (SqlQuery("t", ["text"], aggregates=[COUNT]), "text is not grouped by: add it"),
    (SqlQuery("t", aggregates=[Aggregate("sum")]), "sum needs a column"),
    (only("in", "a"), "filter of text takes a list for 'in'"),
    (only("=", ["a"]), "text takes one value for '='"),
    (only("<"), "filter of text has no value for '<'"),
    (only("between", [1]), "takes two values for 'between'"),
    (only("=", 2**63), "is too large"),
    (only("in", [1] * 501), "more than 500 values"),
    (only("contains", "x" * 1001), "looks for more than 1000"),
    (only("starts with", "x" * 1001), "for more than 1000"),
    (SqlQuery("t", order_by=[Order("x")], group_by=["text"]), "unknown column of the result 'x'"),
    (SqlQuery("t", limit=0), "limit must be at least 1"),
    (SqlQuery("t", offset=-1), "offset must be at least 0"),
    (SqlQuery("t", ["text"] * 101), "more than 100 items"),
])  # fmt: skip
def test_what_is_refused_says_what_would_do(query: SqlQuery, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        statement(query, (Column("number", "INTEGER"), Column("text", "TEXT")))
    assert message in str(caught.value)


def test_capitals_do_not_matter() -> None:
    query = SqlQuery("t", group_by=["TEXT"], aggregates=[COUNT], order_by=[Order("COUNT")])
    sql, _ = statement(query, (Column("Text"),))
    assert sql == (
        'SELECT "Text" AS "Text", count(*) AS "count" FROM "t" GROUP BY "Text" ORDER BY 2'
        " LIMIT ? OFFSET ?"
    )

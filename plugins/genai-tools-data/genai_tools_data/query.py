"""Structured queries from a model, and their SQL.

No text of a query becomes SQL: tables and columns are existing ones, quoted, and values are
parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from attrs import frozen

from genai_host.api import well_formed
from genai_host.errors import ValidationError
from genai_tools_data.database import (
    CASEFOLD,
    MAX_COLUMNS,
    MAX_ROWS,
    Column,
    SqlValue,
    quoted,
)

Operator = Literal[
    "=", "!=", "<", "<=", ">", ">=",
    "contains", "starts with", "in", "not in", "between", "is null", "is not null",
]  # fmt: skip
SqlFunction = Literal["count", "count distinct", "sum", "avg", "min", "max"]
Scalar = str | int | float | bool

MAX_PARTS = 100  # per kind: columns, filters and so on
MAX_SOUGHT = 1000  # characters of a text to search for: SQLite takes time for their product
MAX_SEARCHED = 20_000  # rows in which texts are counted that a query leaves out
MAX_VALUES = 500  # in one list; SQLite allows at least 999 parameters

T = TypeVar("T")

_COMPARED = {"=": "IS", "!=": "IS NOT", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MAX_SIZE = 2**63  # limit of SQLite's integers
_NUMERIC = re.compile("INT|REAL|FLOA|DOUB|NUM|DEC", re.IGNORECASE)  # in a type: stored as numbers


@frozen
class Filter:
    """Which rows; `in` and `not in` take a list, `between` a list of two values, both
    included. Texts are equal if each letter is; `contains` and `starts with` ignore case."""

    column: str
    operator: Operator = "="
    value: Scalar | list[Scalar] | None = None


@frozen
class Aggregate:
    """What is made of all rows of a group, or of the table; its name is as `sum_price`.
    `count` without a column counts rows."""

    function: SqlFunction
    column: str = ""


@frozen
class Order:
    """The order of the rows of a result.

    Attributes:
        by: A column of the result, or of the table.
    """

    by: str
    descending: bool = False


@frozen
class SqlQuery:
    """A query of one table."""

    table: str
    columns: Sequence[str] = ()
    filters: Sequence[Filter] = ()
    group_by: Sequence[str] = ()
    aggregates: Sequence[Aggregate] = ()
    order_by: Sequence[Order] = ()
    limit: int = 50
    offset: int = 0


def statement(query: SqlQuery, columns: Sequence[Column]) -> tuple[str, list[SqlValue]]:
    """Return the SQL and its parameters. It requests one row more than the limit, to find out
    whether there are more. Raises `ValidationError`: the query is inconsistent or does not match
    the table."""
    table = _Table(query.table, {each.name: each for each in columns})
    _check(query)
    selected = list(_selected(query, table))
    where, values = _where(query.filters, table)
    clauses = {
        "WHERE": " AND ".join(where),
        "GROUP BY": ", ".join(table.column(name) for name in query.group_by),
        "ORDER BY": ", ".join(_order(each, selected, query, table) for each in query.order_by),
    }
    parts = [
        f"SELECT {', '.join(f'{made} AS {quoted(name)}' for name, made in selected)}",
        f"FROM {quoted(query.table)}",
        *(f"{name} {clause}" for name, clause in clauses.items() if clause),
        "LIMIT ? OFFSET ?",
    ]
    return " ".join(parts), [*values, limit_of(query) + 1, query.offset]


def statement_of_texts(
    query: SqlQuery, columns: Sequence[Column], *, typed: bool
) -> tuple[list[str], str, list[SqlValue]]:
    """Return the columns that a query sums up or compares with numbers, and the SQL that counts the
    texts in each, which the query leaves out, with an example, and last whether the table has more
    rows than it looks at. `typed` is whether columns of numbers contain no texts."""
    table = _Table(query.table, {each.name: each for each in columns})
    compared = [each for each in query.filters if _is_of_numbers(each)]
    others = [each for each in query.filters if each not in compared]
    names = [each.column for each in query.aggregates if each.function in ("sum", "avg")]
    used = [table.find(name) for name in (*names, *(each.column for each in compared))]
    used = [each for each in used if not (typed and each.type in ("INTEGER", "REAL"))]
    texts = [f"iif({_is_number(each)}, NULL, {quoted(each.name)})" for each in dict.fromkeys(used)]
    where, values = _where(others, table)
    sql = ", ".join(f"count({each}), min({each})" for each in texts)
    name = quoted(query.table)
    more = f"EXISTS (SELECT 1 FROM {name} LIMIT 1 OFFSET {MAX_SEARCHED})"  # noqa: S608 - quoted
    rows = f"(SELECT * FROM {name} LIMIT {MAX_SEARCHED})"  # noqa: S608 - quoted
    sql = f"SELECT {sql}, {more} FROM {rows} WHERE {' AND '.join(where) or 1}"  # noqa: S608 - quoted
    return list(dict.fromkeys(each.name for each in used)), sql, values


def _check(query: SqlQuery) -> None:
    parts = (query.columns, query.filters, query.group_by, query.aggregates, query.order_by)
    if max(map(len, parts)) > MAX_PARTS:
        raise ValidationError(f"the query has a list with more than {MAX_PARTS} items")
    if not 0 <= query.offset < _MAX_SIZE:
        raise ValidationError("offset must be at least 0")


def limit_of(query: SqlQuery) -> int:
    """Return the number of rows, up to the maximum. Raises `ValidationError` if it is invalid."""
    if query.limit < 1:
        raise ValidationError("limit must be at least 1")
    return min(query.limit, MAX_ROWS)


def found_in(name: str, known: Mapping[str, T], what: str) -> tuple[str, T]:
    """Return an item and its exact name, ignoring case. Raises `ValidationError`."""
    if name in known:
        return name, known[name]
    for each, value in known.items():
        if each.casefold() == name.casefold():
            return each, value
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(list(known)[:50]) or "none"
    hint = f"did you mean {near[0]}? " if near else ""
    raise ValidationError(f"unknown {what} {name[:80]!r}: {hint}choose from: {listed}")


@frozen
class _Table:
    name: str
    columns: Mapping[str, Column]

    def find(self, name: str) -> Column:
        return found_in(name, self.columns, f"column of {self.name}")[1]

    def column(self, name: str) -> str:
        return quoted(self.find(name).name)


def _selected(query: SqlQuery, table: _Table) -> Iterable[tuple[str, str]]:
    """Yield each column of the result with its expression."""
    if query.group_by or query.aggregates:
        grouped = list(dict.fromkeys(table.find(name).name for name in query.group_by))
        for name in query.columns:
            if table.find(name).name not in grouped:
                raise ValidationError(
                    f"{name} is not grouped by: add it to group_by, or aggregate it"
                )
        for name in grouped:
            yield name, quoted(name)
        for each in query.aggregates:
            yield aggregate_name(each), _aggregated(each, table)
        return
    wanted = [table.find(name).name for name in query.columns] or [*table.columns][:MAX_COLUMNS]
    for name in dict.fromkeys(wanted):
        yield name, quoted(name)


def aggregate_name(given: Aggregate) -> str:
    """Return a name such as `sum_price`."""
    function = given.function.replace(" ", "_")
    return f"{function}_{given.column}" if given.column else function


def _aggregated(given: Aggregate, table: _Table) -> str:
    if not given.column:
        if given.function != "count":
            raise ValidationError(f"{given.function} needs a column")
        return "count(*)"
    column = table.find(given.column)
    name = quoted(column.name)
    if given.function == "count distinct":
        return f"count(DISTINCT {name})"
    number = f"CASE WHEN {_is_number(column)} THEN {_number(column)} END"
    if given.function in ("sum", "avg"):  # texts would count as 0
        return f"{given.function}({number})"
    if given.function != "count" and not column.type:  # texts are greater than any number
        return f"coalesce({given.function}({number}), {given.function}({name}))"
    return f"{given.function}({name})"


def _number(column: Column) -> str:
    """The value of a column as a number. The name alone can use an index."""
    name = quoted(column.name)
    return name if _NUMERIC.search(column.type) else f"CAST({name} AS NUMERIC)"


def _is_number(column: Column) -> str:
    """Whether a value is a number, also as text: SQLite reads other texts as their first digits."""
    name = quoted(column.name)
    return f"{name} = CAST({name} AS NUMERIC)"


def _where(filters: Sequence[Filter], table: _Table) -> tuple[list[str], list[SqlValue]]:
    found = [_condition(each, table.find(each.column)) for each in filters]
    return [condition for condition, _ in found], [each for _, given in found for each in given]


def _is_of_numbers(given: Filter) -> bool:
    """Whether a filter compares by the size of numbers."""
    values = given.value if isinstance(given.value, list) else [given.value]
    return given.operator in ("<", "<=", ">", ">=", "between") and not any(
        isinstance(each, (str, bool)) or each is None for each in values
    )


def _condition(given: Filter, of: Column) -> tuple[str, list[SqlValue]]:
    operator, value, column = given.operator, given.value, quoted(of.name)
    guard = ""
    if _is_of_numbers(given):
        column, guard = _number(of), f" AND {_is_number(of)}"
    if operator in ("is null", "is not null"):
        return f"{column} {operator.upper()}", []
    if operator in ("in", "not in", "between"):
        values = _list(given)
        if operator == "between":
            return f"{column} BETWEEN ? AND ?{guard}", values
        places = ", ".join("?" * len(values))
        # otherwise a row with NULL would match neither operator
        beside = f" OR {column} IS NULL" if operator == "not in" else ""
        return f"({column} {operator.upper()} ({places}){beside})", values
    if isinstance(value, list):
        raise ValidationError(f"the filter of {given.column} takes one value for {operator!r}")
    if value is None and operator not in ("=", "!="):
        raise ValidationError(f"the filter of {given.column} has no value for {operator!r}")
    if operator in ("contains", "starts with"):
        text = _text(value)
        if len(text) > MAX_SOUGHT:
            raise ValidationError(
                f"the filter of {given.column} looks for more than {MAX_SOUGHT} characters"
            )
        place = "> 0" if operator == "contains" else "= 1"
        if text.isascii():  # SQLite's function is faster, and knows no other letters
            return f"instr(lower({column}), lower(?)) {place}", [text]
        return f"instr({CASEFOLD}({column}), ?) {place}", [text.casefold()]
    if isinstance(value, bool) and operator in ("=", "!="):  # text in CSV files
        among = "IN" if operator == "=" else "NOT IN"
        texts: list[SqlValue] = [str(int(value)), str(value).lower()]
        return f"coalesce(lower({column}), '') {among} (?, ?)", texts
    return f"{column} {_COMPARED[operator]} ?{guard}", [_value(value)]


def _list(given: Filter) -> list[SqlValue]:
    if not isinstance(given.value, list):
        raise ValidationError(f"the filter of {given.column} takes a list for {given.operator!r}")
    if given.operator == "between" and len(given.value) != 2:
        raise ValidationError(f"the filter of {given.column} takes two values for 'between'")
    if len(given.value) > MAX_VALUES:
        raise ValidationError(f"the filter of {given.column} has more than {MAX_VALUES} values")
    return [_value(each) for each in given.value]


def _value(value: Scalar | None) -> SqlValue:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -_MAX_SIZE <= value < _MAX_SIZE:
        raise ValidationError(f"the number {str(value)[:40]} is too large")
    return _text(value) if isinstance(value, str) else value


def _text(value: Scalar | None) -> str:
    """Return a text that can be encoded in UTF-8."""
    return well_formed(str(value))


def _order(
    given: Order, selected: Sequence[tuple[str, str]], query: SqlQuery, table: _Table
) -> str:
    """Order by the position in the result, because an aggregate can have the name of a column."""
    direction = " DESC" if given.descending else ""
    names = [name for name, _ in selected]
    for place, name in enumerate(names, 1):
        if name.casefold() == given.by.casefold():
            return f"{place}{direction}"
    if query.group_by or query.aggregates:
        found_in(given.by, dict.fromkeys(names), "column of the result")
    return table.column(given.by) + direction

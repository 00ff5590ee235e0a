"""Tools for queries and charts over the user's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from attrs import evolve, frozen

from genai_host.api import CancelToken, Tool, ToolContext, ToolOutput, tool, well_formed
from genai_host.errors import GenaiError, ValidationError
from genai_tools_data.database import (
    MAX_ROWS,
    MAX_SQL,
    Column,
    DatabaseReader,
    QueryResult,
    SqlValue,
    can_run,
    quoted,
    run_apart,
)
from genai_tools_data.query import (
    Aggregate,
    Filter,
    Order,
    SqlQuery,
    aggregate_name,
    found_in,
    limit_of,
    statement,
    statement_of_texts,
)
from genai_tools_data.reactions import DisplayType, chart_of, table_of
from genai_tools_data.source import DataSource

SECONDS = 30.0
"""Timeout of one query in seconds."""

_NOTE_SECONDS = 1.0
_SCANNED = 100_000  # rows that a description is based on
_DESCRIBED = 60  # columns with details beyond their type

TableName = Annotated[str, "name of a table, from list_tables"]
Filters = Annotated[list[Filter], "conditions that a row must meet, all of them"]
OrderBy = Annotated[list[Order], "order of the rows, most important first"]
RowLimit = Annotated[int, f"maximum number of rows, up to {MAX_ROWS}"]
Sql = Annotated[str, f"one SELECT in SQLite's SQL, at most {MAX_SQL} characters"]


@frozen
class Series:
    """Numbers of a chart: those of a column, or what is made of them for each label.
    `count` without a column counts rows."""

    column: str = ""
    function: Literal["value", "count", "count distinct", "sum", "avg", "min", "max"] = "value"


class DataTools:
    """Each of its methods is a tool."""

    def __init__(self, source: DataSource) -> None:
        self._source = source

    def tools(self) -> Sequence[Tool]:
        given: Mapping[str, Any] = {
            "idempotent": True,
            "timeout": SECONDS,
            "available_when": lambda context: self._source.is_named(),
        }
        if_it_runs = {"available_when": lambda context: self._source.is_named() and can_run()}
        return (
            tool(self.list_tables, **given),
            tool(self.describe_table, **given),
            tool(self.query_table, **given),
            tool(self.query_sql, **{**given, **if_it_runs}),
            tool(self.chart, **given),
        )

    def list_tables(self, run: ToolContext) -> str:
        """List the tables of the user's data with their columns.

        Call it before any other tool that uses the data."""
        with self._source.opened(run.limits) as reader:
            lines = tuple(
                (name, kind, ", ".join(each.name for each in reader.columns(name, run.limits)))
                for name, kind in reader.tables(run.limits).items()
            )
        return QueryResult(("table", "kind", "columns"), lines).text

    def describe_table(self, table: TableName, run: ToolContext) -> str:
        """Describe a table of the user's data.

        Its columns with their types, how many values they have, the smallest and the
        largest; and its first rows."""
        with self._source.opened(run.limits) as reader:
            name, _ = found_in(table, reader.tables(run.limits), "table")
            columns = reader.columns(name, run.limits)
            # quoted name of an existing table
            part = f"(SELECT * FROM {quoted(name)} LIMIT {_SCANNED})"  # noqa: S608
            counted = reader.run(f"SELECT count(*) FROM {part}", run.limits)  # noqa: S608
            rows = counted.rows[0][0]
            about = [_about(reader, part, each, run.limits) for each in columns[:_DESCRIBED]]
            first = reader.run(*_sql(SqlQuery(name, limit=3), columns, run.limits), most=3)
            keys = _keys(reader, name, run.limits)
        beyond = columns[_DESCRIBED:]
        head = ("column", "type", "values", "distinct", "smallest", "largest")
        parts = (
            f"{name}: {'at least ' if rows == _SCANNED else ''}{rows} rows",
            QueryResult(head, tuple(about)).text,
            f"and: {', '.join(each.name for each in beyond)}" if beyond else "",
            keys,
            f"The first rows:\n{first.text}",
        )
        return "\n\n".join(filter(None, parts))

    def query_table(
        self,
        table: TableName,
        run: ToolContext,
        *,
        columns: Annotated[list[str], "none for all, unless there are aggregates"] = [],  # noqa: B006 - read only
        filters: Filters = [],  # noqa: B006 - read only
        group_by: Annotated[list[str], "columns; one row per distinct value"] = [],  # noqa: B006 - read only
        aggregates: Annotated[list[Aggregate], "of each group, or of all rows"] = [],  # noqa: B006 - read only
        order_by: OrderBy = [],  # noqa: B006 - read only
        limit: RowLimit = 50,
        offset: Annotated[int, "number of rows to skip"] = 0,
    ) -> ToolOutput:
        """Look rows up in a table of the user's data, or count them and sum them up.

        The user sees the rows as a table."""
        query = SqlQuery(table, columns, filters, group_by, aggregates, order_by, limit, offset)
        with self._source.opened(run.limits) as reader:
            result = _asked(reader, query, run.limits)
        return ToolOutput(result.text, reactions=[table_of(result)])

    def query_sql(self, sql: Sql, run: ToolContext, limit: RowLimit = 50) -> ToolOutput:
        """Query the user's data with SQL if query_table is not sufficient.

        For example for several tables, subqueries or HAVING. Read only. The user sees the
        rows as a table."""
        with self._source.opened(run.limits) as reader:
            result = _asked_in_sql(reader, sql, limit, run.limits)
        return ToolOutput(result.text, reactions=[table_of(result)])

    def chart(
        self,
        display_type: Annotated[DisplayType, "row is a horizontal bar chart; scalar is one number"],
        run: ToolContext,
        *,
        table: Annotated[str, "name of a table, from list_tables; or use sql"] = "",
        label: Annotated[str, "the column that names the values; none for a scalar"] = "",
        values: Annotated[list[Series], "none to count the rows of each label"] = [],  # noqa: B006 - read only
        filters: Filters = [],  # noqa: B006 - read only
        order_by: OrderBy = [],  # noqa: B006 - read only
        limit: RowLimit = 50,
        sql: Annotated[str, "instead of a table: the first column is the label"] = "",
        title: str = "",
    ) -> ToolOutput:
        """Show the user a chart of their data. The output is what the chart shows."""
        if bool(table) == bool(sql):
            raise ValidationError("use either table or sql")
        with self._source.opened(run.limits) as reader:
            if sql:
                if not can_run():
                    raise ValidationError("sql is not available here: use table")
                result = _asked_in_sql(reader, sql, limit, run.limits)
            else:
                query = _charted(table, label, values, filters, order_by, limit, display_type)
                result = _asked(reader, query, run.limits)
        label_shown, shown = _parts(result, display_type, is_labelled=bool(sql or label))
        _check(result, display_type, label_shown, shown)
        reaction = chart_of(result, display_type, title[:200], label_shown, shown)
        return ToolOutput(f"A {display_type} chart of\n{result.text}", reactions=[reaction])


def _asked(reader: DatabaseReader, query: SqlQuery, limits: CancelToken) -> QueryResult:
    name, _ = found_in(query.table, reader.tables(limits), "table")
    columns = reader.columns(name, limits)
    query = evolve(query, table=name)
    result = reader.run(*_sql(query, columns, limits), most=limit_of(query))
    return evolve(result, note=_left_out(reader, query, columns, limits))


def _left_out(
    reader: DatabaseReader, query: SqlQuery, columns: Sequence[Column], limits: CancelToken
) -> str:
    """Say which texts were neither summed up nor compared; empty if there are none, or if the
    search takes long: the result is complete without it."""
    # the types of CSV files are those of all their values
    names, sql, parameters = statement_of_texts(query, columns, typed=not reader.address)
    if not names:
        return ""
    try:
        *counts, more = reader.run(sql, limits, parameters, seconds=_NOTE_SECONDS).rows[0]
    except GenaiError:
        return ""
    found = iter(counts)
    least_of = "at least " if more else ""
    told = [
        f"{least_of}{count} value{'s' if count != 1 else ''} of {name}, such as {str(least)[:40]!r}"
        for name, count, least in zip(names, found, found, strict=True)
        if count
    ]
    return f"left out as not a number: {'; '.join(told)}" if told else ""


def _sql(
    query: SqlQuery, columns: Sequence[Column], limits: CancelToken
) -> tuple[str, CancelToken, list[SqlValue]]:
    sql, parameters = statement(query, columns)
    return sql, limits, parameters


def _asked_in_sql(reader: DatabaseReader, sql: str, limit: int, limits: CancelToken) -> QueryResult:
    if len(sql) > MAX_SQL:
        raise ValidationError(f"the statement is longer than {MAX_SQL} characters")
    try:
        return run_apart(reader, well_formed(sql), limits, limit_of(SqlQuery("", limit=limit)))
    except ValidationError as error:
        limits.check()
        tables = ", ".join(list(reader.tables(limits))[:20])
        raise ValidationError(f"{error}; the tables are: {tables or 'none'}") from error


def _about(
    reader: DatabaseReader, part: str, column: Column, limits: CancelToken
) -> tuple[str | int | float | None, ...]:
    """Return the line for a column, based on the first rows."""
    name = quoted(column.name)
    # quoted name of an existing column
    found = reader.run(
        f"SELECT count({name}), count(DISTINCT {name}), min({name}), max({name}),"  # noqa: S608
        f" sum(typeof({name}) = 'text'), sum(typeof({name}) IN ('integer', 'real')) FROM {part}",
        limits,
    )
    values, distinct, smallest, largest, texts, numbers = found.rows[0]
    kind = column.type or (f"{numbers} numbers, {texts} texts" if texts and numbers else "any")
    if column.in_key:
        kind += ", key"
    return column.name, kind, values, distinct, smallest, largest


def _keys(reader: DatabaseReader, table: str, limits: CancelToken) -> str:
    """Return the foreign keys of a table."""
    return "\n".join(
        f"{own} names rows of {other} ({of or 'its key'})"
        for own, other, of in reader.keys(table, limits)
    )


def _charted(
    table: str,
    label: str,
    values: Sequence[Series],
    filters: Sequence[Filter],
    order_by: Sequence[Order],
    limit: int,
    display_type: DisplayType,
) -> SqlQuery:
    """Return the query for a chart: the label, then the values."""
    labels = [label] if label else []
    usual = [Order(each) for each in labels]
    made = [
        Aggregate(each.function, each.column) for each in values if each.function != "value"
    ] or ([] if values else [Aggregate("count")])
    if not made:
        columns = [*labels, *(each.column for each in values)]
        return SqlQuery(table, columns, filters, order_by=order_by or usual, limit=limit)
    if len(made) < len(values):
        raise ValidationError("either all values or none must have a function")
    if labels and display_type not in ("line", "area"):
        usual = [Order(aggregate_name(made[0]), descending=True), *usual]
    return SqlQuery(table, (), filters, labels, made, order_by or usual, limit)


def _parts(
    result: QueryResult, display_type: DisplayType, *, is_labelled: bool
) -> tuple[str | None, tuple[str, ...]]:
    """Return the label column and the value columns."""
    if is_labelled and len(result.columns) > 1:
        return result.columns[0], result.columns[1:]
    return None, result.columns


def _check(
    result: QueryResult, display_type: DisplayType, label: str | None, values: Sequence[str]
) -> None:
    """Check that a chart can show the result; raises `ValidationError`."""
    if not result.rows:
        raise ValidationError("nothing to show: no row matches the filters")
    if display_type == "scalar" and (len(result.rows), len(values)) != (1, 1):
        raise ValidationError(
            f"a scalar is one number, but there are {len(result.rows)} rows of {len(values)} "
            "values: omit the label, or choose another type"
        )
    if display_type != "scalar" and label is None:
        raise ValidationError("label is missing: the column that names the values")
    if display_type == "pie" and len(values) > 1:
        raise ValidationError("a pie shows one value of each label: choose another type")
    for place, name in enumerate(result.columns):
        if name == label:
            continue
        for row in result.rows:
            cell = row[place]
            if isinstance(cell, str):
                raise ValidationError(
                    f"{name} has values that are not numbers, for example {cell[:40]!r}"
                )
            if display_type == "pie" and (cell or 0) < 0:
                raise ValidationError(f"{name} has values below 0, which a pie cannot show")

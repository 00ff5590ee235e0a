"""Reactions that a front end can show: tables and charts.

    {"type": "table", "columns": ["region", "count"], "rows": [["north", 3]], "more": false}
    {"type": "chart", "display-type": "bar", "title": "", "label": "region",
     "values": ["count"], "columns": ["region", "count"], "rows": [["north", 3]], "more": false}

A chart contains its data like a table, so that a front end can show another type of chart. All
texts are untrusted data, from a model or from the author of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from genai_host.api import ReactionType

if TYPE_CHECKING:
    from genai_tools_data.database import QueryResult

DisplayType = Literal["bar", "row", "line", "area", "pie", "scalar"]
"""Types of charts. A row is a horizontal bar; a scalar is one number."""

_DATA: Mapping[str, Any] = {
    "columns": {"type": "array", "items": {"type": "string"}},
    "rows": {
        "type": "array",
        "items": {"type": "array", "items": {"type": ["string", "number", "null"]}},
    },
    "more": {"type": "boolean", "description": "whether rows were omitted"},
}

_EXACT = 2**53 - 1  # the largest number of JSON that all readers take as it is: RFC 8259, 6

_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "table": _DATA,
    "chart": {
        "display-type": {"enum": list(get_args(DisplayType))},
        "title": {"type": "string"},
        "label": {"type": ["string", "null"], "description": "the column that names the values"},
        "values": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "the columns with numbers",
        },
        **_DATA,
    },
}


def _schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    name: _schema({"type": {"const": name}, **fields}) for name, fields in _FIELDS.items()
}
"""The JSON Schema of each reaction, by its type."""


def reaction_types() -> Iterator[ReactionType]:
    """Yield the reaction types. The host validates the `type` before the fields."""
    for name, fields in _FIELDS.items():
        yield ReactionType(name, _schema(fields), text_view="genai_tools_data.terminal_view:view")


def table_of(result: QueryResult) -> dict[str, Any]:
    return {"type": "table", **_data(result)}


def chart_of(
    result: QueryResult,
    display_type: DisplayType,
    title: str,
    label: str | None,
    values: Sequence[str],
) -> dict[str, Any]:
    return {
        "type": "chart",
        "display-type": display_type,
        "title": title,
        "label": label,
        "values": list(values),
        **_data(result, values),
    }


def _data(result: QueryResult, values: Sequence[str] = ()) -> dict[str, Any]:
    """Return the data. Integers that JavaScript would round are texts, except the values."""
    rows = [
        [
            str(cell) if type(cell) is int and abs(cell) > _EXACT and name not in values else cell
            for name, cell in zip(result.columns, row, strict=True)
        ]
        for row in result.rows
    ]
    return {"columns": list(result.columns), "rows": rows, "more": result.more}

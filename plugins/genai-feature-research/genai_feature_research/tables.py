"""Tables of callers: pandas DataFrames, or in JSON lists of records, columns that are lists, or
columns that are objects keyed by index. Tables are never modified; the result is a table of the
same form.

Source: Assistant microservice, "Inputs", `conversation_history` and `search_history`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from genai_feature_research.memory import Fact, InvalidVector, VectorColumn
from genai_host.errors import ValidationError

TableLayout = Literal["records", "columns", "indexed", "frame"]

TEXT, LENGTH, VECTOR = "text", "text_length", "ada_search"
ENTRY_COLUMNS = (TEXT, LENGTH, VECTOR)
FACT_COLUMNS = ("title", "link", TEXT, "query", LENGTH, VECTOR)


@frozen(eq=False)
class ScoredTable:
    """A table of a request, by columns.

    Attributes:
        path: Path in the request, for example `$.search_history`.
        columns: Columns by name, including unknown ones.
        rows: Number of rows.
    """

    form: TableLayout
    path: str
    columns: Mapping[str, Sequence[Any]]
    rows: int
    _keys: Sequence[str] = field(default=(), alias="keys")

    @classmethod
    def read(cls, value: Any, wanted: Sequence[str], path: str) -> ScoredTable:
        """Read a table; raises `ValidationError`, with the path, if it is invalid."""
        table = _read(value, path)
        if not table.rows and not table.columns:
            return cls(table.form, path, {name: [] for name in wanted}, 0)
        for name in wanted:
            if name not in table.columns:
                there = ", ".join(str(each)[:40] for each in list(table.columns)[:20]) or "none"
                raise ValidationError(
                    f"the column {name} is missing; choose from: {there}", path=f"{path}.{name}"
                )
        return table

    def place(self, column: str, row: int) -> str:
        """Return the path of a value."""
        if self.form == "records":
            return f"{self.path}[{row}].{column}"
        key = f'"{self._keys[row]}"' if self.form == "indexed" else row
        return f"{self.path}.{column}[{key}]"

    def texts(self, column: str) -> list[str]:
        """Return a column of texts; raises `ValidationError` for another type."""
        for row, value in enumerate(self.columns[column]):
            if not isinstance(value, str):
                raise ValidationError("must be a string", path=self.place(column, row))
        return list(self.columns[column])

    def checked_texts(self) -> list[str]:
        """Return the column `text`, checked against `text_length`."""
        texts = self.texts(TEXT)
        for row, (text, length) in enumerate(zip(texts, self.columns[LENGTH], strict=True)):
            if not _is(length, len(text)):
                raise ValidationError(
                    f"the text has {len(text)} characters", path=self.place(LENGTH, row)
                )
        return texts

    def vectors(self) -> VectorColumn:
        try:
            return VectorColumn.of(self.columns[VECTOR])
        except InvalidVector as error:
            raise ValidationError(str(error), path=self.place(VECTOR, error.row)) from error

    def facts(self) -> tuple[Fact, ...]:
        texts = self.checked_texts()
        others = [self.texts(name) for name in ("title", "link", "query")]
        return tuple(
            Fact(title, link, text, query)
            for text, title, link, query in zip(texts, *others, strict=True)
        )

    def longer(
        self, rows: Sequence[Mapping[str, Any]], vectors: VectorColumn, changed: bool
    ) -> Any:
        """A table of the same form with more rows."""
        new = range(self.rows, self.rows + len(rows))
        old = [vectors.row(row) for row in range(self.rows)] if changed else self.columns[VECTOR]
        columns = {
            name: [*values, *(row.get(name) for row in rows)]
            for name, values in self.columns.items()
        }
        columns[VECTOR] = [*old, *(vectors.row(row) for row in new)]
        if self.form != "frame":  # the others are written as JSON
            columns = {name: list(map(json_value, values)) for name, values in columns.items()}
        count = self.rows + len(rows)
        match self.form:
            case "columns":
                return columns
            case "indexed":
                keys = list(map(str, range(count)))
                return {name: dict(zip(keys, columns[name], strict=True)) for name in columns}
            case "frame":
                import pandas

                return pandas.DataFrame({name: pandas.Series(columns[name]) for name in columns})
        return [{name: columns[name][row] for name in columns} for row in range(count)]


def _read(value: Any, path: str) -> ScoredTable:
    pandas = sys.modules.get("pandas")  # a caller with a DataFrame has imported pandas
    if pandas is not None and isinstance(value, pandas.DataFrame):
        columns = {str(name): list(value[name]) for name in value.columns}
        return ScoredTable("frame", path, columns, len(value))
    if value is None:
        return ScoredTable("records", path, {}, 0)
    if isinstance(value, (list, tuple)):
        return _of_records(value, path)
    if not isinstance(value, Mapping):
        raise ValidationError(
            "must be a table: a list of records, or an object of columns", path=path
        )
    if all(isinstance(each, Mapping) for each in value.values()) and value:
        return _of_indexed(value, path)
    return _of_columns(value, path)


def _of_records(value: Sequence[Any], path: str) -> ScoredTable:
    for row, record in enumerate(value):
        if not isinstance(record, Mapping):
            raise ValidationError("a row must be an object", path=f"{path}[{row}]")
    names = list(dict.fromkeys(name for record in value for name in record))
    for name in {TEXT, LENGTH, VECTOR, *FACT_COLUMNS} & set(names):
        for row, record in enumerate(value):
            if name not in record:
                raise ValidationError(f"the column {name} is missing", path=f"{path}[{row}].{name}")
    columns = {name: [record.get(name) for record in value] for name in names}
    return ScoredTable("records", path, columns, len(value))


def _of_columns(value: Mapping[str, Any], path: str) -> ScoredTable:
    rows = -1
    for name, column in value.items():
        if not isinstance(column, (list, tuple)):
            raise ValidationError("a column must be a list", path=f"{path}.{str(name)[:40]}")
        if rows not in (-1, len(column)):
            raise ValidationError(
                f"the column has {len(column)} rows, others have {rows}",
                path=f"{path}.{str(name)[:40]}",
            )
        rows = len(column)
    return ScoredTable("columns", path, dict(value), max(rows, 0))


def _of_indexed(value: Mapping[str, Any], path: str) -> ScoredTable:
    keys = list(next(iter(value.values())))
    for name, column in value.items():
        if column.keys() != set(keys):
            raise ValidationError(
                "the column has different rows than other columns", path=f"{path}.{str(name)[:40]}"
            )
    columns = {name: [column[key] for key in keys] for name, column in value.items()}
    return ScoredTable("indexed", path, columns, len(keys), keys=[str(key)[:40] for key in keys])


def json_value(value: Any) -> Any:
    """Convert a value to plain JSON types. Tables made from DataFrames or vectors contain numbers
    and arrays of numpy, and NaN for missing values.
    """
    if hasattr(value, "dtype"):
        value = value.tolist()
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "dtype"):
        return [json_value(each) for each in value]
    return value


def _is(value: Any, length: int) -> bool:
    """Whether a value is a number, of Python or numpy, that equals `length`; not a boolean."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return False
    return hasattr(value, "__int__") and not isinstance(value, str) and value == length

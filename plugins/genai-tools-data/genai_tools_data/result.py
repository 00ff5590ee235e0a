"""What a query gave: rows of plain values, and how a model reads them.

Whatever stands in the data, it takes one line for each row, and no more room than there is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence

from attrs import frozen

Cell = str | int | float | None

MOST_ROWS = 500
"""That one query may give."""

MOST_COLUMNS = 100

MOST_CELL = 500
"""Characters of a value; what is beyond is cut off."""

MOST_BYTES = 400_000
"""Of all rows as JSON; rows beyond are left out. A host takes 1 MiB of a tool."""

MOST_TEXT = 20_000
"""Characters of the text for the model; rows beyond are left out."""

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CUT = "…"


@frozen
class Result:
    """Rows as far as there is room for them.

    more   whether there are rows beyond these
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: bool = False

    @property
    def text(self) -> str:
        """For a model: the names, then a row on each line, then how many they are."""
        lines = [" | ".join(map(_on_line, self.columns))]
        room = MOST_TEXT - len(lines[0])
        for row in self.rows:
            line = " | ".join(map(_on_line, row))
            room -= len(line) + 1
            if room < 0:
                break
            lines.append(line)
        return "\n".join((*lines, f"({self._count(len(lines) - 1)})"))

    def _count(self, shown: int) -> str:
        rows = "1 row" if len(self.rows) == 1 else f"{len(self.rows)} rows"
        if shown < len(self.rows):
            return f"the first {shown} of {rows}: there is no room for more; select less"
        if self.more:
            return f"the first {rows}; there are more"
        return rows


def kept(columns: Sequence[str], rows: Iterable[Sequence[object]], most: int) -> Result:
    """As many rows as there is room for, at most `most`."""
    taken: list[tuple[Cell, ...]] = []
    room = MOST_BYTES
    for row in rows:
        cells = tuple(map(cell_of, row))
        room -= sum(len(json.dumps(cell)) + 2 for cell in cells)
        if len(taken) == most or room < 0:
            return Result(_apart(columns), tuple(taken), more=True)
        taken.append(cells)
    return Result(_apart(columns), tuple(taken))


def cell_of(value: object) -> Cell:
    """A value as JSON can have it, and not too long."""
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        return text if len(text) <= MOST_CELL else text[: MOST_CELL - 1] + _CUT
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (int, float)):
        return value
    return str(value)


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    """The names, told apart where several are the same: they name what is in a row."""
    found: dict[str, None] = {}
    for name in names:
        plain = str(cell_of(name))
        number, own = 1, plain
        while own in found:
            number += 1
            own = f"{plain} ({number})"
        found[own] = None
    return tuple(found)


def _on_line(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.15g}"
    return _BREAKS.sub(" ", str(cell)).replace("|", "¦")

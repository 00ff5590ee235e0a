"""Tables and charts for a terminal, as lines of plain text.

Untrusted data and titles cannot control the terminal: control and bidirectional characters are
replaced by visible symbols. Nothing is printed here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_HIGH = 10  # height of a line chart in lines
_MAX_LABEL = 24
_MAX_CELL = 40

JOINERS = "\u200c\u200d"
"""Invisible characters of words, for example in Persian and Hindi, and of emoji."""


def view(reaction: Mapping[str, Any], width: int = 80) -> list[str]:
    """Return the lines of a reaction of `genai_tools_data.reactions`, for a terminal of at least 20
    columns; empty for other reactions."""
    width = max(20, width)
    if reaction.get("type") == "table":
        return _table(reaction, width)
    if reaction.get("type") != "chart":
        return []
    title = [_cut(safe(reaction["title"]), width)] if reaction["title"] else []
    return title + _DRAWN[reaction["display-type"]](reaction, width) + _more(reaction)


def safe(text: str) -> str:
    """Return a text on one line, without control and invisible characters."""
    return text if text.isprintable() else "".join(map(_sign, text))


def _sign(letter: str) -> str:
    """Return the character, or a symbol for an invisible one."""
    if letter.isprintable() or letter in JOINERS:
        return letter
    if unicodedata.category(letter) == "Zs":
        return " "
    return chr(0x2400 + ord(letter)) if letter < " " else "\ufffd"


def _table(reaction: Mapping[str, Any], width: int) -> list[str]:
    rows = [[safe(name) for name in reaction["columns"]]]
    rows += [[_written(cell) for cell in row] for row in reaction["rows"]]
    numbers = [
        all(isinstance(row[place], (int, float, type(None))) for row in reaction["rows"])
        for place in range(len(reaction["columns"]))
    ]
    widths = [
        min(_MAX_CELL, max(_width(row[place]) for row in rows)) for place in range(len(rows[0]))
    ]
    lines = [
        "  ".join(
            _padded(cell, room, right)
            for cell, room, right in zip(row, widths, numbers, strict=True)
        )
        for row in rows
    ]
    rule = "─" * min(width, sum(widths) + 2 * max(0, len(widths) - 1))
    return [_cut(line.rstrip(), width) for line in (lines[0], rule, *lines[1:])] + _more(reaction)


def _more(reaction: Mapping[str, Any]) -> list[str]:
    return ["(there are more)"] if reaction["more"] else []


def _bars(reaction: Mapping[str, Any], width: int) -> list[str]:
    """Return a bar for each value, to the right of 0, or to the left for negative values."""
    named = [
        (f"{label} {name}".strip() if len(reaction["values"]) > 1 else label, value)
        for label, values in _labelled(reaction)
        for name, value in values
    ]
    if not named:
        return []
    label_room = min(_MAX_LABEL, max(_width(name) for name, _ in named))
    number_room = max(len(_written(value)) for _, value in named)
    room = max(4, width - label_room - number_room - 2)
    lowest = min(0.0, *(value or 0.0 for _, value in named))
    highest = max(0.0, *(value or 0.0 for _, value in named))
    left = round(room * _height(0, lowest, highest))
    lines = []
    for name, value in named:
        below = _bar(_part(-(value or 0), -lowest), left)
        above = _bar(_part(value or 0, highest), room - left)
        bar = " " * (left - len(below)) + "█" * len(below) + above
        lines.append(
            f"{_padded(name, label_room)} {_padded(_written(value), number_room, True)} {bar}"
        )
    return [line.rstrip() for line in lines]


def _bar(part: float, room: int) -> str:
    eighths = round(max(0.0, min(1.0, part)) * room * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def _pie(reaction: Mapping[str, Any], width: int) -> list[str]:
    """Return the share of each value."""
    pairs = [(label, values[0][1] or 0.0) for label, values in _labelled(reaction)]
    total = sum(value for _, value in pairs)
    label_room = min(_MAX_LABEL, max((_width(label) for label, _ in pairs), default=0))
    room = max(4, width - label_room - 9)
    return [
        f"{_padded(label, label_room)} {_part(value, total):6.1%} "
        f"{_bar(_part(value, total), room)}".rstrip()
        for label, value in pairs
    ]


def _curves(reaction: Mapping[str, Any], width: int) -> list[str]:
    """Return a line chart of block characters for each series."""
    labelled = _labelled(reaction)
    lines: list[str] = []
    for place, name in enumerate(reaction["values"]):
        points = [values[place][1] for _, values in labelled]
        known = [point for point in points if point is not None]
        if not known:
            continue
        lowest, highest = min(0, *known), max(0, *known)
        scale = [_written(highest), _written(lowest)]
        margin = max(map(len, scale)) + 1
        room = max(4, width - margin)
        columns = _fitted(points, room)
        heights = [
            round(_height(lowest if point is None else point, lowest, highest) * _HIGH * 8)
            for point in columns
        ]
        lines.append(_cut(safe(name), width))
        for level in range(_HIGH - 1, -1, -1):
            mark = {_HIGH - 1: scale[0], 0: scale[1]}.get(level, "")
            blocks = "".join(_HEIGHTS[max(0, min(8, high - 8 * level))] for high in heights)
            lines.append(f"{mark.rjust(margin - 1)} {blocks}".rstrip())
    if lines and labelled:
        lines.append(_cut(f"from {labelled[0][0]} to {labelled[-1][0]}", width))
    return lines


def _fitted(points: Sequence[float | None], room: int) -> list[float | None]:
    """Scale points to the width: fewer points, or wider ones."""
    if len(points) > room:
        return [points[place * len(points) // room] for place in range(room)]
    return [point for point in points for _ in range(max(1, min(6, room // len(points))))]


def _scalar(reaction: Mapping[str, Any], width: int) -> list[str]:
    return [f"{safe(reaction['values'][0])}: {_written(reaction['rows'][0][-1])}"]


_DRAWN = {
    "bar": _bars,
    "row": _bars,
    "line": _curves,
    "area": _curves,
    "pie": _pie,
    "scalar": _scalar,
}


def _labelled(reaction: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, float | None]]]]:
    """Return each label with the named values of its row."""
    columns = reaction["columns"]
    label = columns.index(reaction["label"]) if reaction["label"] in columns else None
    places = [(name, columns.index(name)) for name in reaction["values"]]
    rows = reaction["rows"]
    labels = ["" if label is None else _written(row[label]) for row in rows]
    values = [[(safe(name), row[place]) for name, place in places] for row in rows]
    return list(zip(labels, values, strict=True))


def _height(value: float, lowest: float, highest: float) -> float:
    """Return the relative position between the lowest and the highest value, from 0 to 1; computed
    with halves, because the difference can overflow.
    """
    return _part(value / 2 - lowest / 2, highest / 2 - lowest / 2)


def _part(value: float, whole: float) -> float:
    """Return a fraction; 0 for a total of 0."""
    return value / whole if whole else 0.0


def _written(cell: object) -> str:
    if cell is None:
        return "-"
    if not isinstance(cell, float):
        return safe(str(cell))
    if 1000 <= abs(cell) < 1e15:  # six digits would round money
        return f"{cell:.2f}".rstrip("0").rstrip(".")
    return f"{cell:.6g}"


def _width(text: str) -> int:
    """Return the terminal columns of a text; East Asian wide characters take two (Unicode TR11)."""
    shown = [each for each in text if each not in JOINERS and not unicodedata.combining(each)]
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in shown)


def _cut(text: str, room: int) -> str:
    if _width(text) <= room:
        return text
    while text and _width(text) > room - 1:
        text = text[:-1]
    return f"{text}…"


def _padded(text: str, room: int, right: bool = False) -> str:
    text = _cut(text, room)
    space = " " * (room - _width(text))
    return space + text if right else text + space

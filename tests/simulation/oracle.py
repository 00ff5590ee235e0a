"""Invariants, computed from the rows of the store with plain SQL.

Nothing here uses the host, so a defect of the host cannot hide itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simulation import postgresql
from simulation.world import text_of

_MAX_TOKENS = 2**53
_connections: dict[str, sqlite3.Connection] = {}  # each new one would read the schema first


class Row(NamedTuple):
    """A stored entry of a conversation."""

    number: int
    turn: int | None
    kind: str
    at: float
    body: str

    @property
    def form(self) -> Any:
        return json.loads(self.body)


class Sums(NamedTuple):
    """Numbers of calls with their usage and cost."""

    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0

    def plus(self, other: Sums) -> Sums:
        return Sums(
            self.calls + other.calls, self.tokens + other.tokens, self.dollars + other.dollars
        )

    def equals(self, other: Sums) -> bool:
        is_close = abs(self.dollars - other.dollars) <= 1e-6 * max(1.0, other.dollars)
        return self[:2] == other[:2] and is_close


def query(file: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    if "://" in file:
        return postgresql.query(file, sql, values)
    if file not in _connections:
        _connections[file] = sqlite3.connect(file, check_same_thread=False)
    return _connections[file].execute(sql, values).fetchall()


def close() -> None:
    """Close the connections to the files of runs that have ended."""
    while _connections:
        _connections.popitem()[1].close()


def rows_of(file: str, id: str) -> list[Row]:
    sql = "SELECT number, turn, kind, at, body FROM entries WHERE conversation = ? ORDER BY number"
    return [Row(*each) for each in query(file, sql, id)]


def user_texts(rows: Sequence[Row]) -> list[str]:
    """Return the user's messages of the turns that are in the history, oldest first."""
    texts: list[str] = []
    text, again = "", False
    for row in rows:
        form = row.form
        if row.kind == "turn_started":
            text, again = text_of(form["message"]), bool(form.get("again"))
        elif row.kind == "turn_ended" and form.get("answer") is not None:
            if again:
                texts.pop()
            texts.append(text)
        elif row.kind == "rewound":
            del texts[form["turns"] :]
    return texts


def wrong_order(rows: Sequence[Row]) -> str:
    """Return the defect in the order of an event log, or an empty string."""
    if [row.number for row in rows] != list(range(len(rows))):
        return f"numbers are {[row.number for row in rows]}"
    if not rows or rows[0].kind != "opened":
        return "the first entry is not `opened`"
    turn: int | None = None
    last = -1
    started: set[tuple[Any, ...]] = set()
    ended: set[tuple[Any, ...]] = set()
    for row in rows[1:]:
        form = row.form
        place = (row.turn, *form.get("path", ()))
        if row.kind == "opened":
            return f"entry {row.number} is a second `opened`"
        if row.kind == "turn_started":
            if turn is not None:
                return f"turn {row.turn} begins within turn {turn}"
            if row.turn is None or row.turn <= last:
                return f"turn {row.turn} follows turn {last}"
            turn = last = row.turn
        elif row.kind in ("step_started", "step_ended", "turn_ended"):
            if turn is None or row.turn != turn:
                return f"entry {row.number}, {row.kind} of turn {row.turn}, is in turn {turn}"
            if row.kind == "turn_ended":
                turn = None
                continue
            known = started if row.kind == "step_started" else ended
            if place in known:
                return f"{row.kind} of {place} comes twice"
            if row.kind == "step_ended" and place not in started:
                return f"step {place} ends without a start"
            known.add(place)
    return ""


def wrong_messages(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the defect in the messages that a service receives, or an empty string."""
    open_calls: list[str] = []
    before = "system"
    for message in messages:
        role = message["role"]
        if role == "system":
            continue
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"a result without a call: {message['tool_call_id']}"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"a message of {role} before the results of {open_calls}"
        elif role == before:
            return f"two messages of {role} in a row"
        if role == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
        before = role
    if open_calls or before not in ("user", "tool"):
        return f"the last message is of {before}"
    return ""


def sums_of(rows: Sequence[Row], copied: int) -> Sums:
    """Sum the calls of an event log, without those of its first `copied` entries.

    Raises:
        ValueError: A number of tokens is invalid.
    """
    total = Sums()
    for row in rows[copied:]:
        if row.kind != "step_ended":
            continue
        form = row.form
        result = form.get("result")
        calls = list(form.get("tries", ()))
        if isinstance(result, dict) and isinstance(result.get("route"), dict):
            calls.append(result)
        for call in calls:
            usage = call.get("usage") or {}
            counts = [usage.get("input_tokens", 0), usage.get("output_tokens", 0)]
            if not all(type(each) is int and 0 <= each < _MAX_TOKENS for each in counts):
                raise ValueError(f"entry {row.number} has a usage of {counts}")
            total = total.plus(Sums(1, sum(counts), call.get("cost") or 0.0))
    return total


def orphans(file: str) -> dict[str, int]:
    """Return by table the number of rows whose conversation does not exist."""
    counts = {}
    for table in ("entries", "messages", "tries", "documents"):
        sql = (
            f"SELECT count(*) FROM {table} WHERE conversation IS NOT NULL AND conversation "
            "NOT IN (SELECT id FROM conversations)"
        )
        counts[table] = query(file, sql)[0][0]
    return {table: count for table, count in counts.items() if count}


def decisions(rows: Sequence[Row]) -> dict[str, bool]:
    """Return the user's decisions about calls that need approval, by the keys of the calls."""
    decided: dict[str, bool] = {}
    requests: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row.kind not in ("step_started", "step_ended"):
            continue
        form = row.form
        place = (row.turn, *form["path"])
        if row.kind == "step_started" and form.get("asks"):
            requests[place] = form["asks"]["payload"]["calls"]
        elif row.kind == "step_ended" and place in requests and "error" not in form:
            result = form.get("result")
            for call in requests[place]:
                is_allowed = isinstance(result, dict) and result.get(call["id"]) is True
                decided[call["arguments"]["key"]] = result is True or is_allowed
    return decided

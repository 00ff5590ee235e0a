"""What is derived from entries: the list of conversations, the messages to be searched,
and the tries of calls.

It is brought up to date when somebody asks, conversation by conversation, from where it
ended: adding an entry stays one statement, and a crash leaves nothing half done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.engine import Row

from genai_host.api.json_text import read_json
from genai_host.store.database import Database
from genai_host.store.tables import conversations, entries, messages, tries

_TITLE = 80  # characters
_AT_ONCE = 1000  # entries in a transaction
_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached_input": "cached_tokens",
    "reasoning": "reasoning_tokens",
}
_NO_TRY = {"code": None, "http_status": None, **dict.fromkeys(_TOKENS.values())}


class Indexer:
    def __init__(self, database: Database) -> None:
        self._database = database

    def catch_up(self) -> None:
        """Derive what is missing, of all conversations."""
        last = (
            select(func.max(entries.c.number))
            .where(entries.c.conversation == conversations.c.id)
            .scalar_subquery()
        )
        behind = select(conversations.c.id).where(last >= conversations.c.entries)
        with self._database.reading() as connection:
            found = connection.execute(behind).scalars().all()
        for id in found:
            while self._go_on(id):
                pass

    def _go_on(self, id: str) -> bool:
        """Whether there may be more."""
        with self._database.writing() as connection:
            mine = conversations.c.id == id
            before = connection.execute(
                select(conversations).where(mine).with_for_update()
            ).one_or_none()
            if before is None:
                return False
            rows = connection.execute(
                select(entries)
                .where(entries.c.conversation == id, entries.c.number >= before.entries)
                .order_by(entries.c.number)
                .limit(_AT_ONCE)
            ).all()
            if not rows:
                return False
            derived = _Derived(before)
            for row in rows:
                derived.add(row)
            derived.write(connection)
            connection.execute(update(conversations).where(mine).values(**derived.summary))
            return len(rows) == _AT_ONCE


class _Derived:
    """What some entries of a conversation come to.

    before   what the ones before them came to
    """

    def __init__(self, before: Row[Any]) -> None:
        self._id = before.id
        self.summary: dict[str, Any] = {"title": before.title, "turns": before.turns}
        self._messages: list[dict[str, Any]] = []
        self._tries: list[dict[str, Any]] = []

    def add(self, row: Row[Any]) -> None:
        form = read_json(row.body)
        self.summary.update(entries=row.number + 1, updated=row.at, writer=row.writer)
        derive = getattr(self, f"_{row.kind}", None)
        if derive is not None:
            derive(form, row)

    def write(self, connection: Connection) -> None:
        if self._messages:
            connection.execute(insert(messages), self._messages)
        if self._tries:
            connection.execute(insert(tries), self._tries)

    def _opened(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["feature"] = form["feature"]
        self._changed(form, row)
        for message in form.get("history", ()):
            self._said(None, message)

    def _changed(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["models"] = json.dumps(form["models"])

    def _turn_started(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "open"
        self.summary["turns"] = row.turn + 1
        text = self._said(row.turn, form["message"])
        if not self.summary["title"]:
            self.summary["title"] = " ".join(text.split())[:_TITLE]

    def _step_started(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "waiting" if form["step"] == "wait" else "open"

    def _step_ended(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "open"
        calls = [_failed(each) for each in form.get("tries", ())]
        result = form.get("result")
        if isinstance(result, dict) and _is_route(result.get("route")):
            calls.append(_succeeded(result, row.at))
        path = ".".join(map(str, form["path"]))
        self._tries += [
            {"conversation": self._id, "turn": row.turn, "path": path, "number": number, **call}
            for number, call in enumerate(calls)
        ]

    def _turn_ended(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        answer = form.get("answer")
        if answer is None:
            self.summary["status"] = "failed"
            return
        self.summary["status"] = "idle"
        if answer.get("adds") is None:
            self._add(row.turn, "assistant", answer["summary"])
            return
        for message in answer["adds"]:
            if message["role"] == "assistant":
                self._said(row.turn, message)

    def _rewound(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "idle"

    def _said(self, turn: int | None, message: Mapping[str, Any]) -> str:
        text = "\n".join(_texts(message.get("content", ())))
        self._add(turn, message["role"], text)
        return text

    def _add(self, turn: int | None, role: str, text: str) -> None:
        if text:
            self._messages.append(
                {"conversation": self._id, "turn": turn, "role": role, "text": _storable(text)}
            )


def _is_route(route: Any) -> bool:
    """Whether a result is that of a call of a model."""
    return isinstance(route, dict) and route.keys() == {"model", "provider", "dialect"}


def _failed(call: Mapping[str, Any]) -> dict[str, Any]:
    """A `Try` as it is stored."""
    kept = {name: call[name] for name in ("started", "seconds", "code")}
    return {**_NO_TRY, **call["route"], **kept, "http_status": call.get("status")}


def _succeeded(result: Mapping[str, Any], at: float) -> dict[str, Any]:
    """The call whose result this is, which came then."""
    seconds, usage = result.get("seconds", 0.0), result.get("usage", {})
    tokens = {column: usage.get(name, 0) for name, column in _TOKENS.items()}
    return {**_NO_TRY, **result["route"], "started": at - seconds, "seconds": seconds, **tokens}


def _texts(content: Sequence[Any]) -> Iterator[str]:
    for part in content:
        if part.get("type") == "text":
            yield part["text"]


def _storable(text: str) -> str:
    """Without what no database takes as text: NUL, and halves of surrogate pairs."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()

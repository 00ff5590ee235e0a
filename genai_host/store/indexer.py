"""Index derived from entries: conversations, messages for the search, attempts and usage.

The index is updated on demand, one conversation at a time, from the last indexed entry. Adding an
entry therefore stays one statement, and a crash leaves no partial index.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Select,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Row

from genai_host.api.json_text import read_json
from genai_host.api.messages import FORMER_USAGE, count
from genai_host.conversations.record import answer_fields
from genai_host.errors import StoreError
from genai_host.store.database import Database, storable, time_of
from genai_host.store.search import tokenize
from genai_host.store.tables import conversations, entries, messages, tries
from genai_host.store.usage import add_usage
from genai_host.usage.budgets import user_of
from genai_host.usage.metering import COUNTED_TOKENS, UsageAggregate, amount
from genai_host.util.text import short_repr

_log = logging.getLogger(__name__)
_TITLE = 80  # characters
_AT_ONCE = 1000  # entries per transaction
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
DAMAGED = "damaged"
"""Status of a conversation that is no longer indexed."""


# made once: to make a statement takes longer than to execute it
_THIS = conversations.c.id == bindparam("of_id")
_LAST = (
    select(func.max(entries.c.number))
    .where(entries.c.conversation == conversations.c.id)
    .scalar_subquery()
)
_BEHIND = select(conversations.c.id).where(conversations.c.entries <= _LAST)
_BEHIND_OF: Mapping[tuple[str, ...], Select[str]] = {
    (): _BEHIND,
    ("of_id",): _BEHIND.where(_THIS),
    ("of_owner",): _BEHIND.where(conversations.c.owner == bindparam("of_owner")),
}
_BEFORE = select(conversations).where(_THIS).with_for_update()
_NEW_ENTRIES = (
    select(entries)
    .where(
        entries.c.conversation == bindparam("of_id"), entries.c.number >= bindparam("first_number")
    )
    .order_by(entries.c.number)
    .limit(bindparam("at_once", type_=Integer))
)
_SUMMARY = update(conversations).where(_THIS)
_MESSAGES, _TRIES = insert(messages), insert(tries)


class Indexer:
    def __init__(self, database: Database) -> None:
        self._database = database

    def catch_up(self, **which: str) -> None:
        """Index new entries of one conversation (`of_id`), those of an owner (`of_owner`), or all.
        Checking all is slow in a large store."""
        with self._database.reading() as connection:
            found = connection.execute(_BEHIND_OF[*which], which).scalars().all()
        for id in found:
            while self._go_on(id):
                pass

    def catch_up_if_possible(self, **which: str) -> None:
        """Index new entries for a read; skipped on a full disk and in a read-only store, where the
        existing index is used."""
        try:
            self.catch_up(**which)
        except StoreError as error:
            _log.warning("lists may lack the latest entries: %s", error)

    def _go_on(self, id: str) -> bool:
        """Index a part. Returns whether there may be more."""
        with self._database.writing() as connection:
            return self._derive_more(id, connection)

    def derive_all(self, id: str, connection: Connection) -> None:
        """Index all new entries of one conversation, which gets no others until the transaction
        ends."""
        while self._derive_more(id, connection):
            pass

    def _derive_more(self, id: str, connection: Connection) -> bool:
        """Index a part. Returns whether there may be more.

        If indexing fails unexpectedly, the conversation is marked as damaged, so that the others
        can still be listed.
        """
        try:
            with connection.begin_nested():
                return _derive_more(id, connection)
        except Exception as error:
            if not (isinstance(error, _UNREADABLE) or self._database.refuses_data(error)):
                raise
            # the error message may quote the conversation
            _log.warning("cannot index %s (%s): marked as damaged", id, type(error).__name__)
        mine = conversations.c.id == id
        number = select(func.max(entries.c.number)).where(entries.c.conversation == id)
        values = {"entries": number.scalar_subquery() + 1, "status": DAMAGED}
        connection.execute(update(conversations).where(mine).values(**values))
        return False


def _derive_more(id: str, connection: Connection) -> bool:
    """Index a part. Returns whether there may be more."""
    before = connection.execute(_BEFORE, {"of_id": id}).one_or_none()
    if before is None:
        return False
    wanted = {"of_id": id, "first_number": before.entries, "at_once": _AT_ONCE}
    rows = connection.execute(_NEW_ENTRIES, wanted).all()
    if not rows:
        return False
    derived = _Derived(before, connection)
    for row in rows:
        derived.add(row)
    derived.write()
    connection.execute(_SUMMARY, {"of_id": id, **derived.summary})
    return len(rows) == _AT_ONCE


class _Derived:
    """Index data of some entries of a conversation."""

    def __init__(self, before: Row[Any], connection: Connection) -> None:
        self._id = before.id
        self._copied = before.copied
        self._connection = connection
        self._feature = before.feature
        self._user = user_of(before.owner)
        self._tally = UsageAggregate()
        self.summary: dict[str, Any] = {"title": before.title, "turns": before.turns}
        self._messages: list[dict[str, Any]] = []
        self._tries: list[dict[str, Any]] = []
        self._again: dict[int, bool] = {}
        self._takes_back = False

    def add(self, row: Row[Any]) -> None:
        self.summary.update(entries=row.number + 1, updated=time_of(row.at), writer=row.writer)
        derive = _DERIVES.get(row.kind)
        if derive is None:
            return
        try:
            derive(self, read_json(row.body), row)
        except _UNREADABLE as error:
            # the conversation is still listed, and reports the error when it is opened
            _log.warning("cannot read entry %d of %s: %s", row.number, self._id, error)

    def write(self) -> None:
        if self._messages:
            self._connection.execute(_MESSAGES, self._messages)
        if self._tries:
            self._connection.execute(_TRIES, self._tries)
            add_usage(self._connection, self._tally)
        if self._takes_back:
            self._remove_what_was_taken_back()

    def _remove_what_was_taken_back(self) -> None:
        rows = self._connection.execute(
            select(entries.c.body)
            .where(
                entries.c.conversation == self._id,
                entries.c.kind.in_(_STANDING),
                entries.c.number < self.summary["entries"],
            )
            .order_by(entries.c.number)
        )
        try:
            turns = _taken_back(map(read_json, rows.scalars()))
        except _UNREADABLE as error:
            _log.warning("cannot read what was undone in %s: %s", self._id, error)
            return
        named = messages.c.turn.in_([turn for turn in turns if turn is not None])
        gone = or_(named, messages.c.turn.is_(None)) if None in turns else named
        mine = messages.c.conversation == self._id
        self._connection.execute(delete(messages).where(mine, gone))

    def _opened(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["feature"] = self._feature = _text(form["feature"])
        self._changed(form, row)
        for message in form.get("history", ()):
            self._add_message(None, message)

    def _changed(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        models = {_text(role): _text(name) for role, name in form["models"].items()}
        self.summary["models"] = json.dumps(models)

    def _turn_started(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "open"
        self.summary["turns"] = row.turn + 1
        self._again[row.turn] = form.get("again") is True
        text = self._add_message(row.turn, form["message"])
        if not self.summary["title"]:
            self.summary["title"] = storable(" ".join(text.split())[:_TITLE])

    def _step_started(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "paused" if form["step"] == "wait" else "open"

    def _step_ended(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "open"
        calls = [_failed(each) for each in form.get("tries", ())]
        result = form.get("result")
        if isinstance(result, dict) and _is_route(result.get("route")):
            calls.append(_succeeded(result, time_of(row.at)))
        path = storable(".".join(map(str, form["path"])))
        self._tries += [
            {"conversation": self._id, "turn": row.turn, "path": path, "number": number, **call}
            for number, call in enumerate(calls)
        ]
        if row.number >= self._copied:
            for call in calls:
                self._tally.add(self._user, self._feature, call)

    def _turn_ended(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        answer = form.get("answer")
        if answer is None:
            self.summary["status"] = "failed"
            return
        self.summary["status"] = "idle"
        if row.turn not in self._again:  # the turn began before these entries
            self._again[row.turn] = self._is_regenerated(row)
        self._takes_back |= self._again[row.turn]
        messages = answer_fields(answer).get("new_messages")
        if messages is None:
            self._add(row.turn, "assistant", answer["summary"])
            return
        for message in messages:
            if message["role"] == "assistant":
                self._add_message(row.turn, message)

    def _is_regenerated(self, ended: Row[Any]) -> bool:
        begun = (
            select(entries.c.body)
            .where(
                entries.c.conversation == self._id,
                entries.c.number < ended.number,
                entries.c.kind == "turn_started",
            )
            .order_by(entries.c.number.desc())
            .limit(1)
        )
        body = self._connection.execute(begun).scalar()
        return body is not None and read_json(body).get("again") is True

    def _rewound(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "idle"
        self._takes_back = True

    def _add_message(self, turn: int | None, message: Mapping[str, Any]) -> str:
        text = "\n".join(_texts(message.get("content", ())))
        self._add(turn, message["role"], text)
        return text

    def _add(self, turn: int | None, role: str, text: str) -> None:
        if text:
            plain = storable(text)
            self._messages.append(
                {
                    "conversation": self._id,
                    "turn": turn,
                    "role": role,
                    "text": plain,
                    "words": tokenize(plain),
                }
            )


_DERIVES: Mapping[str, Callable[[_Derived, Mapping[str, Any], Row[Any]], None]] = {
    "opened": _Derived._opened,
    "changed": _Derived._changed,
    "turn_started": _Derived._turn_started,
    "step_started": _Derived._step_started,
    "step_ended": _Derived._step_ended,
    "turn_ended": _Derived._turn_ended,
    "rewound": _Derived._rewound,
}


_STANDING = ("turn_started", "turn_ended", "rewound")


def _taken_back(forms: Iterable[Mapping[str, Any]]) -> set[int | None]:
    """Turns that were removed; None for the initial messages of the conversation. See
    `turns.turns_of`."""
    gone: set[int | None] = set()
    begun: list[int] = []
    standing: list[int] = []
    again = False
    for form in forms:
        if form["entry"] == "turn_started":
            begun.append(form["turn"])
            again = form.get("again") is True
        elif form["entry"] == "rewound":
            if form["history"] == 0:
                gone.update([None, *begun])
            first = [*standing[form["turns"] :], *begun[-1:]][0]
            gone.update(turn for turn in begun if turn >= first)
            del standing[form["turns"] :]
        elif form.get("answer") is not None:
            if again and standing:
                gone.add(standing.pop())
            standing.append(form["turn"])
    return gone


def _is_route(route: Any) -> bool:
    """Whether a result is that of a model call."""
    return isinstance(route, dict) and route.keys() == {"model", "provider", "dialect"}


def _failed(call: Mapping[str, Any]) -> dict[str, Any]:
    """The stored form of an `Attempt`."""
    times = {name: _seconds(call[name]) for name in ("started", "seconds")}
    failure = {"code": _text(call["code"]), "http_status": _small(call.get("status"))}
    return {**_used(call), **_route(call["route"]), **times, **failure}


def _succeeded(result: Mapping[str, Any], at: float) -> dict[str, Any]:
    """The call with this result, which ended at the time `at`."""
    seconds = _seconds(result.get("seconds", 0.0))
    no_error = {"code": None, "http_status": None}
    when = {"started": at - seconds, "seconds": seconds}
    return {**_used({"usage": {}, **result}), **_route(result["route"]), **when, **no_error}


def _route(route: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(route[name]) for name in ("model", "provider", "dialect")}


def _used(call: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens and cost of a call."""
    usage: Any = call.get("usage")
    if usage is not None:
        usage = {FORMER_USAGE.get(name, name): value for name, value in usage.items()}
    tokens = {name: None if usage is None else count(usage.get(name)) for name in COUNTED_TOKENS}
    return {**tokens, "cost": amount(call.get("cost"))}


def _seconds(value: Any) -> float:
    """The number. Raises `TypeError` if the value is not a number."""
    if type(value) not in (int, float):
        raise TypeError(f"{short_repr(value)} is not a number of seconds")
    return float(time_of(value))


def _small(value: Any) -> int | None:
    """An integer in the range of HTTP status codes."""
    return value if type(value) is int and 0 <= value < 1000 else None


def _texts(content: Sequence[Any]) -> Iterator[str]:
    for part in content:
        if part.get("type") == "text":
            yield part["text"]


def _text(value: Any) -> str:
    """The string. Raises `TypeError` if the value is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{short_repr(value)} is not a string")
    return storable(value)

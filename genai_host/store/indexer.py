"""What is derived from entries: the list of conversations, the messages to be searched,
the tries of calls, and what these come to.

It is brought up to date when somebody asks, conversation by conversation, from where it
ended: adding an entry stays one statement, and a crash leaves nothing half done.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update
from sqlalchemy.engine import Row

from genai_host.api.json_text import read_json
from genai_host.api.messages import count
from genai_host.errors import StoreError
from genai_host.store.database import Database, storable, time_of
from genai_host.store.search import tokenize
from genai_host.store.tables import conversations, entries, messages, tries
from genai_host.store.usage import add_usage
from genai_host.usage.budgets import user_of
from genai_host.usage.metering import UsageAggregate
from genai_host.util.text import short_repr

_log = logging.getLogger(__name__)
_TITLE = 80  # characters
_AT_ONCE = 1000  # entries in a transaction
_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached_input": "cached_tokens",
    "reasoning": "reasoning_tokens",
}
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
DAMAGED = "damaged"
"""The status of a conversation of which nothing more is derived."""


class Indexer:
    def __init__(self, database: Database) -> None:
        self._database = database

    def catch_up(self, which: ColumnElement[bool] | None = None) -> None:
        """Derive what is missing, of all conversations, or of some: to look at all takes its
        time where there are many."""
        last = (
            select(func.max(entries.c.number))
            .where(entries.c.conversation == conversations.c.id)
            .scalar_subquery()
        )
        behind = select(conversations.c.id).where(last >= conversations.c.entries)
        if which is not None:
            behind = behind.where(which)
        with self._database.reading() as connection:
            found = connection.execute(behind).scalars().all()
        for id in found:
            while self._go_on(id):
                pass

    def catch_up_if_possible(self, which: ColumnElement[bool] | None = None) -> None:
        """The same for who only reads: on a full disk, and in a store that may not be written, what
        was derived before is there still."""
        try:
            self.catch_up(which)
        except StoreError as error:
            _log.warning("what was added last may be missing from lists: %s", error)

    def _go_on(self, id: str) -> bool:
        """Whether there may be more."""
        with self._database.writing() as connection:
            return self._derive_more(id, connection)

    def derive_all(self, id: str, connection: Connection) -> None:
        """Derive what is missing of one conversation, to which nothing is added until the
        transaction ends."""
        while self._derive_more(id, connection):
            pass

    def _derive_more(self, id: str, connection: Connection) -> bool:
        """Whether there may be more. If deriving fails unexpectedly, the conversation is marked as
        damaged, so that the others can still be listed."""
        try:
            with connection.begin_nested():
                return _derive_more(id, connection)
        except Exception as error:
            if not (isinstance(error, _UNREADABLE) or self._database.refuses_data(error)):
                raise
            # what the error says may quote the conversation
            _log.warning("%s cannot be indexed (%s): it is set aside", id, type(error).__name__)
        mine = conversations.c.id == id
        number = select(func.max(entries.c.number)).where(entries.c.conversation == id)
        values = {"entries": number.scalar_subquery() + 1, "status": DAMAGED}
        connection.execute(update(conversations).where(mine).values(**values))
        return False


def _derive_more(id: str, connection: Connection) -> bool:
    """Whether there may be more."""
    mine = conversations.c.id == id
    before = connection.execute(select(conversations).where(mine).with_for_update()).one_or_none()
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
    derived = _Derived(before, connection)
    for row in rows:
        derived.add(row)
    derived.write()
    connection.execute(update(conversations).where(mine).values(**derived.summary))
    return len(rows) == _AT_ONCE


class _Derived:
    """What some entries of a conversation come to.

    before   what the ones before them came to
    """

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
            # the conversation is listed all the same, and says what is wrong when it is opened
            _log.warning("entry %d of %s cannot be read: %s", row.number, self._id, error)

    def write(self) -> None:
        if self._messages:
            self._connection.execute(insert(messages), self._messages)
        if self._tries:
            self._connection.execute(insert(tries), self._tries)
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
            _log.warning("what was taken back in %s cannot be read: %s", self._id, error)
            return
        named = messages.c.turn.in_([turn for turn in turns if turn is not None])
        gone = or_(named, messages.c.turn.is_(None)) if None in turns else named
        mine = messages.c.conversation == self._id
        self._connection.execute(delete(messages).where(mine, gone))

    def _opened(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["feature"] = self._feature = _text(form["feature"])
        self._changed(form, row)
        for message in form.get("history", ()):
            self._said(None, message)

    def _changed(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        models = {_text(role): _text(name) for role, name in form["models"].items()}
        self.summary["models"] = json.dumps(models)

    def _turn_started(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "open"
        self.summary["turns"] = row.turn + 1
        self._again[row.turn] = form.get("again") is True
        text = self._said(row.turn, form["message"])
        if not self.summary["title"]:
            self.summary["title"] = storable(" ".join(text.split())[:_TITLE])

    def _step_started(self, form: Mapping[str, Any], row: Row[Any]) -> None:
        self.summary["status"] = "waiting" if form["step"] == "wait" else "open"

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
        if row.turn not in self._again:  # it began with entries before these
            self._again[row.turn] = self._is_said_again(row)
        self._takes_back |= self._again[row.turn]
        if answer.get("adds") is None:
            self._add(row.turn, "assistant", answer["summary"])
            return
        for message in answer["adds"]:
            if message["role"] == "assistant":
                self._said(row.turn, message)

    def _is_said_again(self, ended: Row[Any]) -> bool:
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

    def _said(self, turn: int | None, message: Mapping[str, Any]) -> str:
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
    """The turns of which nothing holds any more, from the entries that tell; None for the
    messages that the conversation began with. See `turns.turns_of`."""
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
    """Whether a result is that of a call of a model."""
    return isinstance(route, dict) and route.keys() == {"model", "provider", "dialect"}


def _failed(call: Mapping[str, Any]) -> dict[str, Any]:
    """A `Attempt` as it is stored."""
    times = {name: _seconds(call[name]) for name in ("started", "seconds")}
    failure = {"code": _text(call["code"]), "http_status": _small(call.get("status"))}
    return {**_used(call), **_route(call["route"]), **times, **failure}


def _succeeded(result: Mapping[str, Any], at: float) -> dict[str, Any]:
    """The call whose result this is, which came then."""
    seconds = _seconds(result.get("seconds", 0.0))
    no_error = {"code": None, "http_status": None}
    when = {"started": at - seconds, "seconds": seconds}
    return {**_used({"usage": {}, **result}), **_route(result["route"]), **when, **no_error}


def _route(route: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(route[name]) for name in ("model", "provider", "dialect")}


def _used(call: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens of a call, and what it cost."""
    usage = call.get("usage")
    tokens = {
        column: None if usage is None else count(usage.get(name))
        for name, column in _TOKENS.items()
    }
    return {**tokens, "cost": _dollars(call.get("cost"))}


def _seconds(value: Any) -> float:
    """Raises `TypeError` if the value is not a number."""
    if type(value) not in (int, float):
        raise TypeError(f"{short_repr(value)} is not a number of seconds")
    return float(time_of(value))


def _small(value: Any) -> int | None:
    """A number as HTTP has them."""
    return value if type(value) is int and 0 <= value < 1000 else None


def _dollars(value: Any) -> float | None:
    """A cost as it is on record, which may come from elsewhere; None for what is none."""
    is_amount = type(value) in (int, float) and 0 <= value <= sys.float_info.max
    return float(value) if is_amount else None


def _texts(content: Sequence[Any]) -> Iterator[str]:
    for part in content:
        if part.get("type") == "text":
            yield part["text"]


def _text(value: Any) -> str:
    """Raises `TypeError` if the value is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{short_repr(value)} is not a string")
    return storable(value)

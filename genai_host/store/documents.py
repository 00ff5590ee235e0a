"""Documents of plugins: JSON by collection and id, changed by compare-and-set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    case,
    cast,
    delete,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import IntegrityError

from genai_host.api.json_text import json_as_text, read_json, write_json
from genai_host.api.storage import Document
from genai_host.errors import Conflict, NotFound
from genai_host.store.database import Database, storable
from genai_host.store.tables import documents
from genai_host.util.text import short_repr

T = TypeVar("T")

_ATTEMPTS = 50
_PLAIN = r"[A-Za-z0-9_ .-]+"  # names that need no escaping in JSON or in a path
_EXACT = 2**53  # integers up to it are exact as floats


class Documents:
    """Documents of one owner in one collection, deleted with their `conversation` if they have one.
    Made by `Store.documents`."""

    def __init__(
        self, database: Database, owner: str, collection: str, conversation: str | None
    ) -> None:
        self._database = database
        self._owner = owner
        self._collection = collection
        self._conversation = conversation

    def get(self, id: str) -> Document:
        """Read a document. Raises `NotFound`."""
        with self._database.reading() as connection:
            row = connection.execute(select(documents).where(self._is(id))).one_or_none()
        if row is None:
            raise self._not_found(id)
        return _document(row)

    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int:
        """As `DocumentCollection.put`."""
        text = json_as_text(value)
        if storable(id) != id:
            raise ValueError(f"{id!r} is not an id")
        with self._database.writing() as connection:
            found = connection.execute(
                select(documents.c.version).where(self._is(id)).with_for_update()
            ).scalar()
            now = found or 0
            if expect is not None and expect != now:
                raise self._conflict(id)
            values = {"version": now + 1, "value": text}
            if found is None:
                mine = {"owner": self._owner, "collection": self._collection, "id": id}
                new = {**mine, "conversation": self._conversation, **values}
                try:
                    connection.execute(insert(documents).values(**new))
                except IntegrityError as error:  # another writer created it meanwhile
                    raise self._conflict(id) from error
            else:
                connection.execute(update(documents).where(self._is(id)).values(**values))
        return now + 1

    def change(
        self, id: str, make: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any] | None, T]]
    ) -> T:
        """As `DocumentCollection.change`."""
        for last in reversed(range(_ATTEMPTS)):
            found = self.get(id)
            value, result = make(found.value)
            if value is None:
                break
            try:
                self.put(id, value, expect=found.version)
                break
            except Conflict:
                if not last:
                    raise
        return result

    def delete(self, id: str) -> bool:
        """Delete a document. Returns False if it does not exist."""
        with self._database.writing() as connection:
            return connection.execute(delete(documents).where(self._is(id))).rowcount > 0

    def count(self) -> int:
        """Number of documents."""
        counted = select(func.count()).select_from(documents).where(self._mine())
        with self._database.reading() as connection:
            return int(connection.execute(counted).scalar_one())

    def clear(self) -> int:
        """Delete all documents, and return their number."""
        with self._database.writing() as connection:
            return connection.execute(delete(documents).where(self._mine())).rowcount

    def list(
        self,
        *,
        after: str | None = None,
        limit: int = 20,
        newest_first: bool = True,
        where: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        """As `DocumentCollection.list`."""
        number = documents.c.number
        chosen = select(documents).where(self._mine())
        if after is not None:
            with self._database.reading() as connection:
                last = connection.execute(select(number).where(self._is(after))).scalar()
            if last is None:
                raise self._not_found(after)
            chosen = chosen.where(number < last if newest_first else number > last)
        chosen = chosen.order_by(number.desc() if newest_first else number)
        if not where:
            chosen = chosen.limit(limit)
        for name, wanted in (where or {}).items():
            chosen = chosen.where(self._may_have(name, wanted))
        found: list[Document] = []
        chosen = chosen.execution_options(stream_results=True)
        with self._database.reading() as connection, connection.execute(chosen) as rows:
            for row in rows:
                document = _document(row)
                if _has(document.value, where or {}):
                    found.append(document)
                if len(found) == limit:
                    break
        return found

    def _may_have(self, name: str, wanted: Any) -> ColumnElement[bool]:
        """A coarse filter: true for every matching document and few others. Databases parse less
        JSON than the host writes, and compare values differently."""
        if not re.fullmatch(_PLAIN, name) or not _is_comparable(wanted):
            return true()
        value = documents.c.value
        if self._database.is_sqlite:
            field = func.json_extract(value, f'$."{name}"')
            return or_(func.json_valid(value) == 0, field == wanted)
        in_jsonb = cast(value, JSONB)[name]
        return case(
            (func.strpos(value, "\\u") > 0, true()),  # PostgreSQL cannot parse all of these
            else_=in_jsonb == cast(literal(write_json(wanted).decode(), Text), JSONB),
        )

    def _mine(self) -> ColumnElement[bool]:
        columns = documents.c
        mine = and_(columns.owner == self._owner, columns.collection == self._collection)
        if self._conversation is None:
            return mine
        return and_(mine, columns.conversation == self._conversation)

    def _is(self, id: str) -> ColumnElement[bool]:
        if storable(id) != id:  # the database would refuse the query
            return false()
        return and_(self._mine(), documents.c.id == id)

    def _not_found(self, id: str) -> NotFound:
        return NotFound(f"no document {short_repr(id)} in {self._collection}")

    def _conflict(self, id: str) -> Conflict:
        return Conflict(
            f"document {id} in {self._collection} has changed since it was read",
            hint="read it again",
        )


def _is_comparable(wanted: Any) -> bool:
    """Whether the databases compare the value as Python does."""
    if isinstance(wanted, str):
        return wanted.isprintable()
    return isinstance(wanted, int) and abs(wanted) <= _EXACT


def _has(value: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(
        value.get(name) == wanted and isinstance(value.get(name), bool) == isinstance(wanted, bool)
        for name, wanted in where.items()
    )


def _document(row: Any) -> Document:
    return Document(row.id, row.version, read_json(row.value))

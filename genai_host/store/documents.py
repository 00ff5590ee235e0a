"""Documents of plugins: JSON by collection and id, changed by compare-and-set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
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


class _Statements:
    """SQL for the documents that satisfy a condition. It is made once: to make a statement and to
    find its compiled form takes longer than all the rest of a query."""

    def __init__(self, condition: ColumnElement[bool]) -> None:
        columns = documents.c
        this = and_(condition, columns.id == bindparam("of_id"))
        version: BindParameter[int] = bindparam("new_version")
        value: BindParameter[str] = bindparam("new_value")
        self.get = select(documents).where(this)
        self.version = select(columns.version).where(this).with_for_update()
        self.number = select(columns.number).where(this)
        self.update = update(documents).where(this).values(version=version, value=value)
        self.delete = delete(documents).where(this)
        self.count = select(func.count()).select_from(documents).where(condition)
        self.clear = delete(documents).where(condition)
        self.list = {
            (newest_first, has_last): _ordered(condition, newest_first, has_last)
            for newest_first in (True, False)
            for has_last in (True, False)
        }
        limit = bindparam("most", type_=Integer)
        self.page = {key: each.limit(limit) for key, each in self.list.items()}


def _ordered(condition: ColumnElement[bool], newest_first: bool, has_last: bool) -> Select[Any]:
    number = documents.c.number
    chosen = select(documents).where(condition).order_by(number.desc() if newest_first else number)
    if has_last:
        last: BindParameter[int] = bindparam("last")
        chosen = chosen.where(number < last if newest_first else number > last)
    return chosen.execution_options(stream_results=True)


_IN_COLLECTION = and_(
    documents.c.owner == bindparam("of_owner"), documents.c.collection == bindparam("of_collection")
)
_STATEMENTS = {
    False: _Statements(_IN_COLLECTION),
    True: _Statements(
        and_(_IN_COLLECTION, documents.c.conversation == bindparam("of_conversation"))
    ),
}
"""By whether the documents belong to a conversation."""
_INSERT = insert(documents)


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
        self._statements = _STATEMENTS[conversation is not None]
        self._key = {"of_owner": owner, "of_collection": collection}
        if conversation is not None:
            self._key["of_conversation"] = conversation

    def get(self, id: str) -> Document:
        """Read a document. Raises `NotFound`."""
        return _document(self._row(self._statements.get, id))

    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int:
        """As `DocumentCollection.put`."""
        text = _text(id, value)
        with self._database.writing() as connection:
            return self._put(connection, id, text, expect)

    def put_all(
        self, values: Mapping[str, Mapping[str, Any]], *, expect: Mapping[str, int]
    ) -> None:
        """As `DocumentCollection.put_all`."""
        texts = {id: _text(id, value) for id, value in values.items()}
        with self._database.writing() as connection:
            for id, text in texts.items():
                self._put(connection, id, text, expect.get(id))

    def _put(self, connection: Connection, id: str, text: str, expect: int | None) -> int:
        found = connection.execute(self._statements.version, self._key_of(id)).scalar()
        now = found or 0
        if expect is not None and expect != now:
            raise self._conflict(id)
        if found is None:
            condition = {"owner": self._owner, "collection": self._collection, "id": id}
            values = {"conversation": self._conversation, "version": now + 1, "value": text}
            try:
                connection.execute(_INSERT, {**condition, **values})
            except IntegrityError as error:  # another writer created it meanwhile
                raise self._conflict(id) from error
        else:
            changed = {"new_version": now + 1, "new_value": text}
            connection.execute(self._statements.update, {**self._key_of(id), **changed})
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

    def delete(self, id: str, *, expect: int | None = None) -> bool:
        """As `DocumentCollection.delete`."""
        if not _is_id(id):
            return False
        with self._database.writing() as connection:
            if expect is not None:
                found = connection.execute(self._statements.version, self._key_of(id)).scalar()
                if found not in (None, expect):
                    raise self._conflict(id)
            return connection.execute(self._statements.delete, self._key_of(id)).rowcount > 0

    def count(self) -> int:
        """Number of documents."""
        with self._database.reading() as connection:
            return int(connection.execute(self._statements.count, self._key).scalar_one())

    def clear(self) -> int:
        """Delete all documents, and return their number."""
        with self._database.writing() as connection:
            return connection.execute(self._statements.clear, self._key).rowcount

    def list(
        self,
        *,
        after: str | int | None = None,
        limit: int = 20,
        newest_first: bool = True,
        where: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        """As `DocumentCollection.list`."""
        values: dict[str, Any] = dict(self._key)
        if isinstance(after, int):
            values["last"] = after
        elif after is not None:
            (values["last"],) = self._row(self._statements.number, after)
        key = newest_first, after is not None
        if where:
            chosen = self._statements.list[key]
            for name, expected in where.items():
                chosen = chosen.where(self._coarse_filter(name, expected))
        else:
            chosen = self._statements.page[key]
            values["most"] = limit
        found: list[Document] = []
        with self._database.reading() as connection, connection.execute(chosen, values) as rows:
            for row in rows:
                document = _document(row)
                if _has(document.value, where or {}):
                    found.append(document)
                if len(found) == limit:
                    break
        return found

    def _coarse_filter(self, name: str, expected: Any) -> ColumnElement[bool]:
        """A coarse filter: true for every matching document and few others. Databases parse less
        JSON than the host writes, and compare values differently."""
        if not re.fullmatch(_PLAIN, name) or not _is_comparable(expected):
            return true()
        value = documents.c.value
        if self._database.is_sqlite:
            field = func.json_extract(value, f'$."{name}"')
            return or_(func.json_valid(value) == 0, field == expected)
        in_jsonb = cast(value, JSONB)[name]
        return case(
            (func.strpos(value, "\\u") > 0, true()),  # PostgreSQL cannot parse all of these
            else_=in_jsonb == cast(literal(write_json(expected).decode(), Text), JSONB),
        )

    def _row(self, statement: Select[Any], id: str) -> Row[Any]:
        if _is_id(id):
            with self._database.reading() as connection:
                row = connection.execute(statement, self._key_of(id)).one_or_none()
            if row is not None:
                return row
        raise NotFound(f"no document {short_repr(id)} in {self._collection}")

    def _key_of(self, id: str) -> dict[str, str]:
        return {**self._key, "of_id": id}

    def _conflict(self, id: str) -> Conflict:
        return Conflict(
            f"document {id} in {self._collection} has changed since it was read",
            hint="read it again",
        )


def _text(id: str, value: Mapping[str, Any]) -> str:
    if not _is_id(id):
        raise ValueError(f"{id!r} is not an id")
    return json_as_text(value)


def _is_id(id: str) -> bool:
    """Whether the database accepts it in a query."""
    return storable(id) == id


def _is_comparable(expected: Any) -> bool:
    """Whether the databases compare the value as Python does."""
    if isinstance(expected, str):
        return expected.isprintable()
    return isinstance(expected, int) and abs(expected) <= _EXACT


def _has(value: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(
        value.get(name) == expected
        and isinstance(value.get(name), bool) == isinstance(expected, bool)
        for name, expected in where.items()
    )


def _document(row: Any) -> Document:
    return Document(row.id, row.version, read_json(row.value), row.number)

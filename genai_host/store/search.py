"""Finds messages by the words in them: FTS5 in SQLite, tsvector in PostgreSQL.

A message is found if it has all the words, in any order; `wor*` stands for words that
begin so. What a word is, `words` says: the databases get words alone, and tell them apart
by spaces.
"""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    cast,
    false,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import TSQUERY

from genai_host.store.tables import messages
from genai_host.store.words import asked_for

_SQLITE = (
    (
        "CREATE VIRTUAL TABLE messages_words USING fts5(words, content='messages', "
        "content_rowid='id', detail='none', tokenize=\"ascii tokenchars '_'\")"
    ),
    (
        "CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN "
        "INSERT INTO messages_words(rowid, words) VALUES (new.id, new.words); END"
    ),
    (
        "CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN "
        "INSERT INTO messages_words(messages_words, rowid, words) "
        "VALUES ('delete', old.id, old.words); END"
    ),
)
_POSTGRESQL = (
    (
        "ALTER TABLE messages ADD COLUMN terms tsvector "
        "GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED"
    ),
    "CREATE INDEX messages_words ON messages USING gin (terms)",
)


def create(connection: Connection) -> None:
    """What is in no `tables`, since it is another in each database."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(text(statement))


def having(words: str, dialect: str) -> ColumnElement[bool]:
    """The condition that a message has these words."""
    asked = asked_for(words)
    if not asked:
        return false()
    terms = [(word, each.begins) for each in asked for word in each.words]
    is_sqlite = dialect == "sqlite"
    has, position = (_sqlite_has, func.instr) if is_sqlite else (_postgresql_has, func.strpos)
    parts = [position(messages.c.text, each.part) > 0 for each in asked if each.part]
    return and_(has(terms), *parts)


def _sqlite_has(terms: list[tuple[str, bool]]) -> ColumnElement[bool]:
    asked = " AND ".join(f'"{word}"{"*" * begins}' for word, begins in terms)
    hits: Select[tuple[int]] = select(literal_column("rowid")).select_from(text("messages_words"))
    return messages.c.id.in_(hits.where(literal_column("messages_words").op("MATCH")(asked)))


def _postgresql_has(terms: list[tuple[str, bool]]) -> ColumnElement[bool]:
    asked = " & ".join(f"'{word}'{':*' * begins}" for word, begins in terms)
    return literal_column("terms").op("@@")(cast(asked, TSQUERY))

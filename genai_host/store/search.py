"""Finds messages by the words in them: FTS5 in SQLite, tsvector in PostgreSQL.

A message is found if it has all the words, in any order and in any case; `wor*` stands
for words that begin so. Languages are not told apart, and words are what stands between
blanks and punctuation.
"""

from __future__ import annotations

import re

from sqlalchemy import ColumnElement, Connection, Select, func, literal_column, select, text

from genai_host.store.tables import messages

_SQLITE = (
    (
        "CREATE VIRTUAL TABLE messages_words USING fts5("
        "text, content='messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2')"
    ),
    (
        "CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN "
        "INSERT INTO messages_words(rowid, text) VALUES (new.id, new.text); END"
    ),
    (
        "CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN "
        "INSERT INTO messages_words(messages_words, rowid, text) "
        "VALUES ('delete', old.id, old.text); END"
    ),
)
# a tsvector holds a megabyte at most
_POSTGRESQL = (
    (
        "ALTER TABLE messages ADD COLUMN words tsvector "
        "GENERATED ALWAYS AS (to_tsvector('simple', left(text, 100000))) STORED"
    ),
    "CREATE INDEX messages_words ON messages USING gin (words)",
)
_WORD = re.compile(r"\w+\*?")


def create(connection: Connection) -> None:
    """What is in no `tables`, since it is another in each database."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(text(statement))


def having(words: str, dialect: str) -> ColumnElement[bool]:
    """The condition that a message has these words."""
    found = _WORD.findall(words)
    if dialect == "sqlite":
        asked = " ".join(f'"{word[:-1]}"*' if word.endswith("*") else f'"{word}"' for word in found)
        hits: Select[tuple[int]] = select(literal_column("rowid")).select_from(
            text("messages_words")
        )
        return messages.c.id.in_(
            hits.where(literal_column("messages_words").op("MATCH")(asked or '""'))
        )
    asked = " & ".join(f"'{word[:-1]}':*" if word.endswith("*") else f"'{word}'" for word in found)
    return literal_column("words").op("@@")(func.to_tsquery("simple", asked))

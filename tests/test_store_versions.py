"""Stores of older versions: they go on as they were."""

from __future__ import annotations

from stores import CODEC, MakeStore, begin, make_store, place, postgres_server, store

from genai_host import Message
from genai_host.api import Answer
from genai_host.record import StepEnded, StepStarted, TurnEnded, TurnStarted
from genai_host.store import Store

__all__ = ["make_store", "place", "postgres_server", "store"]

VERSION_1 = {
    "sqlite": (
        "DROP TRIGGER messages_added",
        "DROP TRIGGER messages_removed",
        "DROP TABLE messages_words",
        "ALTER TABLE messages DROP COLUMN words",
        (
            "CREATE VIRTUAL TABLE messages_words USING fts5("
            "text, content='messages', content_rowid='id', "
            "tokenize='unicode61 remove_diacritics 2')"
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
        "INSERT INTO messages_words(messages_words) VALUES ('rebuild')",
        "UPDATE meta SET value = '1' WHERE name = 'schema'",
    ),
    "postgresql": (
        "DROP INDEX messages_words",
        "ALTER TABLE messages DROP COLUMN terms",
        "ALTER TABLE messages DROP COLUMN words",
        (
            "ALTER TABLE messages ADD COLUMN words tsvector "
            "GENERATED ALWAYS AS (to_tsvector('simple', left(text, 100000))) STORED"
        ),
        "CREATE INDEX messages_words ON messages USING gin (words)",
        "UPDATE meta SET value = '1' WHERE name = 'schema'",
    ),
}


def test_from_version_1_all_is_there_and_found(store: Store, make_store: MakeStore) -> None:
    record = begin(store, models={"main": "m"})
    result = {
        "route": {"model": "m", "provider": "p", "dialect": "d"},
        "seconds": 1.0,
        "usage": {"input": 3},
    }
    for entry in (
        TurnStarted(0, Message("user", "日本語"), "1", 0),
        StepStarted(0, (0,), "prompt", "d"),
        StepEnded(0, (0,), result),
        TurnEnded(0, Answer("yes")),
    ):
        record.append(entry)
    store.rename(record.id, "mine")
    before = store.conversations(), store.tries(record.id), record.entries
    with store._database.writing() as connection:
        for statement in VERSION_1[connection.dialect.name]:
            connection.exec_driver_sql(statement)
    store.close()

    newer = make_store()
    assert [hit.text for hit in newer.search("本語")] == ["日本語"]
    assert [hit.title for hit in newer.search("yes")] == ["mine"]
    assert (newer.conversations(), newer.tries(record.id)) == before[:2]
    assert newer.entries(record.id, CODEC) == before[2]
    newer.delete(record.id)
    assert newer.search("yes") == []

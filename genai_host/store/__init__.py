"""The durable store: conversations, documents and blobs, in SQLite or PostgreSQL.

    store.py        conversations: create, reopen, list, delete; the record of a conversation
    records.py      stored form of entries, with bytes in blobs; export, import
    writer.py       adds entries; concurrent threads share a commit
    library.py      queries and changes of conversations
    indexer.py      index derived from entries: lists, messages, attempts
    search.py       full-text search
    usage.py        daily usage of model calls
    ledger.py       spending of budgets
    database.py     connections, errors as `StoreError`, locks, liveness of processes
    migrations.py   migrations of the schema in `tables.py`
    health.py       read-only health check

The entries are the source of truth. Each is on disk before its `append` returns. The index is
derived from them on demand, so a crash leaves nothing to repair. Writing to SQLite needs the
standard library only; SQLAlchemy, which is slow to import, is imported for queries.
"""

from genai_host.store.store import Store

__all__ = ["Store"]

"""The durable store: conversations, documents and blobs, in SQLite or PostgreSQL.

    store.py        conversations: create, reopen, list, delete; the record of one of them
    records.py      entries as they are stored, bytes of images and files apart; export, import
    writer.py       adds entries; threads that come at once share a commit
    library.py      looks up and changes what is there
    indexer.py      what is derived from entries: lists, messages, tries
    search.py       words, and what they are found by
    usage.py        what calls come to, day by day
    ledger.py       what was spent of budgets
    database.py     connections, errors as `StoreError`, locks, which processes live
    migrations.py   its schema, as `tables.py` has it
    health.py       how it is, looked at without changing it

The entries are the truth, each on disk before its `append` returns; all else is derived
from them when somebody asks, so that a crash leaves nothing to repair. To write to
SQLite takes Python's own module alone; SQLAlchemy, which takes its time, is imported to
look something up.
"""

from genai_host.store.store import Store

__all__ = ["Store"]

"""The durable store: conversations, documents and blobs, in SQLite or PostgreSQL.

    Store            store.py           conversations: create, reopen, list, delete ...
    StoredRecord     stored_record.py   the record of one of them, entry by entry
    Writer           writer.py          adds entries; threads that come at once share a commit
    Attached         attached.py        bytes of images and files, which are kept as blobs
    Library          library.py         looks up and changes what is there
    Indexer          indexer.py         what is derived from entries: lists, messages, tries
    UsageRow         usage.py           what calls come to, day by day
    Ledger           ledger.py          what was spent of budgets
    Database         database.py        connections, and errors as `StoreError`
    migrations.py    tables.py          its schema
    Health           health.py          how it is, looked at without changing it

The entries are the truth, each on disk before its `append` returns; all else is derived
from them when somebody asks, so that a crash leaves nothing to repair. To write to
SQLite takes Python's own module alone; SQLAlchemy, which takes its time, is imported to
look something up.
"""

from genai_host.store.store import Store

__all__ = ["Store"]

"""Table definitions for SQLite and PostgreSQL.

Times are seconds since 1970, UTC. JSON is stored as text, since the JSON types of databases do not
accept all values that the host's JSON parser accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from genai_host.usage.metering import COUNTED_TOKENS

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite needs INTEGER for row numbers


def _conversation() -> ForeignKey:
    return ForeignKey("conversations.id", ondelete="CASCADE")


def _keys(*names: str) -> Iterator[Column[str]]:
    """Texts of the primary key."""
    return (Column(name, Text, primary_key=True) for name in names)


def _filled(kind: type[TypeEngine[Any]], *names: str) -> Iterator[Column[Any]]:
    """Columns that are never null."""
    return (Column(name, kind, nullable=False) for name in names)


# Properties of the store, such as the version of its schema.
meta = Table(
    "meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False)
)

# Data derived from entries. `entries` is the number of entries that are indexed.
# `status` is `idle`, `failed`, `paused` (once `waiting`), or `open` while a turn has not ended.
# `writer` is the last writer. The first `copied` entries come from another conversation,
# which has their cost.
conversations = Table(
    "conversations",
    metadata,
    *_keys("id"),
    *_filled(Text, "owner"),
    *_filled(Double, "created"),
    Column("name", Text),
    Column("forked_from", Text),
    Column("copied", Integer, nullable=False, server_default="0"),
    Column("entries", Integer, nullable=False, server_default="0"),
    Column("updated", Double, nullable=False),
    Column("title", Text, nullable=False, server_default=""),
    Column("feature", Text, nullable=False, server_default=""),
    Column("models", Text, nullable=False, server_default="{}"),
    Column("turns", Integer, nullable=False, server_default="0"),
    Column("status", Text, nullable=False, server_default="idle"),
    Column("writer", BigInteger),
    Index("conversations_by_owner", "owner", "updated"),
)

# `body` is the entry in JSON form, with its tag, as returned by `InMemoryRecord.to_json`.
entries = Table(
    "entries",
    metadata,
    Column("conversation", Text, _conversation(), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("turn", Integer),
    *_filled(Text, "kind"),
    *_filled(Double, "at"),
    *_filled(BigInteger, "writer"),
    *_filled(Text, "body"),
)

# Messages for full-text search, without removed ones; see `search`. `words` has the
# distinct words of a message, separated by spaces.
messages = Table(
    "messages",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column("conversation", Text, _conversation(), nullable=False, index=True),
    Column("turn", Integer),
    *_filled(Text, "role", "text"),
    Column("words", Text, nullable=False, server_default=""),
)

# Attempts of model calls. `code` is the error code; null for a success.
# `cost` is in US dollars; null if unknown.
tries = Table(
    "tries",
    metadata,
    Column("conversation", Text, _conversation(), primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    Column("path", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    *_filled(Text, "model", "provider", "dialect"),
    *_filled(Double, "started", "seconds"),
    Column("code", Text),
    Column("http_status", Integer),
    *(Column(name, BigInteger) for name in COUNTED_TOKENS),
    Column("cost", Double),
)

# `conversation` is empty for a document without a conversation; `number` is the order
# of creation.
documents = Table(
    "documents",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    *_filled(Text, "owner"),
    Column("conversation", Text, _conversation(), index=True),
    *_filled(Text, "collection", "id"),
    *_filled(Integer, "version"),
    *_filled(Text, "value"),
    Index("documents_by_id", "owner", "collection", "id", unique=True),
)

blobs = Table(
    "blobs",
    metadata,
    *_keys("digest"),
    *_filled(BigInteger, "size"),
    *_filled(Double, "created"),
)

# Uses of blobs. A blob without a use is removed. `conversation` is empty for a use by
# the owner alone.
blob_uses = Table(
    "blob_uses",
    metadata,
    Column("digest", Text, ForeignKey("blobs.digest"), primary_key=True),
    *_keys("owner", "conversation"),
    Index("blob_uses_by_conversation", "conversation"),
)

# Content of blobs, for databases without a directory for them.
blob_pieces = Table(
    "blob_pieces",
    metadata,
    *_keys("digest"),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

# Daily usage of model calls, without message text; it remains when conversations are
# deleted. `day` is in UTC. `code` is the error code, empty for a success. `bucket` is the
# duration; see `usage`. `unknown` is the number of calls with unknown cost, `slowest` the
# longest duration of a call.
usage = Table(
    "usage",
    metadata,
    *_keys("day", "owner", "feature", "provider", "model", "code"),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    *_filled(BigInteger, "calls", *COUNTED_TOKENS),
    *_filled(Double, "dollars"),
    *_filled(BigInteger, "unknown"),
    *_filled(Double, "seconds", "slowest"),
)

# Spending of budgets; see `ledger`. `name` is a user, or `*` for all users together;
# `period` is a day or a month, for example `2030-01-31` or `2030-01`.
spent = Table(
    "spent",
    metadata,
    *_keys("name", "period"),
    *_filled(Double, "dollars"),
    *_filled(BigInteger, "tokens", "unknown"),
)

"""Table definitions for SQLite and PostgreSQL.

Times are seconds since 1970, UTC. JSON is stored as text, since the JSON types of databases do not
accept all values that the host's JSON parser accepts.
"""

from __future__ import annotations

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

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite needs INTEGER for row numbers


def _conversation() -> ForeignKey:
    return ForeignKey("conversations.id", ondelete="CASCADE")


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
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("created", Double, nullable=False),
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
    Column("kind", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("writer", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

# Messages for full-text search, without removed ones; see `search`. `words` has the
# distinct words of a message, separated by spaces.
messages = Table(
    "messages",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column("conversation", Text, _conversation(), nullable=False, index=True),
    Column("turn", Integer),
    Column("role", Text, nullable=False),
    Column("text", Text, nullable=False),
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
    Column("model", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("dialect", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("code", Text),
    Column("http_status", Integer),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("cost", Double),
)

# `conversation` is empty for a document without a conversation; `number` is the order
# of creation.
documents = Table(
    "documents",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("conversation", Text, _conversation(), index=True),
    Column("collection", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("value", Text, nullable=False),
    Index("documents_by_id", "owner", "collection", "id", unique=True),
)

blobs = Table(
    "blobs",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("created", Double, nullable=False),
)

# Uses of blobs. A blob without a use is removed. `conversation` is empty for a use by
# the owner alone.
blob_uses = Table(
    "blob_uses",
    metadata,
    Column("digest", Text, ForeignKey("blobs.digest"), primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Index("blob_uses_by_conversation", "conversation"),
)

# Content of blobs, for databases without a directory for them.
blob_pieces = Table(
    "blob_pieces",
    metadata,
    Column("digest", Text, primary_key=True),
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
    Column("day", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("feature", Text, primary_key=True),
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("code", Text, primary_key=True),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("dollars", Double, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("slowest", Double, nullable=False),
)

# Spending of budgets; see `ledger`. `name` is a user, or `*` for all users together;
# `period` is a day or a month, for example `2030-01-31` or `2030-01`.
spent = Table(
    "spent",
    metadata,
    Column("name", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("dollars", Double, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
)

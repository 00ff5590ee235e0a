"""The tables, the same in SQLite and PostgreSQL.

Times are seconds since 1970, UTC. JSON is kept as text: what it holds is read by the
host's own reader, and may hold what a database's JSON type refuses.
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

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows in INTEGER alone


def _conversation() -> ForeignKey:
    return ForeignKey("conversations.id", ondelete="CASCADE")


# What is known of the store itself, as the version of its schema.
meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# What is derived from the entries stands behind `entries`, which says how far that goes;
# `status` is `idle`, `failed`, `waiting`, or `open` while a turn has not ended, and
# `writer` is who wrote last. The first `copied` entries are those of another conversation,
# where what they cost was counted.
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

# `body` is the entry in JSON form, with its tag, as `InMemoryRecord.to_json` gives it.
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

# What was said, and was not taken back, to be searched; see `search`. `words` has each of
# its words once, with spaces between them; see `words`.
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

# Every try of every call of a model. `code` is that of its error; null if it succeeded.
# `cost` is in US dollars; null if it is not known.
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

# `conversation` is empty for a document that belongs to none; `number` orders them by
# when they were made.
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

# Who uses a blob; one that nobody uses is removed. `conversation` is empty for a use by
# the owner alone.
blob_uses = Table(
    "blob_uses",
    metadata,
    Column("digest", Text, ForeignKey("blobs.digest"), primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Index("blob_uses_by_conversation", "conversation"),
)

# What blobs hold, where there is no folder for them.
blob_pieces = Table(
    "blob_pieces",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

# What calls of models come to, day by day, without a word of what was said: it stays when
# conversations are deleted. `day` is that of UTC, `code` that of the error, empty where there
# is none, and `bucket` how long a call took; see `usage`. `unknown` counts the calls whose
# cost is not known, `slowest` is of one call.
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

# What was spent of budgets; see `ledger`. `name` is that of a user, or `*` for all of them
# together; `period` is a day or a month, as `2030-01-31` or `2030-01`.
spent = Table(
    "spent",
    metadata,
    Column("name", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("dollars", Double, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
)

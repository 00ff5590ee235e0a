"""From version 1 of the schema to 2: what calls come to, and what was spent of budgets."""

from __future__ import annotations

import math
import time
from typing import Any

from sqlalchemy import Connection, text

_TABLES = (
    (
        "CREATE TABLE usage (day TEXT NOT NULL, owner TEXT NOT NULL, feature TEXT NOT NULL, "
        "provider TEXT NOT NULL, model TEXT NOT NULL, code TEXT NOT NULL, bucket INTEGER NOT NULL, "
        "calls BIGINT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, "
        "cached_tokens BIGINT NOT NULL, reasoning_tokens BIGINT NOT NULL, "
        "dollars DOUBLE PRECISION NOT NULL, unknown BIGINT NOT NULL, "
        "seconds DOUBLE PRECISION NOT NULL, slowest DOUBLE PRECISION NOT NULL, "
        "PRIMARY KEY (day, owner, feature, provider, model, code, bucket))"
    ),
    (
        "CREATE TABLE spent (name TEXT NOT NULL, period TEXT NOT NULL, "
        "dollars DOUBLE PRECISION NOT NULL, tokens BIGINT NOT NULL, unknown BIGINT NOT NULL, "
        "PRIMARY KEY (name, period))"
    ),
    "ALTER TABLE conversations ADD COLUMN copied INTEGER DEFAULT 0 NOT NULL",
    # what was copied from another conversation is older than the copy
    (
        "UPDATE conversations SET copied = (SELECT count(*) FROM entries "
        "WHERE conversation = conversations.id AND at < created) "
        "WHERE EXISTS (SELECT 1 FROM entries WHERE conversation = conversations.id "
        "AND at < created AND number > 0)"
    ),
)
_TRIES = (
    "SELECT c.owner, c.feature, t.provider, t.model, t.code, t.started, t.seconds, "
    "t.input_tokens, t.output_tokens, t.cached_tokens, t.reasoning_tokens, t.cost "
    "FROM tries t JOIN conversations c ON c.id = t.conversation "
    "WHERE t.started + t.seconds >= c.created"
)
_ADD = (
    "INSERT INTO usage VALUES (:day, :owner, :feature, :provider, :model, :code, :bucket, "
    ":calls, :input_tokens, :output_tokens, :cached_tokens, :reasoning_tokens, :dollars, "
    ":unknown, :seconds, :slowest)"
)
_KEY = ("day", "owner", "feature", "provider", "model", "code", "bucket")
_COUNTED = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def step(connection: Connection) -> None:
    for statement in _TABLES:
        connection.execute(text(statement))
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    tries = connection.execute(text(_TRIES), execution_options={"yield_per": 1000})
    for row in tries:
        _add(sums, row)
    rows = [dict(zip(_KEY, key, strict=True)) | values for key, values in sums.items()]
    if rows:
        connection.execute(text(_ADD), rows)


def _add(sums: dict[tuple[Any, ...], dict[str, Any]], row: Any) -> None:
    owner = row.owner.rpartition("/")[2]
    seconds = max(0.0, row.seconds)
    bucket = 0 if seconds <= 0.001 else math.ceil(4 * math.log2(seconds / 0.001))
    key = (_day(row.started), owner, row.feature, row.provider, row.model, row.code or "", bucket)
    names = ("calls", *_COUNTED, "dollars", "unknown", "seconds", "slowest")
    found = sums.setdefault(key, dict.fromkeys(names, 0))
    found["calls"] += 1
    for name in _COUNTED:
        found[name] += getattr(row, name) or 0
    found["dollars"] += row.cost or 0.0
    found["unknown"] += row.cost is None
    found["seconds"] += seconds
    found["slowest"] = max(found["slowest"], seconds)


def _day(moment: float) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(moment))
    except (OverflowError, ValueError, OSError):
        return "1970-01-01"

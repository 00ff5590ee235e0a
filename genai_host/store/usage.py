"""Daily usage of model calls.

Usage is aggregated when calls are indexed (`indexer`), or reported by the caller for calls that are
not recorded. The aggregates contain no message text, and remain when conversations are deleted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from attrs import asdict, define, field, fields, frozen
from sqlalchemy import Connection, Double, Executable, case, cast, func, select
from sqlalchemy.dialects import postgresql, sqlite

from genai_host.api import Cost
from genai_host.api.messages import MAX_TOKENS
from genai_host.errors import ValidationError
from genai_host.store.database import storable
from genai_host.store.tables import usage
from genai_host.usage.metering import (
    COUNTED_TOKENS,
    UsageAggregate,
    UsageKey,
    UsageTotals,
    middle_of,
)

GROUPS = {
    "day": usage.c.day,
    "feature": usage.c.feature,
    "model": usage.c.model,
    "provider": usage.c.provider,
    "user": usage.c.owner,
}
"""Columns to group by."""

_MAX_NAME = 300  # bytes; PostgreSQL limits the size of a key
_SUMMED = tuple(each.name for each in fields(UsageTotals) if each.name != "slowest")


@frozen
class UsageRow:
    """Usage of a group of calls.

    Attributes:
        of: Values that the group has in common: `day`, `feature`, `model`, `provider` or `user`.
        calls: Number of calls, including failed ones.
        failed: Number of failed calls by error code.
        cost: US dollars.
        mean, p50, p95, slowest: Duration of successful calls in seconds; None if there are none.
    """

    of: Mapping[str, str]
    calls: int
    failed: Mapping[str, int]
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cost: Cost
    mean: float | None
    p50: float | None
    p95: float | None
    slowest: float | None


def add_usage(connection: Connection, tally: UsageAggregate) -> None:
    """Add usage, with one atomic statement per row. Sums end at a limit that no call exceeds, since
    the database would refuse a larger one."""
    rows = [
        {**_stored(key), **{name: min(value, MAX_TOKENS) for name, value in asdict(sums).items()}}
        for key, sums in tally
    ]
    if not rows:
        return
    connection.execute(_adding(connection.dialect.name), rows)


@cache
def _adding(dialect: str) -> Executable:
    """SQL that adds a row. It is made once: that takes longer than to execute it."""
    make = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = make(usage)
    new = statement.excluded
    changed: dict[str, Any] = {
        name: case((usage.c[name] > MAX_TOKENS, usage.c[name]), else_=usage.c[name] + new[name])
        for name in _SUMMED
    }
    is_slower = new.slowest > usage.c.slowest
    changed["slowest"] = case((is_slower, new.slowest), else_=usage.c.slowest)
    keys = list(UsageKey._fields)
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def _stored(key: UsageKey) -> dict[str, Any]:
    """A key as columns. Names that a client chose are made storable, and truncated."""
    names = {name: each for name, each in key._asdict().items() if name not in ("owner", "bucket")}
    return {**key._asdict(), **{name: _short(each) for name, each in names.items()}}


def _short(name: str) -> str:
    return storable(name).encode()[:_MAX_NAME].decode(errors="ignore")


def read_usage(
    connection: Connection, by: Sequence[str], since: str, until: str, user: str | None, most: int
) -> list[UsageRow]:
    """See `Store.usage`."""
    for name in by:
        if name not in GROUPS:
            raise ValidationError(
                f"invalid grouping {name!r}: choose from {', '.join(GROUPS)}", path="?by"
            )
    groups = [GROUPS[name].label(name) for name in by]
    # as floats: SQLite raises an error if a sum of integers exceeds 64 bits
    sums = [func.sum(cast(usage.c[name], Double)).label(name) for name in _SUMMED]
    chosen = select(
        *groups, usage.c.code, usage.c.bucket, *sums, func.max(usage.c.slowest).label("slowest")
    ).group_by(*groups, usage.c.code, usage.c.bucket)
    if since:
        chosen = chosen.where(usage.c.day >= since)
    if until:
        chosen = chosen.where(usage.c.day <= until)
    if user is not None:
        chosen = chosen.where(usage.c.owner == storable(user))
    found: dict[tuple[str, ...], _Group] = {}
    for row in connection.execute(chosen.order_by(*groups)):
        key = tuple(row[: len(by)])
        if key not in found and len(found) == most:
            break
        found.setdefault(key, _Group(dict(zip(by, key, strict=True)))).add(row)
    return [group.row() for group in found.values()]


@define
class _Group:
    of: dict[str, str]
    sums: dict[str, Any] = field(factory=lambda: dict.fromkeys(_SUMMED, 0))
    failed: dict[str, int] = field(factory=dict)
    buckets: dict[int, int] = field(factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0

    def add(self, row: Any) -> None:
        """Add calls with the same code and duration bucket."""
        for name in _SUMMED:
            value = getattr(row, name)
            self.sums[name] += float(value) if name in ("dollars", "seconds") else int(value)
        calls = int(row.calls)
        if row.code:
            self.failed[row.code] = self.failed.get(row.code, 0) + calls
            return
        self.buckets[row.bucket] = self.buckets.get(row.bucket, 0) + calls
        self.seconds += float(row.seconds)
        self.slowest = max(self.slowest, float(row.slowest))

    def row(self) -> UsageRow:
        sums = self.sums
        answered = sum(self.buckets.values())
        known = sums["calls"] - sums["unknown"]
        return UsageRow(
            of=self.of,
            calls=sums["calls"],
            failed=dict(sorted(self.failed.items())),
            **{name: sums[name] for name in COUNTED_TOKENS},
            cost=Cost(sums["dollars"], known, sums["unknown"]),
            mean=self.seconds / answered if answered else None,
            p50=self._percentile(0.50),
            p95=self._percentile(0.95),
            slowest=self.slowest if answered else None,
        )

    def _percentile(self, share: float) -> float | None:
        """The middle of the bucket with the percentile, at most the slowest duration."""
        answered = sum(self.buckets.values())
        if not answered:
            return None
        rank, passed = math.ceil(share * answered), 0
        for bucket in sorted(self.buckets):
            passed += self.buckets[bucket]
            if passed >= rank:
                break
        return min(middle_of(bucket), self.slowest)

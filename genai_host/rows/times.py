"""Moments, as programs read them."""

from __future__ import annotations

from datetime import datetime, timezone


def utc(moment: float) -> str:
    """ISO 8601 in UTC, to the millisecond.

    moment   seconds since 1970
    """
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")

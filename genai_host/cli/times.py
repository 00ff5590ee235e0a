"""Moments on the command line: as people read them, and as people write them."""

from __future__ import annotations

import re
import time
from datetime import datetime

import click

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def local(moment: float) -> str:
    """For people: the user's own time, to the minute.

    moment   seconds since 1970
    """
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def read_date(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """The callback of an option that takes a date, or a date with a time (ISO 8601), in the
    user's own time unless it says otherwise: seconds since 1970."""
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(f"{value!r} is no date, as 2030-01-31", ctx, param) from None


def read_age(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """The same for one that takes how long ago that was, as `30d`."""
    if value is None:
        return None
    read = re.fullmatch(r"([0-9]{1,6})([mhdw])", value)
    if read is None:
        raise click.BadParameter(f"{value!r} is no age, as 30d, 12h or 4w", ctx, param)
    number, unit = read.groups()
    return time.time() - int(number) * _UNITS[unit]

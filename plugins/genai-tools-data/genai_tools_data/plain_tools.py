"""Tools that need no data: arithmetic and the time.

The time is that of the front end's clock if it sends one, otherwise that of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any

from genai_host.api import ToolContext, tool
from genai_host.errors import ValidationError

# RFC 9557, for example `2025-01-02T03:04:05+01:00[Europe/Oslo]`
_ZONED = re.compile(r"(?P<time>[^\[\]]{1,60})(\[!?(?P<zone>[^\[\]=]{1,60})\])?(\[[^\[\]]{1,60}\])*")


def now(context: Mapping[str, Any], zone: str, clock: Callable[[], datetime]) -> str:
    """Return the time with its weekday, as text and as ISO 8601.

    Args:
        context: Context of the front end; can have `current_time_with_timezone`.
        zone: An IANA name; empty for the user's zone, or this machine's.
        clock: Returns this machine's time, in its zone.

    Raises:
        ValidationError: The zone is unknown.
    """
    sent = _sent(context.get("current_time_with_timezone"))
    time = sent or clock()
    if zone.strip():
        time = time.astimezone(_zone(zone.strip()))
    name = str(time.tzinfo) if hasattr(time.tzinfo, "key") else time.tzname() or ""
    where = f" ({name})" if name else ""
    return f"{time:%A}, {time.replace(microsecond=0).isoformat()}{where}"


def local_time() -> datetime:
    """Return this machine's time, in its zone."""
    return datetime.now(UTC).astimezone()


def _sent(value: object) -> datetime | None:
    """Parse a front end's time; None if it is invalid, because a model cannot correct it."""
    found = _ZONED.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    text = found["time"].replace("Z", "+00:00").replace("z", "+00:00")
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None or not 1 < time.year < 9999:  # safe for any zone
            return None
    except (ValueError, OverflowError):
        return None
    try:
        return time.astimezone(_zone(found["zone"])) if found["zone"] else time
    except (ValidationError, OverflowError):
        return time


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    # a path outside the zone database, a directory, or an invalid file name
    except (KeyError, ValueError, OSError) as error:
        raise ValidationError(_unknown(name)) from error


def _unknown(name: str) -> str:
    import difflib
    from zoneinfo import available_timezones

    known = available_timezones()
    normalized = name.replace(" ", "_").lower()
    near = [each for each in sorted(known) if each.lower().rpartition("/")[2] == normalized]
    near = near or difflib.get_close_matches(name, sorted(known), 3)
    hint = f"did you mean {', '.join(near[:3])}?" if near else "use a name such as Europe/Oslo"
    return f"unknown time zone {name[:60]!r}: {hint}"


_USAGE = "for example 2 * (3 + 4) or round(sqrt(2), 3); ** is the power, % the remainder"


@tool(idempotent=True, timeout=10.0)
def calculate(expression: Annotated[str, _USAGE]) -> str:
    """Calculate a number. Use it whenever there is anything to calculate."""
    from genai_tools_data import calculator

    return calculator.calculate(expression)


@tool(idempotent=True, timeout=10.0)
def current_time(
    run: ToolContext,
    zone: Annotated[str, "IANA time zone, for example Europe/Oslo; empty for the user's"] = "",
) -> str:
    """Say what day and what time it is now, for the user or elsewhere."""
    return now(run.context, zone, local_time)


PLAIN_TOOLS = (calculate, current_time)

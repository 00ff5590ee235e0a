"""What time it is, by whoever knows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from genai_tools_data.plain_tools import local_time, now
from hypothesis import given
from hypothesis import strategies as st

from genai_host.errors import ValidationError

CLOCK = datetime(2025, 7, 1, 12, 0, 0, 5, timezone(timedelta(hours=2), "CEST"))


def told(sent: Any = None, zone: str = "") -> str:
    return now({"current_time_with_timezone": sent}, zone, lambda: CLOCK)


@pytest.mark.parametrize(
    ("sent", "zone", "expected"),
    [
        (None, "", "Tuesday, 2025-07-01T12:00:00+02:00 (CEST)"),
        (None, "UTC", "Tuesday, 2025-07-01T10:00:00+00:00 (UTC)"),
        (None, "America/New_York", "Tuesday, 2025-07-01T06:00:00-04:00 (America/New_York)"),
        (None, " Asia/Kathmandu ", "Tuesday, 2025-07-01T15:45:00+05:45 (Asia/Kathmandu)"),
        ("2025-01-31T23:30:00Z", "", "Friday, 2025-01-31T23:30:00+00:00 (UTC)"),
        (
            "2025-01-31T23:30:00Z",
            "Europe/Oslo",
            "Saturday, 2025-02-01T00:30:00+01:00 (Europe/Oslo)",
        ),
        ("2025-01-31 23:30:00.1234567+01:00", "", "Friday, 2025-01-31T23:30:00+01:00 (UTC+01:00)"),
        (
            "2025-01-31T23:30:00+01:00[Europe/Oslo][u-ca=iso8601]",
            "",
            "Friday, 2025-01-31T23:30:00+01:00 (Europe/Oslo)",
        ),
        (
            "2025-01-31T23:30:00+01:00[No/Where]",
            "",
            "Friday, 2025-01-31T23:30:00+01:00 (UTC+01:00)",
        ),
    ],
)
def test_the_time(sent: Any, zone: str, expected: str) -> None:
    assert told(sent, zone) == expected


@pytest.mark.parametrize(
    "sent",
    [
        *("", "now", "2025-01-31T23:30:00", 5, ["x"], {}, "0001-01-01T00:00:00+14:00", "\x00"),
        f"2025-01-31T23:30:00Z{'[x]' * 1000}!",  # which many ways lead through
    ],
)
def test_what_is_no_time_is_as_if_it_were_not_there(sent: Any) -> None:
    assert told(sent, "UTC") == told(None, "UTC")


@given(sent=st.text() | st.datetimes(timezones=st.timezones()).map(str))
def test_whatever_a_front_end_sends_there_is_a_time(sent: str) -> None:
    assert "T" in told(sent)
    assert told(sent, "Pacific/Kiritimati").endswith("(Pacific/Kiritimati)")


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Oslo", "did you mean Europe/Oslo?"),
        ("new york", "did you mean America/New_York?"),
        ("Europe/Olso", "did you mean Europe/Oslo"),
        ("../../etc/passwd", "use a name such as Europe/Oslo"),
        ("/etc/passwd", "use a name such as Europe/Oslo"),
        ("Europe", ""),
        ("x\x00", ""),
        ("\udcff", ""),
        ("x" * 5000, ""),
    ],
)
def test_a_zone_that_is_not_known(zone: str, hint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        told(zone=zone)
    assert str(caught.value).startswith("unknown time zone")
    assert hint in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_machine_has_a_time_and_a_zone() -> None:
    assert local_time().tzinfo is not None

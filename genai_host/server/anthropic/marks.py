"""What is to be kept in a service's cache: the marks for it, wherever they stand.

Source: Claude API reference, "CacheControlEphemeralParam"; the guide to prompt caching.
"""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api.given import Given

_TTLS = ("5m", "1h")


def ttl_in(given: Given) -> tuple[str, ...]:
    """How long what is marked is to be kept; empty if it is not marked. Raises
    `InvalidData`."""
    control = given.object("cache_control")
    if control is None:
        return ()
    control.choice("type", ("ephemeral",))
    found = control.choice("ttl", _TTLS, _TTLS[0])
    control.nothing_else()
    return (found,)


def longest(ttls: Iterable[str]) -> str | None:
    """None of none."""
    return max(ttls, key=_TTLS.index, default=None)

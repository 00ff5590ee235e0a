"""What differs between a request of ours and one of a vendor's own client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Any, NamedTuple

from genai_host.testing.fake_service import Received


class Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


class Difference(NamedTuple):
    """A field of a body, what it is here, and what it is with the SDK."""

    field: str
    ours: Any
    theirs: Any


HEADERS: Mapping[str, str] = {
    "accept": "a service answers in JSON, or in events if asked to by `stream`",
    "accept-encoding": "streamed replies are not to be held back by compression",
    "connection": "a connection is kept unless a side says otherwise",
    "content-length": "follows the body",
    "user-agent": "each says its own name",
    "x-stainless-*": "the SDK tells of its platform, its retries and its time-out",
}
"""The headers that may differ, and why."""


def differing(ours: Received, theirs: Received, besides: Iterable[str] = ()) -> set[Difference]:
    """What differs between two bodies, field by field; all else is equal.

    besides   further headers that may differ
    """
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    may_differ = {*HEADERS, *besides}
    assert _headers(ours, may_differ) == _headers(theirs, may_differ)
    here, there = dict(_leaves(_read(ours))), dict(_leaves(_read(theirs)))
    return {
        Difference(re.sub(r"\[\d+\]", "[]", place), *both)
        for place in here.keys() | there.keys()
        if (both := (here.get(place, ABSENT), there.get(place, ABSENT)))[0] != both[1]
    }


def _headers(request: Received, but: set[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in request.headers.items()
        if not any(fnmatch(name, pattern) for pattern in but)
    }


def _read(request: Received) -> Any:
    return json.loads(request.body, object_pairs_hook=_once) if request.body else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """No key may stand there twice."""
    assert len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{index}]")
    else:
        yield place, repr(value) if isinstance(value, (dict, list)) else value


def headers_in_vain(ours: Received, theirs: Received, listed: Iterable[str]) -> list[str]:
    """Those of the listed headers that do not differ."""
    differ = {name for name, _ in ours.headers.items() ^ theirs.headers.items()}
    return [each for each in listed if not any(fnmatch(name, each) for name in differ)]

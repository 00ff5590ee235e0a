"""What differs between a request of ours and one of an SDK that says the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
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


def differing(ours: Received, theirs: Received, headers: Set[str]) -> set[Difference]:
    """What differs between two bodies, field by field; all else is equal.

    headers   patterns of those that may differ
    """
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert _headers(ours, headers) == _headers(theirs, headers)
    here, there = dict(_leaves(_read(ours))), dict(_leaves(_read(theirs)))
    return {
        Difference(re.sub(r"\[\d+\]", "[]", place), *both)
        for place in here.keys() | there.keys()
        if (both := (here.get(place, ABSENT), there.get(place, ABSENT)))[0] != both[1]
    }


def headers_listed_in_vain(ours: Received, theirs: Received, headers: Set[str]) -> list[str]:
    """The patterns to which no header that differs fits."""
    differ = {name for name, _ in ours.headers.items() ^ theirs.headers.items()}
    return [each for each in headers if not any(fnmatch(name, each) for name in differ)]


def _headers(request: Received, but: Set[str]) -> dict[str, str]:
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

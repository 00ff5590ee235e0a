"""JSON values in which one value is replaced by an unexpected one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

HOSTILE: tuple[Any, ...] = (
    *("", "\ud83c", "a\ud800\0b", "\0", "x" * 5000, "İ" * 90),
    *(-1, 2**31, 2**53, 2**63 - 1, 2**63, 10**400, -(2**64), 0.5, 1e308, True, None),
    *([], ["\ud83c"], {}, {"\ud83c": "\udfff", "a": 2**64}, [[[[]]]]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))


def changed(value: Any, path: tuple[Any, ...], hostile: Any) -> Any:
    if not path:
        return hostile
    made = copy.deepcopy(value)
    within = made
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = hostile
    return made

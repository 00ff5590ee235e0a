"""Errors without the keys that a service quotes in what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)
Clean = Callable[[str], str]
"""A text without the keys."""


def without_keys(error: E, clean: Clean) -> E:
    """The same error, with all that it comes from, which is shown with it."""
    seen: set[int] = set()  # errors are equal by value
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        left += [each.__cause__, each.__context__]
        each.args = tuple(_cleaned(value, clean) for value in each.args)
        for name, value in vars(each).items():
            if isinstance(value, (str, bytes)):
                with contextlib.suppress(AttributeError):  # it cannot be set
                    setattr(each, name, _cleaned(value, clean))
    return error


def _cleaned(value: Any, clean: Clean) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes):  # which an error of decoding has
        return clean(value.decode("latin-1")).encode("latin-1")
    return value

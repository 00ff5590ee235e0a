"""Renewal of objects in forked processes."""

from __future__ import annotations

import os
from functools import cache
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """An object with locks, threads or connections that a forked process must not use."""

    def renew(self) -> None:
        """Begin anew, in a process that was just forked and has one thread."""


def renew_after_fork(value: Renewable) -> None:
    """Renew an object in processes that are forked from now on, as long as it exists."""
    _renewed_after_fork().add(value)


@cache
def _renewed_after_fork() -> WeakSet[Renewable]:
    values = WeakSet[Renewable]()

    def renew_all() -> None:
        for value in list(values):
            value.renew()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=renew_all)
    return values

"""Counts objects that only the garbage collector can free."""

from __future__ import annotations

import gc
from collections.abc import Callable


def left_in_cycles(function: Callable[[], object]) -> int:
    """Return the number of objects that ten calls leave in reference cycles."""
    function()
    gc.collect()
    gc.freeze()  # the objects of the whole run, which take half a second to traverse
    gc.disable()
    try:
        counts = []
        for _ in range(5):  # threads of other tests may leave something in one of them
            for _ in range(10):
                function()
            counts.append(gc.collect())
        return min(counts)
    finally:
        gc.enable()

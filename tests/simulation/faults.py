"""Faults of writes to a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.schedule import Killed

FULL, LOCKED = "database or disk is full", "database is locked"
_WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT", "REPLAC")


def guarded(
    process: Any, sql: str, act: Callable[[], Any], failed: Callable[[str], Exception]
) -> Any:
    """Run SQL of a process; a write may fail, or be the last action of the process.

    Args:
        failed: Makes an error of the driver.
    """
    if not process.is_alive:
        raise Killed
    fault = process.fault(sql) if sql.lstrip()[:6].upper() in _WRITES else ""
    if fault in (FULL, LOCKED):
        raise failed(fault)
    kind, _, when = fault.partition(" ")
    result = None if when == "before" else act()
    if kind == "kill":
        process.kill()
        raise Killed
    if kind == "interrupt":
        raise KeyboardInterrupt
    return result

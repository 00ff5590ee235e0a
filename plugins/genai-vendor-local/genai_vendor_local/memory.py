"""Free memory for a model."""

from __future__ import annotations

from pathlib import Path

_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_memory(system: Path = _SYSTEM, group: Path = _GROUP) -> int | None:
    """Return the bytes available without swapping; None if unknown.

    On Linux, it is `MemAvailable` (proc_meminfo(5)), or the remainder of a control group's limit if
    that is less (`memory.max`, Linux's documentation of cgroup v2), for example in a container.
    """
    available = _available(system)
    if available is None:
        return None
    limit, used = _number(_text(group / "memory.max")), _number(_text(group / "memory.current"))
    if limit is None or used is None:
        return available
    cache = _field(group / "memory.stat", "inactive_file") or 0  # reclaimable
    return min(available, max(limit - used + cache, 0))


def _available(system: Path) -> int | None:
    kilobytes = _field(system, "MemAvailable:")
    return None if kilobytes is None else kilobytes * 1024


def _field(file: Path, name: str) -> int | None:
    lines = (line.split() for line in _text(file).splitlines())
    return next((_number(line[1]) for line in lines if len(line) > 1 and line[0] == name), None)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    """Parse a number; None for `max`, which means no limit."""
    return int(text) if text.strip().isdigit() else None

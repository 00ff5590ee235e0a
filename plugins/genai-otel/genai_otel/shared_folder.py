"""The directory in which worker processes store their metrics.

The directory is named by the id of their parent process, and by its start time where available,
because ids are reused. Directories of ended parents are removed.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from genai_host import paths

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Variable of prometheus-client for the directory, which its user then has to clean."""

_NAME = re.compile(r"([1-9][0-9]{0,9})(-[0-9]+)?")


def shared_folder(workers: int, environ: Mapping[str, str] = os.environ) -> str:
    """A directory shared by the worker processes, created if necessary; empty for one process.

    Args:
        workers: Number of worker processes.
        environ: The environment.
    """
    if environ.get(VARIABLE):
        folder = Path(environ[VARIABLE])
    elif workers > 1:
        every = Path(paths.cache_dir(), "genai-otel")
        folder = every / _named(os.getppid())
        _clean(every)
    else:
        return ""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder)


def processes_in(folder: str) -> list[int]:
    """Return the ids of the processes that have written there."""
    found = (re.search(r"_([0-9]+)\.db$", name) for name in os.listdir(folder))
    return sorted({int(each[1]) for each in found if each})


def forget_dead(folder: str) -> None:
    """Remove the operations in progress of ended processes; their counters remain."""
    from prometheus_client.multiprocess import mark_process_dead

    for pid in processes_in(folder):
        if not is_alive(pid) and glob.glob(os.path.join(folder, f"gauge_live*_{pid}.db")):
            mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


def _named(pid: int) -> str:
    """Return the directory name for a parent process."""
    began = _began(pid)
    return f"{pid}-{began}" if began else str(pid)


def _began(pid: int) -> str:
    """Return the start time in ticks since boot (proc(5), `starttime`); empty if unknown."""
    try:
        status = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[19]


def _clean(every: Path) -> None:
    """Remove the directories of ended parents. Safe for concurrent use."""
    if not every.is_dir():
        return
    for folder in every.iterdir():
        found = _NAME.fullmatch(folder.name)
        if found and (not is_alive(int(found[1])) or folder.name != _named(int(found[1]))):
            shutil.rmtree(folder, ignore_errors=True)

"""The folder in which processes that serve together keep their numbers.

They have one parent, so its process id names the folder, together with when that began where
the system says so: ids come again. Folders of parents that are gone are removed.
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
"""Where prometheus-client looks for it: who sets it chooses the folder, and keeps it clean."""

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
    """Those that have written there."""
    found = (re.search(r"_([0-9]+)\.db$", name) for name in os.listdir(folder))
    return sorted({int(each[1]) for each in found if each})


def forget_dead(folder: str) -> None:
    """What was under way in processes that are gone is so no longer. What they have counted
    stays: counters do not go back."""
    from prometheus_client.multiprocess import mark_process_dead

    for pid in processes_in(folder):
        if not is_alive(pid) and glob.glob(os.path.join(folder, f"gauge_live*_{pid}.db")):
            mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _named(pid: int) -> str:
    """The name of the folder of a parent."""
    began = _began(pid)
    return f"{pid}-{began}" if began else str(pid)


def _began(pid: int) -> str:
    """In ticks since the system started (proc(5), `starttime`); empty if nobody says."""
    try:
        status = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[19]


def _clean(every: Path) -> None:
    """Remove the folders of parents that are gone. Several may do so at once."""
    if not every.is_dir():
        return
    for folder in every.iterdir():
        found = _NAME.fullmatch(folder.name)
        if found and (not is_alive(int(found[1])) or folder.name != _named(int(found[1]))):
            shutil.rmtree(folder, ignore_errors=True)

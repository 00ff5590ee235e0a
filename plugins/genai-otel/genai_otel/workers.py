"""The metrics of all worker processes, in files of one directory.

Each process writes its sums shortly after they have changed. The process that receives a scrape
reads all of them, with its own sums of that moment. The directory is named by the id of the parent
process, and by its start time where available, because ids are reused. Directories of ended parents
are removed.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genai_host import paths
from genai_otel.sums import Sums

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Variable of prometheus-client for the directory, which its user then has to clean."""

_NAME = re.compile(r"([1-9][0-9]{0,9})(-[0-9]+)?")
_log = logging.getLogger(__name__)


def shared_folder(workers: int, environ: Mapping[str, str] = os.environ) -> str:
    """A directory shared by the worker processes, created if necessary; empty for one process.

    Args:
        workers: Number of worker processes.
        environ: The environment.
    """
    if environ.get(VARIABLE):
        folder = Path(environ[VARIABLE])
    elif workers > 1:
        parent = Path(paths.cache_dir(), "genai-otel")
        folder = parent / _process_name(os.getppid())
        _clean(parent)
    else:
        return ""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder)


class SharedSums:
    """The sums of the processes of a directory, and their memory, CPU time and open files.

    Args:
        folder: The directory.
        own: The sums of this process.
    """

    def __init__(self, folder: str, own: Sums) -> None:
        self._folder = Path(folder)
        self._own = own
        self._file = self._folder / f"{_process_name(os.getpid())}.json"

    def write(self) -> None:
        """Write the sums of this process, in one thread at a time."""
        new = self._file.with_suffix(".new")
        try:
            new.write_text(json.dumps(self._own.to_json()), encoding="utf-8")
            new.replace(self._file)
        except OSError:
            _log.warning("cannot write the metrics of this process", exc_info=True)

    def processes(self) -> list[int]:
        """The ids of the running processes, this one among them."""
        names = {self._file.stem, *(each.stem for each in self._folder.glob("*.json"))}
        return sorted(int(name.partition("-")[0]) for name in names if _is_running(name))

    def collect(self) -> Iterator[Metric]:
        """The metrics, as prometheus-client calls it."""
        sums = Sums()
        sums.add_json(self._own.to_json(), is_alive=True)
        for file in self._folder.glob("*.json"):
            if file != self._file:
                try:
                    data: Any = json.loads(file.read_text("utf-8"))
                    sums.add_json(data, is_alive=_is_running(file.stem))
                except (OSError, ValueError):
                    _log.warning("cannot read the metrics in %s", file.name, exc_info=True)
        yield from sums.collect()
        yield from _metrics_of(self.processes())


def _metrics_of(processes: list[int]) -> Iterator[Metric]:
    """Memory, CPU time and open files of each process, with the label `pid`."""
    from prometheus_client.metrics_core import Metric
    from prometheus_client.process_collector import ProcessCollector

    found: dict[str, Metric] = {}
    for pid in processes:
        collector = ProcessCollector(pid=partial(int, pid), registry=None)
        for metric in collector.collect():
            kept = found.setdefault(
                metric.name, Metric(metric.name, metric.documentation, metric.type)
            )
            for sample in metric.samples:
                kept.add_sample(sample.name, {"pid": str(pid)}, sample.value)
    yield from found.values()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


def _is_running(name: str) -> bool:
    """Whether the process with this name is running."""
    found = _NAME.fullmatch(name)
    return bool(found and is_alive(int(found[1])) and name == _process_name(int(found[1])))


def _process_name(pid: int) -> str:
    """Return the name of a process in this directory."""
    started = _start_time(pid)
    return f"{pid}-{started}" if started else str(pid)


def _start_time(pid: int) -> str:
    """Return the start time in ticks since boot (proc(5), `starttime`); empty if unknown."""
    try:
        status = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[19]


def _clean(parent: Path) -> None:
    """Remove the directories of ended parent processes. Safe for concurrent use."""
    if not parent.is_dir():
        return
    for folder in parent.iterdir():
        if _NAME.fullmatch(folder.name) and not _is_running(folder.name):
            shutil.rmtree(folder, ignore_errors=True)

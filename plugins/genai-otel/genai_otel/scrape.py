"""`GET /metrics` for Prometheus, for administrators: its numbers include all users.

The metrics are in a separate registry of prometheus-client. Worker processes each write their
values to files in one directory (prometheus-client's multiprocess mode). The process that receives
the scrape reads all of them. The directory is named by the id of the parent process, and by its
start time where available, because ids are reused. Directories of ended parents are removed.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genai_host import paths
from genai_host.api import RouteRequest, RouteResponse
from genai_host.errors import PermissionDenied
from genai_otel import plugin
from genai_otel.conventions import INSTRUMENTS, Instrument

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from genai_host.api import HostServices
    from genai_otel.operation import ObservedOperation, Point


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


RecordValues = Callable[[Mapping[str, Any], float], None]

_SUFFIXES = {"s": "_seconds", "{dollar}": "_dollars"}

_log = logging.getLogger(__name__)


class Gathered:
    """Listener that aggregates the metrics.

    Args:
        folder: Directory shared by worker processes; empty for a single process.
    """

    def __init__(self, folder: str = "") -> None:
        if folder:  # prometheus-client reads it on import
            os.environ[VARIABLE] = folder
        from prometheus_client import CollectorRegistry, values

        is_shared = bool(folder) and getattr(values.ValueClass, "_multiprocess", False)
        if folder and not is_shared:
            _log.warning("prometheus_client was already in use: metrics cover only one process")
        self.registry = CollectorRegistry()
        shown_here = None if is_shared else self.registry
        self._record = {each.name: _recorder(each, shown_here) for each in INSTRUMENTS}
        if is_shared:
            _show_all_of(folder, self.registry)
        else:
            _show_process(self.registry)

    def begin(self, operation: ObservedOperation) -> None:
        self._record_points(operation.moved(1))

    def end(self, operation: ObservedOperation) -> None:
        self._record_points(operation.moved(-1))
        self._record_points(operation.points)

    def _record_points(self, points: Iterable[Point]) -> None:
        for instrument, value, attributes in points:
            self._record[instrument.name](attributes, value)


def prometheus_name(instrument: Instrument) -> str:
    """Return an instrument's name for Prometheus ("Prometheus and OpenMetrics Compatibility"): with
    underscores, and the unit unless it is an annotation.
    """
    return instrument.name.replace(".", "_") + _SUFFIXES.get(instrument.unit, "")


def _recorder(instrument: Instrument, registry: CollectorRegistry | None) -> RecordValues:
    from prometheus_client import Counter, Gauge, Histogram

    name = prometheus_name(instrument)
    labels = tuple(label.replace(".", "_") for label in instrument.labels)
    metric: Any
    if instrument.kind == "histogram":
        metric = Histogram(
            name, instrument.about, labels, registry=registry, buckets=instrument.buckets
        )
    elif instrument.kind == "gauge":
        metric = Gauge(
            name, instrument.about, labels, registry=registry, multiprocess_mode="livesum"
        )
    else:
        metric = Counter(name, instrument.about, labels, registry=registry)
    write = "observe" if instrument.kind == "histogram" else "inc"
    kept: dict[tuple[Any, ...], Callable[[float], None]] = {}
    wanted = instrument.labels

    def record(attributes: Mapping[str, Any], value: float) -> None:
        get = attributes.get
        given = tuple([get(label, "") for label in wanted])
        child = kept.get(given)
        if child is None:  # concurrent lookups return the same object
            child = kept[given] = getattr(metric.labels(*map(str, given)), write)
        child(value)

    return record


def _show_process(registry: CollectorRegistry) -> None:
    from prometheus_client.gc_collector import GCCollector
    from prometheus_client.platform_collector import PlatformCollector
    from prometheus_client.process_collector import ProcessCollector

    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)


def _show_all_of(folder: str, registry: CollectorRegistry) -> None:
    from prometheus_client.multiprocess import MultiProcessCollector

    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    registry.register(_Processes(folder))


class _Processes:
    """Memory, CPU time and open files of each process, with the label `pid`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import Metric
        from prometheus_client.process_collector import ProcessCollector

        found: dict[str, Metric] = {}
        for pid in filter(is_alive, processes_in(self._folder)):
            collector = ProcessCollector(pid=partial(int, pid), registry=None)
            for metric in collector.collect():
                kept = found.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                for sample in metric.samples:
                    kept.add_sample(sample.name, {"pid": str(pid)}, sample.value)
        yield from found.values()


class Scrape:
    """Listens from its creation, at the start of the server, until it is closed."""

    def __init__(self, host: HostServices) -> None:
        self._folder = shared_folder(host.config.server.workers)
        self._gathered = Gathered(self._folder)
        plugin.telemetry.add(self._gathered)

    def answer(self, request: RouteRequest) -> RouteResponse:
        from prometheus_client.exposition import choose_encoder

        if request.user:
            raise PermissionDenied(
                "only the operator of the server can read the metrics",
                hint="use the token of the server",
            )
        if self._folder:
            forget_dead(self._folder)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        headers = {"content-type": kind, "cache-control": "no-store"}
        return RouteResponse(encode(self._gathered.registry), headers=headers)

    def close(self) -> None:
        plugin.telemetry.remove(self._gathered)

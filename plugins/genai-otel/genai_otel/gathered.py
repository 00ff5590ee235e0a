"""Metrics for Prometheus with prometheus-client, in a separate registry.

Worker processes each write their values to files in one directory (prometheus-client's multiprocess
mode). The process that receives the scrape reads all of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from genai_otel.conventions import INSTRUMENTS, Instrument
from genai_otel.shared_folder import VARIABLE, is_alive, processes_in

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from genai_otel.operation import ObservedOperation, Point

RecordValues = Callable[[Mapping[str, Any], float], None]

_SUFFIXES = {"s": "_seconds", "{dollar}": "_dollars"}

_log = logging.getLogger(__name__)


class Gathered:
    """Listener that aggregates the metrics.

    Args:
        folder: Directory shared by worker processes; empty for a single process.

    Attributes:
        registry: Registry for the scrape.
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

"""The OpenTelemetry providers for spans and metrics: those of the application, or providers created
here and configured by OpenTelemetry's environment variables.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from importlib_metadata import entry_points

from genai_otel.conventions import INSTRUMENTS, Instrument
from genai_otel.telemetry import Listener, Signal, Want

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from genai_otel.operation import ObservedOperation, Point


RecordValue = Callable[[float, dict[str, Any]], None]


class Meters:
    """Listener that records with the instruments of a meter."""

    def __init__(self, meter: Meter) -> None:
        self._record: Mapping[str, RecordValue] = {
            each.name: _recorder(meter, each) for each in INSTRUMENTS
        }

    def begin(self, operation: ObservedOperation) -> None:
        self._record_points(operation.moved(1))

    def end(self, operation: ObservedOperation) -> None:
        self._record_points(operation.moved(-1))
        self._record_points(operation.points)

    def _record_points(self, points: Iterable[Point]) -> None:
        for instrument, value, attributes in points:
            labels = {name: attributes[name] for name in instrument.labels if attributes.get(name)}
            self._record[instrument.name](value, labels)


def _recorder(meter: Meter, instrument: Instrument) -> RecordValue:
    about: dict[str, Any] = {"unit": instrument.unit, "description": instrument.about}
    if instrument.kind == "histogram":
        return meter.create_histogram(
            instrument.name,
            explicit_bucket_boundaries_advisory=instrument.buckets,
            **about,
        ).record
    if instrument.kind == "gauge":
        return meter.create_up_down_counter(instrument.name, **about).add
    return meter.create_counter(instrument.name, **about).add


NAME = "genai_otel"
"""The instrumentation scope."""

APP = "genai-host"

_log = logging.getLogger(__name__)
_SDK = logging.getLogger("opentelemetry")


class Providers:
    """OpenTelemetry providers, of the application or created here.

    Attributes:
        listeners: Listeners that write to the providers.
        are_own: Whether any provider was created here and must be flushed and closed.
    """

    def __init__(self, want: Want) -> None:
        self._ours: list[Any] = []
        self._gave_up = False
        self._trouble = _Trouble()
        self.listeners: list[Listener] = []
        if "traces" in want.own or "traces" in want.apps:
            from genai_otel.spans import Spans

            provider = want.apps.get("traces") or self._own_traces(want.own["traces"])
            self.listeners.append(Spans(provider.get_tracer(NAME)))
        if "metrics" in want.own or "metrics" in want.apps:
            provider = want.apps.get("metrics") or self._own_metrics(want.own["metrics"])
            self.listeners.append(Meters(provider.get_meter(NAME)))
        if self.are_own:
            _SDK.addHandler(self._trouble)

    @property
    def are_own(self) -> bool:
        return bool(self._ours)

    def flush(self, seconds: float) -> None:
        """Send the pending data; after a timeout, sending continues in the background."""
        self._gave_up = not self._all_done([each.force_flush for each in self._ours], seconds)
        if self._gave_up:
            self._trouble.report(f"it took longer than {seconds:g} seconds")

    def close(self, seconds: float) -> None:
        """Send the pending data and shut down. Does not wait again for an unreachable collector."""
        self._all_done([each.shutdown for each in self._ours], 0.0 if self._gave_up else seconds)
        _SDK.removeHandler(self._trouble)

    def _all_done(self, works: list[Callable[[], Any]], seconds: float) -> bool:
        """Run each function in a daemon thread; return whether all of them ended in time."""
        self._trouble.away.clear()  # thread ids are reused
        threads = [_Thread(work, self._trouble.changed) for work in works]
        for thread in threads:
            thread.start()
        with self._trouble.changed:
            self._trouble.changed.wait_for(
                lambda: all(each.is_done or each.ident in self._trouble.away for each in threads),
                seconds,
            )
            return all(each.is_done for each in threads)

    def _own_traces(self, exporters: Iterable[str]) -> Any:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        for exporter in _exporters("traces", exporters):
            provider.add_span_processor(BatchSpanProcessor(exporter))
        self._ours.append(provider)
        return provider

    def _own_metrics(self, exporters: Iterable[str]) -> Any:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        readers = [PeriodicExportingMetricReader(each) for each in _exporters("metrics", exporters)]
        provider = MeterProvider(readers, _resource(), shutdown_on_exit=False)
        self._ours.append(provider)
        return provider


class _Trouble(logging.Handler):
    """Logs an unreachable collector once, unless the application configures logging."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._is_reported = False
        self.away: set[int | None] = set()  # ids of threads that could not connect and will retry
        self.changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        self.report(record.getMessage())
        if any(isinstance(each, OSError) for each in record.args or ()):
            with self.changed:
                self.away.add(record.thread)
                self.changed.notify_all()

    def report(self, why: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            _log.warning("telemetry was not exported: %s", " ".join(why.split())[:300])


def _resource() -> Any:
    """Return the resource from the environment, with a default service name."""
    from opentelemetry.sdk.resources import Resource

    found = Resource.create()
    if str(found.attributes.get("service.name", "")).startswith("unknown_service"):
        return found.merge(Resource({"service.name": APP}))
    return found


def _exporters(signal: Signal, names: Iterable[str]) -> list[Any]:
    """Create exporters by name from the SDK's entry points."""
    made = []
    for name in names:
        found = _name(signal) if name == "otlp" else name
        points = tuple(entry_points(group=f"opentelemetry_{signal}_exporter", name=found))
        if not points:
            _log.warning("%s: the exporter %r is not installed", signal, found)
            continue
        try:
            made.append(points[0].load()())
        except Exception as error:  # noqa: BLE001 - the environment can contain any value
            _log.warning("%s: the exporter %r cannot be used: %s", signal, found, error)
    return made


def _name(signal: Signal) -> str:
    """Return the entry point of the OTLP exporter; HTTP by default, as in the specification."""
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((os.environ[each] for each in variables if os.environ.get(each)), "")
    return "otlp_proto_grpc" if protocol.strip() == "grpc" else "otlp_proto_http"


class _Thread(threading.Thread):
    def __init__(self, work: Callable[[], Any], changed: threading.Condition) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._changed = changed
        self.is_done = False

    def run(self) -> None:
        try:
            self._work()
        except Exception:  # noqa: BLE001 - telemetry that is lost must not be the end of anything
            _log.debug("cannot send telemetry", exc_info=True)
        with self._changed:
            self.is_done = True
            self._changed.notify_all()

"""Metrics of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from genai_otel.conventions import INSTRUMENTS, Instrument

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

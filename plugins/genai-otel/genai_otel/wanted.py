"""Whether anybody wants traces and metrics, found out without importing OpenTelemetry.

The variables are those of OpenTelemetry's specification ("Environment Variable Specification",
"OTLP Exporter Configuration"), which names their defaults as well. One is departed from: an
exporter is `otlp` only where it is named, or where an endpoint is, so that nothing is sent
before somebody has asked for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

Signal = Literal["traces", "metrics"]

_APIS: Mapping[Signal, tuple[str, str]] = {
    "traces": ("opentelemetry.trace", "get_tracer_provider"),
    "metrics": ("opentelemetry.metrics", "get_meter_provider"),
}


@frozen
class Want:
    """The signals to send.

    Attributes:
        own: Signals that are sent by providers of our own, with the names of their exporters.
        apps: Signals that go to those of the application.
    """

    own: Mapping[Signal, tuple[str, ...]]
    apps: Mapping[Signal, Any]

    def __bool__(self) -> bool:
        return bool(self.own or self.apps)


_NOTHING = Want({}, {})


def exporters_in(environ: Mapping[str, str]) -> Mapping[Signal, tuple[str, ...]]:
    """What is to be sent by exporters, and by which, as the environment says."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    named = {signal: _exporters(signal, environ) for signal in _APIS}
    return {signal: exporters for signal, exporters in named.items() if exporters}


def wanted(exporters: Mapping[Signal, tuple[str, ...]]) -> Want:
    """What is wanted now: the application's providers come before exporters of our own."""
    if not exporters and not any(module in sys.modules for module, _ in _APIS.values()):
        return _NOTHING
    apps = {
        signal: provider
        for signal, (module, get) in _APIS.items()
        if (provider := _of_application(module, get)) is not None
    }
    return Want({signal: each for signal, each in exporters.items() if signal not in apps}, apps)


def _of_application(module: str, get: str) -> Any:
    """The provider that the application has set up globally; None if it has not. Who has not
    imported the API cannot have done so."""
    api = sys.modules.get(module)
    if api is None:
        return None
    provider = getattr(api, get)()
    # the API's own do nothing, or stand for one that may come
    return None if type(provider).__module__.startswith(module) else provider


def _exporters(signal: Signal, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Their names, as a list with commas has them; `none` is none."""
    named = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if not named:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        named = "otlp" if any(environ.get(each, "").strip() for each in endpoints) else ""
    names = (name.strip().lower() for name in named.split(","))
    return tuple(name for name in names if name not in ("", "none"))

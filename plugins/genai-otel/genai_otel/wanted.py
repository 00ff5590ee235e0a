"""Whether traces and metrics are configured, determined without importing OpenTelemetry.

The variables and defaults are those of OpenTelemetry's specification ("Environment Variable
Specification", "OTLP Exporter Configuration"), with one exception: the exporter defaults to `otlp`
only if an endpoint is set, so that nothing is sent without configuration.
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
        own: Signals for providers created here, with the names of their exporters.
        apps: Signals for the application's providers.
    """

    own: Mapping[Signal, tuple[str, ...]]
    apps: Mapping[Signal, Any]

    def __bool__(self) -> bool:
        return bool(self.own or self.apps)


_NOTHING = Want({}, {})


def exporters_in(environ: Mapping[str, str]) -> Mapping[Signal, tuple[str, ...]]:
    """Return the exporters of each signal from the environment."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    named = {signal: _exporters(signal, environ) for signal in _APIS}
    return {signal: exporters for signal, exporters in named.items() if exporters}


def wanted(exporters: Mapping[Signal, tuple[str, ...]]) -> Want:
    """Return the signals to send now; the application's providers take precedence."""
    if not exporters and not any(module in sys.modules for module, _ in _APIS.values()):
        return _NOTHING
    apps = {
        signal: provider
        for signal, (module, get) in _APIS.items()
        if (provider := _of_application(module, get)) is not None
    }
    return Want({signal: each for signal, each in exporters.items() if signal not in apps}, apps)


def _of_application(module: str, get: str) -> Any:
    """Return the application's global provider; None without one, or without the API."""
    api = sys.modules.get(module)
    if api is None:
        return None
    provider = getattr(api, get)()
    # the API's own classes are no-ops or proxies
    return None if type(provider).__module__.startswith(module) else provider


def _exporters(signal: Signal, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the exporter names from a comma-separated list; `none` means none."""
    named = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if not named:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        named = "otlp" if any(environ.get(each, "").strip() for each in endpoints) else ""
    names = (name.strip().lower() for name in named.split(","))
    return tuple(name for name in names if name not in ("", "none"))

"""The operations in progress, and their listeners.

Telemetry.has_listeners → _open (once, when it is first known to be wanted)
         .begin, .end → each Listener

Whether traces and metrics are configured is determined without importing OpenTelemetry. The
variables and defaults are those of OpenTelemetry's specification ("Environment Variable
Specification", "OTLP Exporter Configuration"), with one exception: the exporter defaults to `otlp`
only if an endpoint is set, so that nothing is sent without configuration.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from genai_otel.operation import ObservedOperation
    from genai_otel.providers import Providers

PATIENCE = 1.0
"""Seconds that the shutdown waits for a reachable collector."""

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROPAGATE = "GENAI_OTEL_PROPAGATE"  # OpenTelemetry has no variable for it
_CAPTURING = ("true", "span_only", "span_and_event")

Signal = Literal["traces", "metrics"]

_APIS: Mapping[Signal, tuple[str, str]] = {
    "traces": ("opentelemetry.trace", "get_tracer_provider"),
    "metrics": ("opentelemetry.metrics", "get_meter_provider"),
}
_MODULES = frozenset(module for module, _ in _APIS.values())


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


def exporters_in(environ: Mapping[str, str]) -> Mapping[Signal, tuple[str, ...]]:
    """Return the exporters of each signal from the environment."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    named = {signal: _exporters(signal, environ) for signal in _APIS}
    return {signal: exporters for signal, exporters in named.items() if exporters}


def wanted(exporters: Mapping[Signal, tuple[str, ...]]) -> Want:
    """Return the signals to send now; the application's providers take precedence."""
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


class Listener(Protocol):
    """Receives all operations, in any thread."""

    def begin(self, operation: ObservedOperation) -> None: ...

    def end(self, operation: ObservedOperation) -> None: ...


class Telemetry:
    """Telemetry of one process. Thread-safe.

    Attributes:
        captures: Whether input and output of models are recorded.
        propagates: Whether the trace is propagated to services.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._exporters = exporters_in(environ)
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._under_way: dict[str, ObservedOperation] = {}
        self._providers: Providers | None = None
        self.propagates = environ.get(_PROPAGATE, "").lower() == "true"
        self.captures = environ.get(_CAPTURE, "").lower() in _CAPTURING

    def has_listeners(self) -> bool:
        """Whether there are listeners; may add those of OpenTelemetry first."""
        if self._providers is None:
            self._open()
        return bool(self._listeners)

    def under_way(self, id: str) -> ObservedOperation | None:
        return self._under_way.get(id)

    def begin(self, id: str, operation: ObservedOperation) -> None:
        self._under_way[id] = operation
        for each in self._listeners:
            each.begin(operation)
            operation.listeners.append(each)

    def taken(self, id: str) -> ObservedOperation | None:
        """Remove and return an operation; None if there were no listeners at its start."""
        return self._under_way.pop(id, None)

    def end(self, operation: ObservedOperation) -> None:
        """Notify the listeners that received its start."""
        for each in operation.listeners:
            each.end(operation)

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    def flush(self, seconds: float = PATIENCE) -> None:
        """Send the pending data, within a time limit."""
        if self._providers is not None:
            self._providers.flush(seconds)

    def close(self, seconds: float = PATIENCE) -> None:
        """Send the pending data and stop."""
        providers, self._providers = self._providers, None
        self._listeners = ()
        if providers is not None:
            atexit.unregister(self.close)
            providers.close(seconds)

    def _open(self) -> None:
        """Add the listeners of OpenTelemetry, if the application or environment configures it."""
        if not self._exporters and sys.modules.keys().isdisjoint(_MODULES):
            return  # quickly, for each operation: `isdisjoint` iterates over `_MODULES`
        want = wanted(self._exporters)
        if not want:
            return
        with self._lock:
            if self._providers is not None:
                return
            from genai_otel.providers import Providers

            self._exporters = {}  # on failure it is not attempted again
            providers = Providers(want)
            self._listeners = (*self._listeners, *providers.listeners)
            self._providers = providers
        if providers.are_own:  # registered after other handlers, so that it runs before them
            atexit.register(self.close)

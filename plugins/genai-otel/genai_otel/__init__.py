"""Traces and metrics of the host with OpenTelemetry, and for Prometheus at `GET /metrics`.

- `plugin`: receives turns, calls, tools and requests from the hooks
- `telemetry`: has the operations in progress, and the listeners
- `operation`: an operation in the terms of the semantic conventions
- `spans`, `providers`, `scrape`: listeners for traces, metrics and Prometheus

OpenTelemetry is not imported before it is known to be needed.
"""

from genai_otel.plugin import OtelPlugin

__all__ = ["OtelPlugin", "plugin"]

plugin = OtelPlugin()

"""Traces and metrics of the host: by OpenTelemetry, and for Prometheus at `GET /metrics`.

    plugin       hears of turns, calls, tools and requests
    telemetry    keeps what is under way, and tells who listens of it
    operation    one of these, in the words of the conventions
    spans        listens for traces, `meters` for metrics, `scrape` for Prometheus

Nothing of OpenTelemetry is imported until it is known to be wanted.
"""

from genai_otel.plugin import OtelPlugin

__all__ = ["OtelPlugin", "plugin"]

plugin = OtelPlugin()

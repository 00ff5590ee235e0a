"""Where telemetry goes: what the environment says, what the application has set up."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest
from genai_otel.providers import Providers
from genai_otel.telemetry import PATIENCE, Telemetry, exporters_in
from importlib_metadata import EntryPoint

from .otel_receiver import Receiver

pytestmark = pytest.mark.part

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OTLP = ("otlp",)


@pytest.mark.parametrize(("environ", "own"), [
    ({}, {}), ({"OTEL_SERVICE_NAME": "mine"}, {}), ({ENDPOINT: ""}, {}),
    ({ENDPOINT: "http://c"}, {"traces": OTLP, "metrics": OTLP}),
    ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, {"traces": OTLP}),
    ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, {"metrics": OTLP}),
    ({ENDPOINT: "http://c", "OTEL_METRICS_EXPORTER": "none"}, {"traces": OTLP}),
    ({"OTEL_TRACES_EXPORTER": "console, otlp"}, {"traces": ("console", "otlp")}),
    ({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "True"}, {}),
])  # fmt: skip
def test_what_is_sent(environ: Mapping[str, str], own: Mapping[str, tuple[str, ...]]) -> None:
    assert exporters_in(environ) == own


@pytest.mark.smoke
@pytest.mark.process
def test_what_the_application_has_set_up_is_used() -> None:
    """In a process of its own, as what is global stays so."""
    program = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from genai_otel.telemetry import PATIENCE, Telemetry
from genai_otel.telemetry import wanted

assert not wanted({})
telemetry = Telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
tracers, meters = TracerProvider(), MeterProvider()
trace.set_tracer_provider(tracers)
assert wanted({}).apps == {"traces": tracers}
metrics.set_meter_provider(meters)
want = wanted({"traces": ("otlp",), "metrics": ("otlp",)})
assert want.apps == {"traces": tracers, "metrics": meters} and not want.own
assert telemetry.has_listeners()
assert not telemetry._providers.are_own
telemetry.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_global_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace

    with Receiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        telemetry = Telemetry()
        assert telemetry.has_listeners()
        assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        telemetry.close()
    assert not Telemetry({}).has_listeners()


def test_hanging_collector(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is given to `close` is an hour, which would not come to an end here."""
    with Receiver(answers=False) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
        before = threading.active_count()
        telemetry = Telemetry()
        _write_span(telemetry)
        telemetry.flush(0.2)
        assert "telemetry was not exported: it took longer than 0.2 seconds" in caplog.text
        telemetry.close(3600)
    for thread in threading.enumerate()[before:]:
        thread.join(10)


def test_item_7_a_collector_that_nobody_can_connect_to_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And one of the other signal is."""
    assert PATIENCE == 1
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
        telemetry = Telemetry()
        _write_span(telemetry)
        telemetry.flush(3600)
        assert [span.name for span in receiver.spans] == ["s"]
        assert "telemetry was not exported: " in caplog.text
        telemetry.close(3600)


def _write_span(telemetry: Telemetry) -> None:
    assert telemetry.has_listeners()
    providers = telemetry._providers
    assert isinstance(providers, Providers)
    providers._ours[0].get_tracer("t").start_span("s").end()
    for each in providers._ours[1:]:
        each.get_meter("m").create_counter("c").add(1)


@pytest.mark.parametrize(("names", "text"), [
    ([], "the exporter 'pigeon' is not installed"),
    # as one over gRPC that finds its certificate missing
    (["genai_otel.no_such_module:Exporter"], "the exporter 'pigeon' cannot be used"),
])  # fmt: skip
def test_an_exporter_that_cannot_be_made_is_told_of_and_disturbs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, names: list[str], text: str
) -> None:
    entries = [EntryPoint("pigeon", each, "of this test") for each in names]
    monkeypatch.setattr("genai_otel.providers.entry_points", lambda **_: entries)
    telemetry = Telemetry({"OTEL_TRACES_EXPORTER": "pigeon"})
    assert telemetry.has_listeners()
    telemetry.close()
    assert text in caplog.text

"""What is measured, as metrics of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from genai_otel import OtelPlugin
from genai_otel.conventions import INSTRUMENTS
from genai_otel.providers import Meters
from genai_otel.telemetry import Telemetry
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from genai_host import Config, Host
from genai_host.errors import GenaiError
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost


class Measured:
    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)
        telemetry = Telemetry({})
        telemetry.add(Meters(self.provider.get_meter("tests")))
        self.plugin = OtelPlugin(telemetry)

    def points(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        """By their attributes."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            tuple(sorted((point.attributes or {}).items())): point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }


@pytest.fixture
def measured() -> Iterator[Measured]:
    measured = Measured()
    yield measured
    measured.provider.shutdown()


@pytest.fixture
def host(make_host: MakeHost, measured: Measured) -> Host:
    return make_host(otel=measured.plugin)


CALL = {
    "gen_ai.agent.name": "chat",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "mock",
    "gen_ai.request.model": "mock",
}


def key(**further: str) -> tuple[tuple[str, str], ...]:
    named = {name.replace("_", ".", 1): value for name, value in further.items()}
    return tuple(sorted({**CALL, **named}.items()))


def test_calls_are_measured_with_the_buckets_of_the_conventions(
    host: Host, measured: Measured
) -> None:
    for _ in range(3):
        list(host.open("chat", "mock").stream("a b"))
    duration = measured.points("gen_ai.client.operation.duration")[key()]
    assert duration.count == 3
    assert list(duration.explicit_bounds)[:3] == [0.01, 0.02, 0.04]
    assert duration.explicit_bounds[-1] == 81.92
    first = measured.points("gen_ai.client.operation.time_to_first_chunk")[key()]
    assert first.count == 3
    output = {**CALL, "gen_ai.token.type": "output"}
    tokens = measured.points("gen_ai.client.token.usage")[tuple(sorted(output.items()))]
    assert (tokens.count, tokens.sum) == (3, 6)
    assert list(tokens.explicit_bounds)[-1] == 67108864
    assert measured.points("gen_ai.invoke_agent.duration")[(("gen_ai.agent.name", "chat"),)].count
    [active] = measured.points("genai_host.client.active_calls").values()
    assert active.value == 0


def test_errors_are_told_apart(scripted: MakeHost, measured: Measured) -> None:
    host = scripted({"status": 429}, {"status": 401}, plugins={"otel": measured.plugin})
    for _ in range(2):
        with pytest.raises(GenaiError):
            host.open("chat", "mock").say("hi")
    points = measured.points("gen_ai.client.operation.duration")
    errors = {dict(labels)["error.type"] for labels in points}
    assert errors == {"rate_limited", "authentication"}


def test_names_that_nobody_declared_are_no_labels(make_host: MakeHost, measured: Measured) -> None:
    config = Config(providers={"mock": provider_config("mock")})
    host = make_host(config=config, otel=measured.plugin)
    for number in range(5):
        host.open("chat", f"mock/any-{number}").say("hi")
    [labels] = measured.points("gen_ai.client.operation.duration")
    assert dict(labels)["gen_ai.request.model"] == "_OTHER"


def test_names_are_those_of_the_conventions() -> None:
    known = {value for value in vars(gen_ai_metrics).values() if isinstance(value, str)}
    ours = {each.name for each in INSTRUMENTS if each.name.startswith("gen_ai.client")}
    assert ours <= known

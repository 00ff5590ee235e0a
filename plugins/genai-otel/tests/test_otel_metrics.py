"""Metrics of calls, and their sums over processes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_otel import OtelPlugin
from genai_otel.conventions import ACTIVE_CALLS, COST, DURATION, INSTRUMENTS, TOKENS, Instrument
from genai_otel.operation import Point
from genai_otel.providers import Meters
from genai_otel.sums import Sums, prometheus_name
from genai_otel.telemetry import Telemetry
from genai_otel.workers import SharedSums
from hypothesis import given, strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

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
    "gen_ai.agent.name": "chat", "gen_ai.operation.name": "chat", "gen_ai.provider.name": "mock",
    "gen_ai.request.model": "mock",
}  # fmt: skip


def key(**further: str) -> tuple[tuple[str, str], ...]:
    named = {name.replace("_", ".", 1): value for name, value in further.items()}
    return tuple(sorted({**CALL, **named}.items()))


def test_calls_are_measured_with_standard_buckets(host: Host, measured: Measured) -> None:
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


MODELS = st.sampled_from(["a", 'quo"te\n', "ä"])
GONE = "999999999-1.json"  # no process has this id


def point(instrument: Instrument = COST, value: float = 1.0, model: str = "a") -> Point:
    return instrument, value, {"gen_ai.request.model": model}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([COST, TOKENS, DURATION]),
            st.sampled_from([0.0, 0.01, 0.02, 1.0, 4.0, 4.5, 1e30]) | st.floats(0, 1e6),
            MODELS,
        )
    ),
    st.lists(st.tuples(st.sampled_from([1.0, -1.0]), MODELS)),
)
def test_sums(
    measured: list[tuple[Instrument, float, str]], moved: list[tuple[float, str]]
) -> None:
    points = [
        *(point(*each) for each in measured),
        *(point(ACTIVE_CALLS, by, model) for by, model in moved),
    ]
    theirs = CollectorRegistry()
    metrics: dict[Instrument, Any] = {}
    for each in (COST, TOKENS, DURATION, ACTIVE_CALLS):
        about = prometheus_name(each), each.about, [name.replace(".", "_") for name in each.labels]
        if each.kind == "histogram":
            metrics[each] = Histogram(*about, registry=theirs, buckets=each.buckets).labels
        else:
            kind = Counter if each.kind == "counter" else Gauge
            metrics[each] = kind(*about, registry=theirs).labels
    for instrument, value, attributes in points:
        metric = metrics[instrument](*(attributes.get(name, "") for name in instrument.labels))
        (metric.observe if instrument.kind == "histogram" else metric.inc)(value)
    ours, sums = CollectorRegistry(), Sums()
    sums.add(points)
    ours.register(sums)
    assert _samples(ours) == _samples(theirs)


def _samples(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return sorted(each for each in lines if not each.startswith("#") and "_created" not in each)


@pytest.fixture
def own() -> Sums:
    sums = Sums()
    sums.add([point(), point(ACTIVE_CALLS)])
    return sums


def totals(shared: SharedSums) -> dict[str, float]:
    return {
        sample.name: sample.value
        for metric in shared.collect()
        for sample in metric.samples
        if sample.name in ("genai_host_client_cost_dollars_total", "genai_host_client_active_calls")
    }


def test_an_ended_process_has_nothing_in_progress(tmp_path: Path, own: Sums) -> None:
    shared = SharedSums(str(tmp_path), own)
    (tmp_path / GONE).write_text(json.dumps(own.to_json()))
    assert totals(shared) == {
        "genai_host_client_cost_dollars_total": 2,
        "genai_host_client_active_calls": 1,
    }


def test_a_scrape_has_the_sums_of_this_moment(tmp_path: Path, own: Sums) -> None:
    shared = SharedSums(str(tmp_path), own)
    shared.write()
    own.add([point()])
    assert totals(shared)["genai_host_client_cost_dollars_total"] == 2
    assert SharedSums(str(tmp_path), own).processes() == [os.getpid()]


@pytest.mark.parametrize("text", [
    "{", "[]", '{"other": []}', '{"genai_host.client.cost": [[["a"], [1]]]}',
    '{"genai_host.client.cost": [[["", "", "a", ""], ["x"]]]}', '{"genai_host.client.cost": 3}',
])  # fmt: skip
def test_a_damaged_file_hides_no_other(
    tmp_path: Path, own: Sums, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / GONE).write_text(text)
    with caplog.at_level(logging.WARNING):
        found = totals(SharedSums(str(tmp_path), own))
    assert found["genai_host_client_cost_dollars_total"] == 1
    assert GONE in caplog.text
    assert "Traceback" in caplog.text


def test_a_full_disk_is_logged(tmp_path: Path, own: Sums, caplog: pytest.LogCaptureFixture) -> None:
    SharedSums(str(tmp_path / "missing"), own).write()
    assert "cannot write the metrics of this process" in caplog.text

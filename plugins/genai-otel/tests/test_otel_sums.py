"""Sums of measurements, compared with those of prometheus-client, and of several processes."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from genai_otel.conventions import ACTIVE_CALLS, COST, DURATION, TOKENS, Instrument
from genai_otel.operation import Point
from genai_otel.sums import Sums, prometheus_name
from genai_otel.workers import SharedSums
from hypothesis import given, strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

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
def test_sums_are_those_of_prometheus_client(
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


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"other": []}', '{"genai_host.client.cost": [[["a"], [1]]]}',
        '{"genai_host.client.cost": [[["", "", "a", ""], ["x"]]]}', '{"genai_host.client.cost": 3}',
    ],
)  # fmt: skip
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

"""JSON forms: the same for the command line and the API, and JSON all through."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from genai_host import Config, Host
from genai_host.api import Cost, Pause, Usage
from genai_host.errors import ValidationError
from genai_host.serializers.conversations import (
    answer_row,
    cost_row,
    day_in,
    groups_in,
    pause_row,
    utc,
)
from genai_host.serializers.listings import feature_row, model_rows, provider_rows, route_row
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.pytest_plugin import MakeHost


def test_what_has_a_form_of_its_own() -> None:
    assert cost_row(Cost(0.0, 0, 2)) is None
    assert cost_row(Cost(0.5, 1, 2)) == {"dollars": 0.5, "known": 1, "unknown": 2}
    assert utc(0.0625) == "1970-01-01T00:00:00.062+00:00"
    assert groups_in(" model, day,,model") == ["model", "day"]
    assert pause_row(Pause("approval", {"a": 1})) == {"kind": "approval", "payload": {"a": 1}}


def test_a_day_is_one_in_utc() -> None:
    now = datetime(2030, 1, 3, 12, tzinfo=UTC)
    assert day_in("", now, "?") == ""
    assert day_in("1d", now, "?") == "2030-01-03"
    assert day_in("7d", now, "?") == "2029-12-28"
    assert day_in("2030-01-01", now, "?") == "2030-01-01"
    with pytest.raises(ValidationError):
        day_in("2030-13-01", now, "?")


def test_an_answer_is_json(host: Host) -> None:
    answer = host.open("chat", "mock").say("hi")
    row = json.loads(json.dumps(answer_row(answer, host.codec)))
    assert row["text"] == "hi"
    assert Usage(row["usage"]["input_tokens"], row["usage"]["output_tokens"]) == answer.usage
    assert {each["kind"] for each in row["details"]} == {"prompt"}


def test_lists_are_json(make_host: MakeHost) -> None:
    """A provider whose type no plugin brings is in them as well."""
    absent = provider_config("nobodys")
    host = make_host(config=Config(providers={"gone": absent}, aliases={"mine": "mock"}))
    rows = {
        "features": [feature_row(host, each) for each in host.registry.features.values()],
        "models": model_rows(host),
        "providers": provider_rows(host),
        "routes": [route_row(each) for each in host.catalog.explain("mock")],
    }
    read = json.loads(json.dumps(rows))
    assert [each["name"] for each in read["providers"]] == ["mock", "gone"]
    assert {each["name"]: each["aliases"] for each in read["models"]}["mock"] == ["mine"]

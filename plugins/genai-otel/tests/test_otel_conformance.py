"""The plugin, by what is asked of all plugins."""

from __future__ import annotations

import genai_otel
import pytest

from genai_host_testing.internal.vendors import modules_after
from genai_host_testing.suites import PluginSuite


class TestPlugin(PluginSuite):
    plugin = genai_otel.plugin


@pytest.mark.smoke
@pytest.mark.process
def test_nothing_heavy_is_imported_until_it_is_wanted() -> None:
    program = (
        "import genai_otel, genai_otel.telemetry as t; assert not t.Telemetry({}).has_listeners()"
    )
    heavy = {"opentelemetry", "prometheus_client", "requests", "google"}
    assert heavy.isdisjoint(modules_after(program))

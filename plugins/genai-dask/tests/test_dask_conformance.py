"""The plugin, by what is asked of all plugins, and of executors."""

from __future__ import annotations

import genai_dask
import pytest

from genai_host_testing.suites import ExecutorSuite

pytestmark = pytest.mark.process


class TestDask(ExecutorSuite):
    plugin = genai_dask
    executor = "dask"
    settings = {"workers": 1, "threads": 4}

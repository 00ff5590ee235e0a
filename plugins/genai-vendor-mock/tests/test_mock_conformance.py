"""The mock, by the suites that strangers' plugins run."""

from __future__ import annotations

import genai_vendor_mock
from genai_vendor_mock import ScriptedReply

from genai_host_testing.suites import ModelSuite, ProviderSuite


class TestMock(ProviderSuite):
    plugin = genai_vendor_mock
    provider = "mock"
    dialect = "plain"
    model_id = "mock"
    slow = {"replies": [ScriptedReply("one two three", pace=1000)]}


class TestMockModels(ModelSuite):
    plugin = genai_vendor_mock

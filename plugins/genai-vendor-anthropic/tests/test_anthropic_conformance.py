"""The suites of the testing kit, for the provider and for the models."""

from __future__ import annotations

import genai_vendor_anthropic
import pytest

from genai_host_testing.suites import AnthropicMessagesReplies, HttpProviderSuite, ModelSuite

pytestmark = pytest.mark.part


class TestAnthropic(AnthropicMessagesReplies, HttpProviderSuite):
    plugin = genai_vendor_anthropic
    provider = "anthropic"
    settings = {"base_url": "{url}"}
    keys = ["ANTHROPIC_API_KEY"]


class TestModels(ModelSuite):
    plugin = genai_vendor_anthropic

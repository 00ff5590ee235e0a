"""The feature `assistant`, by the suite that strangers' features run."""

from __future__ import annotations

import genai_feature_assistants

from genai_host_testing.suites import FeatureSuite


class TestAssistant(FeatureSuite):
    plugin = genai_feature_assistants
    feature = "assistant"

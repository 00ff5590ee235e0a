"""The open models, by the suite that strangers' models run."""

from __future__ import annotations

import genai_models_open
import genai_vendor_ollama

from genai_host_testing.suites import ModelSuite


class TestOpenModels(ModelSuite):
    plugin = genai_models_open
    beside = {"ollama": genai_vendor_ollama}

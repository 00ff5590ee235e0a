"""The local provider and what it offers, by the suites that strangers' plugins run."""

from __future__ import annotations

import os
from pathlib import Path

import genai_models_open
import genai_vendor_local
import pytest
from genai_vendor_local.weights import DEFAULT

from genai_host_testing.suites import ModelSuite, ProviderSuite


@pytest.mark.weights
class TestLocal(ProviderSuite):
    plugin = genai_vendor_local
    provider = "local"
    dialect = "openai-chat"
    model_id = DEFAULT.name
    settings = {"threads": 1, "window": 1024, "max_tokens": 8}
    slow = {"max_tokens": 900}
    beside = {"models": genai_models_open}

    @pytest.fixture(autouse=True)
    def _with_weights(self, weights: Path, _separate_home: None) -> None:
        file = DEFAULT.file(Path(os.environ["GENAI_HOST_HOME"]) / "data" / "local")
        file.parent.mkdir(parents=True)
        file.symlink_to(DEFAULT.file(weights))


class TestLocalOfferings(ModelSuite):
    plugin = genai_vendor_local
    beside = {"models": genai_models_open}

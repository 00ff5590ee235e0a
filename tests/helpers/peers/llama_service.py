"""llama.cpp's own HTTP server with a real model, and instances that speak to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import xllamacpp

from genai_host.config import InstanceConfig
from genai_host_testing.internal.configs import provider_config

KEY = "sk-canary-77ab"
WINDOW = 1024
TEMPLATE = Path(__file__).with_name("llama_template.jinja")
"""The model's own template leaves tools out. This one has them, and lets the model begin
its answer so that it goes on with a call."""


def llama_server(
    weights: Path, *, embedding: bool = False, key: str = KEY, window: int = WINDOW
) -> Any:
    """One that runs until it is let go."""
    from genai_vendor_local.weights import DEFAULT

    params = xllamacpp.CommonParams()
    params.model.path = str(DEFAULT.file(weights))
    params.model_alias = {"smollm2"}
    params.n_ctx = window
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    params.ui = False
    params.endpoint_metrics = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key] if key else []
    if embedding:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    else:
        params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    server = xllamacpp.Server(params)
    server.handle_metrics()  # one that is released before its loop runs never ends
    return server


def llama_instances(
    url: str, monkeypatch: pytest.MonkeyPatch, *, key: str = KEY, path: str = "/v1"
) -> Mapping[str, InstanceConfig]:
    """`chat`, `responses`, `embed` and `messages`, each of which serves that dialect."""
    monkeypatch.setenv("LLAMA_KEY", key)
    instances = {
        name: provider_config(
            "openai-compatible",
            base_url=f"{url}{path}",
            api_key={"env": "LLAMA_KEY"},
            serves=[f"openai-{name}"],
        )
        for name in ("chat", "responses", "embed")
    }
    instances["messages"] = provider_config(
        "anthropic",
        base_url=f"{url}{path.removesuffix('/v1')}",
        api_key={"env": "LLAMA_KEY"},
        version="2023-06-01",
        lacks=["schema"],
    )
    return instances

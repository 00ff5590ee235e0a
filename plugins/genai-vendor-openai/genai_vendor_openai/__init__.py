"""OpenAI, Azure OpenAI, and servers with compatible APIs.

provider `openai`              OpenAI's own service
provider `azure-openai`        deployments of one Azure resource
provider `openai-compatible`   any address that speaks OpenAI's formats, as a named
                               instance: vLLM, Groq, OpenRouter, LM Studio, llama.cpp
models `gpt-...`, `o3`, `text-embedding-3-...`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Model, ProviderType, hookimpl
from genai_vendor_openai.azure import AzureProvider, AzureSettings
from genai_vendor_openai.compatible import CompatibleProvider, CompatibleSettings
from genai_vendor_openai.models import CHAT, EMBED, MODERATE, TRANSCRIBE
from genai_vendor_openai.openai import OpenAIProvider, OpenAISettings

__all__ = [
    "CHAT",
    "EMBED",
    "MODERATE",
    "TRANSCRIBE",
    "AzureProvider",
    "AzureSettings",
    "CompatibleProvider",
    "CompatibleSettings",
    "OpenAIProvider",
    "OpenAISettings",
]


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("openai", OpenAISettings, OpenAIProvider)
    yield ProviderType("azure-openai", AzureSettings, AzureProvider)
    yield ProviderType("openai-compatible", CompatibleSettings, CompatibleProvider)


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED, *MODERATE, *TRANSCRIBE]

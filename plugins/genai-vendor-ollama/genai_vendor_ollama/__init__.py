"""Ollama: open-weight models on this machine, on another, or at ollama.com.

provider `ollama`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_wire_ollama.dialect.chat import OllamaChat
from genai_wire_ollama.dialect.embed import OllamaEmbed

from genai_host.api import Offering, ProviderType, hookimpl
from genai_vendor_ollama.offerings import offerings
from genai_vendor_ollama.provider import OllamaProvider, OllamaSettings

__all__ = ["OllamaChat", "OllamaEmbed", "OllamaProvider", "OllamaSettings"]


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("ollama", OllamaSettings, OllamaProvider)


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    return offerings()

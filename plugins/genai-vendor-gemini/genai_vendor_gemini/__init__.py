"""Google's Gemini models, through the Gemini API and Vertex AI.

provider `gemini`        the Gemini API, by a key
provider `vertex`        Vertex AI, by the credentials of Google Cloud; Claude as well
models `gemini-...`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_wire_gemini.dialect.embed_content import EmbedContent
from genai_wire_gemini.dialect.generate_content import GeminiCountTokens, GenerateContent

from genai_host.api import Model, Offering, ProviderType, hookimpl
from genai_vendor_gemini.gemini import GeminiProvider, GeminiSettings
from genai_vendor_gemini.models import CHAT, CLAUDE, EMBED
from genai_vendor_gemini.vertex import VertexProvider, VertexSettings

__all__ = [
    "CHAT",
    "CLAUDE",
    "EMBED",
    "EmbedContent",
    "GeminiCountTokens",
    "GeminiProvider",
    "GeminiSettings",
    "GenerateContent",
    "VertexProvider",
    "VertexSettings",
]


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("gemini", GeminiSettings, GeminiProvider)
    # a Google Cloud project can be set for other purposes, so the provider must be chosen
    # explicitly
    yield ProviderType("vertex", VertexSettings, VertexProvider, automatic=False)


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED]


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    return CLAUDE

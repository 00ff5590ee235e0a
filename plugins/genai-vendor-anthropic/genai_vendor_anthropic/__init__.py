"""Anthropic's own service, and the Claude models.

- provider `anthropic`: Anthropic's service, or a compatible gateway or server
- models `claude-...`: independent of the provider; other plugins can offer them elsewhere
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Model, ProviderType, hookimpl
from genai_vendor_anthropic.anthropic import AnthropicProvider, AnthropicSettings
from genai_vendor_anthropic.models import CHAT

__all__ = ["CHAT", "AnthropicProvider", "AnthropicSettings"]


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("anthropic", AnthropicSettings, AnthropicProvider)


@hookimpl
def genai_models() -> Iterable[Model]:
    return CHAT

"""Anthropic's own service, and the Claude models.

- provider `anthropic`: Anthropic's service, or a compatible gateway or server
- models `claude-...`: independent of the provider; other plugins can offer them elsewhere
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from attrs import frozen

from genai_host.api import Model, Provider, ProviderType, Secret, Services, hookimpl, setting
from genai_vendor_anthropic.models import CHAT

__all__ = ["CHAT", "AnthropicSettings"]


@frozen
class AnthropicSettings:
    base_url: str = setting(
        "https://api.anthropic.com", "address of the service", env="ANTHROPIC_BASE_URL"
    )
    api_key: Secret | None = setting(None, "API key", env="ANTHROPIC_API_KEY")
    auth_token: Secret | None = setting(
        None, "bearer token instead of a key, for gateways", env="ANTHROPIC_AUTH_TOKEN"
    )
    version: str = setting(
        "2026-10-21", "API version; 2023-06-01 accepts temperature, top_p and top_k"
    )
    betas: tuple[str, ...] = setting((), "beta features to enable, sent with each request")
    drop_stale_thinking: bool = setting(
        False, "drop earlier reasoning if the content before it has changed, instead of failing"
    )
    cache: Literal["request", "blocks"] = setting(
        "request", "placement of prompt_cache: for the whole request, or per block"
    )
    lacks: tuple[str, ...] = setting(
        (), "capabilities that a compatible service lacks, for example schema, files"
    )


def _open(settings: AnthropicSettings, services: Services) -> Provider:
    from genai_vendor_anthropic.anthropic import AnthropicProvider

    return AnthropicProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("anthropic", AnthropicSettings, _open)


@hookimpl
def genai_models() -> Iterable[Model]:
    return CHAT

"""Anthropic's own service, and the Claude models.

- provider `anthropic`: Anthropic's service, or a compatible gateway or server
- models `claude-...`: independent of the provider; other plugins can offer them elsewhere
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from attrs import field, frozen

from genai_host.api import Model, Provider, ProviderType, Secret, Services, about, hookimpl
from genai_vendor_anthropic.models import CHAT

__all__ = ["CHAT", "AnthropicSettings"]


@frozen
class AnthropicSettings:
    base_url: str = field(
        default="https://api.anthropic.com",
        metadata=about("address of the service", env="ANTHROPIC_BASE_URL"),
    )
    api_key: Secret | None = field(default=None, metadata=about("API key", env="ANTHROPIC_API_KEY"))
    auth_token: Secret | None = field(
        default=None,
        metadata=about("bearer token instead of a key, for gateways", env="ANTHROPIC_AUTH_TOKEN"),
    )
    version: str = field(
        default="2026-10-21",
        metadata=about("API version; 2023-06-01 accepts temperature, top_p and top_k"),
    )
    betas: tuple[str, ...] = field(
        default=(), metadata=about("beta features to enable, sent with each request")
    )
    drop_stale_thinking: bool = field(
        default=False,
        metadata=about(
            "drop earlier reasoning if the content before it has changed, instead of failing"
        ),
    )
    cache: Literal["request", "blocks"] = field(
        default="request",
        metadata=about("placement of prompt_cache: for the whole request, or per block"),
    )
    lacks: tuple[str, ...] = field(
        default=(),
        metadata=about("capabilities that a compatible service lacks, for example schema, files"),
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

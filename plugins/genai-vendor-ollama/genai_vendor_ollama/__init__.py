"""Ollama: open-weight models on this machine, on another, or at ollama.com.

provider `ollama`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api import (
    Offering,
    Provider,
    ProviderType,
    Secret,
    Services,
    about,
    hookimpl,
    setting,
)
from genai_vendor_ollama.offerings import offerings

__all__ = ["OllamaSettings"]


@frozen
class OllamaSettings:
    base_url: str = setting(
        "",
        "address of the server, for example gpu-box:11434 or https://ollama.com; "
        "this machine if empty",
        env="OLLAMA_HOST",
    )
    api_key: Secret | None = setting(None, "API key, for ollama.com", env="OLLAMA_API_KEY")
    default_model: str = setting("", "default model for chat")
    default_embed_model: str = setting("", "default model for embeddings")
    keep_alive: str | float = setting(
        "", "how long models stay loaded: 10m, a number of seconds, 0, or -1 for no limit"
    )
    num_ctx: int | None = setting(None, "context window in tokens, for prompt and answer")
    options: Mapping[str, Any] = field(factory=dict, metadata=about("Ollama options for all calls"))
    truncate: bool = setting(False, "let the server truncate prompts that exceed the window")
    ask_each: bool = setting(
        False,
        "query the capabilities of each model for lists, as older servers do not include them",
    )


def _open(settings: OllamaSettings, services: Services) -> Provider:
    from genai_vendor_ollama.provider import OllamaProvider

    return OllamaProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("ollama", OllamaSettings, _open)


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    return offerings()

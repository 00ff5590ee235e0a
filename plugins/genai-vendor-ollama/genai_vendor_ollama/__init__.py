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

__all__ = ["OllamaSettings"]


_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "smollm2": ("smollm2", "135m", "360m", "1.7b"),
    "llama-3.1": ("llama3.1", "8b", "70b", "405b"),
    "llama-3.2": ("llama3.2", "1b", "3b"),
    "llama-3.3": ("llama3.3", "70b"),
    "llama-4": ("llama4", "scout", "maverick"),
    "qwen2.5": ("qwen2.5", "0.5b", "1.5b", "3b", "7b", "14b", "32b", "72b"),
    "qwen2.5-coder": ("qwen2.5-coder", "7b", "32b"),
    "qwen3": ("qwen3", "0.6b", "1.7b", "4b", "8b", "14b", "32b", "30b-a3b", "235b-a22b"),
    "mistral": ("mistral", "7b"),
    "mistral-nemo": ("mistral-nemo", "12b"),
    "mistral-small-3.2": ("mistral-small3.2", "24b"),
    "mixtral": ("mixtral", "8x7b", "8x22b"),
    "gemma-2": ("gemma2", "2b", "9b", "27b"),
    "gemma-3": ("gemma3", "1b", "4b", "12b", "27b"),
    "gpt-oss": ("gpt-oss", "20b", "120b"),
    "granite-3.3": ("granite3.3", "2b", "8b"),
    "olmo-2": ("olmo2", "7b", "13b"),
}
"""Families of models, by their names in the library of Ollama (https://ollama.com/library), with
their sizes. A model is named `FAMILY-SIZE`."""
_CHAT: Mapping[str, str] = {
    **{
        f"{name}-{size}": f"{family}:{size}"
        for name, (family, *sizes) in _FAMILIES.items()
        for size in sizes
    },
    "llama-3.2-11b-vision": "llama3.2-vision:11b",
    "llama-3.2-90b-vision": "llama3.2-vision:90b",
    "phi-4": "phi4:14b",
    "phi-4-mini": "phi4-mini:3.8b",
    "deepseek-v3": "deepseek-v3:671b",
    "deepseek-r1": "deepseek-r1:671b",
}
_LACKS: Mapping[str, set[str]] = {"deepseek-v3": {"tools"}}
"""Capabilities that the library's template of a model lacks."""

_EMBED: Mapping[str, str] = {
    "bge-m3": "bge-m3:567m",
    "nomic-embed-text-v1.5": "nomic-embed-text:v1.5",
    "mxbai-embed-large-v1": "mxbai-embed-large:335m",
    "qwen3-embedding-0.6b": "qwen3-embedding:0.6b",
    "qwen3-embedding-4b": "qwen3-embedding:4b",
    "qwen3-embedding-8b": "qwen3-embedding:8b",
}
_QWEN3: Mapping[str, Any] = {
    "query": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
        "Query:"
    )
}
_PREFIXES: Mapping[str, Mapping[str, Any]] = {
    "nomic-embed-text-v1.5": {"query": "search_query: ", "document": "search_document: "},
    "mxbai-embed-large-v1": {"query": "Represent this sentence for searching relevant passages: "},
    "qwen3-embedding-0.6b": _QWEN3,
    "qwen3-embedding-4b": _QWEN3,
    "qwen3-embedding-8b": _QWEN3,
}
"""Prefixes of texts, from the vendors' model cards."""


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
    for model, id in _CHAT.items():
        lacks = _LACKS.get(model, ())
        yield Offering(model, "ollama", id, dialects=["ollama-chat"], unsupported=lacks)
    for model, id in _EMBED.items():
        variant = _PREFIXES.get(model, {})
        yield Offering(model, "ollama", id, dialects=["ollama-embed"], variant=variant)

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

# by their names in the library of Ollama: https://ollama.com/library
_CHAT: Mapping[str, str] = {
    "smollm2-135m": "smollm2:135m",
    "smollm2-360m": "smollm2:360m",
    "smollm2-1.7b": "smollm2:1.7b",
    "llama-3.1-8b": "llama3.1:8b",
    "llama-3.1-70b": "llama3.1:70b",
    "llama-3.1-405b": "llama3.1:405b",
    "llama-3.2-1b": "llama3.2:1b",
    "llama-3.2-3b": "llama3.2:3b",
    "llama-3.2-11b-vision": "llama3.2-vision:11b",
    "llama-3.2-90b-vision": "llama3.2-vision:90b",
    "llama-3.3-70b": "llama3.3:70b",
    "llama-4-scout": "llama4:scout",
    "llama-4-maverick": "llama4:maverick",
    "qwen2.5-0.5b": "qwen2.5:0.5b",
    "qwen2.5-1.5b": "qwen2.5:1.5b",
    "qwen2.5-3b": "qwen2.5:3b",
    "qwen2.5-7b": "qwen2.5:7b",
    "qwen2.5-14b": "qwen2.5:14b",
    "qwen2.5-32b": "qwen2.5:32b",
    "qwen2.5-72b": "qwen2.5:72b",
    "qwen2.5-coder-7b": "qwen2.5-coder:7b",
    "qwen2.5-coder-32b": "qwen2.5-coder:32b",
    "qwen3-0.6b": "qwen3:0.6b",
    "qwen3-1.7b": "qwen3:1.7b",
    "qwen3-4b": "qwen3:4b",
    "qwen3-8b": "qwen3:8b",
    "qwen3-14b": "qwen3:14b",
    "qwen3-32b": "qwen3:32b",
    "qwen3-30b-a3b": "qwen3:30b-a3b",
    "qwen3-235b-a22b": "qwen3:235b-a22b",
    "mistral-7b": "mistral:7b",
    "mistral-nemo-12b": "mistral-nemo:12b",
    "mistral-small-3.2-24b": "mistral-small3.2:24b",
    "mixtral-8x7b": "mixtral:8x7b",
    "mixtral-8x22b": "mixtral:8x22b",
    "gemma-2-2b": "gemma2:2b",
    "gemma-2-9b": "gemma2:9b",
    "gemma-2-27b": "gemma2:27b",
    "gemma-3-1b": "gemma3:1b",
    "gemma-3-4b": "gemma3:4b",
    "gemma-3-12b": "gemma3:12b",
    "gemma-3-27b": "gemma3:27b",
    "phi-4": "phi4:14b",
    "phi-4-mini": "phi4-mini:3.8b",
    "deepseek-v3": "deepseek-v3:671b",
    "deepseek-r1": "deepseek-r1:671b",
    "gpt-oss-20b": "gpt-oss:20b",
    "gpt-oss-120b": "gpt-oss:120b",
    "granite-3.3-2b": "granite3.3:2b",
    "granite-3.3-8b": "granite3.3:8b",
    "olmo-2-7b": "olmo2:7b",
    "olmo-2-13b": "olmo2:13b",
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
    "mxbai-embed-large-v1": {
        "query": "Represent this sentence for searching relevant passages: ",
    },
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

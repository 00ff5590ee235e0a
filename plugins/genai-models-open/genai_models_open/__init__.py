"""Declarations of open-weight models, without code; plugins with providers add offerings.

Context windows and capabilities are from the vendors' model cards, for the instruction-tuned
variants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from genai_host.api import Model, hookimpl

_K = 1024
_CHAT = ("openai-chat", "ollama-chat")
_EMBED = ("openai-embed", "ollama-embed")
_TEXT = {"schema"}
_TOOLS = {"schema", "tools"}
_SEES = {"schema", "images"}
_SEES_TOOLS = {"schema", "tools", "images"}
_THINKS_TOOLS = {"schema", "tools", "reasoning"}

_SMALL: Mapping[str, Any] = {"temperature": 0.2, "top_p": 0.9}  # from SmolLM2's model card


def _chat(
    name: str,
    capabilities: set[str],
    window: int,
    *aliases: str,
    defaults: Mapping[str, Any] | None = None,
) -> Model:
    return Model(
        name,
        dialects=_CHAT,
        aliases=aliases,
        capabilities=capabilities,
        window=window,
        defaults=defaults or {},
        parameters={} if "reasoning" in capabilities else {"reasoning_effort": False},
    )


def _sizes(family: str, capabilities: set[str], window: int, *sizes: str) -> Iterable[Model]:
    """Models that differ only in size."""
    return [_chat(f"{family}-{size}", capabilities, window) for size in sizes]


def _embed(name: str, window: int, *aliases: str) -> Model:
    return Model(name, dialects=_EMBED, aliases=aliases, window=window, operation="embed")


CHAT: Sequence[Model] = (
    # SmolLM (Hugging Face)
    _chat("smollm2-135m", _TOOLS, 8 * _K, "smollm2", defaults={"temperature": 0}),
    _chat("smollm2-360m", _TOOLS, 8 * _K, defaults=_SMALL),
    _chat("smollm2-1.7b", _TOOLS, 8 * _K, defaults=_SMALL),
    _chat("smollm3-3b", _THINKS_TOOLS, 64 * _K, "smollm3"),
    # Llama (Meta)
    *_sizes("llama-3.1", _TOOLS, 128 * _K, "8b", "70b", "405b"),
    *_sizes("llama-3.2", _TOOLS, 128 * _K, "1b", "3b"),
    *_sizes("llama-3.2", _SEES, 128 * _K, "11b-vision", "90b-vision"),
    _chat("llama-3.3-70b", _TOOLS, 128 * _K),
    _chat("llama-4-scout", _SEES_TOOLS, 10_240 * _K),
    _chat("llama-4-maverick", _SEES_TOOLS, 1_024 * _K),
    # Qwen (Alibaba)
    *_sizes("qwen2.5", _TOOLS, 32 * _K, "0.5b", "1.5b", "3b"),
    *_sizes("qwen2.5", _TOOLS, 128 * _K, "7b", "14b", "32b", "72b"),
    *_sizes("qwen2.5-coder", _TEXT, 128 * _K, "7b", "32b"),
    *_sizes("qwen3", _THINKS_TOOLS, 32 * _K, "0.6b", "1.7b", "4b", "8b", "14b", "32b"),
    *_sizes("qwen3", _THINKS_TOOLS, 32 * _K, "30b-a3b", "235b-a22b"),
    # Mistral
    _chat("mistral-7b", _TOOLS, 32 * _K),
    _chat("mistral-nemo-12b", _TOOLS, 128 * _K, "mistral-nemo"),
    _chat("mistral-small-3.2-24b", _SEES_TOOLS, 128 * _K, "mistral-small-3.2"),
    _chat("ministral-8b", _TOOLS, 128 * _K),
    _chat("mixtral-8x7b", _TEXT, 32 * _K),
    _chat("mixtral-8x22b", _TOOLS, 64 * _K),
    # Gemma (Google)
    *_sizes("gemma-2", _TEXT, 8 * _K, "2b", "9b", "27b"),
    _chat("gemma-3-1b", _TEXT, 32 * _K),
    *_sizes("gemma-3", _SEES, 128 * _K, "4b", "12b", "27b"),
    # Phi (Microsoft)
    _chat("phi-4", _TEXT, 16 * _K),
    _chat("phi-4-mini", _TOOLS, 128 * _K),
    # DeepSeek
    _chat("deepseek-v3", _TOOLS, 128 * _K),
    _chat("deepseek-r1", {"schema", "reasoning"}, 128 * _K),
    # gpt-oss (OpenAI), Granite (IBM), OLMo (Ai2)
    *_sizes("gpt-oss", _THINKS_TOOLS, 128 * _K, "20b", "120b"),
    *_sizes("granite-3.3", _TOOLS, 128 * _K, "2b", "8b"),
    *_sizes("olmo-2", _TEXT, 4 * _K, "7b", "13b", "32b"),
)

EMBED: Sequence[Model] = (
    _embed("multilingual-e5-small", 512),
    _embed("multilingual-e5-base", 512),
    _embed("multilingual-e5-large", 512),
    _embed("bge-m3", 8 * _K),
    _embed("nomic-embed-text-v1.5", 8 * _K, "nomic-embed-text"),
    _embed("mxbai-embed-large-v1", 512, "mxbai-embed-large"),
    _embed("qwen3-embedding-0.6b", 32 * _K),
    _embed("qwen3-embedding-4b", 32 * _K),
    _embed("qwen3-embedding-8b", 32 * _K),
)


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED]

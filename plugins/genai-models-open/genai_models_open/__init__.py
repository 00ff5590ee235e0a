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


def _embed(name: str, window: int, *aliases: str) -> Model:
    return Model(name, dialects=_EMBED, aliases=aliases, window=window, operation="embed")


CHAT: Sequence[Model] = (
    # SmolLM (Hugging Face)
    _chat("smollm2-135m", _TOOLS, 8 * _K, "smollm2", defaults={"temperature": 0}),
    _chat("smollm2-360m", _TOOLS, 8 * _K, defaults=_SMALL),
    _chat("smollm2-1.7b", _TOOLS, 8 * _K, defaults=_SMALL),
    _chat("smollm3-3b", _THINKS_TOOLS, 64 * _K, "smollm3"),
    # Llama (Meta)
    _chat("llama-3.1-8b", _TOOLS, 128 * _K),
    _chat("llama-3.1-70b", _TOOLS, 128 * _K),
    _chat("llama-3.1-405b", _TOOLS, 128 * _K),
    _chat("llama-3.2-1b", _TOOLS, 128 * _K),
    _chat("llama-3.2-3b", _TOOLS, 128 * _K),
    _chat("llama-3.2-11b-vision", _SEES, 128 * _K),
    _chat("llama-3.2-90b-vision", _SEES, 128 * _K),
    _chat("llama-3.3-70b", _TOOLS, 128 * _K),
    _chat("llama-4-scout", _SEES_TOOLS, 10_240 * _K),
    _chat("llama-4-maverick", _SEES_TOOLS, 1_024 * _K),
    # Qwen (Alibaba)
    _chat("qwen2.5-0.5b", _TOOLS, 32 * _K),
    _chat("qwen2.5-1.5b", _TOOLS, 32 * _K),
    _chat("qwen2.5-3b", _TOOLS, 32 * _K),
    _chat("qwen2.5-7b", _TOOLS, 128 * _K),
    _chat("qwen2.5-14b", _TOOLS, 128 * _K),
    _chat("qwen2.5-32b", _TOOLS, 128 * _K),
    _chat("qwen2.5-72b", _TOOLS, 128 * _K),
    _chat("qwen2.5-coder-7b", _TEXT, 128 * _K),
    _chat("qwen2.5-coder-32b", _TEXT, 128 * _K),
    _chat("qwen3-0.6b", _THINKS_TOOLS, 32 * _K),
    _chat("qwen3-1.7b", _THINKS_TOOLS, 32 * _K),
    _chat("qwen3-4b", _THINKS_TOOLS, 32 * _K),
    _chat("qwen3-8b", _THINKS_TOOLS, 32 * _K),
    _chat("qwen3-14b", _THINKS_TOOLS, 32 * _K),
    _chat("qwen3-32b", _THINKS_TOOLS, 32 * _K),
    _chat("qwen3-30b-a3b", _THINKS_TOOLS, 32 * _K),
    _chat("qwen3-235b-a22b", _THINKS_TOOLS, 32 * _K),
    # Mistral
    _chat("mistral-7b", _TOOLS, 32 * _K),
    _chat("mistral-nemo-12b", _TOOLS, 128 * _K, "mistral-nemo"),
    _chat("mistral-small-3.2-24b", _SEES_TOOLS, 128 * _K, "mistral-small-3.2"),
    _chat("ministral-8b", _TOOLS, 128 * _K),
    _chat("mixtral-8x7b", _TEXT, 32 * _K),
    _chat("mixtral-8x22b", _TOOLS, 64 * _K),
    # Gemma (Google)
    _chat("gemma-2-2b", _TEXT, 8 * _K),
    _chat("gemma-2-9b", _TEXT, 8 * _K),
    _chat("gemma-2-27b", _TEXT, 8 * _K),
    _chat("gemma-3-1b", _TEXT, 32 * _K),
    _chat("gemma-3-4b", _SEES, 128 * _K),
    _chat("gemma-3-12b", _SEES, 128 * _K),
    _chat("gemma-3-27b", _SEES, 128 * _K),
    # Phi (Microsoft)
    _chat("phi-4", _TEXT, 16 * _K),
    _chat("phi-4-mini", _TOOLS, 128 * _K),
    # DeepSeek
    _chat("deepseek-v3", _TOOLS, 128 * _K),
    _chat("deepseek-r1", {"schema", "reasoning"}, 128 * _K),
    # gpt-oss (OpenAI)
    _chat("gpt-oss-20b", _THINKS_TOOLS, 128 * _K),
    _chat("gpt-oss-120b", _THINKS_TOOLS, 128 * _K),
    # Granite (IBM)
    _chat("granite-3.3-2b", _TOOLS, 128 * _K),
    _chat("granite-3.3-8b", _TOOLS, 128 * _K),
    # OLMo (Ai2)
    _chat("olmo-2-7b", _TEXT, 4 * _K),
    _chat("olmo-2-13b", _TEXT, 4 * _K),
    _chat("olmo-2-32b", _TEXT, 4 * _K),
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


__all__ = ["CHAT", "EMBED"]


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED]

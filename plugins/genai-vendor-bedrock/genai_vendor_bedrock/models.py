"""Amazon's own models, and the Bedrock ids of other vendors' models.

Ids are from AWS's model cards and its list of supported models, October 2026. Capabilities were
tested there by third parties. Anthropic's models require an inference profile: here the global one,
which an instance can restrict to a location.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genai_host.api import Model, Offering

_PROVIDER = "bedrock"
_CONVERSE = "bedrock-converse"
_CLAUDE = ("anthropic-messages", _CONVERSE)


def _nova(name: str, id: str, window: int, *capabilities: str, **variant: Any) -> Model:
    """A Nova model. A tool enforces schemas, and the cache excludes tools."""
    return Model(
        name,
        dialects=[_CONVERSE],
        capabilities={"tools", "schema", *capabilities},
        window=window,
        variant={_CONVERSE: {"schema": "tool", "cached_tools": False, **variant}},
        at={_PROVIDER: id},
    )


NOVA: Sequence[Model] = (
    _nova(
        "nova-2-lite",
        "global.amazon.nova-2-lite-v1:0",
        1_000_000,
        "images", "files", "reasoning",
        effort="reasoning_config",
    ),
    _nova("nova-pro", "geo.amazon.nova-pro-v1:0", 300_000, "images", "files"),
    _nova("nova-lite", "geo.amazon.nova-lite-v1:0", 300_000, "images", "files"),
    _nova("nova-micro", "geo.amazon.nova-micro-v1:0", 128_000),
)  # fmt: skip


def _claude(name: str, id: str = "", *, held: bool = False) -> Offering:
    """An offering of a Claude model; `held` is whether the service enforces schemas."""
    return Offering(
        name,
        _PROVIDER,
        f"global.anthropic.{id or name}",
        dialects=_CLAUDE,
        unsupported=() if held else {"schema"},
    )


def _open(name: str, id: str, *, lacks: Sequence[str] = (), **variant: Any) -> Offering:
    return Offering(name, _PROVIDER, id, dialects=[_CONVERSE], unsupported=lacks, variant=variant)


def _llama(name: str, id: str) -> Offering:
    """An offering of a Llama model, without schemas and without tool calls in a stream."""
    return _open(name, f"us.meta.{id}", lacks=["schema"], streamed_tools=False)


OFFERINGS: Sequence[Offering] = (
    _claude("claude-fable-5-1"),
    _claude("claude-fable-5"),
    _claude("claude-opus-5-5"),
    _claude("claude-opus-5"),
    _claude("claude-opus-4-8"),
    _claude("claude-opus-4-7"),
    _claude("claude-opus-4-6", "claude-opus-4-6-v1", held=True),
    _claude("claude-opus-4-5", "claude-opus-4-5-20251101-v1:0", held=True),
    _claude("claude-sonnet-5-5"),
    _claude("claude-sonnet-5", held=True),
    _claude("claude-sonnet-4-6", held=True),
    _claude("claude-sonnet-4-5", "claude-sonnet-4-5-20250929-v1:0", held=True),
    _claude("claude-haiku-5-5"),
    _claude("claude-haiku-4-5", "claude-haiku-4-5-20251001-v1:0", held=True),
    _llama("llama-3.1-8b", "llama3-1-8b-instruct-v1:0"),
    _llama("llama-3.1-70b", "llama3-1-70b-instruct-v1:0"),
    _llama("llama-3.3-70b", "llama3-3-70b-instruct-v1:0"),
    _llama("llama-4-scout", "llama4-scout-17b-instruct-v1:0"),
    _llama("llama-4-maverick", "llama4-maverick-17b-instruct-v1:0"),
    _open("qwen3-32b", "qwen.qwen3-32b-v1:0"),
    _open("gpt-oss-20b", "openai.gpt-oss-20b-1:0", effort="reasoning_effort"),
    _open("gpt-oss-120b", "openai.gpt-oss-120b-1:0", effort="reasoning_effort"),
    _open("gemma-3-4b", "google.gemma-3-4b-it", lacks=["schema"]),
    _open("gemma-3-12b", "google.gemma-3-12b-it"),
    _open("gemma-3-27b", "google.gemma-3-27b-it"),
    _open("deepseek-r1", "us.deepseek.r1-v1:0", lacks=["schema", "tools"]),
)  # fmt: skip

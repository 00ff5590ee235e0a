"""Moderation in this process with a list of words, without network or key.

- provider `wordlist`: searches for the words of a list
- model `word-list`: for moderation, in the dialect `word-list`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, Model, Provider, ProviderType, Services, hookimpl
from genai_vendor_wordlist.settings import Settings

__all__ = ["Settings"]


def _open(settings: Settings, services: Services) -> Provider:
    from genai_vendor_wordlist.provider import WordListProvider

    return WordListProvider(settings)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("wordlist", Settings, _open)


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_vendor_wordlist.provider import WordList

    yield WordList()


@hookimpl
def genai_models() -> Iterable[Model]:
    yield Model(
        "word-list", dialects=["word-list"], operation="moderate", at={"wordlist": "word-list"}
    )

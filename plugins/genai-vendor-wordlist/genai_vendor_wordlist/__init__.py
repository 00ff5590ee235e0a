"""Moderation in this process with a list of words, without network or key.

- provider `wordlist`: searches for the words of a list
- model `word-list`: for moderation, in the dialect `word-list`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from attrs import field, frozen
from attrs import validators as must

from genai_host.api import Dialect, Model, Provider, ProviderType, Services, about, hookimpl

__all__ = ["Language", "Settings"]

Language = Literal[
    "arabic", "chinese", "czech", "danish", "dutch", "english", "esperanto", "finnish",
    "french", "german", "hindi", "hungarian", "italian", "japanese", "korean", "norwegian",
    "persian", "polish", "portuguese", "russian", "spanish", "swedish", "thai", "turkish",
]  # fmt: skip
"""Languages for which glin-profanity has a word list."""


@frozen
class Settings:
    languages: Sequence[Language] = field(
        default=("english",),
        validator=must.min_len(1),
        metadata=about("languages of the word lists"),
    )
    words: Sequence[str] = field(default=(), metadata=about("additional words to flag"))
    ignore: Sequence[str] = field(default=(), metadata=about("words that are not flagged"))
    strict: bool = field(
        default=False,
        metadata=about("also flag words that have an ordinary meaning, for example `sex`"),
    )


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

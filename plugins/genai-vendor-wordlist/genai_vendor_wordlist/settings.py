"""Settings of an instance of the provider `wordlist`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import field, frozen
from attrs import validators as must

from genai_host.api import about

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

"""Whether a text has words of the list, as glin-profanity finds them: whole words, in other
letters that look alike, with letters masked, stretched or set apart.

It finds leetspeak beyond what stands in the lists as well, but takes the square of a text's
length for that, an hour for a megabyte of digits: it is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from genai_host.api import CancelToken
from genai_vendor_wordlist.ordinary import ORDINARY
from genai_vendor_wordlist.settings import Settings

if TYPE_CHECKING:
    from glin_profanity import Filter

PIECE = 4000
"""Characters that are looked at in one go, some tens of milliseconds."""

OVERLAP = 200
"""Characters that a piece has in common with the next: more than the longest words take."""


class Judge:
    """May be asked from many threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._filter: Filter | None = None

    def flags(self, text: str, limits: CancelToken) -> bool:
        """Whether there is a word of the list in it. Raises what ends the call."""
        found = self._opened()
        for piece in pieces(text):
            limits.check()
            if found.is_profane(piece):
                return True
        return False

    def _opened(self) -> Filter:
        """The lists are read when the first text comes."""
        with self._lock:
            if self._filter is None:
                from glin_profanity import Filter

                ordinary = () if self._settings.strict else ORDINARY
                self._filter = Filter(
                    {
                        "languages": list(self._settings.languages),
                        "custom_words": list(self._settings.words),
                        "ignore_words": [*ordinary, *self._settings.ignore],
                    }
                )
            return self._filter


def pieces(text: str) -> Iterator[str]:
    """A text in pieces that overlap, cut between words where there are such, so that neither
    a part of a word is taken for one, nor one is missed."""
    start = 0
    while len(text) - start > PIECE:
        end = _word_from(text, start + PIECE - OVERLAP)
        yield text[start:end]
        start = _word_from(text, end - OVERLAP)
    yield text[start:]


def _word_from(text: str, place: int) -> int:
    """Where the first word begins, half an overlap behind a place at most; the place itself
    if none does."""
    for at in range(place, place + OVERLAP // 2):
        if text[at].isspace():
            return at + 1
    return place

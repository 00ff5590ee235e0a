"""The words of a text, to be found by: the same whatever database looks for them.

Letters count without case and accents. Scripts that put no spaces between words, as those
of Chinese, Japanese and Thai, are found by any part: each character is a word, and each
two that stand together.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc\uff66-\uff9f"
_SPACED = rf"[\w--[{_UNSPACED}]]"
_ACCENTS = dict.fromkeys(range(0x0300, 0x0370))  # as `str.translate` has it
_LENGTH = 200  # characters of a word that count
_MOST = 500_000  # bytes of words that count: PostgreSQL takes a megabyte of them


class Asked(NamedTuple):
    """A word that is searched for.

    words   that a text has which has it: itself, or several for one in a script without
            spaces; as in `words_of`
    part    of the text as it stands; empty if the words say it all
    begins  whether words count that begin so
    """

    words: tuple[str, ...]
    part: str = ""
    begins: bool = False


def words_of(text: str) -> str:
    """Each word of a text once, with spaces between them."""
    found: dict[str, None] = {}
    length = 0
    for run in _runs().findall(_folded(text)):
        for word in _pieces(run):
            if word not in found:
                length += len(word.encode())
                if length > _MOST:
                    return " ".join(found)
                found[word] = None
    return " ".join(found)


def asked_for(words: str) -> list[Asked]:
    """What somebody searches for: words with spaces between them; `wor*` stands for those
    that begin so."""
    asked = []
    for run, star in _asked_runs().findall(words):
        folded = _folded(run)
        pieces = [word for each in _runs().findall(folded) for word in _pieces(each)]
        if _is_unspaced(run):
            pairs = [word for word in pieces if len(word) > 1]
            asked.append(Asked(tuple(pairs or pieces), run if len(run) > 2 else ""))
        elif pieces:
            asked.append(Asked(tuple(pieces), begins=bool(star)))
    return asked


def pattern_for(words: str) -> Any:
    """A compiled pattern for what `asked_for` finds, as far as it is spelt so."""
    import regex

    each = []
    for run, star in _asked_runs().findall(words):
        word = regex.escape(run)
        if not _is_unspaced(run):
            word = f"(?<!{_SPACED}){word}{_SPACED + '*' if star else ''}(?!{_SPACED})"
        each.append(word)
    return regex.compile("|".join(each) or "(?!)", regex.VERSION1 | regex.IGNORECASE)


def _pieces(run: str) -> Iterator[str]:
    if not _is_unspaced(run):
        yield run[:_LENGTH]
        return
    yield from run
    for number in range(len(run) - 1):
        yield run[number : number + 2]


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.casefold()).translate(_ACCENTS)
    return unicodedata.normalize("NFC", plain)


def _is_unspaced(run: str) -> bool:
    return bool(_unspaced().match(run))


@cache
def _unspaced() -> Any:
    return _compiled(f"[{_UNSPACED}]")


@cache
def _runs() -> Any:
    """Runs of characters of scripts without spaces, and words of others."""
    return _compiled(f"[{_UNSPACED}]+|{_SPACED}+")


@cache
def _asked_runs() -> Any:
    return _compiled(rf"([{_UNSPACED}]+|{_SPACED}+)(\*?)")


def _compiled(pattern: str) -> Any:
    """Python's own knows no scripts. Imported when something is searched for: it takes its
    time."""
    import regex

    return regex.compile(pattern, regex.VERSION1)

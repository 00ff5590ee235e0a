"""A long text in pieces that are short enough to be findings of their own."""

from __future__ import annotations

import re

SIZE = 1000
"""Characters of a piece, about."""

MOST = 100
"""Pieces of one text."""

_PARAGRAPHS = re.compile(r"\n\s*\n")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")


def passages(text: str) -> list[str]:
    """Cut between paragraphs, else between sentences, else between words."""
    found: list[str] = []
    room = 0
    for piece in _pieces(text.strip()):
        if found and len(piece) + 2 <= room:
            found[-1] += f"\n\n{piece}"
        elif len(found) == MOST:
            break
        else:
            found.append(piece)
            room = SIZE
        room -= len(piece) + 2
    return found


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    for paragraph in _PARAGRAPHS.split(text):
        if len(paragraph) <= SIZE:
            pieces.append(paragraph.strip())
            continue
        line = ""
        for sentence in _SENTENCES.split(paragraph):
            for part in _short(sentence):
                if line and len(line) + len(part) + 1 > SIZE:
                    pieces.append(line)
                    line = part
                else:
                    line = f"{line} {part}".strip()
        pieces.append(line)
    return [each for each in pieces if each]


def _short(sentence: str) -> list[str]:
    """Parts of at most `SIZE`."""
    parts: list[str] = []
    while len(sentence) > SIZE:
        cut = sentence.rfind(" ", 1, SIZE)
        cut = SIZE if cut == -1 else cut
        parts.append(sentence[:cut])
        sentence = sentence[cut:].lstrip()
    return [*parts, sentence]

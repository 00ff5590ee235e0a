"""Documents split into passages that are short enough to be found and displayed individually."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attrs import frozen

SIZE = 1000
"""Approximate number of characters of a passage."""

MOST = 2000
"""Maximum number of passages of a document."""

_LONGEST_TITLE = 200
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")


@frozen
class Passage:
    """A passage of a document.

    Attributes:
        title: Titles of the document and the section, separated by a slash.
    """

    title: str
    text: str


def of_text(text: str, name: str) -> list[Passage]:
    """Split a text without headings."""
    return [Passage(_title(name), each) for each in _pieces(text.splitlines())]


def of_markdown(text: str, name: str) -> list[Passage]:
    """Split by section. The title of the document is its first heading of level 1."""
    sections = list(_sections(text))
    title = next((heads[0] for heads, _ in sections if heads and heads[0].strip()), name)
    found: list[Passage] = []
    for heads, lines in sections:
        path = [title, *(heads[1:] if heads[:1] == [title] else heads)]
        named = _title(" / ".join(filter(None, path)))
        found += [Passage(named, each) for each in _pieces(lines)]
        if len(found) >= MOST:
            break
    return found[:MOST]


def of_pages(pages: Iterable[str], name: str) -> list[Passage]:
    found: list[Passage] = []
    for number, page in enumerate(pages, 1):
        title = _title(f"{name} / page {number}")
        found += [Passage(title, each) for each in _pieces(page.splitlines())]
    return found[:MOST]


def _sections(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the enclosing headings and the lines of each section."""
    heads: list[str] = []
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= bool(_FENCE.match(line))
        found = None if is_code else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        yield list(heads), lines
        level = len(found[1])
        heads = [*heads[: level - 1], *[""] * (level - 1 - len(heads)), found[2]]
        lines = []
    yield list(heads), lines


def _pieces(lines: Iterable[str]) -> list[str]:
    """Split between paragraphs, else between lines, else anywhere."""
    found: list[str] = []
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph += _short(line.rstrip())
            continue
        for part in _parts(paragraph):
            if found and len(found[-1]) + len(part) + 2 <= SIZE:
                found[-1] += f"\n\n{part}"
            else:
                found.append(part)
        if len(found) > MOST:
            break
        paragraph = []
    return found


def _parts(paragraph: list[str]) -> Iterator[str]:
    part = ""
    for line in paragraph:
        if part and len(part) + len(line) + 1 > SIZE:
            yield part
            part = line
        else:
            part = f"{part}\n{line}" if part else line
    if part:
        yield part


def _short(line: str) -> list[str]:
    parts: list[str] = []
    while len(line) > SIZE:
        cut = line.rfind(" ", 1, SIZE)
        cut = SIZE if cut == -1 else cut
        parts.append(line[:cut])
        line = line[cut:].lstrip()
    return [*parts, line]


def _title(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_TITLE]

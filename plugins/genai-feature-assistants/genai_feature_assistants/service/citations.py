"""What a model says of where it found something, as annotations of its text.

It is shown each passage with a mark, `【2:0†notes.txt】`, and writes the mark where it uses
the passage; so does code with files that it made, as `sandbox:/mnt/data/NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_MARK = re.compile(r"【([0-9]{1,6}):([0-9]{1,6})†[^【】\n]{0,200}】")
_PATH = re.compile(r"sandbox:/mnt/data/([^\s)\]\"'<>]{1,200})")
_FOLDER = "sandbox:/mnt/data/"
_BEGINS = re.compile("|".join(["【", _FOLDER, *(f"{_FOLDER[:n]}\\Z" for n in range(17, 0, -1))]))
_NO_MARK = re.compile("[】\\n]|.【")
_LONGEST = 230  # characters of a mark or a path
_UNFIT = re.compile(r"[【】\s†]+")

GUIDE = (
    "Passages of files that file_search finds come with a mark such as 【2:0†notes.txt】. "
    "Where you use a passage, write its mark behind the sentence, exactly as it stands."
)


def mark(round: int, number: int, name: str) -> str:
    """Of a passage that was found: the round of tools that found it, and its place there."""
    return f"【{round}:{number}†{_UNFIT.sub(' ', name).strip()[:100]}】"


def annotations_of(
    text: str, found: Mapping[int, Sequence[str]], made: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The annotations of a text, in order; `start_index` and `end_index` count characters, so
    that `text[start_index:end_index]` is what is annotated.

    found   the ids of the files of the passages, by round
    made    the id of each file that code has made, by its name
    """
    annotations = []
    for match in _MARK.finditer(text):
        files = found.get(int(match[1]), ())
        if int(match[2]) < len(files):
            cited = {"file_citation": {"file_id": files[int(match[2])]}}
            annotations.append(_annotation("file_citation", match, cited))
    for match in _PATH.finditer(text):
        name = match[1].rstrip(".,;:")
        if name in made:
            annotations.append(
                _annotation("file_path", match, {"file_path": {"file_id": made[name]}}, name)
            )
    return sorted(annotations, key=lambda each: int(each["start_index"]))


def _annotation(
    kind: str, match: re.Match[str], about: dict[str, Any], name: str = ""
) -> dict[str, Any]:
    end = match.start(1) + len(name) if name else match.end()
    return {
        "type": kind,
        "text": match.string[match.start() : end],
        "start_index": match.start(),
        "end_index": end,
        **about,
    }


class Pieces:
    """A text that comes bit by bit, cut so that what is annotated is a piece of its own: clients
    take an annotation with the text that it comes with.

    found, made   as `annotations_of` has them
    told          the annotations so far
    """

    def __init__(self, found: Mapping[int, Sequence[str]], made: Mapping[str, str]) -> None:
        self.told: list[dict[str, Any]] = []
        self._found = found
        self._made = made
        self._held = ""  # what may be the beginning of something annotated
        self._given = 0  # characters

    def add(self, text: str) -> Iterator[dict[str, Any]]:
        """What there is to tell now, as `text` of a piece of a message."""
        self._held += text
        while self._held:
            begin = _beginning(self._held)
            if begin:
                yield self._give(begin)
                continue
            end = _end(self._held)
            if end is None:
                return
            yield self._give(end)

    def rest(self) -> Iterator[dict[str, Any]]:
        """What was held back, as there is no more."""
        if self._held:
            yield self._give(len(self._held))

    def _give(self, end: int) -> dict[str, Any]:
        text, self._held = self._held[:end], self._held[end:]
        annotations = annotations_of(text, self._found, self._made)
        for annotation in annotations:
            annotation["start_index"] += self._given
            annotation["end_index"] += self._given
        self._given += len(text)
        first = len(self.told)
        self.told += annotations
        told = [{"index": number, **each} for number, each in enumerate(annotations, first)]
        return {"value": text, **({"annotations": told} if told else {})}


def _beginning(text: str) -> int:
    """Where something annotated begins, or may begin once more has come; else the end."""
    begins = _BEGINS.search(text)
    return begins.start() if begins else len(text)


def _end(text: str) -> int | None:
    """Where it ends that begins a text; None if more has to come for that."""
    mark, path = _MARK.match(text), _PATH.match(text)
    if mark:
        return mark.end()
    if path and path.end() < len(text):
        return path.end()
    is_open = not _NO_MARK.search(text) if text[0] == "【" else path or _FOLDER.startswith(text)
    return None if is_open and len(text) < _LONGEST else 1

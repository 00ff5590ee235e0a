"""What an answer refers to: only what its prompt had in it may be referred to.

A model makes up numbers of findings, and addresses; and what it has read may make it write an
address that carries away what else it has read. So an address that did not stand in the
prompt is taken out, and so is the number of a finding that there is not.
"""

from __future__ import annotations

import re

from attrs import field, frozen

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_NUMBERS = re.compile(r"[ \t]?\[(\d{1,4}(?:\s?[,;]\s?\d{1,4})*)\](?!\(|\w)")
_LINKS = re.compile(  # an address is taken whole, else each of its beginnings would be tried
    r"!?\[([^\[\]\n]*)\]\(\s*<?([^)<>\s]+)(?=[)<>\s])>?[^)\n]*\)"
)
_ADDRESSES = re.compile(r"<?\b(?:https?|ftp|file)://[^\s<>\"'`\])}]+>?", re.IGNORECASE)
_ENDS = ".,;:!?*_"


@frozen
class Cited:
    """
    text      the answer with what refers to something
    numbers   of the findings that it refers to, from 1, in their order
    left_out  what was taken out
    """

    text: str
    numbers: tuple[int, ...] = ()
    left_out: tuple[str, ...] = field(default=())


def cited(answer: str, prompt: str, findings: int) -> Cited:
    """An answer to a prompt that had so many findings in it."""
    return _Reader(prompt, findings).read(answer)


class _Reader:
    def __init__(self, prompt: str, findings: int) -> None:
        self._prompt = prompt
        self._findings = findings
        self._numbers: set[int] = set()
        self._left_out: list[str] = []

    def read(self, answer: str) -> Cited:
        # in code a number in brackets is an index; an address is one there, too
        parts = _CODE.split(answer)
        for place, part in enumerate(parts):
            if place % 2 == 0:
                part = _NUMBERS.sub(self._number, _LINKS.sub(self._link, part))
            parts[place] = _ADDRESSES.sub(self._address, part)
        return Cited("".join(parts), tuple(sorted(self._numbers)), tuple(self._left_out))

    def _number(self, found: re.Match[str]) -> str:
        given = [int(each) for each in re.findall(r"\d+", found[1])]
        known = [each for each in given if 1 <= each <= self._findings]
        self._numbers.update(known)
        self._left_out += [f"[{each}]" for each in given if each not in known]
        if known == given:
            return found[0]
        return f"{found[0].split('[')[0]}[{', '.join(map(str, known))}]" if known else ""

    def _link(self, found: re.Match[str]) -> str:
        text, address = found.groups()
        if address in self._prompt:
            return found[0]
        self._left_out.append(address)
        return text

    def _address(self, found: re.Match[str]) -> str:
        address = found[0].strip("<>").rstrip(_ENDS)
        if address in self._prompt:
            return found[0]
        self._left_out.append(address)
        return found[0].strip("<>")[len(address) :]

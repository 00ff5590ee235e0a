"""A terminal that a test reads, and the characters that it must never show."""

from __future__ import annotations

import io
import unicodedata

# C0, DEL and C1 by their category; bidirectional controls by their class (Unicode TR9). All are in
# the first blocks of Unicode.
REORDERS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = {"\u200e", "\u200f", "\u061c"}
HOSTILE = "".join(
    character
    for character in map(chr, range(0x2100))
    if (unicodedata.category(character) == "Cc" and character not in "\n\t")
    or unicodedata.bidirectional(character) in REORDERS
    or character in MARKS
)


class Screen(io.TextIOWrapper):
    """Standard output that is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding, newline="")

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode(self.encoding)


class Full(io.StringIO):
    """A stream whose writes fail."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

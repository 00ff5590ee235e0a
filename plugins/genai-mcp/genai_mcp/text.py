"""Text and lines from a peer. The peer is untrusted: lines are limited, and text for terminals and
models has no invisible characters.
"""

from __future__ import annotations

from genai_host.errors import MalformedReply

_LINE = 300
_CUT = "\n(truncated)"


def clean(text: str, most: int) -> str:
    """Remove invisible characters except line ends and tabs, and truncate with a note."""
    cut = text if len(text) <= most else text[: most - len(_CUT)] + _CUT
    if not cut.isprintable():
        cut = "".join(each if each.isprintable() or each in "\n\t" else " " for each in cut)
    return cut


def one_line(text: str) -> str:
    """Clean a text, join its lines and shorten it."""
    line = " ".join(clean(text[: 10 * _LINE], 10 * _LINE).split())
    return line if len(line) <= _LINE else line[: _LINE - 4] + " ..."


class Lines:
    """Splits blocks of bytes into lines of at most `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines completed by a block, stripped and without blank lines. Raises
        `MalformedReply`: a line is too long, complete or not."""
        first, *rest = block.split(b"\n")
        self._pending.append(first)
        self._size += len(first)
        if self._size > self._most or any(len(line) > self._most for line in rest):
            raise MalformedReply(f"a line is longer than {self._most} bytes")
        if not rest:
            return []
        lines = [b"".join(self._pending), *rest[:-1]]
        self._pending, self._size = [rest[-1]], len(rest[-1])
        return [line for line in map(bytes.strip, lines) if line]

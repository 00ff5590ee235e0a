"""Texts of strangers, made fit to be shown: no terminal escapes, no hidden characters."""

from __future__ import annotations

_LINE = 300
_CUT = "\n(cut here)"


def clean(text: str, most: int) -> str:
    """Without characters that cannot be seen, line ends and tabs aside, and no longer than
    so many characters; if it was, that is said."""
    cut = text if len(text) <= most else text[: most - len(_CUT)] + _CUT
    if not cut.isprintable():
        cut = "".join(each if each.isprintable() or each in "\n\t" else " " for each in cut)
    return cut


def one_line(text: str) -> str:
    """The same on one line, shortened."""
    line = " ".join(clean(text[: 10 * _LINE], 10 * _LINE).split())
    return line if len(line) <= _LINE else line[: _LINE - 4] + " ..."

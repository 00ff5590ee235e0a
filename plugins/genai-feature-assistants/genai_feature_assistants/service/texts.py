"""The text in a file, for it to be searched, and cut into passages.

What is read is hostile: it is bounded, and whatever a library raises on it is a reason.
"""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Iterator

MOST_PASSAGES = 20_000
"""Of one file."""

_MOST_PDF_PAGES = 2000
_MOST_DEPTH = 5000  # of HTML: any parser takes time that grows with its square
_CHARACTERS = 4  # of a token, about: there is no tokenizer that fits all models
_HEAD = 8192
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCLOSED = frozenset(
    (
        *("br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "option"),
        *("p", "source", "td", "th", "tr"),
    )
)
_HALVES = re.compile("[\ud800-\udfff]")
_BREAKS = ("\n\n", "\n", ". ", " ")


class Unreadable(Exception):
    """A file without text, and why.

    code   `unsupported_file` or `invalid_file`, as the API has it
    """

    def __init__(self, message: str, code: str = "invalid_file") -> None:
        super().__init__(message)
        self.code = code


def text_of(data: bytes, name: str) -> str:
    """The text of a file, of the kind that its name says: PDF, HTML, or else plain text in
    UTF-8 or UTF-16. Raises `Unreadable`."""
    kind = os.path.splitext(name)[1].lower()
    if kind == ".pdf" or data.startswith(b"%PDF-"):
        found = _of_pdf(data)
    elif kind in (".html", ".htm"):
        found = _of_html(_decoded(data))
    else:
        found = _decoded(data)
    found = _HALVES.sub("\ufffd", found)
    if not found.strip():
        raise Unreadable("there is no text in it")
    return found


def passages(text: str, tokens: int, overlap: int) -> list[str]:
    """A text in pieces of at most so many tokens, each with the end of the one before.

    tokens    of a piece, counted as four characters each
    overlap   tokens of the end that a piece shares with the next; at most half of a piece
    """
    found = []
    for piece in _cut(text, tokens * _CHARACTERS, overlap * _CHARACTERS):
        if piece.strip():
            found.append(piece.strip())
        if len(found) == MOST_PASSAGES:
            break
    return found


def _cut(text: str, size: int, overlap: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = min(len(text), start + size)
        if end < len(text):
            end = _break_before(text, start + size // 2, end)
        yield text[start:end]
        if end == len(text):
            return
        start = max(end - overlap, start + 1)


def _break_before(text: str, least: int, most: int) -> int:
    """Where a paragraph, else a line, a sentence or a word ends, in that stretch."""
    for mark in _BREAKS:
        at = text.rfind(mark, least, most)
        if at != -1:
            return at + len(mark)
    return most


def _decoded(data: bytes) -> str:
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in data[:_HEAD]:
        raise Unreadable("it is no text, nor a kind of file that text is read of", _UNSUPPORTED)
    return data.decode(encoding, "replace")


def _of_html(text: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    depth = 0
    for closes, name in _TAG.findall(text):
        if name.lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if closes else depth + 1
        if depth > _MOST_DEPTH:
            raise Unreadable(f"it is nested deeper than {_MOST_DEPTH} levels")
    tree = LexborHTMLParser(text)
    for node in tree.css("script, style, noscript, template, svg, iframe"):
        node.decompose()
    body = tree.body
    return "" if body is None else body.text(separator="\n", strip=True)


def _of_pdf(data: bytes) -> str:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of each fault of a file
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it is encrypted")
        return "\n\n".join(page.extract_text() for page in reader.pages[:_MOST_PDF_PAGES])
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"it is no PDF that can be read: {type(error).__name__}") from error


_UNSUPPORTED = "unsupported_file"

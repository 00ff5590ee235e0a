"""The documents of a directory and their content.

Links are not followed, and names that start with a dot are ignored, because programs use such
names. Unreadable documents are skipped, with a reason.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any

from attrs import frozen

from genai_host.api import decode_text, is_text
from genai_search_corpus.passages import Passage, of_markdown, of_pages, of_text

MOST_BYTES = 8 * 2**20
"""Maximum number of bytes of a document; four times as many for a PDF, which contains images."""

MOST_FILES = 50_000
MOST_DEPTH = 30
MOST_PDF_PAGES = 1000
MOST_HTML_DEPTH = 5000
_LATEST = 2**63 - 1  # SQLite stores no larger integer

_HEADING_NODES = 50
_HEADING_TEXT = 300
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_BLOCKS = frozenset(
    {*_HEADINGS, "p", "li", "pre", "td", "th", "dt", "dd", "blockquote", "figcaption", "div"}
)
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCLOSED = frozenset(  # tags with an optional end tag, or none
    {"area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link"}
    | {"meta", "option", "p", "source", "td", "th", "tr", "wbr"}
)
_LEFT_OUT = "script, style, noscript, template, svg, iframe, head link, head meta"


@frozen
class CorpusFile:
    """A file of the directory.

    Attributes:
        path: Path relative to the directory.
        size: Size in bytes.
        modified: Modification time in nanoseconds since 1970, limited to the year 2262.
    """

    path: str
    size: int
    modified: int


class UnreadableDocument(Exception):
    """A document is skipped; the message is the reason."""


def files_in(root: str) -> Iterator[CorpusFile]:
    """Yield possible documents by directory, up to the limit. Raises `OSError` if the directory
    does not exist; unreadable subdirectories are skipped.
    """
    left = MOST_FILES
    folders = [("", 0)]
    while folders:
        inner, depth = folders.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, inner)), key=lambda each: each.name)
        except OSError:
            if not inner:
                raise
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = os.path.join(inner, entry.name) if inner else entry.name
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:  # removed meanwhile
                continue
            if stat.S_ISDIR(found.st_mode) and depth < MOST_DEPTH:
                folders.append((path, depth + 1))
            elif stat.S_ISREG(found.st_mode) and _kind_of(entry.name):
                if not left:
                    return
                left -= 1
                yield CorpusFile(path, found.st_size, min(found.st_mtime_ns, _LATEST))


def read(root: str, file: CorpusFile) -> list[Passage]:
    """Return the passages of a document. Raises `UnreadableDocument`."""
    kind = _kind_of(file.path)
    most = MOST_BYTES * 4 if kind == "pdf" else MOST_BYTES
    name = os.path.basename(file.path)
    if file.size > most:
        raise UnreadableDocument(f"larger than {most >> 20} MiB")
    try:
        descriptor = os.open(
            os.path.join(root, file.path),
            # it can be a link or a pipe by now
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0),
        )
        with open(descriptor, "rb") as stream:
            data = stream.read(most)
    except OSError as error:
        raise UnreadableDocument(error.strerror or "cannot be opened") from error
    if kind == "pdf":
        return of_pages(_pdf_pages(data), name)
    text = _text(data)
    if kind == "html":
        title, text = _html(text)
        return of_markdown(text, title or name)
    return of_markdown(text, name) if kind == "markdown" else of_text(text, name)


_KINDS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".rst": "text",
    ".adoc": "text",
    ".org": "text",
    ".html": "html",
    ".htm": "html",
    ".pdf": "pdf",
}


def _kind_of(name: str) -> str:
    return _KINDS.get(os.path.splitext(name)[1].lower(), "")


def _text(data: bytes) -> str:
    if not is_text(data):
        raise UnreadableDocument("not text")
    return decode_text(data)


def _html(text: str) -> tuple[str, str]:
    """Return the title, and the text as Markdown with headings only."""
    from selectolax.lexbor import LexborHTMLParser

    _must_be_flat(text)
    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    for node in tree.css(_LEFT_OUT):
        node.decompose()
    body = tree.body
    lines: list[str] = []
    for node in [] if body is None else body.traverse(include_text=True):
        _put(node, lines)
    return " ".join(title.text().split()) if title is not None else "", "\n".join(lines)


def _must_be_flat(text: str) -> None:
    """Reject deeply nested HTML, for which parsers take quadratic time."""
    depth = 0
    for closes, name in _TAG.findall(text):
        if name.lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if closes else depth + 1
        if depth > MOST_HTML_DEPTH:
            raise UnreadableDocument(f"nested deeper than {MOST_HTML_DEPTH} levels")


def _put(node: Any, lines: list[str]) -> None:
    if node.tag in _HEADINGS:
        lines += ["", "#" * _HEADINGS[node.tag] + " " + _heading(node), ""]
    elif node.tag in _BLOCKS:
        lines.append("")
    elif node.tag == "-text" and not _is_in_heading(node):
        text = " ".join(node.text().split())
        if text:
            lines.append(text)


def _heading(node: Any) -> str:
    """Return the start of a heading; headings can be nested, and contain the inner text."""
    inner = islice(node.traverse(include_text=True), _HEADING_NODES)
    texts = (each.text()[:_HEADING_TEXT] for each in inner if each.tag == "-text")
    return " ".join(" ".join(texts).split())[:_HEADING_TEXT]


def _is_in_heading(node: Any) -> bool:
    for _ in range(8):
        node = node.parent
        if node is None or node.tag in _BLOCKS - {*_HEADINGS}:
            return False
        if node.tag in _HEADINGS:
            return True
    return False


def _pdf_pages(data: bytes) -> list[str]:
    """Return the text of each page. Any exception of the library becomes a reason."""
    import io
    import logging

    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it logs each defect of a file
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("encrypted")
        pages = reader.pages[:MOST_PDF_PAGES]
        return [page.extract_text() for page in pages]
    except UnreadableDocument:
        raise
    except Exception as error:
        raise UnreadableDocument(f"not a readable PDF: {type(error).__name__}") from error

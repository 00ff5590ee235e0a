"""Texts of files that clients uploaded.

    read_text → run_in_child → text_of

Files are untrusted. PDF and HTML are read in another process with limits: there are small files for
which their parsers take hours or all memory. Any exception of a library is a reason why the file is
unreadable.
"""

from __future__ import annotations

import io
import logging
import os
import re

from genai_host.api import (
    CancelToken,
    ChildLimits,
    charset_in_html,
    decode_text,
    is_text,
    run_in_child,
    well_formed,
)
from genai_host.errors import ValidationError

MAX_TEXT = 8 * 2**20
"""Maximum number of characters of a text from PDF or HTML; the rest is left out."""

LIMITS = ChildLimits(
    memory=2**30,
    cpu_seconds=180,
    seconds=600.0,
    output=MAX_TEXT * 12 + 1024,  # a character of two halves, as JSON
)
"""Limits for reading one file."""

_MAX_PDF_PAGES = 2000
_MAX_DEPTH = 5000  # of HTML: any parser takes time that grows with its square
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCLOSED = frozenset(
    (
        *("br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "option"),
        *("p", "source", "td", "th", "tr"),
    )
)
_INLINE = ["a", "abbr", "b", "cite", "code", "em", "font", "i", "mark", "q", "s", "small"]
_INLINE += ["span", "strong", "sub", "sup", "time", "u", "wbr"]


class UnreadableFile(ValidationError):
    """A file has no readable text; the message is the reason. The codes are those of the API."""

    code = "invalid_file"


class UnsupportedFile(UnreadableFile):
    """A file has no text."""

    code = "unsupported_file"


def read_text(data: bytes, name: str, cancel: CancelToken) -> str:
    """Return the text of a file, as `text_of` does, within limits.

    Raises:
        UnreadableFile: The file has no readable text, or reading it exceeds a limit.
        ConfigurationError: There is no Python interpreter for the other process.
    """
    if not _is_pdf(data, name) and not _is_html(name):
        return text_of(name, data)
    text: str = run_in_child(
        f"{__name__}:text_of",
        name,
        returns=str,
        cancel=cancel,
        limits=LIMITS,
        exceeded=UnreadableFile("reading the file exceeded the memory or time limit"),
        data=data,
    )
    return text


def text_of(name: str, data: bytes) -> str:
    """Return the text of a file, read as PDF, HTML, or plain text in UTF-8 or UTF-16 by its name.
    Raises `UnreadableFile`: the file has no readable text."""
    if _is_pdf(data, name):
        found = _of_pdf(data)[:MAX_TEXT]
    elif _is_html(name):
        found = _of_html(_decoded(data, charset_in_html(data)))[:MAX_TEXT]
    else:
        found = _decoded(data)
    found = well_formed(found)
    if not found.strip():
        raise UnreadableFile("the file contains no text")
    return found


def _is_pdf(data: bytes, name: str) -> bool:
    return _ending(name) == ".pdf" or data.startswith(b"%PDF-")


def _is_html(name: str) -> bool:
    return _ending(name) in (".html", ".htm")


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _decoded(data: bytes, declared: str = "") -> str:
    if not is_text(data):
        raise UnsupportedFile("the file is neither text nor of a supported type")
    return decode_text(data, declared or "utf-8")


def _of_html(text: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    depth = 0
    for closes, name in _TAG.findall(text):
        if name.lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if closes else depth + 1
        if depth > _MAX_DEPTH:
            raise UnreadableFile(f"the file is nested deeper than {_MAX_DEPTH} levels")
    tree = LexborHTMLParser(text)
    for node in tree.css("script, style, noscript, template, svg, iframe"):
        node.decompose()
    tree.unwrap_tags(_INLINE)
    body = tree.body
    if body is None:
        return ""
    body.merge_text_nodes()
    return body.text(separator="\n", strip=True)


def _of_pdf(data: bytes) -> str:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it logs each fault of a file
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFile("the file is encrypted")
        text = ""
        for page in reader.pages[:_MAX_PDF_PAGES]:
            text += page.extract_text() + "\n\n"
            if len(text) > MAX_TEXT:
                break
        return text
    except (UnreadableFile, MemoryError):
        raise
    except Exception as error:
        raise UnreadableFile(f"not a readable PDF: {type(error).__name__}") from error

"""Functions for the process that reads a page.

The kind of a body is known from its first bytes, then from its `Content-Type`.
"""

from __future__ import annotations

import re

from genai_host.errors import ValidationError
from genai_tools_pages.addresses import Addresses, is_public, is_usable
from genai_tools_pages.charset import MARKS, decoded, name_in
from genai_tools_pages.download import Body, Downloader
from genai_tools_pages.link import link_of
from genai_tools_pages.page import MOST_TEXT, MOST_TITLE, Page, PageKind
from genai_tools_pages.tidy import one_line, tidy

_HEAD = 1024  # bytes to search for the PDF header: ISO 32000-2, Annex J of its predecessor
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
_ANY = ("", "application/octet-stream", "binary/octet-stream", "application/download")
_PDF = ("application/pdf", "application/x-pdf")
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S
)


def check_type(given: str) -> None:
    """Raise `ValidationError` for a `Content-Type` that cannot be read as text."""
    kind = _bare(given)
    known = (*_HTML, *_TEXT, *_ANY, *_PDF)
    if not (kind in known or kind.startswith("text/") or kind.endswith(("+json", "+xml"))):
        raise ValidationError(
            f"unsupported content type {_displayable(kind)}: "
            "only web pages, PDFs and text are supported"
        )


def kind_of(body: Body) -> PageKind:
    """Return the kind; raises `ValidationError` if it is not a page, a PDF or text."""
    head, kind = body.data[:_HEAD], _bare(body.type)
    if b"%PDF-" in head:
        return "pdf"
    if kind in _PDF:
        raise ValidationError("the content is not a PDF, contrary to its content type")
    if _is_binary(head, body.type):
        raise ValidationError("binary content: only web pages, PDFs and text are supported")
    if kind in _HTML or (kind in _ANY and _LOOKS_LIKE_HTML.match(head)):
        return "html"
    return "text"


def _bare(given: str) -> str:
    return given.partition(";")[0].strip().lower()


def _displayable(kind: str) -> str:
    """Return an untrusted type for display."""
    return kind if re.fullmatch(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}", kind) else "(invalid)"


def _is_binary(head: bytes, given: str) -> bool:
    """Whether data is binary. Text has no zero bytes, except in UTF-16 and UTF-32."""
    wide = head.startswith(tuple(MARKS)) or name_in(given).startswith(("utf-16", "utf-32"))
    return b"\0" in head and not wide


_PDF_SHARE = 0.6  # of the time limit, so that a part of a long PDF is returned


def read_page(link: str, private: bool, most: int, seconds: float) -> Page:
    """Read the page at a link in this process.

    Args:
        link: Its address.
        private: Whether private addresses may be read.
        most: Maximum size of its body in bytes.
        seconds: Time limit of the download.

    Raises:
        GenaiError: The page cannot be read.
    """
    downloader = Downloader(Addresses(is_usable if private else is_public), most, seconds)
    return read(link, downloader, seconds * _PDF_SHARE)


def read(given: str, downloader: Downloader, seconds: float) -> Page:
    """Read a page with a downloader.

    Args:
        given: The link.
        downloader: Downloads it.
        seconds: Time limit for the pages of a PDF.

    Raises:
        ValidationError: The link is invalid, or the content is not a page.
        GenaiError: The download failed.
    """
    link = link_of(given)
    try:
        body = downloader.body(link, check_type)
        kind = kind_of(body)
        title, text = _extracted(body, kind, seconds)
    except ValidationError as error:
        named = "" if link.host in error.message else f"{link.named}: "
        raise ValidationError(f"{named}{error.message}", hint=error.hint) from error
    title = one_line(title, MOST_TITLE) or body.link.last[:MOST_TITLE]
    return Page(title, body.link.address, text[:MOST_TEXT], kind)


def _extracted(body: Body, kind: PageKind, seconds: float) -> tuple[str, str]:
    if kind == "pdf":
        from genai_tools_pages.pdf_file import read_pdf

        return read_pdf(body.data, seconds)
    text = decoded(body.data, body.type, is_page=kind == "html")
    if kind == "text":
        return "", tidy(text)
    from genai_tools_pages.web_page import read_html

    return read_html(text)
